"""`python repro.py --bisect-releases 2.3..2.8`: with which release a bug came or went.

Each release gets an environment of its own, one after the other, that is removed once
it was asked. Exit status: 0 found, 2 else.
"""

import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

carried: Any = importlib.import_module("carried")
environments: Any = importlib.import_module("environments")
harness: Any = importlib.import_module("portable.harness")
search: Any = importlib.import_module("runner.bisecting.search")

SCHEMA = "doesitnan.bisect/1"
RELEASE = re.compile(r"\d+(?:\.\d+)*$")
FOUND, TROUBLE = 0, 2
ENDS = {
    "good": ("no bug in %s, bug in %s", "最后一个无缺陷的是 %s，第一个有缺陷的是 %s"),
    "bad": ("bug in %s, no bug in %s", "最后一个有缺陷的是 %s，第一个无缺陷的是 %s"),
}
Json = Dict[str, Any]


class Refused(Exception):
    """What was asked for cannot be done; the text says what to do."""


def is_in(release: str, low: str, high: str) -> bool:
    """2.8 as the higher end means all of 2.8."""
    mine, last = environments.numbers(release), environments.numbers(high)
    return bool(mine >= environments.numbers(low) and mine[: len(last)] <= last)


def ends_of(text: str) -> Tuple[str, str]:
    low, dots, high = text.partition("..")
    if not (dots and RELEASE.match(low) and RELEASE.match(high)):
        raise Refused("--bisect-releases takes two releases, such as 2.3..2.8")
    if environments.numbers(low) > environments.numbers(high):
        raise Refused("--bisect-releases: name the older release first")
    return low, high


def chosen(ends: Tuple[str, str], releases: List[str]) -> List[str]:
    found = [release for release in releases if is_in(release, *ends)]
    if len(found) < 2:
        raise Refused(
            "between %s and %s are %d releases with a wheel for this Python: %s"
            % (*ends, len(found), ", ".join(releases[-20:]) or "none")
        )
    return found


class Bisection:
    """`rows`: what each release that was asked showed, in the order of asking."""

    def __init__(self, folder: str, repro: Json, options: Any, maker: Any) -> None:
        self.folder = folder
        self.repro = repro
        self.options = options
        self.maker = maker
        source = carried.source_of(folder, repro)
        self.header = harness.parse_header(source)
        least = search.TRIALS_WHERE_UNCERTAIN
        self.trials = options.trials or max(self.header.trials or 1, least)
        self.rows: List[Json] = []
        self.builds: List[str] = []

    @property
    def answers(self) -> Dict[str, str]:
        return {row["release"]: row["answer"] for row in self.rows}

    # --- before anything is downloaded ----------------------------------------------
    def begin(self, builds: List[str]) -> None:
        """Say what is coming and ask for it. Raises Refused."""
        self.builds = builds
        self.remember()
        left = [release for release in builds if release not in self.answers]
        if left:
            carried.tell(self.plan(search.most_questions(len(builds)) + 2))
            self.prepare(left[-1])
            self.permit()

    def plan(self, most: int) -> str:
        return (
            "%d releases from %s to %s. At most %d of them are installed where each "
            "answers, one at a time, by pip in %s"
        ) % (
            len(self.builds),
            self.builds[0],
            self.builds[-1],
            min(most, len(self.builds)),
            self.maker.folder,
        )

    def permit(self) -> None:
        if self.options.yes:
            return
        if not sys.stdin.isatty():
            raise Refused("Nothing was downloaded. Add --yes to allow it.")
        carried.tell("Go on? 继续？[y/N]")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused("Nothing was downloaded.")

    def prepare(self, release: str) -> None:
        """An empty environment, and how large it will be. Raises Failed."""
        self.maker.make_empty(release)
        mib = self.maker.size_mib(release, self.wanted(release))
        size = "%d MiB of wheels" % mib if mib else "size unknown"
        free = self.maker.free_mib()
        carried.tell("torch %s: %s; %d MiB are free" % (release, size, free))
        self.maker.require_space(mib)

    def wanted(self, release: str) -> List[str]:
        found: List[str] = environments.requirements(release, self.header.dependencies)
        return found

    # --- one release ----------------------------------------------------------------
    def ask(self, release: str) -> str:
        """Install, run, remove; a release that cannot be installed is unknown."""
        row: Json = {"release": release, "answer": search.UNKNOWN, "verdict": None}
        row.update(hits=None, trials=None, note="", evidence=None)
        try:
            if not os.path.exists(self.maker.python_of(release)):
                self.prepare(release)
            self.maker.fill(release, self.wanted(release))
            self.examine(release, row)
        except environments.Failed as error:
            row["note"] = "%s" % error
            carried.tell("%s: not asked: %s" % (release, error))
        finally:
            if not self.options.keep:
                self.maker.remove(release)
        self.rows.append(row)
        self.write(None)
        answer: str = row["answer"]
        return answer

    def examine(self, release: str, row: Json) -> None:
        evidence = carried.run(
            self.folder,
            self.repro,
            self.maker.python_of(release),
            self.trials,
            harness.read_settings(self.header, self.options.set),
            on_event=lambda phase, text: carried.tell("  %s · %s" % (phase, text)),
        )
        verdict, trials = evidence["verdict"], evidence["trials"] or 0
        answer = search.answer_of(verdict, trials, uncertain=self.is_uncertain())
        row.update(answer=answer, verdict=verdict, evidence=evidence)
        row.update(hits=evidence["hits"], trials=evidence["trials"])
        row["note"] = evidence["reason"] or ""
        carried.tell("%s: %s" % (release, harness.sentences(evidence)[0]))

    def is_uncertain(self) -> bool:
        judged = [row for row in self.rows if row["hits"] is not None]
        seen = [(row["hits"], row["trials"]) for row in judged]
        return bool((self.header.trials or 1) > 1 or search.is_uncertain(seen))

    # --- all of them ----------------------------------------------------------------
    def run(self) -> Tuple[Optional[Any], str]:
        """The turn, and what the older end is; None where both ends are alike."""
        low, first = self.end(range(len(self.builds)))
        high, last = self.end(range(len(self.builds) - 1, low, -1))
        if search.UNKNOWN in (first, last) or first == last:
            return None, first
        several = self.builds[low : high + 1]
        return search.search(several, first, self.ask, self.answers), first

    def end(self, places: Any) -> Tuple[int, str]:
        """The first of these that answers."""
        at = 0
        for at in places:
            release = self.builds[at]
            answer = self.answers.get(release) or self.ask(release)
            if answer != search.UNKNOWN:
                return at, answer
        return at, search.UNKNOWN

    # --- what is kept and told ------------------------------------------------------
    def whole(self, found: Optional[Json]) -> Json:
        return {
            "schema": SCHEMA,
            "record": self.repro["record"],
            "repro": self.repro["digest"],
            "parameters": harness.read_settings(self.header, self.options.set),
            "builds": self.builds,
            "asked": self.rows,
            "found": found,
        }

    def write(self, found: Optional[Json]) -> None:
        """Whole or not at all: what ran outlives whatever ends this."""
        if self.options.json not in (None, "-"):
            text = harness.dumps(self.whole(found), indent=2)
            carried.write(self.options.json, text)

    def remember(self) -> None:
        """The verdicts that an earlier start of the same wrote."""
        path = self.options.json
        if path in (None, "-") or not os.path.exists(path):
            return
        try:
            with open(path, encoding="utf-8") as file:
                before = json.load(file)
        except ValueError as error:
            raise Refused("%s is no JSON: name another file" % path) from error
        if not isinstance(before, dict) or before.get("schema") != SCHEMA:
            raise Refused("%s holds something else: name another file" % path)
        mine = self.whole(None)
        if any(before.get(key) != mine[key] for key in ("repro", "parameters")):
            raise Refused("%s is of another repro or other values: name another" % path)
        rows = [row for row in before["asked"] if row["answer"] != search.UNKNOWN]
        self.rows = [row for row in rows if row["release"] in self.builds]


