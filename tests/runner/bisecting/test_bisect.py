"""Bisecting over builds: few questions, nothing guessed, what ran is kept."""

from __future__ import annotations

import io
import json
import math
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, tag

from kb.models import Finding, Repro
from runner.bisecting import search as bisect, span
from runner.bisecting.subject import subject_of
from runner.builds import index, install
from runner.builds.probe import BuildError
from runner.evidence import store
from runner.models import Evidence, Installation
from tests.support import loaded, runs
from tests.support.findings import stored

TURNS_BAD = """
import torch
return {"nonfinite": int(torch.__version__ >= "9.3"), "grad": 1.0}
"""


def questions(
    builds: list[str], first: str, told: dict[str, str]
) -> tuple[bisect.Turn, list[str]]:
    """What is found where each build answers so, and which were asked."""
    asked: list[str] = []

    def ask(build: str) -> str:
        asked.append(build)
        return told[build]

    return bisect.search(builds, first, ask), asked


class SearchTest(SimpleTestCase):
    def search(self, answers: str, first: str = "good") -> tuple[bisect.Turn, int]:
        """`answers`: g, b or ? of each build."""
        words = {"g": "good", "b": "bad", "?": "unknown"}
        told = {str(at): words[answer] for at, answer in enumerate(answers)}
        turn, asked = questions(list(told), first, told)
        return turn, len(asked)

    def test_every_place_is_found_with_few_questions(self) -> None:
        for size in range(2, 40):
            for at in range(1, size):
                turn, asked = self.search("g" * at + "b" * (size - at))
                self.assertEqual((turn.before, turn.after), (str(at - 1), str(at)))
                # The two ends are no part of the search.
                self.assertLessEqual(asked - 2, math.log2(size) + 1)

    def test_unknown_is_not_good(self) -> None:
        turn, _asked = self.search("gg??bb")
        self.assertEqual((turn.before, turn.after), ("1", "4"))
        self.assertEqual(turn.unknown, ["2", "3"])
        turn, _asked = self.search("?gg?b?")
        self.assertEqual((turn.before, turn.after, turn.unknown), ("2", "4", ["3"]))

    def test_a_fix_is_found_alike(self) -> None:
        turn, _asked = self.search("bbbgg", first="bad")
        self.assertEqual((turn.before, turn.after), ("2", "3"))

    def test_an_end_that_answers_otherwise_ends_it(self) -> None:
        with self.assertRaises(bisect.Contradicted):
            self.search("bbb")

    def test_what_is_known_narrows_before_anything_is_asked(self) -> None:
        builds = [str(at) for at in range(40)]
        known = {"0": "good", "17": "good", "20": "bad", "39": "bad"}
        asked: list[str] = []

        def ask(build: str) -> str:
            asked.append(build)
            return "good"

        turn = bisect.search(builds, "good", ask, known)
        self.assertEqual((turn.before, turn.after), ("19", "20"))
        self.assertEqual(asked, ["19"])
        self.assertGreaterEqual(bisect.most_questions(20 - 17 + 1), len(asked))

    def test_a_known_build_stands_for_an_end_that_is_otherwise(self) -> None:
        builds, known = list("abcde"), {"a": "good", "c": "bad", "e": "good"}
        turn = bisect.search(builds, "good", lambda build: "bad", known)
        self.assertEqual((turn.before, turn.after), ("a", "b"))
        self.assertEqual(turn.instead, {"e": "c"})
        with self.assertRaises(bisect.Contradicted):  # both ends are otherwise
            bisect.follow(builds, "bad", {"a": "good", "c": "bad", "e": "bad"})

    def test_a_bug_that_happens_sometimes_is_asked_more_often(self) -> None:
        self.assertEqual(bisect.trials_of(1, [(1, 1), (0, 1)]), 1)
        self.assertEqual(bisect.trials_of(1, [(1, 3)]), 3)
        self.assertEqual(bisect.trials_of(20, [(1, 3)]), 20)
        once = bisect.answer_of("bug_absent", 1, uncertain=True)
        self.assertEqual(once, "unknown")
        self.assertEqual(bisect.answer_of("bug_absent", 3, uncertain=True), "good")
        self.assertEqual(bisect.answer_of("bug_present", 1, uncertain=True), "bad")
        self.assertEqual(bisect.answer_of("error", 1, uncertain=False), "unknown")


