"""The admin: editing, previews, revisions, and who sees and does what."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import TestCase, override_settings
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from kb.models import Record
from kb.records.articles import HAN
from runner.evidence import store
from runner.models import Device, Evidence, Run, Worker
from runner.models.token import Token
from tests.support import page_types, runs

# The admin's own pictures need no collected files here.
PLAIN_STATIC_FILES = {
    **settings.STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CHANGE = "/admin/kb/record/NAN-9001/change/"
HISTORY = "/admin/kb/record/NAN-9001/history/"
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

    def form(self, **changes: str) -> dict[str, Any]:
        """The change form's values as a browser would send them back."""
        form = self.client.get(CHANGE).context["adminform"].form
        values = {name: form[name].value() for name in form.fields}
        management = {
            f"{name}-{part}": "0"
            for name in ("claims", "repros")
            for part in ("TOTAL_FORMS", "INITIAL_FORMS")
        }
        sent = {**values, **management, **changes}
        return {key: value for key, value in sent.items() if value not in (None, False)}

    def act(self, model: str, action: str, *pks: object) -> str:
        url = reverse(f"admin:runner_{model}_changelist")
        data = {"action": action, "_selected_action": [str(pk) for pk in pks]}
        answer = self.client.post(url, data, follow=True, headers=ENGLISH)
        return answer.content.decode()


class EditTest(AdminCase):
    def setUp(self) -> None:
        self.become("editor")

    def test_the_size_of_an_edit_decides_about_the_other_language(self) -> None:
        answer = self.client.post(
            CHANGE,
            self.form(fix_en="Upgrade.", size="large", reason="New release"),
            follow=True,
            headers=ENGLISH,
        )
        self.assertContains(answer, "中文: says revision 1, should say 2")
        record = Record.objects.get()
        self.assertEqual(record.outdated["zh"]["significance"], "large")
        self.assertEqual(record.history.first().history_change_reason, "New release")
        found = self.client.get("/admin/kb/record/?outdated=zh")
        self.assertContains(found, "NAN-9001")
        found = self.client.get("/admin/kb/record/?outdated=en")
        self.assertNotContains(found, "NAN-9001")
        self.client.post(CHANGE, self.form(in_step="on"))
        self.assertEqual(Record.objects.get().outdated, {})

    def test_two_editors_do_not_overwrite_each_other(self) -> None:
        first, second = self.form(fix_en="First."), self.form(fix_en="Second.")
        self.assertEqual(self.client.post(CHANGE, first).status_code, 302)
        answer = self.client.post(CHANGE, second, headers=ENGLISH)
        self.assertContains(answer, "Revision 2 was saved while you edited revision 1")
        self.assertContains(answer, "Second.")
        self.assertEqual(Record.objects.get().fix_en, "First.")

    def test_a_repros_source_is_shown_and_not_editable(self) -> None:
        page = self.client.get(CHANGE)
        self.assertContains(page, "def workaround_turn_off():")
        forms = page.context["inline_admin_formsets"]
        self.assertEqual([form.has_change_permission for form in forms], [False] * 2)
        digest = self.repro.digest
        data = self.form(
            **{
                "repros-TOTAL_FORMS": "1",
                "repros-INITIAL_FORMS": "1",
                "repros-0-id": str(self.repro.pk),
                "repros-0-source": "import os",
                "repros-0-digest": "sha256:0",
            }
        )
        self.client.post(CHANGE, data)
        self.repro.refresh_from_db()
        self.assertEqual(self.repro.digest, digest)
        self.assertNotEqual(self.repro.source, "import os")


CHINESE = {"Accept-Language": "zh-CN"}
LISTS = (
    *("kb/record", "runner/build", "runner/installation", "runner/worker"),
    *("runner/device", "runner/run", "runner/evidence", "runner/token"),
    *("runner/sweep", "runner/bisection"),
)
HEAD = re.compile(r'<th scope="col"[^>]*>.*?<div class="text">(.*?)</div>', re.DOTALL)
FILTER = re.compile(r"<summary>\s*以 (.*?)\s*</summary>")
# Names that are the same in Chinese.
NAMES = {"CUDA", "NVIDIA cuDNN", "Python", "UUID"}


