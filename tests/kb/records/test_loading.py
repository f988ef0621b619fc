"""Records from their files into the database."""

import io
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils.translation import get_language, override

from kb.languages import in_terminal_language, terminal_language
from kb.models import Claim, Record, Repro
from kb.publishing.loading import Change, LoadReport, load_records
from kb.records import rendering, translation
from kb.records.files import RecordError, read_record
from portable.harness import source_digest
from runner.evidence.repros import inspect
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


class LoadTest(FolderCase):
    def test_a_load_stores_everything(self) -> None:
        self.assertEqual(self.change(), Change.CREATED)
        record = self.record
        self.assertEqual(record.summary_zh, "一行说明")
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

    def test_an_unchanged_load_keeps_the_dates(self) -> None:
        self.load()
        before = self.record
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.assertEqual(self.record.modified, before.modified)
        self.edit_files()
        self.assertEqual(self.change(), Change.UPDATED)
        self.assertEqual(self.record.html["en"]["fix"], "<p>A real root fix.</p>")
        self.assertGreater(self.record.modified, before.modified)

    def test_files_win_over_a_row_whose_digest_was_taken_away(self) -> None:
        self.load()
        Record.objects.update(fix_en="Written on the site.", files_digest="")
        self.assertEqual(self.change(), Change.UPDATED)
        self.assertEqual(self.record.fix_en, "A root fix.")

    def test_a_translation_of_another_text_is_outdated(self) -> None:
        self.load()
        self.assertEqual(self.record.outdated, "")
        source = translation.digest(read_record(self.folder), "en")
        line = 'affected_when = "any"\n'
        named = f'translated_from = {{en = "{source}"}}\n{line}'
        edit(self.folder / "issue.toml", line, named)
        self.load()
        self.assertEqual(self.record.outdated, "")
        self.edit_files()
        self.load()
        self.assertEqual(self.record.outdated, "zh")
        (said,) = translation.problems(read_record(self.folder))
        self.assertIn("zh was translated from an older text in en", said.message)
        now = translation.digest(read_record(self.folder), "en")
        self.assertIn(f'translated_from = {{en = "{now}"}}', said.message)
        edit(self.folder / "issue.toml", source, now)
        self.load()
        self.assertEqual(self.record.outdated, "")
        edit(self.folder / "article.zh.md", "根本修复。", "根本的修复。")
        self.load()
        self.assertEqual(self.record.outdated, "", "the source is the same")

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

    def test_html_of_an_older_renderer_is_made_anew(self) -> None:
        self.load()
        Record.objects.update(html={}, html_version=0)
        self.assertEqual(self.change(), Change.UNCHANGED)
        self.assertEqual(self.record.html["en"]["fix"], "<p>A root fix.</p>")

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

    def test_the_command_names_what_it_did(self) -> None:
        self.load()
        self.edit_files()
        out = io.StringIO()
        call_command("load_records", stdout=out)
        self.assertIn("NAN-9001  updated  sample\n1 record.\n", out.getvalue())


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
