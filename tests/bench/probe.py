"""What nan_probe costs, which causes it names, what becomes of calls that it keeps."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from django.conf import settings

from portable import harness
from runner.builds.pins import default_build
from tests import TESTS
from tests.bench.figures import Figure, figure, table
from tests.support.builds import torch_python
from tests.support.probes import MADE, PORTABLE, pythons

COST = TESTS / "probe" / "cost.py"
ISSUES = Path(settings.BASE_DIR) / "fixtures" / "issues"
CAUSES = COST.with_name("all_causes.py")
TRIGGERS, VERDICTS = COST.with_name("triggers.py"), COST.with_name("verdicts.py")
# So many numbers a shrunk call may have.
SMALL = 8
PACKAGES = {"trainer": "transformers", "underflow": "transformers"}
PACKAGES["lightning"] = "lightning"
KINDS = {"plain": 10, "step": 12, "trainer": 12, "lightning": 12}
OTHERS = {
    "anomaly": "torch's anomaly mode",
    "debug_mode": "torch's DebugMode, its log read by a program",
    "underflow": "transformers' DebugUnderflowOverflow",
}
OVERHEADS = {
    "default": ("each step checked", "<= 1.05"),
    "each": ("every step op by op", "<= 1.5"),
    **{name: (said, "") for name, said in OTHERS.items()},
}
# Of GRIST's programs with torch, by their number: the op that makes the first NaN or
# Inf, and a word of its line.
LOG = ("aten.log", "torch.log(")
NUMBERS = "5 23 26 27 32 33 34 37 38 46 47 53 54 56 57"
GRIST = {
    **dict.fromkeys(NUMBERS.split(), LOG),
    **{"4": ("aten.log", "logvar.log()"), "13": ("aten.log", "src.log()")},
    # Its loss leaves the logarithm of 0 out, and the gradient does not.
    "12": ("LogBackward0", "torch.log("),
    **dict.fromkeys(("22", "51", "62", "63"), ("aten.exp", "exp(")),
}
UNKNOWN, LOGGED = "no law is known for this op", "NAN-0081"
Said = dict[str, Any]


def figures() -> list[Figure]:
    """Each row is printed as it comes, for all of them take half an hour."""
    python, found = torch_python(), []
    costs = (row for one in pythons() for row in of_torch(one))
    parts = (of_causes, of_others, of_triggers, of_grist)
    for row in chain(costs, *(part(python) for part in parts)):
        print(table([row], "probe").splitlines()[-1], file=sys.stderr, flush=True)
        found.append(row)
    return found


def lacks(python: str, kind: str) -> bool:
    """Says what is not installed, and how one gets it."""
    package = PACKAGES.get(kind)
    if not package or ask(python, "-c", f"import {package}").returncode == 0:
        return False
    how = f"{python} -m pip install {package}"
    print(f"probe: {kind}: not measured without {package}: {how}", file=sys.stderr)
    return True


def of_causes(python: str) -> Iterator[Figure]:
    """How many of twelve causes that come once are named, op and line."""
    for kind, wanted in KINDS.items():
        name = f"12 causes that come once, {kind}: op and line"
        if lacks(python, kind):
            yield figure(name, None, "", f">= {wanted}")
            continue
        done = ask(python, str(CAUSES), str(PORTABLE), kind)
        if done.returncode != 0:
            print(f"probe: {kind}: {last_line(done.stderr)}", file=sys.stderr)
            continue
        found = json.loads(done.stdout)
        missed = [cause for cause in found if not is_named(cause, found[cause])]
        print(f"probe: {kind}: missed {missed}", file=sys.stderr)
        yield figure(name, len(found) - len(missed), "", f">= {wanted}")


def of_others(python: str) -> Iterator[Figure]:
    """The same causes in the plain loop under what others offer."""
    for tool, said in OTHERS.items():
        if lacks(python, tool):
            continue
        done = ask(python, str(CAUSES.with_name("others.py")), tool)
        if done.returncode != 0:
            print(f"probe: {tool}: {last_line(done.stderr)}", file=sys.stderr)
            continue
        found = json.loads(done.stdout)
        named = [one for one in found if is_read(one, found[one])]
        print(f"probe: {tool}: named {named}", file=sys.stderr)
        name = f"12 causes that come once, {said}: op and line"
        yield figure(name, len(named), "")


def is_read(cause: str, said: str) -> bool:
    """As generous as can be: both stand somewhere in what the tool says."""
    op, line = MADE[cause]
    node = op.removeprefix("read by ").removeprefix("aten.").strip("_").title()
    # DebugMode names the kernel inside of a node, with the line of its forward.
    inner = "aten.div" if "Backward" in op else op
    names = (op, inner, f"Function '{node}Backward")
    return line in said and any(one in said.replace("::", ".") for one in names)


def is_named(cause: str, report: str) -> bool:
    op, line = MADE[cause]
    lines = report.splitlines()
    return any("  op:" in one and op in one for one in lines) and any(
        "  line:" in one and line in one for one in lines
    )


def of_triggers(python: str) -> list[Figure]:
    """What becomes of the triggers of records, as programs that nobody knows."""
    with tempfile.TemporaryDirectory() as folder:
        paths = list(repros())
        each = two_at_once(lambda path: captured(python, folder, path), paths)
        found = {path.parent.name: one for path, one in zip(paths, each, strict=True)}
        made = {
            slug: said for slug, said in found.items() if said.get("value") == "nan"
        }
        small = [
            slug for slug, said in made.items() if (said["numbers"] or 99) <= SMALL
        ]
        known = [slug for slug, said in made.items() if is_known(slug, said)]
        wrong = [
            slug
            for slug, said in made.items()
            if said["same"] not in ([], [record_of(slug)])
        ]
        equal = equal_ones({slug: made[slug]["folder"] for slug in small})
    for said, these in (
        ("made by no eager op", found.keys() - made),
        (f"not shrunk to {SMALL} numbers", made.keys() - set(small)),
        ("neither record nor law first", made.keys() - set(known)),
        (
            "another verdict than the record's",
            set(small) - set(small if equal is None else equal),
        ),
    ):
        told = {slug: found[slug].get("why") or found[slug]["made"] for slug in these}
        print(f"probe: {said}: {told}", file=sys.stderr)
    shares = (
        (f"of them, shrunk to {SMALL} numbers", small, made),
        ("of them, record or law first", known, made),
        ("of the shrunk, verdict as the record's here and on two others", equal, small),
    )
    return [
        figure("triggers in which an eager op makes a NaN", len(made), ""),
        *(
            figure(name, None if part is None else percent(part, whole), "%", ">= 90")
            for name, part, whole in shares
        ),
        figure("of them, another record claimed", len(wrong), "", "== 0"),
    ]


def is_known(slug: str, said: Said) -> bool:
    """By its slice the record, or of its law among others, and none claimed."""
    mine = record_of(slug)
    return said["same"] == [mine] or (not said["same"] and mine in said["alike"])


@cache
def record_of(slug: str) -> str:
    text = (ISSUES / slug / "repro.py").read_text()
    return str(harness.parse_header(text).record)


def percent(part: Sized, whole: Sized) -> float:
    return 100 * len(part) / len(whole)


def equal_ones(captures: dict[str, str]) -> list[str] | None:
    """Whose capture says what the record's evidence says, on builds of here; None where
    fewer than three of them have evidence."""
    words = {1: "bug_present", 0: "bug_absent", 125: "not_applicable"}
    seen: dict[str, dict[str, bool]] = {slug: {} for slug in captures}
    for python in sorted(Path(settings.BUILDS_DIR).glob("*/bin/python")):
        done = ask(str(python), str(VERDICTS), str(PORTABLE), *captures.values())
        if done.returncode != 0:
            print(f"probe: {python}: {last_line(done.stderr)}", file=sys.stderr)
            continue
        found = json.loads(done.stdout)
        build = found["torch"].replace("+", "-")
        for slug, status in zip(captures, found["said"], strict=True):
            path = ISSUES / slug / "evidence" / f"repro-{build}.json"
            if path.exists():
                expected = json.loads(path.read_text())["verdict"]
                seen[slug][build] = words.get(status) == expected
    for slug, builds in seen.items():
        print(f"probe: {slug}: {builds}", file=sys.stderr)
    own = default_build().slug
    if len({build for by in seen.values() for build in by}) < 3:
        return None
    return [one for one, by in seen.items() if by.get(own) and sum(by.values()) > 2]


def of_grist(python: str) -> list[Figure]:
    """GRIST's programs, of a checkout at $GRIST; nothing of them is kept here."""
    folder = os.environ.get("GRIST", "")
    if not Path(folder, "scripts", "study_case").is_dir():
        print("probe: GRIST is not at hand: GRIST=<its checkout>", file=sys.stderr)
        folder = ""
    named = known = 0
    program = (python, str(COST.with_name("grist.py")), str(PORTABLE), folder)
    numbers = list(GRIST) if folder else []
    ended = two_at_once(lambda number: ask(*program, number), numbers)
    for number, done in zip(numbers, ended, strict=True):
        expected = GRIST[number]
        report = json.loads(done.stdout)["report"] if done.returncode == 0 else ""
        said = rows_of(report)
        both = zip(expected, (said.get("op", ""), said.get("line", "")), strict=True)
        is_right = all(word in row for word, row in both)
        # Theirs is a law; of records one, where a probability is what is logged.
        is_theirs = said.get("known", LOGGED)[:8] == LOGGED
        is_first = said.get("law", UNKNOWN) != UNKNOWN and is_theirs
        named, known = named + is_right, known + is_first
        if not (is_right and is_first):
            why = last_line(done.stderr) if not report else said
            print(f"probe: GRIST {number}: {why}", file=sys.stderr)
    return [
        figure(
            f"GRIST's {len(GRIST)} programs: {said}", value if folder else None, "", w
        )
        for said, value, w in (
            ("op and line", named, f">= {len(GRIST)}"),
            ("their law or record first, no other claimed", known, ">= 20"),
        )
    ]


