"""The sweeps of a kit: repros at many values, once the repros themselves have run.

A sweep is an object of the evidence file from its first cell on, and sealed under its
digest with its last one. Every cell is written as soon as it is done, and the next one
follows from those, so a start goes on where another one was ended.
"""

import concurrent.futures
import importlib
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

carried: Any = importlib.import_module("carried")
doctor: Any = importlib.import_module("doctor")
harness: Any = importlib.import_module("portable.harness")
kit_words: Any = importlib.import_module("kit_words")
schedule: Any = importlib.import_module("schedule")
# Of the site, written for Python 3.10, as `node` is, which prepares their imports.
importlib.import_module("node")
sweep_cells: Any = importlib.import_module("runner.sweeps.cells")

# Without a verdict there, a sweep would have none either.
HOPELESS = ("not_applicable", "error", "inconclusive")
# What says that two starts swept the same thing; the rest of a device is its name.
SAME = ("repro", "build", "device", "harness")
Json = Dict[str, Any]


class Sweep:
    """One sweep: `body` is what the evidence file has of it."""

    def __init__(self, repro: Json, axes: List[Json], body: Optional[Json]) -> None:
        self.repro = repro
        self.axes = {
            axis["name"]: {key: axis[key] for key in axis if key != "name"}
            for axis in axes
        }
        self.body: Json = body or {
            "schema": sweep_cells.SCHEMA,
            "record": repro["record"],
            "repro": {"name": repro["name"], "digest": repro["digest"]},
            "axes": axes,
            "cells": [],
        }

    @property
    def name(self) -> str:
        over = " × ".join(self.axes)
        return "%s %s · %s" % (self.repro["record"], self.repro["name"], over)

    @property
    def is_over(self) -> bool:
        """It has all of its cells, or cannot have any here."""
        return "digest" in self.body or "unmet" in self.body

    def next_cell(self) -> Optional[Json]:
        done = {
            tuple(cell["at"][name] for name in self.axes): cell["verdict"]
            for cell in harness.decode(self.body["cells"])
        }
        found: Optional[Json] = sweep_cells.next_cell(self.axes, done)
        return found

    @property
    def most(self) -> int:
        """So many cells at most: looking for a boundary may take fewer."""
        return int(sweep_cells.most_cells(self.axes))

    def begin(self, same: Json) -> Json:
        """`same`: what all cells have alike. Those of something else are given back."""
        if all(self.body.get(key) == same[key] for key in SAME):
            return {}
        before = self.body
        self.body = {**before, **same, "cells": [], "started_at": harness.utc_now()}
        return before if before["cells"] else {}

    def seal(self) -> None:
        kept = {key: self.body[key] for key in (*SAME, "record", "cells", "started_at")}
        self.body = sweep_cells.sealed(kept, axes=self.axes)


# --- which ----------------------------------------
def is_wanted(options: Any) -> bool:
    """By default only what is left of a time that was given: there are hours of it."""
    if options.sweeps is None:
        return options.timeout_s is not None
    return bool(options.sweeps != "no")


def planned(repros: List[Json], bodies: List[Json]) -> List[Sweep]:
    """Every sweep of these repros, with what an earlier start left of it."""
    earlier = {key_of(row["record"], row["repro"], row["axes"]): row for row in bodies}
    return [
        Sweep(repro, axes, earlier.get(key_of(repro["record"], repro, axes)))
        for repro in repros
        for axes in repro["sweeps"]
    ]


def key_of(record: str, repro: Json, axes: List[Json]) -> Tuple[str, ...]:
    return record, repro["name"], repro["digest"], harness.dumps(axes)


def order(sweep: Sweep, verdict: Optional[str]) -> Tuple[Any, ...]:
    """For `sorted`: first where the bug was seen here, then what needs a GPU."""
    return verdict != "bug_present", sweep.repro["device"] == "cpu", sweep.name


