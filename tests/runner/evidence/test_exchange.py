"""Evidence that travels: sent as bytes, trusted in nothing, never ahead of our own."""

from __future__ import annotations

import copy
import json
import subprocess
import tempfile
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.core.management import call_command
from django.template import Context, Template
from django.test import SimpleTestCase, TestCase, tag
from django.utils import timezone, translation

from kb.choices import SHIPPED
from kb.models import Finding, Repro
from portable import harness
from runner.evidence import exchange, executed, store
from runner.evidence.disagreement import disagreements
from runner.evidence.exchange import MAX_BYTES, receive_evidence, validate
from runner.evidence.shape import check_shape
from runner.evidence.store import EvidenceRefused
from runner.models import Evidence
from runner.pages import run_page
from runner.takeaway.doctor import doctor
from runner.takeaway.single_file import single_file
from runner.templatetags import run_panels
from tests.support import loaded, runs

Change = Callable[[dict[str, Any]], object]


def data_of(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


class ReceiveTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.body = runs.make_evidence(self.repro)

    def refused(self, data: bytes, code: str) -> str:
        with self.assertRaises(EvidenceRefused) as caught:
            receive_evidence(data, "somebody")
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        self.assertEqual(Evidence.objects.count() + Finding.objects.count(), 0)
        return str(caught.exception)

    def refused_change(self, change: Change, code: str = "not_evidence") -> str:
        """The refusal of the body after `change`, under a digest that fits."""
        body = copy.deepcopy(self.body)
        change(body)
        return self.refused(data_of(runs.signed(body)), code)

    def test_who_killed_a_check_is_one_of_few_words(self) -> None:
        kill = {"by": "oom", "after_s": 1.5}

        def killed(*kills: Any) -> Change:
            return lambda body: body["checks"][0].update(killed=list(kills))

        for wrong in ("oom", {"by": "oom"}, {**kill, "by": "me"}, {**kill, "x": 1}):
            with self.subTest(wrong):
                self.assertIn("killed", self.refused_change(killed(kill, wrong)))
        killed(kill)(self.body)
        row = receive_evidence(data_of(runs.signed(self.body)), "somebody")
        self.assertEqual(row.body["checks"][0]["killed"], [kill])

    def test_it_is_stored_once_under_the_receiver_s_origin(self) -> None:
        first = receive_evidence(data_of(self.body), "somebody")
        again = receive_evidence(data_of({**self.body, "origin": "site"}), "other")
        self.assertEqual((first.created, again.created), (True, False))
        row = Evidence.objects.get()
        self.assertEqual((row.origin, row.body["origin"]), ("somebody", "somebody"))
        self.assertEqual(row.digest, harness.evidence_digest(row.body))
        self.assertFalse(Finding.objects.exists())

    def test_nobody_can_be_sent_as_this_site(self) -> None:
        for origin in ("site", "repository", "", "A b", "x" * 41):
            with self.assertRaises(ValueError):
                receive_evidence(data_of(self.body), origin)

    def test_what_is_not_json_is_refused(self) -> None:
        whole = data_of(self.body)
        for data in (
            b"",
            b"[]",
            b"null",
            b"{",
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"a": ' + b"9" * 5000 + b"}",
            whole.replace(b'"grad": 1.0', b'"grad": NaN'),
            whole.replace(b'"grad": 1.0', b'"grad": -Infinity'),
            whole.replace(b'"hits": 1', b'"hits": 1, "hits": 1'),
        ):
            with self.subTest(data[:60]):
                self.refused(data, "not_json")

    def test_what_is_too_large_is_refused_before_it_is_read(self) -> None:
        told = self.refused(b" " * (MAX_BYTES + 1), "too_large")
        self.assertIn(str(MAX_BYTES), told)

    def test_a_changed_byte_is_refused(self) -> None:
        self.body["duration_s"] = 99.0
        self.refused(data_of(self.body), "digest")

    def test_a_verdict_its_observations_do_not_give_is_refused(self) -> None:
        def clean_trigger(body: dict[str, Any]) -> None:
            for check in body["checks"]:
                if check["name"] == "trigger":
                    check["observations"]["nonfinite"] = 0

        def trigger_outcome(body: dict[str, Any]) -> None:
            for check in body["checks"]:
                if check["name"] == "trigger":
                    check["outcome"] = "clean"

        changes: tuple[Change, ...] = (
            lambda body: body.update(verdict="bug_absent", is_affected=False),
            lambda body: body.update(hits=0),
            lambda body: body["workarounds"].update(off="does_not_help"),
            clean_trigger,
            trigger_outcome,
            lambda body: body["checks"].pop(),
            lambda body: body["checks"].append(body["checks"][-1]),
            lambda body: body["checks"].reverse(),
            lambda body: body["checks"][1].update(name="no_such"),
            lambda body: body["repro"].update(fidelity="real_kernel"),
            lambda body: body["device"].update({"class": "cuda", "name": None}),
        )
        for number, change in enumerate(changes):
            with self.subTest(number):
                self.refused_change(change, "verdict")

    def test_workarounds_ran_as_often_as_the_trigger_or_once_as_before(self) -> None:
        repro = runs.make_repro(runs.source(trials=3), name="often")
        body = runs.make_evidence(repro)
        trials = [c for c in body["checks"] if c["name"] == "workaround_off"]
        self.assertEqual([check["trial"] for check in trials], [0, 1, 2])
        exchange.check_against(body, repro)
        body["checks"].remove(trials[2])
        with self.assertRaisesMessage(EvidenceRefused, "in their order"):
            exchange.check_against(body, repro)
        body["checks"].remove(trials[1])
        exchange.check_against(body, repro)

    def test_other_shapes_and_types_are_refused_by_name(self) -> None:
        changes: dict[str, Change] = {
            "checks": lambda body: body.update(checks=[]),
            "checks[0]": lambda body: body["checks"].insert(0, 7),
            "checks[1].log": lambda body: body["checks"][1].update(log="text"),
            "checks[1].observations": lambda body: body["checks"][1].update(
                observations={"a": {"b": 1}}
            ),
            "trials": lambda body: body.update(trials=True),
            "build.slug": lambda body: body["build"].update(slug=None),
            "build.packages.numpy": lambda body: body["build"].update(
                packages={"numpy": 2}
            ),
            "workarounds.off": lambda body: body["workarounds"].update(off=1),
            "device.name": lambda body: body["device"].update(name=["x"]),
            "device.extra": lambda body: body["device"].update(extra=1),
            "html": lambda body: body.update(html="<b>"),
            "telemetry": lambda body: body.update(telemetry={"devices": [1]}),
            "limits.timeout_s": lambda body: body.update(limits={}),
        }
        for name, change in changes.items():
            with self.subTest(name):
                self.assertIn(name, self.refused_change(change))

    def test_texts_that_deceive_or_flood_are_refused(self) -> None:
        for text in ("a\u202eb", "\x1b[2J", "a\x00b", "\ufeff", "\r"):
            with self.subTest(repr(text)):
                told = self.refused_change(
                    lambda body, text=text: body["device"].update(name=text)  # type: ignore[misc]
                )
                self.assertNotIn(text, told)
        self.refused_change(lambda body: body["device"].update(name="x" * 2000))
        self.refused_change(lambda body: body["build"].update(git="x" * 200))
        lone = data_of(self.body).replace(b"x86_64", b"\\ud800")
        self.refused(lone, "not_evidence")

    def test_numbers_that_no_page_can_show_are_refused(self) -> None:
        for number in (2**63, 10**400, -(10**30)):
            told = self.refused_change(
                lambda body, number=number: body.update(duration_s=number)  # type: ignore[misc]
            )
            self.assertIn("duration_s", told)

    def test_a_build_is_what_its_version_says(self) -> None:
        told = self.refused_change(lambda body: body["build"].update(slug="2.13.0-cpu"))
        self.assertIn("9.9.0-cpu", told)

    def test_the_future_is_refused(self) -> None:
        ahead = timezone.now() + timedelta(hours=1)
        self.refused_change(
            lambda body: body.update(started_at=ahead.isoformat()), "future"
        )
        self.refused_change(lambda body: body.update(harness=99), "future")

    def test_what_this_site_does_not_have_is_refused(self) -> None:
        self.refused_change(
            lambda body: body.update(record="NAN-0404"), "unknown_record"
        )
        self.refused_change(
            lambda body: body["repro"].update(name="other"), "unknown_repro"
        )

    def test_an_earlier_edition_of_the_repro_is_refused_with_what_to_do(self) -> None:
        runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        told = self.refused(data_of(self.body), "unknown_repro")
        self.assertIn("/api/v1/records/NAN-9001/repro.py", told)

    def test_evidence_becomes_stale_with_the_repro(self) -> None:
        store.add(self.body, SHIPPED)
        runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        store.refresh_staleness(self.repro.record)
        self.assertTrue(Finding.objects.triggers().get().stale)


class DepthTest(SimpleTestCase):
    def test_brackets_count_only_outside_texts(self) -> None:
        levels = harness.DEEPEST_FRAME
        for data, deep in (
            (b"[" * levels + b"]" * levels, False),
            (b"[" * (levels + 1) + b"]" * (levels + 1), True),
            (b'{"a":' * levels + b"1" + b"}" * levels, False),
            (b'{"a":' * (levels + 1) + b"1" + b"}" * (levels + 1), True),
            (b'["' + b"[" * 50 + b'\\"' + b'["]', False),
            (b'[["\\\\"]]', False),
            (b"[" * 9, True),
            # A text without an end, once read again from each of its quotes.
            (b"[" * (levels + 1) + b'"' + b'\\"' * 100_000, True),
        ):
            with self.subTest(data[:60]):
                self.assertEqual(harness.too_deep(data), deep)


@tag("any_database", "long")
class ShippedTest(TestCase):
    """What our own harness and sandbox wrote is evidence to the strict reader, too.

    Of an earlier edition of its repro only the diagnoses may have been others.
    """

    def check(self, data: bytes) -> None:
        body = exchange.read(data)
        name = body["repro"]["name"]
        repro = Repro.objects.get(record=body["record"], name=name)
        if body["repro"]["digest"] == repro.digest:
            validate(data)
            return
        check_shape(body)
        store.check_form(body)
        exchange.check_time(body)
        exchange.check_against(body, repro)
        ran = executed.checks_of(executed.parts_in(body["repro"]))
        rested_on = {part for part in ran if not part.startswith("diagnose_")}
        self.assertLessEqual({"control", "trigger"}, rested_on)
        for part in rested_on:
            self.assertTrue(executed.holds(body["repro"], repro, part), part)

    def test_every_shipped_file_is_valid(self) -> None:
        loaded.shipped()
        paths = sorted(Path(settings.ISSUES_DIR).glob("*/evidence/*.json"))
        self.assertGreaterEqual(len(paths), 20)
        for path in paths:
            with self.subTest(path.name):
                self.check(path.read_bytes())


class StandingTest(TestCase):
    """What is ours by two origins: the newest judged verdict, and disagreements."""

    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.ours = runs.make_evidence(self.repro, bug=True)
        self.theirs = runs.make_evidence(self.repro, bug=False)
        self.theirs["started_at"] = "2026-06-01T00:00:00Z"
        self.theirs = runs.signed(self.theirs)

    def test_origins_that_disagree_are_shown(self) -> None:
        record = self.repro.record
        store.add(self.ours, store.SITE)
        self.assertEqual(disagreements(record), [])
        row = store.add(self.theirs, SHIPPED)
        (found,) = disagreements(record)
        self.assertEqual((found.build, found.device_class), (runs.SLUG, "cpu"))
        self.assertEqual(
            [(side.evidence.origin, str(side.badge)) for side in found.sides],
            [
                ("repository", "✔ PASS · bug not seen (0/1)"),
                ("site", "✖ FAIL · bug reproduced (1/1)"),
            ],
        )
        html = self.rendered(record=record, evidence=row)
        self.assertIn("Suspect the machine", html)
        self.assertIn("✔ PASS · bug not seen (0/1)", html)
        self.assertIn(row.get_absolute_url(), html)

    def rendered(self, **context: Any) -> str:
        page = "{% load run_panels %}{% disagreement_notice record evidence %}"
        with translation.override("en"):
            return Template(page).render(Context(context))

    def test_only_the_newest_of_an_origin_counts(self) -> None:
        store.add(self.ours, store.SITE)
        store.add(self.theirs, SHIPPED)
        again = {**self.ours, "started_at": "2026-07-01T00:00:00Z"}
        store.add(runs.signed(again), SHIPPED)
        self.assertEqual(disagreements(self.repro.record), [])

    def test_other_builds_and_stale_evidence_are_no_disagreement(self) -> None:
        store.add(self.ours, store.SITE)
        other = copy.deepcopy(self.theirs)
        other["build"].update(slug="9.9.1-cpu", raw="9.9.1+cpu")
        store.add(runs.signed(other), SHIPPED)
        self.assertEqual(disagreements(self.repro.record), [])
        store.add(self.theirs, SHIPPED)
        runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        self.assertEqual(disagreements(self.repro.record), [])
        self.assertEqual(self.rendered(record=self.repro.record).strip(), "")

    def test_older_ones_than_the_table_shows_are_shown_too(self) -> None:
        for body, origin in ((self.ours, store.SITE), (self.theirs, SHIPPED)):
            store.add(body, origin)
        with mock.patch.object(run_page, "EVIDENCE_SHOWN", 1):
            shown = run_panels.evidence_table(self.repro.record)
        self.assertEqual(len(shown["disagreements"]), 1)

    def test_models_disagree_about_nothing(self) -> None:
        repro = runs.make_repro(runs.source(fidelity="mechanism_model"))
        store.add(runs.make_evidence(repro, bug=True), store.SITE)
        body = runs.make_evidence(repro, bug=False)
        store.add(body, SHIPPED)
        self.assertEqual(disagreements(repro.record), [])


class CommandTest(TestCase):
    """`load_evidence FILE` of what a user's own machine wrote."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = str(runs.stand_in_torch(self.folder))
        self.repro = runs.make_repro()

    def write(self, text: str, *arguments: str) -> Path:
        """What a file that was taken away writes with --json."""
        program, out = self.folder / "program.py", self.folder / "out.json"
        program.write_text(text, encoding="utf-8")
        subprocess.run(
            [self.python, str(program), "--json", str(out), *arguments],
            capture_output=True,
        )
        return out

    def load(self, *arguments: object) -> str:
        out = StringIO()
        call_command("load_evidence", *arguments, stdout=out, stderr=StringIO())
        return out.getvalue()

    def test_evidence_of_the_single_file_loads(self) -> None:
        path = self.write(single_file(self.repro))
        told = self.load(path, "--origin", "gpu-node-7")
        self.assertIn("1 added, 0 known, 0 refused", told)
        self.assertEqual(Evidence.objects.get().origin, "gpu-node-7")
        self.assertIn("0 added, 1 known", self.load(path))

    def test_the_doctor_s_results_load(self) -> None:
        other = runs.source(trigger="return {'nonfinite': 0, 'grad': 1.0}")
        runs.make_repro(other, "repro_other")
        self.assertIn("2 added, 0 known", self.load(self.write(doctor())))
        self.assertEqual(Evidence.objects.count(), 2)

    def test_what_is_no_evidence_is_refused_by_name(self) -> None:
        path = self.folder / "x.json"
        path.write_text("{}")
        for arguments in ([path], [self.folder / "gone.json"]):
            with self.assertRaises(SystemExit) as caught:
                self.load(*arguments)
            self.assertEqual(caught.exception.code, 1)
