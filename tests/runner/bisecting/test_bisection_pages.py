"""A bisection by a click and over the API: asked for, followed, cancelled, refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import Permission, User
from django.test import (
    Client,
    SimpleTestCase,
    TestCase,
    TransactionTestCase,
    override_settings,
)
from django.utils.translation import override

from runner.models import Bisection, Installation, Run
from runner.pages.bisections import form
from runner.runs import jobs
from runner.worker import drain
from tests.runner.bisecting.test_bisections import BUILDS, BisectionCase, LookCase

API = "/api/v1/bisections"


class PageCase(BisectionCase):
    client: Client

    def ask(self, lang: str = "en", **fields: str) -> Any:
        path = f"/{lang}/{self.repro.record_id}/bisections/"
        fields = {"repro": "repro", "good": BUILDS[0], "bad": BUILDS[-1], **fields}
        return self.client.post(path, fields)

    def send(self, **fields: Any) -> Any:
        body = {"record": self.repro.record_id, "good": "9.1.0", "bad": "9.8.0"}
        body |= fields
        return self.client.post(API, body, content_type="application/json")

    def record(self) -> Any:
        return self.client.get(f"/en/{self.repro.record_id}/", follow=True)

    def may_install(self) -> None:
        user = User.objects.create_user("olga")
        user.user_permissions.add(
            Permission.objects.get(codename="add_installation"),
            Permission.objects.get(codename="add_run"),
        )
        self.client.force_login(user)


class FollowTest(PageCase, TransactionTestCase):
    """With real processes, under stand-ins for torch."""

    def test_from_the_form_to_the_release(self) -> None:
        asked = self.ask()
        row = Bisection.objects.get()
        self.assertEqual(asked.url, f"/en/bisections/{row.pk}/")
        page = self.client.get(asked.url)
        self.assertContains(page, "Waiting for a worker")
        self.assertContains(page, 'hx-trigger="every 1s"')
        drain.drain("w1")
        for path in (asked.url, f"{asked.url}status/"):
            page = self.client.get(path)
            self.assertContains(page, "Last good 9.4.0, first bad 9.5.0")
            self.assertNotContains(page, "hx-trigger")
            self.assertNotContains(page, "Cancel bisection")
            for run in Run.objects.all():
                short = str(run.evidence_id).removeprefix("sha256:")[:12]
                self.assertContains(page, f"/en/evidence/{short}/")
        zh = self.client.get(asked.url.replace("/en/", "/zh/"))
        self.assertContains(zh, "最后一个正常的是 9.4.0，第一个有问题的是 9.5.0")
        body = self.client.get(f"{API}/{row.pk}").json()
        self.assertEqual((body["before"], body["after"]), ("9.4.0-cpu", "9.5.0-cpu"))
        self.assertEqual(body["steps"][0]["how"], "run")
        self.assertIn("9.5.0", body["sentence"]["zh"])
        over = self.client.post(f"{API}/{row.pk}/cancel")
        self.assertEqual((over.status_code, over.json()["code"]), (409, "run_over"))
        # Whoever opens the record now finds the ends that the evidence suggests.
        page = self.record()
        for slug, sign in (("9.4.0-cpu", "✔ good"), ("9.5.0-cpu", "✖ bad")):
            option = f'<option value="{slug}" selected>{slug} {sign}</option>'
            self.assertContains(page, option, html=True)


class SuggestedTest(SimpleTestCase):
    def test_ends_that_evidence_suggests(self) -> None:
        known = {"g": "good", "b": "bad", "?": "unknown", ".": ""}
        for answers, ends in {
            "..g.b.g": (2, 4),
            "?bb.gg": (4, 2),
            "..b.b": (0, 2),
            "b...": (0, 3),
            "gg..": (0, 3),
            "..": (0, 1),
        }.items():
            with self.subTest(answers):
                rows = [(str(at), known[word]) for at, word in enumerate(answers)]
                self.assertEqual(form.suggested(rows), tuple(map(str, ends)))


class FormTest(PageCase, LookCase, TestCase):
    def test_the_ends_come_from_evidence(self) -> None:
        self.known("9.2.0-cpu", "bug_absent")
        self.known("9.6.0-cpu", "bug_present")
        self.known("9.7.0-cpu", "bug_absent")
        page = self.record()
        for slug, said in (("9.2.0-cpu", "✔ good"), ("9.6.0-cpu", "✖ bad")):
            option = f'<option value="{slug}" selected>{slug} {said}</option>'
            self.assertContains(page, option, html=True)
        self.assertContains(page, "Only builds that are installed here")
        self.assertNotContains(page, 'name="install"')

    @override_settings(RUNS_ANONYMOUS=False)
    def test_who_may_start_no_runs_sees_why(self) -> None:
        self.assertEqual(self.ask().status_code, 403)
        self.assertEqual(self.send().status_code, 401)
        page = self.record()
        self.assertRegex(
            page.content.decode(), r'disabled aria-describedby="b-why-repro"'
        )
        self.assertContains(page, "This site lets only known users start runs.", 2)
        self.assertFalse(Bisection.objects.exists())

    def test_the_steps_come_one_by_one(self) -> None:
        self.ask()
        row = self.look()
        path = f"/en/bisections/{row.pk}/"
        page = self.client.get(path)
        self.assertContains(page, "Asking 9.1.0-cpu")
        self.assertContains(page, f"/en/runs/{row.run_id}/")
        self.assertEqual(self.client.get(f"{API}/{row.pk}").json()["asking"], BUILDS[0])
        self.answer("not_applicable", reason="said:needs more")
        row = self.look()
        page = self.client.get(f"{path}status/")
        self.assertContains(page, "Asking 9.8.0-cpu")
        self.assertContains(page, "So far 1 of 8 builds have counted.")
        self.assertContains(page, "without an answer")

    def test_the_reason_is_said_in_both_languages(self) -> None:
        for lang, fields, said in (
            ("en", {"bad": "9.1.0-cpu"}, "Name two ends"),
            ("zh", {"bad": "9.1.0-cpu"}, "请指定两端"),
            ("en", {"bad": "7.7"}, "neither a result of this repro"),
            ("en", {"bad": ""}, "Choose a repro and two builds"),
        ):
            with self.subTest(lang, fields=fields):
                found = self.ask(lang, **fields)
                self.assertContains(found, said, status_code=400)
        self.assertContains(
            self.ask(bad="7.7"), "The bisection was not started", status_code=400
        )
        found = self.send(bad="7.7")
        self.assertEqual(found.status_code, 400)
        self.assertEqual(found.json()["errors"][1]["pointer"], "/bad")
        with override("zh-hans"):
            home = self.repro.record.get_absolute_url()
        back = self.client.get(f"/zh/{self.repro.record_id}/bisections/")
        self.assertRedirects(back, f"{home}#run")

    def test_a_third_one_of_ones_own_waits(self) -> None:
        for bad in ("9.7.0", "9.6.0"):
            self.assertEqual(self.send(bad=bad).status_code, 202)
        found = self.send()
        self.assertEqual((found.status_code, found.json()["code"]), (429, "throttled"))
        self.assertEqual(self.ask().status_code, 429)
        # The same question once more is the same bisection.
        self.assertEqual(self.send(bad="9.7.0").status_code, 202)
        self.assertEqual(Bisection.objects.count(), 2)

    def test_what_does_not_exist(self) -> None:
        self.assertEqual(self.client.get(f"/en/bisections/{uuid4()}/").status_code, 404)
        for name in (str(uuid4()), "x"):
            found = self.client.get(f"{API}/{name}")
            self.assertEqual(found.json()["code"], "unknown_bisection")


class InstallRightTest(PageCase, TestCase):
    """Takes the permission and the setting; one of them is not enough."""

    def refused(self) -> None:
        self.assertEqual(self.ask(install="1").status_code, 403)
        self.assertEqual(self.send(install=True).status_code, 403)
        self.assertNotContains(self.record(), 'name="install"')
        self.assertFalse(Bisection.objects.exists())

    def test_by_default_nobody_may(self) -> None:
        self.refused()
        self.may_install()
        self.refused()

    @override_settings(INSTALL_RELEASES=True)
    def test_where_the_site_allows_it_the_permission_decides(self) -> None:
        self.refused()
        self.may_install()
        self.assertContains(self.record(), 'name="install"')
        self.assertEqual(self.ask(install="1").status_code, 302)
        self.assertTrue(Bisection.objects.get().install)

    @override_settings(INSTALL_RELEASES=True)
    def test_an_end_that_is_typed_may_be_a_release_that_is_not_here(self) -> None:
        self.may_install()
        typed = {"bad_release": " 9.9.0 "}
        refused = self.ask(**typed)
        self.assertContains(refused, "9.9.0: neither a result", status_code=400)
        self.assertContains(refused, "tick the box for that", status_code=400)
        nonsense = self.ask(bad_release="9.9.0-cu999")
        self.assertNotContains(nonsense, "tick the box", status_code=400)
        self.assertEqual(self.ask(**typed, install="1").status_code, 302)
        row = Bisection.objects.get()
        self.assertEqual((row.good, row.bad, row.builds), (BUILDS[0], "9.9.0", []))

    @override_settings(INSTALL_RELEASES=True)
    def test_a_record_of_which_nothing_is_here_can_be_asked(self) -> None:
        Installation.objects.all().delete()
        off = 'disabled aria-describedby="b-why-repro"'
        self.assertRegex(self.record().content.decode(), off)
        self.may_install()
        self.assertNotRegex(self.record().content.decode(), off)
        both = {"good_release": "9.2.0", "bad_release": "9.9.0"}
        found = self.ask(good="", bad="", install="1", **both)
        self.assertEqual(found.status_code, 302)
        row = Bisection.objects.get()
        self.assertEqual((row.good, row.bad), ("9.2.0", "9.9.0"))


class CancelTest(PageCase, LookCase, TestCase):
    def test_whoever_started_it_cancels_it(self) -> None:
        self.ask()
        row = self.look()
        path = f"/en/bisections/{row.pk}/"
        self.assertContains(self.client.get(path), "Cancel bisection")
        stranger = Client()
        stranger.force_login(User.objects.create_user("bob"))
        self.assertNotContains(stranger.get(path), "Cancel bisection")
        self.assertEqual(stranger.post(f"{path}cancel/").status_code, 403)
        self.assertEqual(stranger.post(f"{API}/{row.pk}/cancel").status_code, 403)
        self.assertRedirects(self.client.post(f"{path}cancel/"), path)
        self.assertContains(self.client.get(path), "It was cancelled.")
        self.assertEqual(Run.objects.get().state, Run.State.CANCELLED)

    def test_over_the_api(self) -> None:
        self.send()
        row = self.look()
        found = self.client.post(f"{API}/{row.pk}/cancel")
        self.assertEqual((found.status_code, found.json()["state"]), (202, "cancelled"))
        self.assertFalse(jobs.cancel(row))