class CommandCase(TestCase):
    def run_command(self, *args: str) -> Any:
        out = io.StringIO()
        call_command("bisect", *args, "--json", stdout=out, stderr=io.StringIO())
        return json.loads(out.getvalue())

    def refusal(self, *args: str) -> str:
        with self.assertRaises(CommandError) as caught:
            self.run_command(*args)
        self.assertEqual(caught.exception.returncode, 2)
        return str(caught.exception)


class EvidenceTest(CommandCase):
    """By the shipped evidence, on a machine without any of its builds."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def test_what_the_evidence_says(self) -> None:
        rows = {
            ("NAN-0009", "2.4.1", "2.5.1"): ("2.4.1-cu121", "2.5.1-cu124"),
            # In 2.5 only: 2.6.0 is not bad any more.
            ("NAN-0009", "2.4.1", "2.6.0"): ("2.4.1-cu121", "2.5.1-cu124"),
            ("NAN-0009", "2.15.0", "2.5.1"): ("2.5.1-cu124", "2.6.0-cu124"),
            ("NAN-0041", "2.15.0", "2.4.1"): ("2.6.0-cu124", "2.7.1-cu126"),
        }
        for (record, good, bad), expected in rows.items():
            with self.subTest(record=record, good=good, bad=bad):
                found = self.run_command(record, "--good", good, "--bad", bad)
                self.assertEqual((found["before"], found["after"]), expected)
                self.assertTrue(
                    all(step["how"] == "evidence" for step in found["steps"])
                )

    def test_few_builds_are_asked_where_none_is_known(self) -> None:
        """Each answers as the evidence says, but only once it is asked."""
        rows = {
            ("NAN-0009", "2.4.1", "2.5.1"): ("2.4.1-cu121", "2.5.1-cu124"),
            ("NAN-0009", "2.15.0", "2.5.1"): ("2.5.1-cu124", "2.6.0-cu124"),
            ("NAN-0041", "2.15.0", "2.4.1"): ("2.6.0-cu124", "2.7.1-cu126"),
        }
        for (record, *ends), expected in rows.items():
            repro = Repro.objects.get(record=record, name="repro")
            known = subject_of(repro, repro.device)
            between = span.between(known, known.candidates(()), *ends)
            told = known.answers(between.builds, ())
            turn, asked = questions(between.builds, between.first, told)
            with self.subTest(record=record, ends=ends, asked=asked):
                self.assertEqual((turn.before, turn.after), expected)
                # The two ends are no part of the search.
                most = math.log2(len(between.builds)) + 1
                self.assertLessEqual(len(asked) - 2, most)
                self.assertEqual(len(asked), len(set(asked)))

    def test_builds_where_it_cannot_apply_are_told(self) -> None:
        found = self.run_command("NAN-0041", "--good", "2.1.2", "--bad", "2.6.0")
        self.assertEqual(found["unknown"], ["2.2.2-cu121", "2.3.1-cu121"])
        self.assertEqual(found["steps"][0]["answer"], "unknown")
        out = io.StringIO()
        call_command(
            *("bisect", "NAN-0041", "--good", "2.1.2", "--bad", "2.6.0"),
            stdout=out,
            stderr=io.StringIO(),
        )
        self.assertIn("2.1.2-cu121 has no result here", out.getvalue())

    def test_refusals(self) -> None:
        ends = ("--good", "2.4.1", "--bad", "2.6.0")
        after = ("--good", "2.6.0", "--bad", "2.8.0")
        self.assertIn("is good, not bad", self.refusal("NAN-0009", *after))
        self.assertIn("name both", self.refusal("NAN-0009", "--remove", *ends))
        self.assertIn("no repro", self.refusal("NAN-0999", *ends))
        self.assertIn(
            "is a model", self.refusal("NAN-0053", "--repro", "repro_model", *ends)
        )
        said = self.refusal("NAN-0009", "--good", "2.4.1", "--bad", "9.9")
        self.assertIn("2.5.1-cu124", said)


@tag("any_database")
class RunTest(CommandCase):
    """Builds without evidence are run here, and what they show is kept."""

    def setUp(self) -> None:
        text = runs.source(trigger=TURNS_BAD)
        self.repro = runs.make_repro(text)
        for at in range(1, 6):
            folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
            python = runs.stand_in_torch(folder, f"9.{at}.0+cpu")
            runs.make_build(f"9.{at}.0-cpu", f"9.{at}.0+cpu")
            runs.install(python, slug=f"9.{at}.0-cpu")

    def test_it_runs_what_nobody_ran_and_keeps_it(self) -> None:
        ends = ("NAN-9001", "--good", "9.1.0", "--bad", "9.5.0")
        found = self.run_command(*ends)
        self.assertEqual((found["before"], found["after"]), ("9.2.0-cpu", "9.3.0-cpu"))
        ran = [step["build"] for step in found["steps"] if step["how"] == "run"]
        self.assertEqual(ran, ["9.1.0-cpu", "9.5.0-cpu", "9.3.0-cpu", "9.2.0-cpu"])
        kept = Evidence.objects.filter(record="NAN-9001", origin=store.SITE)
        self.assertEqual(kept.count(), len(ran))
        self.assertEqual(Finding.objects.triggers().count(), len(ran))
        again = self.run_command(*ends)
        self.assertTrue(all(step["how"] == "evidence" for step in again["steps"]))
        self.assertEqual(kept.count(), len(ran))

    def test_another_torch_by_now_answers_for_no_build(self) -> None:
        later = Installation.objects.get(build="9.4.0-cpu")
        later.delete()
        moved = Installation.objects.filter(build="9.2.0-cpu")
        moved.update(interpreter=later.interpreter)
        found = self.run_command("NAN-9001", "--good", "9.1.0", "--bad", "9.5.0")
        self.assertEqual((found["before"], found["after"]), ("9.1.0-cpu", "9.3.0-cpu"))
        self.assertFalse(Finding.objects.filter(build_raw="9.2.0+cpu").exists())


@tag("any_database")
class InstallTest(CommandCase):
    """Releases that are not here, one by one, and only those that are asked."""

    def setUp(self) -> None:
        self.repro = runs.make_repro(runs.source(trigger=TURNS_BAD))
        for release, verdict in (("9.1.0", "bug_absent"), ("9.5.0", "bug_present")):
            stored(self.repro.record, f"{release}+cpu", verdict)
        releases = ["9.1.0", "9.2.0", "9.3.0", "9.4.0", "9.5.0"]
        self.enterContext(mock.patch.object(index, "releases", lambda: releases))
        self.enterContext(mock.patch.object(install, "add_release", self.add))
        self.added: list[str] = []

    def add(self, release: str, with_: list[str], progress: Any) -> Installation:
        """As pip would: 9.2.0 has no wheel, and a slug is known only afterwards."""
        self.added.append(release)
        if release == "9.2.0":
            raise BuildError("No matching distribution found")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        python = runs.stand_in_torch(folder, f"{release}+cpu")
        runs.make_build(f"{release}-cpu", f"{release}+cpu")
        return runs.install(python, slug=f"{release}-cpu")

    def test_what_is_not_here_is_installed_where_it_is_asked(self) -> None:
        ends = ("NAN-9001", "--good", "9.1.0", "--bad", "9.5.0")
        found = self.run_command(*ends, "--install", "--remove")
        self.assertEqual((found["before"], found["after"]), ("9.1.0-cpu", "9.3.0-cpu"))
        self.assertEqual(found["unknown"], ["9.2.0"])
        self.assertEqual(self.added, ["9.3.0", "9.2.0"])
        self.assertEqual(Evidence.objects.get().build_id, "9.3.0-cpu")
        self.assertFalse(Installation.objects.exists())
        # Without the word nothing is installed, and evidence alone answers.
        again = self.run_command(*ends)
        self.assertEqual((again["before"], again["after"]), ("9.1.0-cpu", "9.3.0-cpu"))
        self.assertEqual(len(self.added), 2)