def rows_of(report: str) -> dict[str, str]:
    lines = [line.strip() for line in report.splitlines() if line.startswith("  ")]
    return dict(line.split(": ", 1) for line in lines)


def repros() -> Iterator[Path]:
    """Of what is not finite, on the CPU, with nothing but torch."""
    for path in sorted(ISSUES.glob("*/repro.py")):
        header = harness.parse_header(source := path.read_text())
        names = [re.split(r"[<>=~ ]", one)[0] for one in header.dependencies]
        is_nan = re.search("nan|finite", str(header.bug), re.IGNORECASE)
        is_nan = is_nan or re.search(r"is(finite|nan|inf)\(", source)
        if is_nan and header.device == "cpu" and names == ["torch"]:
            yield path


def captured(python: str, folder: str, path: Path) -> Said:
    command = (str(TRIGGERS), str(PORTABLE), folder, str(path))
    done = ask(python, *command)
    if done.returncode != 0:
        return {"made": last_line(done.stderr)}
    said: Said = json.loads(done.stdout)
    if said.get("folder"):
        capture = json.loads(Path(said["folder"], "capture.json").read_text())
        said["numbers"] = capture["shrunk"]["to"]
    return {"numbers": None, **said}


def two_at_once(work: Callable[[Any], Any], these: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(work, these))


def ask(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    more = {"OMP_NUM_THREADS": "1", **more}  # small models wait for threads
    return subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=os.environ | more
    )


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it died"])[-1]


def of_torch(python: str) -> list[Figure]:
    print(f"probe: {python}", file=sys.stderr)
    done = subprocess.run(
        [python, str(COST), str(PORTABLE)],
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    found = json.loads(done.stdout)
    return [
        row
        for size, times in found["sizes"].items()
        for row in of_size(f"step of a {size} transformer, {found['torch']}", times)
    ]


def of_size(name: str, found: dict[str, list[list[float]]]) -> list[Figure]:
    blocks = {kind: [sum(block) for block in rows] for kind, rows in found.items()}
    off = blocks.pop("off")
    small = "small" in name
    step = statistics.median(off) / len(found["off"][0])
    rows = [figure(f"{name}: without the probe", 1000 * step, "ms")]
    for kind, times in blocks.items():
        said, wanted = OVERHEADS[kind]
        wanted = wanted if small else ""
        rows.append(figure(f"{name}: {said}", ratio(times, off), "x", wanted))
    return rows


def ratio(these: list[float], those: list[float]) -> float:
    """The median of pairs that ran one after the other."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))