# --- doing them -----------------------------------
class Sweeping:
    """Does the cells of several sweeps, some sweeps at a time.

    `repros`: all of the kit; `whole`: what an earlier start left, {} where none.
    """

    def __init__(
        self, repros: List[Json], whole: Json, examination: Any, place: Any
    ) -> None:
        earlier = whole.get("sweeps", [])
        self.sweeps = planned(repros, earlier)
        ours = [sweep.body for sweep in self.sweeps]
        # What is no work here stays in the file: of other sources, of another driver.
        self.kept = [body for body in earlier if not any(body is own for own in ours)]
        self.examination = examination
        self.place = place
        self.words = kit_words.of(examination.options.lang)
        self.waiting: Iterator[Sweep] = iter(())

    def bodies(self) -> List[Json]:
        """For the evidence file: what has a cell, or cannot have one here."""
        bodies = [sweep.body for sweep in self.sweeps]
        found = [body for body in bodies if body["cells"] or "unmet" in body]
        return self.kept + found  # Of two alike a later start goes on with the last.

    def left(self) -> List[Sweep]:
        """Those that are asked for and worth going on with, in order."""
        return self.open() if is_wanted(self.examination.options) else []

    def open(self) -> List[Sweep]:
        examination = self.examination
        asked = list(map(schedule.name_of, examination.repros))
        verdicts = {doctor.name_of(r): r["verdict"] for r in examination.results}
        found = []
        for sweep in self.sweeps:
            name = schedule.name_of(sweep.repro)
            if not sweep.is_over and name in asked:
                found.append((sweep, verdicts.get(name)))
        found = [pair for pair in found if pair[1] not in HOPELESS]
        return [pair[0] for pair in sorted(found, key=lambda pair: order(*pair))]

    def enter(self) -> None:
        """Into the evidence file, with whatever is written of it next."""
        self.examination.extra["sweeps"] = self.bodies()

    def run(self) -> None:
        jobs = self.examination.options.jobs
        self.waiting = iter(self.left())
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            doctor.attend([pool.submit(self.work, job) for job in range(jobs)])

    def work(self, job: int) -> None:
        sweep = self.take()
        while sweep is not None:
            try:
                self.sweep(sweep)
            except harness.Cancelled:
                return  # Over time, or Ctrl-C: the cell at hand is lost.
            sweep = self.take()

    def take(self) -> Optional[Sweep]:
        with self.examination.lock:
            over = self.examination.is_over()
            return None if over else next(self.waiting, None)

    def sweep(self, sweep: Sweep) -> None:
        """Do the cells that are left. Raises Cancelled."""
        cancelled = self.examination.is_over
        uuid = sweep.body.get("device", {}).get("uuid") or ""
        lease, kept = None, 0
        try:
            with self.place.cells(sweep.repro, cancelled, uuid) as (cells, lease):
                if cells.unmet:
                    sweep.body["unmet"] = cells.unmet[1]
                    return
                before = sweep.begin(cells.evidence(sweep.repro["name"]))
                self.kept += [before] if before else []
                kept = len(sweep.body["cells"])
                self.do_cells(sweep, cells)
        finally:
            problem = lease and lease.problem
            if problem:
                # Cells of an unhealthy GPU prove nothing, as with runs.
                del sweep.body["cells"][kept:]
                carried.tell("%s: %s" % (sweep.name, problem.text))
            elif "started_at" in sweep.body and sweep.next_cell() is None:
                sweep.seal()
            self.write()

    def do_cells(self, sweep: Sweep, cells: Any) -> None:
        """Until all are done, or the next one would not end in time."""
        began, did = time.monotonic(), 0
        at = sweep.next_cell()
        while at is not None and self.fits((time.monotonic() - began) / max(did, 1)):
            values = harness.shown_settings(at)
            place = "[%d/%d]" % (len(sweep.body["cells"]) + 1, sweep.most)
            carried.tell("%s %s · %s" % (place, sweep.name, values))
            sweep.body["cells"].append(cells.at(at))
            did += 1
            self.write()
            at = sweep.next_cell()

    def fits(self, cell_s: float) -> bool:
        """Whether a cell that takes so long would still end in time."""
        limit_s = self.examination.options.timeout_s
        spent_s = self.examination.elapsed_s()
        return limit_s is None or bool(spent_s + cell_s <= limit_s)

    def write(self) -> None:
        examination = self.examination
        with examination.lock:
            self.enter()
            text = harness.dumps(examination.whole(), indent=2)
            carried.write(examination.options.json, text)

    def rows(self) -> Iterator[str]:
        """One line for each sweep that was begun."""
        for sweep in self.sweeps:
            verdicts = [cell["verdict"] for cell in sweep.body["cells"]]
            if verdicts:
                text = self.words["swept" if sweep.is_over else "unswept"]
                bug = verdicts.count("bug_present")
                yield text.format(name=sweep.name, cells=len(verdicts), bug=bug)


def plan(sweeping: Sweeping, start_s: float) -> None:
    """Say how many there are, and about how long they take."""
    found = sweeping.open()
    if not found:
        return
    options = sweeping.examination.options
    cells = [sweep.most - len(sweep.body["cells"]) for sweep in found]
    checks = [sweep.repro["cell_checks"] for sweep in found]
    total_s = sum(n * m * start_s for n, m in zip(cells, checks)) / options.jobs
    counted = {"count": len(found), "cells": sum(cells)}
    total = kit_words.period(total_s, options.lang)
    text = sweeping.words["sweeps" if is_wanted(options) else "no_sweeps"]
    carried.say(text.format(total=total, **counted))