def table(rows: List[Json]) -> List[str]:
    lines = []
    for row in sorted(rows, key=lambda row: environments.numbers(row["release"])):
        counted = "" if row["hits"] is None else "%(hits)d/%(trials)d" % row
        columns = (row["release"], row["answer"], row["verdict"] or "-", counted)
        line = "%-8s %-8s %-15s %-6s" % columns
        lines.append((line + " " + row["note"]).rstrip())
    return lines


def tell(bisection: Bisection, turn: Optional[Any], first: str) -> int:
    found = None
    if turn:
        found = {"kind": "first_bad" if first == search.GOOD else "first_good"}
        found.update(before=turn.before, after=turn.after, unknown=turn.unknown)
    bisection.write(found)
    if bisection.options.json == "-":
        carried.say(harness.dumps(bisection.whole(found), indent=2))
        return FOUND if turn else TROUBLE
    for line in table(bisection.rows):
        carried.say(line)
    if not turn:
        carried.say("No change found: both ends have the same result, or none.")
        carried.say("没有转折：两端结果相同，或者都没有结果。")
        return TROUBLE
    for words in ENDS[first]:
        carried.say(words % (turn.before, turn.after))
    if turn.unknown:
        listed = ", ".join(turn.unknown)
        carried.say("no result between them / 其间没有结果：%s" % listed)
    return FOUND


def ended(number: int, frame: Any) -> None:
    """As Ctrl-C does: what was installed is removed."""
    raise KeyboardInterrupt


def bisect(folder: str, repro: Json, options: Any) -> int:
    """Raises OSError and ContractError."""
    try:
        ends = ends_of(options.bisect_releases)
    except Refused as error:
        carried.tell("%s" % error)
        return TROUBLE
    signal.signal(signal.SIGTERM, ended)
    place = tempfile.mkdtemp(prefix="doesitnan-bisect-")
    try:
        maker = environments.Maker(place, options.python)
        bisection = Bisection(folder, repro, options, maker)
        bisection.begin(chosen(ends, maker.releases()))
        turn, first = bisection.run()
        return tell(bisection, turn, first)
    except (Refused, environments.Failed) as error:
        carried.tell("%s" % error)
        return TROUBLE
    finally:
        shutil.rmtree(os.path.join(place, environments.ASKING), ignore_errors=True)
        if options.keep and os.listdir(place):
            carried.tell("kept: %s" % place)
        else:
            shutil.rmtree(place, ignore_errors=True)
