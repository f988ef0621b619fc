"""Records between files and database: round trip, conflicts, revisions, the admin."""

import io
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings
from django.urls import reverse
from django.utils.translation import get_language, override

from kb.models import Claim, Record, Repro
from kb.publishing.editing import save_edited
from kb.publishing.loading import Change, LoadReport, dump_records, load_records
from kb.records import rendering
from kb.records.files import RecordError, read_all
from kb.terminal import in_terminal_language, terminal_language
from runner.evidence.repros import inspect
from runner.harness import source_digest
from tests.support.sample_record import FILES, edit, write_sample


class FolderCase(TestCase):
    """The sample record in a folder of its own, as ISSUES_DIR."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = write_sample(self.root)
        self.enterContext(override_settings(ISSUES_DIR=self.root))
        self.enterContext(mock.patch.dict("os.environ", {"LC_ALL": "C.UTF-8"}))

    def load(self, **options: Any) -> LoadReport:
        return load_records(self.root, inspect=inspect, **options)

    def change(self, **options: Any) -> Change:
        (row,) = self.load(**options).records
        return row.change

    @property
    def record(self) -> Record:
        return Record.objects.get(pk="NAN-9001")

    def edit_files(self, text: str = "A real root fix.") -> None:
        edit(self.folder / "article.en.md", "A root fix.", text)

    def edit_site(self, text: str = "Written on the site.") -> None:
        record = self.record
        record.environment_en = text
        save_edited(record)


class LoadTest(FolderCase):
    def test_a_load_stores_everything(self) -> None:
        self.assertEqual(self.change(), Change.CREATED)
        record = self.record
        self.assertEqual((record.summary_zh, record.revision), ("一行说明", 1))
        self.assertEqual(record.affected[0]["builds"][0]["state"], "affected")
        self.assertEqual(record.html["zh"]["fix"], "<p>根本修复。</p>")
        self.assertEqual(record.html_version, rendering.VERSION)
        claim = record.claims.get(cid="c1")
        self.assertEqual(
            (claim.check_ref, claim.expects, claim.builds),
            ("repro:workaround_turn_off", "clean", ["*"]),
        )
        repro = record.repros.get()
        self.assertEqual(repro.source, FILES["repro.py"])
        self.assertEqual(repro.digest, source_digest(repro.source))
        self.assertEqual((repro.fidelity, repro.device), ("upstream_bug", "cpu"))
        checks = ["control", "detector", "trigger", "workaround_turn_off"]
        self.assertEqual(repro.checks, checks)
        self.assertEqual(repro.header["record"], "NAN-9001")

    def test_an_unchanged_load_makes_no_revision(self) -> None:
        self.load()
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.assertEqual(self.record.revision, 1)
        self.assertEqual(self.record.history.count(), 1)

    def test_every_change_is_one_revision(self) -> None:
        self.load()
        self.edit_files()
        self.assertEqual(self.change(), Change.UPDATED)
        self.assertEqual(self.record.revision, 2)
        self.assertEqual(self.record.html["en"]["fix"], "<p>A real root fix.</p>")
        newest, oldest = self.record.history.all()
        self.assertEqual((newest.fix_en, newest.revision), ("A real root fix.", 2))
        self.assertEqual((oldest.fix_en, oldest.revision), ("A root fix.", 1))
        self.assertEqual(newest.history_change_reason, "load_records")

    def test_removed_repros_and_claims_go(self) -> None:
        self.load()
        (self.folder / "repro.py").unlink()
        text = (self.folder / "issue.toml").read_text()
        start = text.index('[[claim]]\nid = "c1"')
        end = text.index('[[claim]]\nid = "c2"')
        (self.folder / "issue.toml").write_text(text[:start] + text[end:])
        self.assertEqual(self.change(), Change.UPDATED)
        self.assertEqual(Repro.objects.count(), 0)
        self.assertEqual([claim.cid for claim in Claim.objects.all()], ["c2"])

    def test_only_changed_repros_are_announced(self) -> None:
        announced: list[str] = []

        def note(record: Record) -> None:
            announced.append(record.id)

        self.load(on_new_repros=note)
        self.edit_files()
        self.load(on_new_repros=note)
        self.assertEqual(announced, ["NAN-9001"])
        edit(self.folder / "repro.py", '"""A sample."""', '"""Another."""')
        self.load(on_new_repros=note)
        self.assertEqual(announced, ["NAN-9001", "NAN-9001"])

    def test_formatting_alone_is_no_change(self) -> None:
        self.load()
        edit(self.folder / "issue.toml", "schema = 1", "schema = 1 # the first")
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.edit_site()
        self.assertEqual(self.change(), Change.KEPT_SITE)

    def test_the_databases_order_of_keys_is_no_change(self) -> None:
        self.load()
        record = self.record
        for column in ("workarounds", "affected", "sources", "preconditions"):
            rows = [dict(reversed(row.items())) for row in getattr(record, column)]
            Record.objects.update(**{column: rows})
        self.assertEqual(self.change(), Change.UNCHANGED)

    def test_html_of_an_older_renderer_is_made_anew(self) -> None:
        self.load()
        Record.objects.update(html={}, html_version=0)
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.assertEqual(self.record.html["en"]["fix"], "<p>A root fix.</p>")
        self.assertEqual(self.record.revision, 1)

    def test_a_record_without_folder_stays(self) -> None:
        self.load()
        self.folder.rename(self.root / ".away")
        report = self.load()
        self.assertEqual(report.without_folder, ["NAN-9001"])
        self.assertEqual(Record.objects.count(), 1)


class RefusalTest(FolderCase):
    def second(self) -> Path:
        folder = write_sample(self.root, "second")
        edit(folder / "issue.toml", 'slug = "sample"', 'slug = "second"')
        edit(folder / "issue.toml", "NAN-9001", "NAN-9002")
        edit(folder / "issue.toml", "project#1", "project#2")
        edit(folder / "repro.py", "NAN-9001", "NAN-9002")
        return folder

    def problems(self) -> list[str]:
        with self.assertRaises(RecordError) as caught:
            self.load()
        return [str(problem) for problem in caught.exception.problems]

    def test_one_bad_folder_loads_nothing(self) -> None:
        edit(self.second() / "issue.toml", '"nan_grad"', '"nan"')
        (text,) = self.problems()
        self.assertIn("second/issue.toml: symptom_class: must be one of", text)
        self.assertEqual(Record.objects.count(), 0)

    def test_a_repro_that_breaks_the_contract_loads_nothing(self) -> None:
        second = self.second()
        edit(second / "repro.py", 'device = "cpu"', 'device = "tpu"')
        edit(self.folder / "repro.py", "NAN-9001", "NAN-0001")
        edit(self.folder / "issue.toml", "repro:workaround_turn_off", "repro:trigger2")
        found = self.problems()
        self.assertEqual(len(found), 3, found)
        self.assertIn("sample/repro.py: record: must be NAN-9001", found[0])
        self.assertIn("sample/issue.toml: claim[0].check: repro.py has no", found[1])
        self.assertIn("second/repro.py: ", found[2])
        self.assertEqual(Record.objects.count(), 0)

    def test_a_text_that_cannot_be_rendered_loads_nothing(self) -> None:
        self.second()
        self.edit_files("[" * 30_000)
        self.assertIn("sample/article.en.md: fix: takes too long", self.problems()[0])
        self.assertEqual(Record.objects.count(), 0)

    def test_a_slug_or_alias_of_a_record_without_folder_is_taken(self) -> None:
        self.load()
        edit(self.folder / "issue.toml", "NAN-9001", "NAN-9003")
        edit(self.folder / "repro.py", "NAN-9001", "NAN-9003")
        found = self.problems()
        self.assertEqual(len(found), 2, found)
        self.assertIn("slug: NAN-9001 has this slug", found[0])
        self.assertIn("aliases: example/project#1 belongs to NAN-9001", found[1])

    def test_the_command_says_everything_and_exits_1(self) -> None:
        edit(self.folder / "issue.toml", '"nan_grad"', '"nan"')
        (self.second() / "article.zh.md").unlink()
        with self.assertRaises(CommandError) as caught:
            call_command("load_records", stdout=io.StringIO())
        text = str(caught.exception)
        self.assertEqual(caught.exception.returncode, 1)
        self.assertIn("sample/issue.toml:6: symptom_class: ", text)
        self.assertIn("second/article.zh.md: is missing", text)
        self.assertIn("Nothing was loaded.", text)


class ConflictTest(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()

    def texts(self) -> tuple[str, str]:
        return self.record.fix_en, self.record.environment_en

    def test_only_the_site_changed(self) -> None:
        self.edit_site()
        self.assertEqual(self.change(), Change.KEPT_SITE)
        self.assertEqual(self.change(force="files"), Change.KEPT_SITE)
        self.assertEqual(self.texts(), ("A root fix.", "Written on the site."))

    def test_both_changed(self) -> None:
        self.edit_site()
        self.edit_files()
        report = self.load()
        self.assertFalse(report.done)
        self.assertEqual([row.id for row in report.conflicts], ["NAN-9001"])
        self.assertEqual(self.texts(), ("A root fix.", "Written on the site."))

    def test_a_conflict_stops_the_other_records_too(self) -> None:
        self.edit_site()
        self.edit_files()
        folder = write_sample(self.root, "second")
        edit(folder / "issue.toml", 'slug = "sample"', 'slug = "second"')
        edit(folder / "issue.toml", "NAN-9001", "NAN-9002")
        edit(folder / "issue.toml", "project#1", "project#2")
        edit(folder / "repro.py", "NAN-9001", "NAN-9002")
        self.assertFalse(self.load().done)
        self.assertEqual(Record.objects.count(), 1)

    def test_the_files_win_when_told_so(self) -> None:
        self.edit_site()
        self.edit_files()
        self.assertEqual(self.change(force="files"), Change.UPDATED)
        self.assertEqual(self.texts(), ("A real root fix.", "Any."))
        self.assertEqual(self.change(), Change.UNCHANGED)

    def test_the_site_wins_when_told_so(self) -> None:
        self.edit_site()
        self.edit_files()
        self.assertEqual(self.change(force="site"), Change.KEPT_SITE)
        self.assertEqual(self.texts(), ("A root fix.", "Written on the site."))
        self.assertEqual(self.change(), Change.KEPT_SITE)
        dump_records(self.root)
        self.assertEqual(self.change(), Change.UNCHANGED)

    def test_the_same_change_on_both_sides_is_none(self) -> None:
        self.edit_site("Everywhere.")
        edit(self.folder / "article.en.md", "Any.", "Everywhere.")
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.assertEqual(self.record.revision, 2)

    def test_the_command_names_the_records_and_the_way_out(self) -> None:
        self.edit_site()
        self.edit_files()
        with self.assertRaises(CommandError) as caught:
            call_command("load_records", stdout=io.StringIO())
        self.assertIn("NAN-9001", str(caught.exception))
        self.assertIn("--force files", str(caught.exception))
        out = io.StringIO()
        call_command("load_records", force="files", stdout=out)
        self.assertIn("NAN-9001  updated  sample\n1 record.\n", out.getvalue())


class DumpTest(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()

    def test_the_sites_text_reaches_the_files(self) -> None:
        self.edit_site()
        self.assertEqual(dump_records(self.root).written, ["NAN-9001"])
        text = (self.folder / "article.en.md").read_text()
        self.assertIn("Written on the site.", text)
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.assertEqual(dump_records(self.root).unchanged, ["NAN-9001"])

    def test_files_that_nobody_loaded_are_not_overwritten(self) -> None:
        self.edit_files()
        self.assertEqual(dump_records(self.root).conflicts, ["NAN-9001"])
        self.assertIn("A real root", (self.folder / "article.en.md").read_text())
        with self.assertRaises(CommandError):
            call_command("dump_records", stdout=io.StringIO())
        call_command("dump_records", force=True, stdout=io.StringIO())
        self.assertIn("A root fix", (self.folder / "article.en.md").read_text())

    def test_a_dump_elsewhere_is_not_remembered(self) -> None:
        self.edit_site()
        with tempfile.TemporaryDirectory() as elsewhere:
            dump_records(Path(elsewhere), ["NAN-9001"])
        self.assertEqual(self.change(), Change.KEPT_SITE)

    def test_evidence_stays_and_removed_repros_go(self) -> None:
        (self.folder / "evidence").mkdir()
        (self.folder / "evidence" / "a.json").write_text("{}")
        (self.folder / "repro_old.py").write_text(FILES["repro.py"])
        self.load()
        Repro.objects.get(name="repro_old").delete()
        dump_records(self.root)
        names = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual(names, sorted([*FILES, "evidence"]))

    def test_an_unknown_id_is_named(self) -> None:
        with self.assertRaises(CommandError) as caught:
            call_command("dump_records", "NAN-0042", stdout=io.StringIO())
        self.assertIn("NAN-0042", str(caught.exception))


class EditingTest(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()

    def refusals(self, **values: Any) -> list[str]:
        record = self.record
        for name, value in values.items():
            setattr(record, name, value)
        with self.assertRaises(RecordError) as caught:
            save_edited(record)
        self.assertEqual(self.record.revision, 1)
        return [str(problem) for problem in caught.exception.problems]

    def test_an_edit_is_a_rendered_revision(self) -> None:
        record = self.record
        record.fix_zh = "先升级。\r\n\r\n再**重试**。\r\n"
        self.assertTrue(save_edited(record))
        stored = self.record
        self.assertEqual(stored.fix_zh, "先升级。\n\n再**重试**。")
        html = "<p>先升级。</p>\n<p>再<strong>重试</strong>。</p>"
        self.assertEqual(stored.html["zh"]["fix"], html)
        self.assertEqual((stored.revision, stored.history.count()), (2, 2))

    def test_saving_the_same_is_no_revision(self) -> None:
        self.assertFalse(save_edited(self.record))
        self.assertEqual(self.record.revision, 1)

    def test_the_rules_of_files_hold_on_the_site(self) -> None:
        for values, start in (
            ({"fix_en": "## Fix"}, "article.en.md: fix: line 1: only ###"),
            ({"fix_zh": "fixed"}, "article.zh.md: fix: the Chinese text"),
            ({"workaround_zh": "没有"}, "article.zh.md: workaround: needs the"),
            ({"title_zh": "A sample"}, "issue.toml: title.zh: "),
            ({"affected": [{"package": "torch"}]}, "issue.toml: affected[0]."),
            ({"aliases": "x"}, "issue.toml: aliases: must be an array"),
            ({"related": ["NAN-0042"]}, "issue.toml: related: there is no other"),
            ({"fix_en": "[" * 30_000}, "article.en.md: fix: takes too long"),
        ):
            with self.subTest(values=list(values)):
                found = self.refusals(**values)
                self.assertTrue(found[0].startswith(start), found)


# The admin's own pictures need no collected files here.
PLAIN_STATIC_FILES = {
    **settings.STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}


@override_settings(STORAGES=PLAIN_STATIC_FILES)
class AdminTest(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()
        self.client.force_login(User.objects.create_superuser("editor"))
        self.page = reverse("admin:kb_record_change", args=["NAN-9001"])

    def form(self, **changes: str) -> dict[str, Any]:
        """The change form's values as a browser would send them back."""
        form = self.client.get(self.page).context["adminform"].form
        values = {name: form[name].value() for name in form.fields}
        management = {
            f"{name}-{part}": "0"
            for name in ("claims", "repros")
            for part in ("TOTAL_FORMS", "INITIAL_FORMS")
        }
        return {**values, **management, **changes}

    def test_prose_is_edited_side_by_side(self) -> None:
        page = self.client.get(self.page)
        self.assertContains(page, 'name="fix_zh"')
        self.assertContains(page, "repro:workaround_turn_off")
        self.assertNotContains(page, 'name="id"')
        self.assertContains(page, "\n    &quot;package&quot;: &quot;torch&quot;")
        answer = self.client.post(self.page, self.form(fix_en="Upgrade *now*."))
        self.assertEqual(answer.status_code, 302)
        self.assertEqual(self.record.html["en"]["fix"], "<p>Upgrade <em>now</em>.</p>")
        self.assertEqual(self.record.revision, 2)
        self.assertEqual(self.record.history.first().history_user.username, "editor")

    def test_a_refusal_stands_at_its_field(self) -> None:
        answer = self.client.post(self.page, self.form(fix_zh="Upgrade."))
        errors = answer.context["adminform"].form.errors
        self.assertEqual(list(errors), ["fix_zh"])
        answer = self.client.post(self.page, self.form(sources="[{}]"))
        errors = answer.context["adminform"].form.errors
        self.assertIn("source[0].id: is missing", errors["sources"])
        self.assertIn("affected[0].source: no [[source]] has", str(errors["affected"]))
        self.assertEqual(self.record.revision, 1)

    def test_a_record_can_be_begun_and_its_history_read(self) -> None:
        page = self.client.get(reverse("admin:kb_record_add"))
        self.assertContains(page, 'name="slug"')
        history = reverse("admin:kb_record_history", args=["NAN-9001"])
        self.assertContains(self.client.get(history), "load_records")

    def test_records_are_withdrawn_not_deleted(self) -> None:
        page = self.client.get(self.page)
        self.assertFalse(page.context["has_delete_permission"])
        self.assertNotContains(page, "deletelink")


