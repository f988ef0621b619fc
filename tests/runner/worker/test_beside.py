"""Checks side by side: begun early, looked at in turn, and apart from each other."""

from __future__ import annotations

import tempfile
import threading
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from runner import harness, sandbox
from runner.harness import CheckSpec, Report
from runner.worker.beside import Places, SideBySide
from tests.support import parametrized, runs

LIMIT_S = 60.0  # guards a hang, measures nothing
# What differs between two runs of the same checks.
MEASURED = ("duration_s", "cpu_s", "peak_mib")
# Each leaves a file wherever it may write and says what it finds there.
LEAVES = """\
import os, tempfile
found = []
for folder in (os.environ["HOME"], tempfile.gettempdir(), "/tmp", "/dev/shm"):
    try:
        open(os.path.join(folder, "left-%s"), "w").close()
        found += [n for n in os.listdir(folder) if n.startswith("left-")]
    except OSError:
        continue
return {"nonfinite": %d, "grad": 1.0, "found": " ".join(sorted(set(found)))}
"""


def enough() -> int:
    return 1 << 20


class SideCase(unittest.TestCase):
    """With made-up reports: `show` is asked for each check that starts."""

    def setUp(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        self.cancelled = False
        self.begun: list[str] = []

    def side(self, most: int = 2, free_mib: Any = enough) -> SideBySide:
        side = SideBySide(
            lambda *line: self.lines.append(line),
            lambda: self.cancelled,
            Places(most, free_mib),
        )
        side.start = self.start
        self.made = side
        return side

    def show(self, spec: CheckSpec) -> dict[str, Any]:
        bug = spec.name in ("detector", "trigger", "refuted_hope")
        return {"nonfinite": int(bug), "grad": 1.0}

    def start(self, spec: CheckSpec) -> Report:
        self.begun.append(spec.name)
        self.made.tell(spec.name, "stdout", "begins")
        observations = {} if spec.name == "requirements" else self.show(spec)
        message = {
            "t": "result",
            "check": spec.name,
            "trial": spec.trial,
            "observations": observations,
        }
        hello = runs.hello(harness.source_digest(self.source))
        hello["parameters"] = spec.parameters
        return Report(hello=hello, messages=[message], exit=0)

    source = runs.source()

    def drive(self, side: harness.Start) -> dict[str, Any]:
        return harness.drive(self.source, side, name="repro")


class TurnTest(SideCase):
    def test_two_are_under_way_at_once(self) -> None:
        meeting = threading.Barrier(2, timeout=LIMIT_S)
        pairs = {"control", "detector"}

        def show(spec: CheckSpec) -> dict[str, Any]:
            if spec.name in pairs:
                meeting.wait()
            return SideCase.show(self, spec)

        self.show = show  # type: ignore[method-assign]
        body = self.drive(self.side())
        self.assertEqual((body["verdict"], body["hits"]), ("bug_present", 1))

    def test_evidence_is_what_it_is_one_after_the_other(self) -> None:
        bodies = [self.drive(self.side()), self.drive(self.side(most=1))]
        self.made = SideBySide(None, None)
        bodies.append(self.drive(self.start))
        for body in bodies:
            for check in body["checks"]:
                for name in MEASURED:
                    check.pop(name)
        checks = [body["checks"] for body in bodies]
        self.assertEqual(checks[0], checks[1])
        self.assertEqual(checks[0], checks[2])
        verdicts = {(body["verdict"], body["hits"]) for body in bodies}
        self.assertEqual(verdicts, {("bug_present", 1)})

    def test_each_begins_once_and_its_lines_come_in_its_turn(self) -> None:
        body = self.drive(self.side(most=4))
        names = [check["name"] for check in body["checks"]]
        self.assertEqual(Counter(self.begun), Counter(names))
        self.assertEqual([line[0] for line in self.lines], names)

    def test_no_more_than_there_are_cores(self) -> None:
        under_way: list[str] = []
        seen = []

        def show(spec: CheckSpec) -> dict[str, Any]:
            under_way.append(spec.name)
            seen.append(len(under_way))
            found = SideCase.show(self, spec)
            under_way.remove(spec.name)
            return found

        self.show = show  # type: ignore[method-assign]
        self.drive(self.side(most=1))
        self.assertEqual(set(seen), {1})

    def test_none_is_early_where_memory_might_not_do(self) -> None:
        places = Places(4, lambda: 3000)
        first, second = CheckSpec("control"), CheckSpec("detector", memory_mib=1024)
        places.take(first)
        self.assertFalse(places.take_free(second))
        self.assertTrue(places.take_free(CheckSpec("detector", memory_mib=900)))
        places.leave(first)
        self.assertTrue(places.take_free(second))

    def test_a_free_core_is_one_for_all_runs(self) -> None:
        places = Places(2, enough)
        places.take(CheckSpec("control"))
        places.take(CheckSpec("control"))
        self.assertFalse(places.take_free(CheckSpec("trigger")))
        # Whose turn it is never waits for one.
        places.take(CheckSpec("control"))

    def test_what_may_hide_by_chance_is_alone(self) -> None:
        self.source = runs.source(trials=2)
        self.drive(self.side(most=4))
        order = [name for name, _ in harness.check_order(self.names(), 2)]
        self.assertEqual(self.begun, order)

    def names(self) -> list[str]:
        return harness.read_repro(self.source)[1]


class EndTest(SideCase):
    def until_unwanted(self, spec: CheckSpec) -> None:
        """As a check that waits is ended: its process asks a few times a second."""
        self.waits.set()
        asked = threading.Event()
        for _ in range(int(LIMIT_S / 0.01)):
            if self.made.is_cancelled():
                self.ended.append(spec.name)
                return
            asked.wait(0.01)
        raise AssertionError(f"{spec.name} was not told to end")

    def setUp(self) -> None:
        super().setUp()
        self.waits = threading.Event()
        self.ended: list[str] = []

    def test_one_after_the_end_is_ended_and_not_told(self) -> None:
        def show(spec: CheckSpec) -> dict[str, Any]:
            if spec.name == "control":
                self.waits.wait(LIMIT_S)
                return {"nonfinite": 1, "grad": 1.0}
            self.until_unwanted(spec)
            return {"nonfinite": 1, "grad": 1.0}

        self.show = show  # type: ignore[method-assign]
        body = self.drive(self.side())
        self.assertEqual((body["verdict"], body["reason"]), ("inconclusive", "control"))
        self.assertIn("detector", self.ended)
        self.assertEqual(
            Counter([*self.ended, "requirements", "control"]), Counter(self.begun)
        )
        told = [line[0] for line in self.lines]
        self.assertEqual(told, ["requirements", "control"])
        names = [check["name"] for check in body["checks"]]
        self.assertEqual(names, ["requirements", "control"])

    def test_a_cancelled_run_ends_all(self) -> None:
        def show(spec: CheckSpec) -> dict[str, Any]:
            if spec.name == "control":
                self.waits.wait(LIMIT_S)
                self.cancelled = True
            self.until_unwanted(spec)
            return {}

        self.show = show  # type: ignore[method-assign]
        side = self.side()
        with self.assertRaises(harness.Cancelled):
            harness.drive(self.source, side, cancelled=lambda: self.cancelled)
        self.assertEqual(Counter(self.ended), Counter(["control", "detector"]))
        self.assertEqual(side.places._held_mib, [])


class CellTest(SideCase):
    source = parametrized.source()

    def cells(self, start: harness.Start) -> list[dict[str, Any]]:
        cells = harness.Cells(self.source, start)
        places = [{"length": length} for length in (6, 7)]
        return [cells.at(at) for at in places]

    def test_cells_are_what_they_are_one_after_the_other(self) -> None:
        beside, alone = (self.cells(self.side(most=most)) for most in (4, 1))
        self.assertEqual(beside, alone)
        self.assertEqual({cell["verdict"] for cell in beside}, {"bug_present"})


class ApartTest(SideCase):
    """Two real processes, begun at the same time in the sandbox of this machine."""

    source = runs.source(
        control=LEAVES % ("control", 0),
        detector=LEAVES % ("detector", 1),
        trigger=LEAVES % ("trigger", 1),
    )

    def test_none_finds_what_another_leaves(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        path = folder / "repro.py"
        path.write_text(self.source)
        python = str(runs.stand_in_torch(folder))
        side = self.side()
        held = sandbox.start_in(python, str(path), gpus="", cancelled=side.is_cancelled)
        together = {"control", "detector"}
        meeting = threading.Barrier(2, timeout=LIMIT_S)

        def start(spec: CheckSpec) -> Report:
            if spec.name in together:
                meeting.wait()
            report = held(spec)
            if spec.name in together:
                meeting.wait()
            return report

        side.start = start
        body = harness.drive(self.source, side)
        found = {c["name"]: c["observations"].get("found") for c in body["checks"]}
        for name in ("control", "detector", "trigger"):
            self.assertEqual(found[name], f"left-{name}", body["checks"])
