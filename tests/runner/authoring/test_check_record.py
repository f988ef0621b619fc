"""`manage.py check_record`: what one record lacks, said with file and line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import SimpleTestCase, TestCase, override_settings, tag

from kb.models import Record
from tests.support import draft, jails, loaded, runs
from tests.support.builds import torch_python
from tests.support.sample_record import edit, write_sample

FINE = f"Nothing is missing in {draft.SLUG}."
SYMPTOM = f"""\
schema = 1
slug = "loss-nan"
title = {{en = "loss nan", zh = "loss 为 nan"}}
summary = {{en = "The loss is NaN.", zh = "loss 为 NaN。"}}
words = ["loss nan"]

[[signature]]
when = 'loss == "nan"'

[[cause]]
slug = "{draft.SLUG}"
ask = {{en = "Is the radicand negative?", zh = "被开方数是否为负？"}}
when = ['onset == "later"']
"""


@override_settings(SANDBOX_MIN_TIER="D")
@tag("any_database")  # its records are never the site's
class CheckCase(TestCase):
    """A record with every open place filled in, under a torch that knows its name."""

    def setUp(self) -> None:
        self.folder = runs.install_stand_in(self)
        migrate = mock.patch("runner.authoring.scratch.call_command", migrate_once)
        self.enterContext(migrate)
        self.root = self.folder / "issues"
        draft.make(self.folder, "--from", "pytorch/pytorch#12345")

    def check(self, *options: str) -> tuple[int, str]:
        out, status = StringIO(), 0
        places = draft.places(self.folder)
        try:
            call_command("check_record", draft.SLUG, *places, *options, stdout=out)
        except SystemExit as end:
            status = int(str(end.code))
        return status, out.getvalue()

    def assert_missing(self, *texts: str, options: tuple[str, ...] = ()) -> str:
        status, out = self.check(*options)
        self.assertEqual(status, 1, out)
        for text in texts:
            self.assertIn(text, out)
        return out

    def edit(self, name: str, old: str, new: str) -> None:
        edit(self.root / draft.SLUG / name, old, new)


def migrate_once(*arguments: object, **options: object) -> None:
    """As `migrate` leaves an empty database in memory, copied from the first time."""
    connection.ensure_connection()
    connection.connection.deserialize(loaded.once("scratch tables", tables))


def tables() -> bytes:
    call_command("migrate", verbosity=0, interactive=False)
    made: bytes = connection.connection.serialize()
    return made


class SkeletonTest(CheckCase):
    def test_it_lists_the_open_places_by_file_and_line(self) -> None:
        out = self.assert_missing(
            f'{draft.SLUG}/issue.toml:16: components = ["todo_topic"]',
            f"{draft.SLUG}/article.zh.md:19: ### todo_name",
            f"{draft.SLUG}/repro.py:11: ",
            "run of repro.py: it has open places",
        )
        self.assertIn("✔ files", out)
        self.assertIn("✔ contract", out)
        self.assertIn("✔ page", out)

    def test_from_the_skeleton_to_nothing_missing(self) -> None:
        draft.fill_in(self.folder)
        status, out = self.check()
        self.assertEqual(status, 0, out)
        for text in (
            FINE,
            f"run of repro.py on {runs.SLUG}, the default build of this site: bug_pres",
            "detector equal to the control: inconclusive: detector_silent, as it ",
            "trigger equal to the control: bug_absent, as it should",
            "workarounds emptied: bug_present / untested, as it should",
            "after load_records: manage.py run_repro NAN-0001 --build SLUG --json > ",
        ):
            self.assertIn(text, out)

    def test_an_id_names_the_folder_and_a_stranger_is_refused(self) -> None:
        with self.assertRaises(CommandError) as caught:
            call_command("check_record", "nan-0404", str(self.root))
        self.assertIn("new_record nan-0404", str(caught.exception))
        out = StringIO()
        with self.assertRaises(SystemExit):
            call_command("check_record", "nan-0001", str(self.root), stdout=out)
        self.assertIn(draft.SLUG, out.getvalue())


class FilledCase(CheckCase):
    def setUp(self) -> None:
        super().setUp()
        draft.fill_in(self.folder)


class FileTest(FilledCase):
    """One thing is wrong with the files, and it is named; nothing is run."""

    def setUp(self) -> None:
        super().setUp()
        runs_of = "runner.authoring.record_check.runs_of"
        self.enterContext(mock.patch(runs_of, return_value=()))

    def test_all_problems_of_files_and_repro_are_named_at_once(self) -> None:
        self.edit("issue.toml", '"nan_forward"', '"nan"')
        self.edit("issue.toml", 'check = "repro:trigger"', 'check = "repro:triger"')
        self.edit("article.zh.md", "## 修复", "## 修好")
        self.edit("repro.py", "match = {norm", "match = {nrom")
        out = self.assert_missing(
            "issue.toml:14: symptom_class: must be one of",
            "article.zh.md:27: unknown heading",
            "tool.doesitnan.match: no check can report 'nrom'",
            'did you mean "norm"?',
            "search: the files have to be sound first",
        )
        self.assertIn(f"{draft.SLUG}/repro.py:9: tool.", out)
        self.edit("repro.py", "match = {nrom", "match = {norm")
        said = "claim[0].check: repro.py has no triger; it has control, detector"
        self.assertIn(said, self.check()[1])

    def test_neighbours_have_numbers_and_names_of_their_own(self) -> None:
        other = write_sample(self.root)
        edit(other / "issue.toml", "NAN-9001", "NAN-0001")
        edit(other / "issue.toml", "example/project#1", "pytorch/pytorch#12345")
        self.edit("issue.toml", "related = []", 'related = ["NAN-0404"]')
        self.assert_missing(
            "issue.toml:5: id: sample has this number",
            "issue.toml:18: aliases: pytorch/pytorch#12345 belongs to NAN-0001 (",
            "issue.toml:20: related: there is no record NAN-0404",
        )

    def test_a_signature_that_nothing_prints(self) -> None:
        self.edit("issue.toml", "met a negative radicand", "found an odd exponent")
        out = self.assert_missing("nothing prints “RuntimeError: Function 'SqrtBackw")
        self.assertRegex(out, r"issue\.toml:\d+: nothing prints")

    def test_what_is_called_printed_stands_in_a_triggers_output(self) -> None:
        reported = 'seen = "reported"\nsource = "report"'
        self.edit("issue.toml", reported, 'seen = "printed"')
        out = self.assert_missing("it stands in no trigger's output, neither in evid")
        self.assertRegex(out, r"issue\.toml:\d+: nothing prints")
        kept = self.root / draft.SLUG / "evidence" / "repro-2.0.1-cu117.json"
        log = {"text": draft.LINE, "cut_bytes": 0}
        check = {"name": "trigger", "log": log, "reason": None, "observations": {}}
        kept.write_text(json.dumps({"checks": [check]}))
        self.assertNotIn("nothing prints", self.check()[1])
        check["name"] = "detector"
        kept.write_text(json.dumps({"checks": [check]}))
        self.assertIn("nothing prints", self.check()[1])

    def test_a_log_that_no_signature_matches(self) -> None:
        log = self.folder / "logs" / "known" / f"{draft.SLUG}.log"
        log.write_text("epoch 1 of 3\nall is well\n")
        self.assert_missing(f"{log}: the look-up of this log finds nothing")
        log.unlink()
        (self.folder / "logs" / "known.toml").write_text("[known]\n")
        self.assert_missing("no pasted log is kept for NAN-0001")

    def test_a_log_of_somebodys_own_words(self) -> None:
        log = self.folder / "logs" / "known" / f"{draft.SLUG}.log"
        log.write_text("why is the root of my negative radicand not a number?\n")
        self.assertNotIn(f"{log}: the look-up", self.check()[1])

    def test_a_log_that_a_symptom_answers(self) -> None:
        """Without a signature of its own, as brief records are."""
        log = self.folder / "logs" / "known" / f"{draft.SLUG}.log"
        log.write_text("{'loss': 2.1, 'epoch': 1.0}\n{'loss': nan, 'epoch': 2.0}\n")
        self.assert_missing(f"{log}: the look-up of this log finds nothing")
        (self.folder / "symptoms").mkdir()
        (self.folder / "symptoms" / "loss-nan.toml").write_text(SYMPTOM)
        self.assertNotIn(f"{log}: the look-up", self.check()[1])

    def test_a_title_that_finds_another_record(self) -> None:
        other = write_sample(self.root)
        edit(other / "issue.toml", '"A sample"', '"A sample of sample roots"')
        self.edit("issue.toml", "The root of a negative number is NaN", "sample")
        self.assert_missing("title.en: a search for the title finds NAN-9001 first")

    def test_a_page_that_cannot_be_shown(self) -> None:
        with mock.patch(
            "runner.authoring.findability.record_detail", side_effect=KeyError("apply")
        ):
            self.assert_missing(f"/zh/NAN-0001/{draft.SLUG}/ cannot be shown: KeyError")

    def test_the_site_keeps_its_database(self) -> None:
        runs.make_record("NAN-9009")
        self.check()
        self.assertEqual([row.id for row in Record.objects.all()], ["NAN-9009"])


class RunTest(FilledCase):
    """One thing is wrong with the repro, which shows once it runs."""

    def test_a_signature_that_only_the_run_prints(self) -> None:
        self.edit("issue.toml", draft.LINE, "the radicand of this block was below zero")
        self.assert_missing("nothing prints “the radicand of this block")
        text = 'print("step 7: the radicand of this block was below zero")'
        self.edit("repro.py", 'print("computing")', text)
        self.assertNotIn("nothing prints", self.check()[1])

    def test_a_detector_that_shows_nothing(self) -> None:
        self.edit("repro.py", 'measure([float("nan")])', "measure([1.0])")
        out = self.assert_missing(
            "repro.py:27: detector: ", "the detector missed a symptom"
        )
        self.assertIn("the run itself has to end in a verdict first", out)

    def test_a_check_that_raises_shows_its_last_lines(self) -> None:
        self.edit("repro.py", "return measure(compute(True))", 'raise OSError("gone")')
        self.assert_missing("repro.py:31: trigger: ", "    | [stderr] OSError: gone")

    def test_a_workaround_that_is_verified_for_doing_nothing(self) -> None:
        self.edit("repro.py", "match = {norm = 1e-6}", "match = {nonfinite = 0}")
        self.assert_missing(
            "workaround_take_abs emptied still counts as verified",
            "`match` (nonfinite) is met by doing nothing",
        )

    def test_a_trigger_that_is_the_bug_whatever_it_does(self) -> None:
        self.edit("repro.py", "return measure(compute(False))\n\n\ndef det", COUNTED)
        self.assert_missing("the trigger equal to the control still shows the bug")

    def test_variants_in_which_a_workaround_holds_or_not(self) -> None:
        """It mends four values: those of length 2. Length 4 has no bug at all."""
        triggered = "* LENGTH if is_triggered * LENGTH % 4"
        rest = "for value in values[:4]] + values[4:]"
        self.edit("repro.py", '# ///\n"""A root."""\n', LENGTHS)
        self.edit("repro.py", "if is_triggered", triggered)
        self.edit("repro.py", "[1.0, 2.0]", "[1.0, 2.0] * LENGTH")
        self.edit("repro.py", "for value in values]", rest)
        out = self.assert_missing("workaround_take_abs: does not hold in long")
        self.assertIn("pair: take_abs verified", out)
        self.assertIn("trigger is clean in none, which says nothing", out)

    def test_a_build_without_the_bug_shows_nothing(self) -> None:
        self.edit("repro.py", "compute(True)", "compute(False)")
        kept = self.root / draft.SLUG / "evidence" / "repro-2.0.1-cu117.json"
        kept.write_text('{"verdict": "bug_present"}')
        status, out = self.check()
        self.assertEqual(status, 0, out)
        self.assertIn("This build does not have the bug, so trigger and work", out)
        self.assertIn("(evidence shows it on 2.0.1-cu117)", out)
        self.assertNotIn("trigger equal to the control", out)

    def test_a_build_that_is_not_here_is_named(self) -> None:
        with self.assertRaises(CommandError) as caught:
            self.check("--build", "1.0-cpu")
        self.assertIn("no build 1.0-cpu on this machine", str(caught.exception))

    @override_settings(SANDBOX_MIN_TIER="B")
    def test_what_nobody_reviewed_needs_the_wanted_tier(self) -> None:
        jails.leave_limits_only(self)
        with self.assertRaises(CommandError) as caught:
            self.check()
        self.assertIn("SANDBOX_MIN_TIER=D", str(caught.exception))


# Control and trigger differ by who calls, not by what they do.
COUNTED = """\
import sys

    return measure(compute(sys._getframe(1).f_code.co_name == "trigger"))


