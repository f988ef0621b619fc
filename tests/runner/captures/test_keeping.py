"""A capture is found by its address alone, and is gone when it is to be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.test import Client, TestCase, override_settings
from django.urls import reverse
from django.utils import timezone

from runner.builds import pins
from runner.captures import keeping, queue
from runner.models import Build, Capture, CaptureRun, Run, Worker
from runner.runs.refusals import RunRefused
from tests.support import captures, runs

API = "/api/v1/captures"
LISTS = (
    *("/sitemap.xml", "/robots.txt", "/llms.txt", "/metrics", "/en/feed.atom"),
    *("/en/", "/en/matrix/", "/en/records/", "/en/builds/", "/en/workers/"),
    *("/en/health/", "/en/search/?q=torch.log", f"/en/builds/{runs.SLUG}/"),
    *("/api/v1/", "/api/v1/runs", "/api/v1/evidence", "/api/v1/workers"),
    *("/api/v1/builds", "/api/v1/openapi.json"),
)


class CaptureCase(TestCase):
    def setUp(self) -> None:
        runs.install("/nowhere/python")
        captures.worker()
        self.build = Build.objects.get(slug=runs.SLUG)

    def keep(self, requester: str = "user:1", **changes: Any) -> Capture:
        return keeping.keep(captures.text(**changes), [self.build], requester)

    def send(self, text: str, client: Client | None = None, query: str = "") -> Any:
        kind = "application/json"
        return (client or self.client).post(API + query, text, content_type=kind)

    def page_of(self, capture: Capture) -> str:
        return reverse("capture-detail", args=[capture.pk])


class PrivacyTest(CaptureCase):
    def test_nothing_else_names_it(self) -> None:
        capture = self.keep()
        run = capture.runs.get()
        run.state, run.outcome = "finished", "nan"
        run.finished_at = timezone.now()
        run.save()
        for path in LISTS:
            with self.subTest(path):
                answer = self.client.get(path, follow=True)
                self.assertEqual(answer.status_code, 200)
                text = b"".join(answer) if answer.streaming else answer.content
                for secret in (capture.pk, run.pk, capture.digest[:12]):
                    self.assertNotIn(str(secret).encode(), text)

    def test_no_page_of_it_is_indexed_or_told_of(self) -> None:
        page = self.page_of(self.keep())
        api = f"{API}/{Capture.objects.get().pk}"
        for path in (page, f"{page}status/", f"{page}capture.json", api):
            with self.subTest(path):
                answer = self.client.get(path)
                self.assertEqual(answer.status_code, 200)
                self.assertEqual(answer["Referrer-Policy"], "no-referrer")
                self.assertIn("noindex", answer["X-Robots-Tag"])
                self.assertIn("no-store", answer["Cache-Control"])
        self.assertContains(self.client.get(page), 'name="robots" content="noindex')

    @override_settings(READ_LOGIN=True)
    def test_a_closed_site_shows_it_to_nobody_outside(self) -> None:
        capture = self.keep()
        page = self.page_of(capture)
        self.assertEqual(Client().get(page).status_code, 302)
        self.assertEqual(Client().post(f"{page}delete/").status_code, 302)
        self.assertEqual(Client().get(f"{API}/{capture.pk}").status_code, 401)
        known = Client()
        known.force_login(User.objects.create_user("ann"))
        self.assertEqual(known.get(page).status_code, 200)
        self.assertTrue(Capture.objects.exists())


class EndTest(CaptureCase):
    def test_its_address_deletes_it_without_a_token(self) -> None:
        capture = self.keep()
        client = Client(enforce_csrf_checks=True, headers={"Origin": "null"})
        answer = client.post(f"{self.page_of(capture)}delete/")
        self.assertContains(answer, "The capture is deleted")
        self.assertFalse(Capture.objects.exists())
        run = CaptureRun.objects.get()
        self.assertEqual((run.state, run.capture), ("cancelled", None))
        # Also where its other language leads from there.
        for action in ("", "delete/", "runs/"):
            gone = client.get(f"{self.page_of(capture)}{action}")
            self.assertContains(gone, "kept for a week", status_code=404)

    def test_what_runs_is_stopped_and_its_outcome_is_gone(self) -> None:
        capture = self.keep()
        capture.runs.update(state="running", attempt=1, found={"said": "secret"})
        capture.runs.update(lease_until=timezone.now() + timedelta(minutes=1))
        answer = self.client.post(f"{API}/{capture.pk}/delete")
        self.assertEqual(answer.json(), {"deleted": True})
        run = CaptureRun.objects.get()
        self.assertEqual((run.state, run.found), ("cancelled", {}))
        # Its worker may be at the end already, and hears of it too late.
        self.assertFalse(queue.finish(run, "nan", said="secret"))
        self.assertEqual(CaptureRun.objects.get().found, {})
        gone = self.client.get(f"{API}/{capture.pk}")
        self.assertEqual(
            (gone.status_code, gone.json()["code"]), (404, "unknown_capture")
        )

    def test_after_a_week_it_is_gone_and_then_deleted(self) -> None:
        capture, other = self.keep(), self.keep(law="0 / 0")
        # A database's clock may be coarser than ours.
        tick = timedelta(seconds=1)
        week_ago = timezone.now() - Capture.KEPT - tick
        Capture.objects.filter(pk=capture.pk).update(created_at=week_ago)
        answer = self.client.get(self.page_of(capture))
        self.assertContains(answer, "kept for a week", status_code=404)
        self.assertEqual(Capture.objects.count(), 2)
        keeping.forget()
        self.assertEqual(Capture.objects.get(), other)
        # What it was counted for goes an hour after it was asked for.
        self.assertEqual(CaptureRun.objects.count(), 2)
        long_ago = timezone.now() - keeping.COUNTED - tick
        CaptureRun.objects.filter(capture=None).update(created_at=long_ago)
        keeping.forget()
        self.assertEqual(CaptureRun.objects.get().capture, other)

    def test_who_may_start_nothing_deletes_nothing(self) -> None:
        capture = self.keep()
        with override_settings(RUNS_ANONYMOUS=False):
            answer = self.client.post(f"{self.page_of(capture)}delete/")
            self.assertEqual(answer.status_code, 403)
            self.assertNotContains(self.client.get(self.page_of(capture)), "Delete now")
        self.assertTrue(Capture.objects.exists())


class RefusedTest(CaptureCase):
    def test_what_is_no_capture_is_told_what_to_do(self) -> None:
        whole = captures.text()
        for text, status, code in (
            (whole[:-20], 422, "truncated"),
            ("[]", 422, "kind"),
            (whole.replace('"version": 1', '"version": 2'), 422, "version"),
            (whole.replace('"digest": "', '"digest": "0'), 422, "digest"),
            (captures.text(more="x"), 422, "field"),
            (captures.text("torch.load", "/etc/passwd"), 422, "function"),
            (whole + " " * 2**20, 413, "size"),
        ):
            with self.subTest(code):
                answer = self.send(text)
                self.assertEqual(answer.status_code, status, answer.content)
                if status == 422:
                    self.assertEqual(answer.json()["errors"][0]["code"], code)
                for lang, said in dict(keeping.REFUSALS[code]).items():
                    shown = self.client.post(f"/{lang}/captures/", {"capture": text})
                    self.assertContains(shown, 'role="alert"', status_code=status)
                    self.assertContains(shown, said, status_code=status)
        self.assertFalse(Capture.objects.exists())

    def test_a_second_one_is_sent_to_the_first(self) -> None:
        first = self.keep()
        with self.assertRaises(RunRefused) as caught:
            self.keep()
        self.assertIn(str(first.pk), caught.exception.detail("en"))
        # For another build it is the same one, which runs there, too.
        more = runs.install("/nowhere/other", "2.0.0-cpu").build
        again = keeping.keep(captures.text(), [more, self.build], "user:1")
        self.assertEqual((again.pk, again.runs.count()), (first.pk, 2))
        # Nobody learns of somebody else's, or has a part in it.
        other = self.keep(requester="user:2")
        self.assertNotEqual(other.pk, first.pk)
        self.assertEqual(CaptureRun.objects.count(), 3)

    def test_a_weak_sandbox_is_refused_with_what_would_help(self) -> None:
        remedy = {"remedy_en": "Allow namespaces.", "remedy_zh": "允许命名空间。"}
        captures.worker("C", name="w2", sandbox=remedy)
        self.keep()
        Worker.objects.filter(name="w1").update(paused=True)
        answer = self.send(captures.text(law="0 / 0"))
        self.assertEqual(
            (answer.status_code, answer.json()["code"]), (409, "run_refused")
        )
        self.assertIn("have tier C. Allow namespaces.", answer.json()["detail"])

    def test_it_counts_for_the_quota_that_runs_have_even_when_deleted(self) -> None:
        with override_settings(RUNS_PER_HOUR=2):
            runs.make_run(requester=runs.CLIENT)
            sent = self.send(captures.text())
            self.client.post(sent.json()["urls"]["delete"])
            answer = self.send(captures.text(law="0 / 0"))
            self.assertEqual(answer.status_code, 429)
            self.assertGreater(int(answer["Retry-After"]), 3000)
        with override_settings(QUEUED_PER_REQUESTER=1):
            self.assertEqual(self.send(captures.text()).status_code, 429)
        self.assertEqual(Run.objects.count(), 1)

    def test_many_builds_are_as_many_runs(self) -> None:
        default = pins.default_build().slug
        runs.install("/nowhere/other", default)
        with override_settings(RUNS_PER_HOUR=1):
            self.assertEqual(
                self.send(captures.text(), query="?build=all").status_code, 429
            )
        with override_settings(RUNS_PER_HOUR=1):
            few = self.send(captures.text(), query="?build=all").json()["detail"]
            self.assertIn("2 runs, and you may start 1 more", few)
        answer = self.send(captures.text(), query="?build=all")
        self.assertEqual(answer.status_code, 202)
        self.assertEqual(len(answer.json()["runs"]), 2)
        # What is installed by default starts soonest: it goes before newer ones.
        first, _newer = CaptureRun.objects.order_by("created_at")
        self.assertEqual(first.build_id, default)
        unknown = self.send(captures.text(law="x"), query="?build=9.0.0-cpu")
        self.assertEqual(unknown.json()["code"], "unknown_build")

    def test_all_builds_are_those_that_can_run(self) -> None:
        away = runs.install("/nowhere/away", "2.0.0-cpu")
        away.host = "away"
        away.save()
        seen = timedelta(hours=1)
        runs.make_worker("w2", host="away", queues=["2.0.0-cpu.cpu"], seen=seen)
        for law, query in (("0 / 0", "?build=all"), ("log of a negative number", "")):
            answer = self.send(captures.text(law=law), query=query)
            self.assertEqual(answer.status_code, 202, answer.json())
            builds = [run["build"] for run in answer.json()["runs"]]
            self.assertEqual(builds, [self.build.slug])
        answer = self.send(captures.text(), query="?build=2.0.0-cpu")
        self.assertIn("was last seen 1 h ago", answer.json()["detail"])

    def test_what_is_kept_runs_on_more_builds(self) -> None:
        capture = self.keep()
        runs.install("/nowhere/other", "2.0.0-cpu")
        page, address = self.page_of(capture), f"{self.page_of(capture)}runs/"
        self.assertContains(self.client.get(page), 'value="2.0.0-cpu"')
        for _again in range(2):  # where it has run it is not run again
            answer = self.client.post(address, {"build": "2.0.0-cpu"})
            self.assertRedirects(answer, page)
        builds = capture.runs.order_by("pk").values_list("build_id", flat=True)
        self.assertCountEqual(builds, [self.build.slug, "2.0.0-cpu"])
        self.assertNotContains(self.client.get(page), 'value="2.0.0-cpu"')
        runs.install("/nowhere/third", "2.1.0-cpu")
        with override_settings(RUNS_PER_HOUR=1):
            answer = self.client.post(address, {"build": "2.1.0-cpu"})
            self.assertContains(answer, 'role="alert"', status_code=429)
        with override_settings(RUNS_ANONYMOUS=False):
            answer = self.client.post(address, {"build": "2.1.0-cpu"})
            self.assertEqual(answer.status_code, 403)
        self.assertEqual(capture.runs.count(), 2)

    def test_without_the_right_to_run_nothing_is_kept(self) -> None:
        with override_settings(RUNS_ANONYMOUS=False):
            answer = self.client.post("/en/captures/", {"capture": captures.text()})
            self.assertEqual(answer.status_code, 403)
            self.assertEqual(self.send(captures.text()).status_code, 401)
        self.assertFalse(Capture.objects.exists())

    def test_an_address_that_was_guessed_leads_nowhere(self) -> None:
        self.keep()
        answer = self.client.get(reverse("capture-detail", args=[uuid4()]))
        self.assertEqual(answer.status_code, 404)
