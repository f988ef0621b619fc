"""A sweep by a click and over the API: asked for, followed, cancelled, refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.test import Client, TestCase, TransactionTestCase, override_settings
from django.utils.translation import override

from runner.models import Run, Sweep
from runner.runs import jobs
from runner.worker import sweeping
from tests.runner.sweeps.test_sweeps import QUEUES, SweepCase
from tests.support import runs

API = "/api/v1/sweeps"


class PageCase(SweepCase):
    client: Client

    def ask(self, lang: str = "en", **axes: str) -> Any:
        fields = {f"axis-{self.repro.name}-{name}": text for name, text in axes.items()}
        path = f"/{lang}/{self.repro.record_id}/sweeps/"
        fields |= {"repro": self.repro.name, "build": runs.SLUG}
        return self.client.post(path, fields)

    def record(self) -> str:
        with override("zh-hans"):
            return str(self.repro.record.get_absolute_url())

    def send(self, axes: dict[str, str], **more: str) -> Any:
        body = {"record": self.repro.record_id, "repro": self.repro.name, **more}
        return self.client.post(
            API, {**body, "axes": axes}, content_type="application/json"
        )


class OneCellTest(PageCase, TestCase):
    def test_one_cell_is_no_cells(self) -> None:
        sweep = runs.make_sweep(axes={"size": {"values": [1]}})
        page = self.client.get(f"/en/sweeps/{sweep.pk}/")
        self.assertContains(page, "Waiting for a worker: 0 of 1 cell")
        self.assertNotContains(page, "1 cells")
        self.assertContains(page, "No worker with this build is online just now")
        self.assertContains(self.client.get(f"/zh/sweeps/{sweep.pk}/"), "执行节点在线")


class FollowTest(PageCase, TransactionTestCase):
    """With real processes, under a stand-in for torch."""

    def test_from_the_form_to_the_map(self) -> None:
        page = self.client.get(f"/en/{self.repro.record_id}/", follow=True)
        self.assertContains(page, f'name="axis-{self.repro.name}-dtype"')
        asked = self.ask(dtype="float32,float16")
        sweep = Sweep.objects.get()
        self.assertEqual(asked.url, f"/en/sweeps/{sweep.pk}/")
        page = self.client.get(asked.url)
        self.assertContains(page, "Waiting for a worker: 0 of 2 cells")
        self.assertContains(page, 'hx-trigger="every 1s"')
        sweeping.execute(self.claim(), QUEUES)
        for path in (asked.url, f"{asked.url}status/"):
            page = self.client.get(path)
            self.assertContains(page, "Swept: 2 of 2 cells")
            self.assertContains(page, "where dtype = float32")
            self.assertNotContains(page, "hx-trigger")
            self.assertNotContains(page, "Cancel sweep")
        record = self.client.get(f"/en/{self.repro.record_id}/", follow=True)
        self.assertContains(record, "where dtype = float32")
        body = self.client.get(f"{API}/{sweep.pk}").json()
        self.assertEqual(body["cells"][0]["at"], {"dtype": "float32"})
        self.assertIn("dtype = float32", body["sentence"]["zh"])
        self.assertTrue(body["digest"])
        over = self.client.post(f"{API}/{sweep.pk}/cancel")
        self.assertEqual((over.status_code, over.json()["code"]), (409, "run_over"))


class RefusalTest(PageCase, TestCase):
    def test_the_reason_is_said_in_both_languages(self) -> None:
        for lang, axes, said in (
            ("en", {}, "A sweep takes one or two parameters"),
            ("zh", {}, "扫描需要一个或两个参数"),
            ("en", {"scale": "0:1:0.001"}, "and a sweep has at most 256"),
            ("zh", {"scale": "0:1:0.001"}, "一次扫描最多 256 格"),
            ("en", {"length": "6,NaN"}, "length: "),
            ("en", {"length": "1e400"}, "length: "),
            ("en", {"length": "-1..5"}, "length: "),
            ("en", {"other": "1"}, "no such parameter; it has: dtype, length, scale"),
        ):
            with self.subTest(lang, axes=axes):
                found = self.ask(lang, **axes)
                self.assertContains(found, said, status_code=400)
        self.assertContains(self.ask(), "The sweep was not started", status_code=400)
        # The same address in the other language, by the link in the page's head.
        for name in ("sweeps", "runs"):
            back = self.client.get(f"/zh/{self.repro.record_id}/{name}/")
            self.assertRedirects(back, f"{self.record()}#run")
        self.assertFalse(Sweep.objects.exists())

    def test_the_api_names_the_parameter(self) -> None:
        for axes, pointer in (
            ({"length": "10**9"}, "/axes/length"),
            ({}, "/axes"),
            ({"scale": "0:1:0.001"}, "/axes"),
        ):
            with self.subTest(axes):
                found = self.send(axes)
                self.assertEqual(found.status_code, 422)
                self.assertEqual(found.json()["errors"][0]["pointer"], pointer)

    def test_a_third_one_of_ones_own_waits(self) -> None:
        for length in ("6", "7"):
            self.assertEqual(self.send({"length": length}).status_code, 202)
        found = self.send({"length": "8"})
        self.assertEqual((found.status_code, found.json()["code"]), (429, "throttled"))
        self.assertTrue(found["Retry-After"])
        self.assertEqual(self.ask(length="8").status_code, 429)
        # The same cells once more are the same sweep.
        self.assertEqual(self.send({"length": "7"}).status_code, 202)
        self.assertEqual(Sweep.objects.count(), 2)

    @override_settings(RUNS_ANONYMOUS=False)
    def test_who_may_start_no_runs_may_start_no_sweep(self) -> None:
        refused = self.ask(length="6")
        self.assertContains(refused, 'href="/en/login/?next=', status_code=403)
        self.assertNotContains(refused, 'btn" href="/en/builds', status_code=403)
        self.assertEqual(self.send({"length": "6"}).status_code, 401)
        page = self.client.get(f"/en/{self.repro.record_id}/", follow=True)
        button = f'disabled aria-describedby="s-why-{self.repro.name}"'
        self.assertContains(page, button)
        self.assertContains(page, f'id="s-why-{self.repro.name}"')

    def test_what_does_not_exist(self) -> None:
        self.assertEqual(self.client.get(f"/en/sweeps/{uuid4()}/").status_code, 404)
        for name in (str(uuid4()), "x"):
            found = self.client.get(f"{API}/{name}")
            self.assertEqual(found.json()["code"], "unknown_sweep")


class CancelTest(PageCase, TestCase):
    def test_whoever_started_it_cancels_it(self) -> None:
        self.ask(length="6,7")
        sweep = Sweep.objects.get()
        path = f"/en/sweeps/{sweep.pk}/"
        self.assertContains(self.client.get(path), "Cancel sweep")
        stranger = Client()
        stranger.force_login(User.objects.create_user("bob"))
        self.assertNotContains(stranger.get(path), "Cancel sweep")
        self.assertEqual(stranger.post(f"{path}cancel/").status_code, 403)
        self.assertEqual(stranger.post(f"{API}/{sweep.pk}/cancel").status_code, 403)
        self.assertRedirects(self.client.post(f"{path}cancel/"), path)
        page = self.client.get(path)
        self.assertContains(page, "Cancelled after 0 of 2 cells")
        self.assertContains(page, "It was cancelled before a cell was done")
        self.assertContains(page, "so it is not evidence")

    def test_what_two_ask_for_is_ended_by_neither(self) -> None:
        self.ask(length="6,7")
        other = Client()
        other.force_login(User.objects.create_user("bob"))
        body = {"record": self.repro.record_id, "repro": self.repro.name}
        body |= {"axes": {"length": "6,7"}}
        asked = other.post(API, body, content_type="application/json")
        sweep = Sweep.objects.get()
        self.assertEqual(asked.json()["id"], str(sweep.pk))
        for one in (self.client, other):
            found = one.post(f"{API}/{sweep.pk}/cancel")
            self.assertEqual(found.status_code, 403)
        sweep.refresh_from_db()
        self.assertFalse(sweep.cancel_requested)

    def test_it_says_in_words_why_it_ended_early(self) -> None:
        self.send({"length": "6..9"})
        Sweep.objects.update(state="finished", reason="build_missing")
        page = self.client.get(f"/en/sweeps/{Sweep.objects.get().pk}/")
        self.assertContains(page, "(the build&#x27;s interpreter is gone)")

    def test_a_running_one_ends_after_the_cell_at_hand(self) -> None:
        self.send({"length": "6..9"})
        sweep = self.claim()
        page = self.client.get(f"/en/sweeps/{sweep.pk}/")
        self.assertContains(page, "Sweeping: 0 cells")
        found = self.client.post(f"{API}/{sweep.pk}/cancel")
        self.assertEqual((found.status_code, found.json()["state"]), (202, "running"))
        page = self.client.get(f"/en/sweeps/{sweep.pk}/")
        self.assertContains(page, "it ends after the current cell")
        jobs.give_back(sweep)
        sweep.refresh_from_db()
        self.assertEqual(sweep.state, Run.State.CANCELLED)