def det"""

LENGTHS = '''\
# [tool.doesitnan.parameters]
# length = {min = 1, max = 4, default = 1}
# [tool.doesitnan.variants]
# pair = {length = 2}
# long = {length = 3}
# none = {length = 4}
# ///
"""A root."""

from doesitnan import parameter

LENGTH = parameter("length")
'''


@tag("long")
class NewcomerTest(SimpleTestCase):
    """After `make dev`: a torch build, no tables, in processes of their own."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        builds = self.folder / "builds"
        builds.mkdir()
        home = Path(torch_python()).parent.parent
        (builds / "2.13.0-cpu").symlink_to(home.resolve())

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {
            name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ
        }
        environ |= {
            "DATA_DIR": str(self.folder / "data"),
            "BUILDS_DIR": str(self.folder / "builds"),
            "SANDBOX_MIN_TIER": "D",
        }
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env=environ,
            capture_output=True,
            text=True,
        )
        self.assertNotIn("Traceback", done.stderr)
        return done

    def test_commands_without_tables_say_what_to_run(self) -> None:
        for command in ("load_records", "load_evidence"):
            done = self.manage(command)
            (line,) = done.stderr.strip().splitlines()
            self.assertIn("no tables yet. Run first: manage.py migrate", line)
            self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_a_record_is_checked_on_a_real_torch(self) -> None:
        root, logs, log_folder = draft.places(self.folder)
        draft.prepare(self.folder)
        self.manage("new_record", draft.SLUG, root, logs, log_folder)
        draft.fill_in(self.folder, plain=False)
        done = self.manage("check_record", draft.SLUG, root, logs, log_folder)
        self.assertIn(FINE, done.stdout, done.stdout + done.stderr)
        self.assertEqual(done.returncode, 0)
        self.assertIn("the default build of this site: bug_present", done.stdout)
        self.assertIn("workarounds emptied: bug_present / untested", done.stdout)
