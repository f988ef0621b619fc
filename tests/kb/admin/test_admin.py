"""The admin: who sees and does what."""

from __future__ import annotations

import re

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import TestCase, override_settings
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from kb.models import Record
from kb.records.articles import HAN
from runner.evidence import store
from runner.models import Device, Run, Worker
from tests.support import page_types, runs

# The admin's own pictures need no collected files here.
PLAIN_STATIC_FILES = {
    **settings.STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CHANGE = "/admin/kb/record/NAN-9001/change/"
ENGLISH = {"Accept-Language": "en"}


@override_settings(STORAGES=PLAIN_STATIC_FILES)
class AdminCase(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()
        cls.repro = cls.record.repros.get()

    def become(self, group: str) -> User:
        user = User.objects.create_user(group, is_staff=True)
        user.groups.add(Group.objects.get(name=group))
        self.client.force_login(user)
        return user

    def act(self, model: str, action: str, *pks: object) -> str:
        url = reverse(f"admin:runner_{model}_changelist")
        data = {"action": action, "_selected_action": [str(pk) for pk in pks]}
        answer = self.client.post(url, data, follow=True, headers=ENGLISH)
        return answer.content.decode()


CHINESE = {"Accept-Language": "zh-CN"}
HEAD = re.compile(r'<th scope="col"[^>]*>.*?<div class="text">(.*?)</div>', re.DOTALL)
FILTER = re.compile(r"<summary>\s*以 (.*?)\s*</summary>")


class LanguageTest(AdminCase):
    """The admin has no addresses of its own per language: the reader's counts."""

    def test_the_list_and_filters_of_records_are_in_chinese(self) -> None:
        self.client.force_login(page_types.superuser())
        page = self.client.get("/admin/kb/record/", headers=CHINESE)
        html = page.content.decode()
        heads = [strip_tags(head).strip() for head in HEAD.findall(html)]
        words = {*heads, *FILTER.findall(html)} - {""}
        self.assertGreater(len(words), 4)
        self.assertEqual([word for word in words if not HAN.search(word)], [])


class RecordTest(AdminCase):
    def test_everything_is_shown_and_nobody_changes_it(self) -> None:
        self.client.force_login(User.objects.create_superuser("chief"))
        page = self.client.get(CHANGE, headers=ENGLISH)
        for text in (
            "def workaround_turn_off():",
            "repro:workaround_turn_off",
            "A root fix.",
            "根本修复。",
            "&quot;package&quot;: &quot;torch&quot;",
            "Fix · English",
        ):
            self.assertContains(page, text)
        self.assertNotContains(page, "_save")
        for path in (CHANGE, CHANGE.replace("change", "delete")):
            answer = self.client.post(path, {"fix_en": "x", "post": "yes"})
            self.assertEqual(answer.status_code, 403, path)
        self.assertEqual(self.client.get("/admin/kb/record/add/").status_code, 403)
        self.assertEqual(Record.objects.get().fix_en, "A root fix.")

    def test_who_looks_for_outdated_records_finds_them(self) -> None:
        self.become("viewer")
        Record.objects.update(outdated="zh")
        for lang, count in (("zh", 1), ("en", 0)):
            page = self.client.get(f"/admin/kb/record/?outdated={lang}")
            self.assertEqual(page.context["cl"].result_count, count, lang)


class GroupTest(AdminCase):
    """What each group sees, and what it may not do."""

    def setUp(self) -> None:
        found = runs.make_evidence(self.repro)
        self.evidence = store.add(found, origin="site")
        self.run_row = runs.make_run(self.repro)
        runs.make_worker()
        now = timezone.now()
        Device.objects.create(
            host="h", uuid="GPU-1", state="quarantined", last_seen=now
        )

    def test_without_staff_there_is_no_admin(self) -> None:
        user = User.objects.create_user("plain")
        user.groups.add(Group.objects.get(name="runner"))
        self.client.force_login(user)
        self.assertEqual(self.client.get(CHANGE).status_code, 302)

    def test_operators_cancel_runs_and_others_do_not(self) -> None:
        self.become("runner")
        self.act("run", "cancel", self.run_row.pk)
        self.assertEqual(Run.objects.get().state, "queued")
        self.become("operator")
        self.assertIn("1 run is cancelled", self.act("run", "cancel", self.run_row.pk))
        self.assertEqual(Run.objects.get().state, "cancelled")
        again = self.act("run", "cancel", self.run_row.pk)
        self.assertIn("Already finished and left unchanged: 1", again)

    def test_operators_cancel_sweeps(self) -> None:
        row = runs.make_sweep()
        self.become("runner")
        self.act("sweep", "cancel", row.pk)
        row.refresh_from_db()
        self.assertEqual(row.state, "queued")
        self.become("operator")
        self.assertIn("1 job is cancelled", self.act("sweep", "cancel", row.pk))
        row.refresh_from_db()
        self.assertEqual(row.state, "cancelled")
        again = self.act("sweep", "cancel", row.pk)
        self.assertIn("Already finished and left unchanged: 1", again)

    def test_operators_lift_a_quarantine_and_pause_workers(self) -> None:
        device = Device.objects.get()
        for group, state, paused in [
            ("runner", "quarantined", False),
            ("operator", "ready", True),
        ]:
            self.become(group)
            self.act("device", "use_again", device.pk)
            self.act("worker", "pause", "w1")
            self.assertEqual(Device.objects.get().state, state)
            self.assertEqual(Worker.objects.get().paused, paused)

    def test_evidence_builds_and_runs_are_kept_from_everybody(self) -> None:
        self.client.force_login(User.objects.create_superuser("chief"))
        for model, pk in [
            ("evidence", self.evidence.pk),
            ("build", runs.SLUG),
            ("run", self.run_row.pk),
            ("sweep", runs.make_sweep().pk),
        ]:
            page = f"/admin/runner/{model}/{pk}"
            self.assertEqual(self.client.get(f"{page}/change/").status_code, 200, model)
            for path in (f"{page}/change/", f"{page}/delete/"):
                answer = self.client.post(
                    path, {"post": "yes", "verdict": "bug_absent"}
                )
                self.assertEqual(answer.status_code, 403, path)
            self.assertEqual(
                self.client.get(f"/admin/runner/{model}/add/").status_code, 403
            )
        self.evidence.refresh_from_db()
        self.assertEqual(self.evidence.verdict, "bug_present")

    def test_lists_are_searched_and_filtered(self) -> None:
        self.client.force_login(User.objects.create_superuser("chief"))
        runs.make_sweep()
        for path, count in [
            ("sweep/?q=NAN-9001", 1),
            ("sweep/?state__exact=finished", 0),
            ("run/?q=NAN-9001", 1),
            ("run/?q=zebra", 0),
            ("run/?state__exact=queued", 1),
            ("evidence/?verdict__exact=bug_absent", 0),
            ("evidence/?q=NAN-9001", 1),
            ("build/?installations__state__exact=ready", 0),
            ("build/?q=9.9.0", 1),
            ("device/?state__exact=quarantined", 1),
            ("worker/?q=w1", 1),
        ]:
            page = self.client.get(f"/admin/runner/{path}")
            self.assertEqual(page.context["cl"].result_count, count, path)
        page = self.client.get("/admin/kb/record/?q=turn_off")
        self.assertEqual(page.context["cl"].result_count, 1)


class PolicyTest(AdminCase):
    def test_the_policy_holds_in_the_admin(self) -> None:
        page_types.make_machines()
        store.add(runs.make_evidence(self.repro), origin="site")
        runs.make_run(self.repro)
        self.client.force_login(page_types.superuser())
        for path in page_types.admin_pages():
            with self.subTest(path):
                answer = self.client.get(path)
                self.assertEqual(answer.status_code, 200)
                policy = answer["Content-Security-Policy"]
                self.assertIn("default-src 'none'", policy)
                self.assertNotIn("unsafe", policy)
                html = answer.content.decode()
                self.assertNotRegex(html, r"<script(?![^>]* src=)[^>]*>\s*\S")
                self.assertNotRegex(html, r"<[^>]+ (?:style|on[a-z]+)=")
