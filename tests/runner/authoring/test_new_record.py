"""`manage.py new_record`: a folder that loads as a draft and says what is open."""

from __future__ import annotations

import ast
import tempfile
import tomllib
from io import StringIO
from pathlib import Path

from django.core.management import CommandError, call_command
from django.test import TestCase

from kb import choices
from kb.models import Record
from kb.records.facts import KEYS, TABLES, rows
from kb.records.files import RecordError, read_all, repro_problems
from kb.records.open_places import open_places
from runner.evidence.repros import inspect
from tests.support import draft, runs
from tests.support.sample_record import edit, write_sample

DIAGNOSIS = '''\
def diagnose_hidden_row(mask):
    """`mask`: bool, True may attend."""
    return bool((~mask).all(-1).any())
'''


class SkeletonTest(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.root = self.folder / "issues"

    def refused(self, *arguments: str) -> str:
        before = sorted(self.folder.rglob("*"))
        with self.assertRaises(CommandError) as caught:
            call_command("new_record", *arguments, stdout=StringIO())
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        return str(caught.exception)

    def test_it_loads_as_a_draft_and_keeps_the_contract(self) -> None:
        draft.make(self.folder)
        (record,) = read_all(self.root)
        self.assertEqual((record.id, record.slug), ("NAN-0001", draft.SLUG))
        facts = {name: inspect(text) for name, text in record.repros.items()}
        self.assertEqual(repro_problems(record, facts), [])
        checks = ["control", "detector", "trigger", "workaround_todo_name"]
        self.assertEqual(facts["repro"].checks, checks)
        self.assertTrue((self.root / draft.SLUG / "evidence").is_dir())

    def test_it_cannot_be_published_as_it_is(self) -> None:
        path = draft.make(self.folder) / "issue.toml"
        edit(path, 'publication = "draft"', 'publication = "published"')
        with self.assertRaises(RecordError) as caught:
            read_all(self.root)
        self.assertGreater(len(caught.exception.problems), 20)

    def test_every_key_and_table_stands_there_with_its_words(self) -> None:
        text = (draft.make(self.folder) / "issue.toml").read_text()
        keys = [key.name for key in KEYS if key.name not in TABLES]
        for name in keys:
            # What comes later, or of another form, stands there as a note.
            mark = "# " if name in {"depth", "translated_from", "updated"} else ""
            if name != "withdrawn_because":
                self.assertRegex(text, rf"(?m)^{mark}{name} = ")
        for name, columns in TABLES.items():
            self.assertRegex(text, rf"(?m)^(?:# )?\[\[{name}\]\]")
            for column in columns:
                self.assertRegex(text, rf"(?m)\b{column.name} = ", name)
        for words in (
            *(choices.Publication.values, choices.Upstream.values),
            *(choices.SymptomClass.values, choices.AffectedWhen.values),
            *(choices.SIGNATURE_KINDS, choices.WORKAROUND_KINDS),
            *(choices.ClaimKind.values, choices.SOURCE_KINDS, choices.FIX_KINDS),
            *(choices.PRECONDITION_KEYS, choices.Expects.values),
        ):
            self.assertIn(", ".join(words), text)

    def test_what_stands_in_comments_is_valid_too(self) -> None:
        path = draft.make(self.folder) / "issue.toml"
        lines = path.read_text().splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("# [[")]
        for at in starts:
            while lines[at].startswith("# "):
                lines[at] = lines[at][2:]
                at += 1
        path.write_text("\n".join(lines))
        edit(
            path.parent / "repro.py",
            "def measure(result):\n",
            f"{DIAGNOSIS}\n\ndef measure(result):\n    diagnose_hidden_row(result)\n",
        )
        (record,) = read_all(self.root)
        for name in TABLES:
            self.assertEqual(len(list(rows(record.facts, name))), 1, name)

    def test_the_report_gives_alias_and_source(self) -> None:
        path = draft.make(self.folder, "--from", "pytorch/pytorch#12345")
        facts = tomllib.loads((path / "issue.toml").read_text())
        self.assertEqual(facts["aliases"], ["pytorch/pytorch#12345"])
        url = "https://github.com/pytorch/pytorch/issues/12345"
        self.assertEqual(facts["source"][0]["url"], url)

    def test_the_number_is_the_next_of_folders_and_site(self) -> None:
        self.root.mkdir()
        write_sample(self.root)
        path = draft.make(self.folder)
        self.assertIn('id = "NAN-9002"', (path / "issue.toml").read_text())
        runs.make_record("NAN-9007")
        self.assertEqual(Record.objects.count(), 1)
        call_command("new_record", "another", str(self.root), stdout=StringIO())
        text = (self.root / "another" / "issue.toml").read_text()
        self.assertIn('id = "NAN-9008"', text)

    def test_the_pasted_log_has_a_stub_and_its_answer(self) -> None:
        draft.make(self.folder)
        lines = (self.folder / "logs" / "known.toml").read_text().splitlines()
        entry = f'{draft.SLUG} = "NAN-0001"'
        wanted = ["[known]", 'a-first = "NAN-0050"', entry, 'zebra = "NAN-0051"']
        self.assertEqual(lines, wanted)
        stub = self.folder / "logs" / "known" / f"{draft.SLUG}.log"
        self.assertTrue(list(open_places({"log": stub.read_text()})))

    def test_what_cannot_be_made_is_refused_and_nothing_is_written(self) -> None:
        draft.make(self.folder, "--from", "pytorch/pytorch#12345")
        root, logs, folder = draft.places(self.folder)
        self.assertIn("exists already", self.refused(draft.SLUG, root))
        for slug in ("Upper", "a_b", "-a", "a--b", "../x", "x" * 90):
            self.assertIn("slug", self.refused(f"--logs={folder}", "--", slug, root))
        for text in ("12345", "pytorch#1", "https://github.com/a/b/issues/1", "a/b#0"):
            said = self.refused("other", root, "--from", text)
            self.assertIn("must look like pytorch/pytorch#12345", said)
        said = self.refused("other", root, "--from", "pytorch/pytorch#12345")
        self.assertIn(f"known already: NAN-0001, in the folder {draft.SLUG}", said)
        self.assertIn("not a folder", self.refused("other", str(self.folder / "no")))
        # The probe would run it.
        said = self.refused("other", root, "--from-capture", str(Path(__file__)))
        self.assertIn("is no capture.json", said)
        stub = Path(folder) / "known" / "other.log"
        stub.write_text("mine")
        self.assertIn("other.log exists", self.refused("other", root, logs, folder))

    def test_the_command_names_files_and_the_next_step(self) -> None:
        self.root.mkdir()
        out = StringIO()
        call_command("new_record", "other", str(self.root), stdout=out)
        for name in ("issue.toml", "article.en.md", "article.zh.md", "repro.py"):
            self.assertIn(str(self.root / "other" / name), out.getvalue())
        self.assertIn(f"check_record other {self.root}", out.getvalue())

    def test_the_repro_is_python(self) -> None:
        source = (draft.make(self.folder) / "repro.py").read_text()
        self.assertEqual(ast.get_docstring(ast.parse(source)), DOCSTRING)


DOCSTRING = "TODO: what this shows, in one sentence."
