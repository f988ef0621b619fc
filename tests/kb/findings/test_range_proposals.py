"""Documented ranges as runs would have them: only as far as runs reach."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from kb.findings.range_proposals import Events, is_orderable, propose
from kb.findings.results import Cell
from kb.models import Finding, Record
from kb.records.toml_writer import literal
from tests.support import runs

FROM_THE_START: Events = [{"introduced": "0"}]


def cell(
    release: str, answer: str, *, device: str = "cpu", hits: int = 1, trials: int = 1
) -> Cell:
    """`answer`: b, g, or n where it cannot apply."""
    verdicts = {"b": "bug_present", "g": "bug_absent", "n": "not_applicable"}
    return Cell(
        build=f"{release}-cpu",
        build_raw=f"{release}+cpu",
        device_class=device,
        verdict=verdicts[answer],
        reason="",
        hits=hits if answer == "b" else 0,
        trials=trials,
        fidelity="upstream_bug",
        evidence="",
        observed_at=timezone.now(),
    )


class ProposalTest(SimpleTestCase):
    def after(self, events: Events, text: str, *known: str) -> Events:
        """`text`: such as "2.4.1 g, 2.5.1 b"."""
        pairs = [pair.split() for pair in text.split(", ")]
        cells = [cell(release, answer) for release, answer in pairs]
        return propose(events, cells, known).after

    def test_a_range_begins_after_the_last_release_that_was_clean(self) -> None:
        found = self.after(FROM_THE_START, "2.3.1 g, 2.4.1 g, 2.5.1 b")
        # 2.5.0 was not run, so it stays as documented.
        self.assertEqual(found, [{"introduced": "2.5.0"}])
        found = self.after(FROM_THE_START, "2.5.0 g, 2.5.1 b")
        self.assertEqual(found, [{"introduced": "2.5.1"}])
        found = self.after(FROM_THE_START, "1.13.1 g, 2.0.1 b")
        self.assertEqual(found, [{"introduced": "2.0.0"}])

    def test_it_ends_with_the_first_release_that_was_clean(self) -> None:
        events: Events = [{"introduced": "2.4.0"}, {"fixed": "2.9.0"}]
        found = self.after(events, "2.4.1 b, 2.5.1 b, 2.7.1 g, 2.8.0 g")
        self.assertEqual(found, [{"introduced": "2.4.0"}, {"fixed": "2.7.1"}])

    def test_a_bug_beyond_the_range_widens_it(self) -> None:
        events: Events = [{"introduced": "2.4.0"}, {"fixed": "2.6.0"}]
        found = self.after(events, "2.3.1 b, 2.4.1 b, 2.6.0 b, 2.7.1 g")
        self.assertEqual(found, [{"introduced": "2.3.1"}, {"fixed": "2.7.0"}])

    def test_what_agrees_or_says_nothing_changes_nothing(self) -> None:
        events: Events = [{"introduced": "2.4.0"}, {"last_affected": "2.5.1"}]
        for text in ("2.3.1 g, 2.4.1 b, 2.5.1 b, 2.6.0 g", "2.4.1 g", "2.4.1 n"):
            self.assertEqual(self.after(events, text), events, text)
        late = self.after(events, "2.4.1 g, 2.5.0 b, 2.5.1 b, 2.6.0 g")
        self.assertEqual(late, [{"introduced": "2.5.0"}, {"last_affected": "2.5.1"}])

    def test_another_device_and_too_few_trials_do_not_clear_a_release(self) -> None:
        events = FROM_THE_START
        on_gpu = [cell("2.5.1", "b", device="cuda"), cell("2.5.1", "b")]
        found = propose(events, [*on_gpu, cell("2.6.0", "g")], [])
        self.assertEqual(found.after, events)
        rare = [cell("2.5.1", "b", trials=5), cell("2.6.0", "g", trials=2)]
        self.assertEqual(propose(events, rare, []).after, events)
        enough = [rare[0], cell("2.6.0", "g", trials=3)]
        ended = [{"introduced": "0"}, {"fixed": "2.6.0"}]
        self.assertEqual(propose(events, enough, []).after, ended)

    def test_commits_have_no_order(self) -> None:
        self.assertFalse(is_orderable([{"introduced": "0123abcd"}]))


class CommandTest(TestCase):
    def test_a_diff_that_applies_and_nothing_is_edited(self) -> None:
        record = runs.make_record()
        entry = {"package": "torch", "events": FROM_THE_START, "source": "s"}
        Record.objects.filter(pk=record.pk).update(affected=[entry])
        for release, verdict in (("2.4.1", "bug_absent"), ("2.5.1", "bug_present")):
            Finding.objects.create(
                record=record,
                repro="repro",
                fidelity="upstream_bug",
                build=f"{release}-cpu",
                build_raw=f"{release}+cpu",
                device_class="cpu",
                check_name="trigger",
                verdict=verdict,
                hits=1,
                trials=1,
                origin="site",
                observed_at=timezone.now(),
            )
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = folder / record.slug / "issue.toml"
        path.parent.mkdir()
        path.write_text(f"[[affected]]\nevents = {literal(FROM_THE_START)}\n")
        before = path.read_text()
        out = io.StringIO()
        with override_settings(ISSUES_DIR=folder):
            call_command("ranges", "nan-9001", "--json", stdout=out)
        (row,) = json.loads(out.getvalue())
        self.assertEqual(row["contradicting"], {"2.4.1": False})
        self.assertIn('-events = [{introduced = "0"}]\n', row["diff"])
        self.assertIn('+events = [{introduced = "2.5.0"}]\n', row["diff"])
        self.assertEqual(path.read_text(), before)
        with self.assertRaises(CommandError):
            call_command("ranges", "NAN-0000")