class ShippedRecordsTest(TestCase):
    def test_load_and_dump_give_the_same_bytes(self) -> None:
        report = load_records(settings.ISSUES_DIR, inspect=inspect)
        with tempfile.TemporaryDirectory() as folder:
            dump_records(Path(folder))
            for row in report.records:
                for path in sorted((Path(folder) / row.slug).iterdir()):
                    shipped = settings.ISSUES_DIR / row.slug / path.name
                    self.assertEqual(path.read_bytes(), shipped.read_bytes(), shipped)
            self.assertEqual(read_all(Path(folder)), read_all(settings.ISSUES_DIR))


class TerminalTest(SimpleTestCase):
    def test_commands_speak_the_terminals_language(self) -> None:
        for environ, expected in (
            ({"LANG": "zh_CN.UTF-8"}, "zh-hans"),
            ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_TW"}, "zh-hans"),
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh-hans"),
            ({"LANG": "fr_FR"}, "en"),
            ({}, "en"),
        ):
            with self.subTest(environ=environ):
                self.assertEqual(terminal_language(environ), expected)

    def test_the_language_holds_while_a_command_runs(self) -> None:
        chinese = mock.patch.dict("os.environ", {"LC_ALL": "zh_CN.UTF-8"})
        # Another test may have left its own.
        with override("en"):
            with chinese, in_terminal_language():
                self.assertEqual(get_language(), "zh-hans")
            self.assertEqual(get_language(), "en")