class LanguageTest(AdminCase):
    """The admin has no addresses of its own per language: the reader's counts."""

    def test_lists_and_filters_are_in_chinese(self) -> None:
        runs.install("/nowhere/python")
        page_types.make_machines()
        page_types.make_runs(self.repro)
        runs.make_sweep()
        runs.make_bisection()
        chief = page_types.superuser()
        self.client.force_login(chief)
        Token.issue("ci", chief, ["run"], timezone.now() + timedelta(days=1))
        for name in LISTS:
            with self.subTest(name):
                page = self.client.get(f"/admin/{name}/", headers=CHINESE)
                html = page.content.decode()
                heads = [strip_tags(head).strip() for head in HEAD.findall(html)]
                words = {*heads, *FILTER.findall(html)} - {""}
                self.assertGreater(len(words), 4)
                self.assertEqual([w for w in words - NAMES if not HAN.search(w)], [])

    def test_what_files_refuse_is_said_in_the_readers_language(self) -> None:
        self.become("editor")
        sent = self.form(fix_en=" ", signatures='[{"kind": "x"}]')
        answer = self.client.post(CHANGE, sent, headers=CHINESE)
        self.assertContains(answer, "signature[0].text: 缺失")
        self.assertContains(answer, "必须是 message, code, ")
        answer = self.client.post(CHANGE, sent, headers=ENGLISH)
        self.assertContains(answer, "signature[0].text: is missing")
        sent = {"section": "fix_en", "fix_en": "```", "fix_zh": "现在"}
        answer = self.client.post(PreviewTest.url, sent, headers=CHINESE)
        self.assertContains(answer, "第 1 行：代码块没有结束")


class PreviewTest(AdminCase):
    url = "/admin/kb/record/preview/"

    def test_prose_is_shown_as_the_page_would(self) -> None:
        self.become("editor")
        data = {"section": "fix_en", "fix_en": "*now* ![x](y)", "fix_zh": "现在"}
        answer = self.client.post(self.url, data, headers={"HX-Request": "true"})
        self.assertContains(answer, "<em>now</em>")
        self.assertContains(answer, "images are not shown")
        self.assertNotContains(answer, "<html")
        whole = self.client.post(self.url, data)
        self.assertContains(whole, "<html")
        self.assertEqual(Record.objects.get().fix_en, "A root fix.")

    def test_only_editors_preview_and_only_by_post(self) -> None:
        self.assertEqual(self.client.post(self.url).status_code, 302)
        self.become("viewer")
        self.assertEqual(self.client.post(self.url).status_code, 403)
        self.become("editor")
        self.assertEqual(self.client.get(self.url).status_code, 405)


class RevisionTest(AdminCase):
    def setUp(self) -> None:
        self.become("editor")
        self.client.post(
            CHANGE, self.form(fix_en="A root fix in 2.15.", components="[]")
        )
        self.newest, self.first = Record.objects.get().history.all()

    def changes(self, revision: Any, **options: Any) -> Any:
        return self.client.get(f"{HISTORY}{revision.pk}/changes/", **options)

    def test_the_history_names_what_changed(self) -> None:
        page = self.client.get(HISTORY, headers=ENGLISH)
        self.assertContains(page, "Fix · English, Components")
        self.assertContains(page, f"{self.newest.pk}/changes/")

    def test_changes_are_shown_word_by_word(self) -> None:
        page = self.changes(self.newest)
        self.assertContains(page, "A root fix<ins> in 2.15</ins>.")
        self.assertContains(page, "<del>")
        self.assertContains(page, "sdpa")
        self.assertNotContains(page, "One line")
        first = self.changes(self.first, headers=ENGLISH)
        self.assertContains(first, "nothing to compare it with")

    def test_other_addresses_are_missing(self) -> None:
        for path in (
            f"{HISTORY}999999/changes/",
            "/admin/kb/record/x/history/1/changes/",
        ):
            self.assertEqual(self.client.get(path).status_code, 404, path)

    def test_an_old_revision_is_brought_back(self) -> None:
        page = f"{HISTORY}{self.first.pk}/"
        form = self.client.get(page).context["adminform"].form
        data = {name: form[name].value() for name in form.fields}
        data = {key: value for key, value in data.items() if value is not None}
        self.assertEqual(self.client.post(page, data).status_code, 302)
        record = Record.objects.get()
        self.assertEqual((record.revision, record.fix_en), (3, "A root fix."))


class GroupTest(AdminCase):
    """What each group sees, and what it may not do."""

    def setUp(self) -> None:
        found = runs.make_evidence(self.repro)
        self.evidence = store.add(found, origin="site")
        self.run_row = runs.make_run(self.repro)
        now = timezone.now()
        Worker.objects.create(name="w1", host="h", started_at=now, last_seen=now)
        Device.objects.create(
            host="h", uuid="GPU-1", state="quarantined", last_seen=now
        )

    def test_everybody_with_access_looks_and_only_editors_save(self) -> None:
        for group, may in [
            *[("viewer", False), ("runner", False)],
            *[("editor", True), ("operator", True)],
        ]:
            self.become(group)
            page = self.client.get(CHANGE)
            self.assertEqual(page.context["has_change_permission"], may, group)
            self.assertEqual("Preview: " in page.content.decode(), may, group)
            self.assertEqual(b'name="size"' in page.content, may, group)
            answer = self.client.post(CHANGE, {"fix_en": "x"})
            self.assertEqual(answer.status_code, 200 if may else 403, group)

    def test_without_staff_there_is_no_admin(self) -> None:
        user = User.objects.create_user("plain")
        user.groups.add(Group.objects.get(name="editor"))
        self.client.force_login(user)
        self.assertEqual(self.client.get(CHANGE).status_code, 302)

    def test_operators_cancel_runs_and_others_do_not(self) -> None:
        self.become("editor")
        self.act("run", "cancel", self.run_row.pk)
        self.assertEqual(Run.objects.get().state, "queued")
        self.become("operator")
        self.assertIn("1 run is cancelled", self.act("run", "cancel", self.run_row.pk))
        self.assertEqual(Run.objects.get().state, "cancelled")
        again = self.act("run", "cancel", self.run_row.pk)
        self.assertIn("over already stay as they are: 1", again)

    def test_operators_cancel_sweeps_and_bisections(self) -> None:
        asking = runs.make_bisection(run=self.run_row)
        Run.objects.update(priority=Run.Priority.REVERIFY, requester="")
        for row in (asking, runs.make_sweep()):
            kind = row._meta.model_name
            with self.subTest(kind):
                self.become("editor")
                self.act(kind, "cancel", row.pk)
                row.refresh_from_db()
                self.assertEqual(row.state, "queued")
                self.become("operator")
                said = self.act(kind, "cancel", row.pk)
                self.assertIn("1 job is cancelled", said)
                row.refresh_from_db()
                self.assertEqual(row.state, "cancelled")
                again = self.act(kind, "cancel", row.pk)
                self.assertIn("over already stay as they are: 1", again)
                User.objects.all().delete()
        self.assertEqual(Run.objects.get().state, "cancelled", "nobody waits for it")

    def test_operators_fill_builds(self) -> None:
        self.become("editor")
        self.act("build", "fill_cells", runs.SLUG)
        self.become("operator")
        Evidence.objects.all().delete()
        Record.objects.get().findings.all().delete()
        refused = self.act("build", "fill_cells", runs.SLUG)
        self.assertIn("0 runs are queued", refused)
        Run.objects.all().delete()
        runs.install("/nowhere/python")
        self.assertIn("1 run is queued", self.act("build", "fill_cells", runs.SLUG))
        self.assertEqual(Run.objects.get().priority, Run.Priority.MATRIX)

    def test_operators_lift_a_quarantine_and_pause_workers(self) -> None:
        device = Device.objects.get()
        for group, state, paused in [
            ("editor", "quarantined", False),
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
            ("bisection", runs.make_bisection().pk),
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
        page_types.finished_bisection()
        runs.make_sweep()
        for path, count in [
            ("bisection/?q=NAN-9001", 1),
            ("bisection/?install__exact=1", 0),
            ("sweep/?q=NAN-9001", 1),
            ("sweep/?state__exact=finished", 0),
            ("run/?q=NAN-9001", 1),
            ("run/?q=zebra", 0),
            ("run/?state__exact=queued", 1),
            ("evidence/?verdict__exact=bug_absent", 0),
            ("evidence/?q=NAN-9001", 1),
            ("build/?runnable=yes", 0),
            ("build/?runnable=no", 1),
            ("device/?state__exact=quarantined", 1),
            ("worker/?q=w1", 1),
        ]:
            page = self.client.get(f"/admin/runner/{path}")
            self.assertEqual(page.context["cl"].result_count, count, path)
        for query, count in [("q=turn_off", 1), ("repro=no", 0), ("repro=yes", 1)]:
            page = self.client.get(f"/admin/kb/record/?{query}")
            self.assertEqual(page.context["cl"].result_count, count, query)


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


class ChangedDiagnosesTest(AdminCase):
    def test_a_revision_that_changed_diagnoses_can_be_looked_at(self) -> None:
        self.become("editor")
        self.record.diagnoses = [{"name": "x", "text": {"en": "a", "zh": "b"}}]
        self.record.save()
        newest = self.record.history.latest()
        place = reverse("admin:kb_record_changes", args=["NAN-9001", newest.pk])
        for address in (place, HISTORY):
            answer = self.client.get(address, headers=ENGLISH)
            self.assertContains(answer, "Diagnoses")
