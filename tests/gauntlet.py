"""Runs the corpus of hostile programs through the real path; says what was wrong.

    python -m tests.gauntlet [--tier D] [--served warm] [--torch] [NAME ...]

For each program: did it end as the table says, is its evidence sound, and is everything
around it intact.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portable import harness
from runner import sandbox
from runner.pool import client, start as pool_start
from runner.sandbox import tiers
from tests.support import surroundings
from tests.support.hostile import NOT_READ, PROGRAMS, Program
from tests.support.surroundings import Surroundings

# A check is over this long after its limit, on a machine that is busy.
GRACE_S = 20.0
LOG_BYTES = 3 * harness.LOG_KEEP_BYTES
STAND_IN = """\
from types import SimpleNamespace as N
__version__ = "9.9.0+cpu"
version = N(cuda=None, hip=None, git_version="0" * 40)
cuda = N(is_available=lambda: False)
backends = N(cudnn=N(version=lambda: None))
"""


@dataclass(frozen=True)
class Case:
    """One way to serve a check: a tier, by the layers left out, and a start."""

    tier: str
    without: frozenset[str] = frozenset()
    served: str = "cold"

    def __str__(self) -> str:
        left_out = " without " + ", ".join(sorted(self.without)) if self.without else ""
        return f"{self.tier} {self.served}{left_out}"


@dataclass
class Passage:
    """How one program went through."""

    program: Program
    end: str
    seconds: float
    problems: list[str] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)


# Layers left out, so that one machine goes through every tier it can have.
ROADS = (
    "",
    "bubblewrap",
    "cgroup",
    "bubblewrap namespaces cgroup",
    "bubblewrap namespaces landlock seccomp cgroup",
)


def cases(served: str = "cold") -> Iterator[Case]:
    """Every tier and every way into it that this machine has, the strongest first."""
    seen = set()
    for road in ROADS:
        without = frozenset(road.split())
        found = sandbox.capabilities(without)
        if found.layers not in seen:
            yield Case(tiers.letter(found.layers), without, served)
        seen.add(found.layers)


@contextmanager
def light_build() -> Iterator[str]:
    """An interpreter whose torch only says who it is; it starts thirty times faster."""
    with tempfile.TemporaryDirectory(prefix="doesitnan-build-") as folder:
        Path(folder).chmod(0o755)
        command = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", folder]
        subprocess.run(command, check=True)
        (library,) = Path(folder).glob("lib/python*/site-packages")
        (library / "torch.py").write_text(STAND_IN)
        yield f"{folder}/bin/python"


@contextmanager
def warm_pool(here: Surroundings) -> Iterator[str]:
    """The socket of a pool of its own; all it holds is gone afterwards."""
    path = str(here.temporary / "pool.sock")
    # A killed test takes its pool along.
    own = ["--with-parent", str(os.getpid())]
    command = [sys.executable, "-m", "runner.pool", "--socket", path, *own]
    pool = subprocess.Popen(command, cwd=surroundings.ROOT)
    here.pools.append(pool.pid)
    try:
        while client.status(path) is None and pool.poll() is None:
            time.sleep(0.05)
        yield path
    finally:
        pool.terminate()
        pool.wait()
        here.pools.remove(pool.pid)


def instance(program: Program, here: Surroundings, hurry: bool) -> bytes:
    """The source as it is run: told of its targets; `hurry`: with short time limits."""
    source = program.source(here.targets)
    return (
        re.sub(rb"^# timeout_s = 6$", b"# timeout_s = 3", source, flags=re.M)
        if hurry
        else source
    )


def starter(case: Case, python: str, path: Path, pool: str) -> harness.Start:
    cold = sandbox.start_in(python, str(path), gpus="", without=case.without)
    return pool_start.WarmStart(pool, cold) if case.served == "warm" else cold


def drive(
    source: bytes, name: str, case: Case, python: str, pool: str
) -> tuple[dict[str, Any] | None, list[str]]:
    """The evidence of a run as the site makes it, None: not read; why it was cold."""
    with sandbox.scratch_folder() as folder:
        path = Path(folder, name.rpartition("/")[2] + ".py")
        path.write_bytes(source)
        start = starter(case, python, path, pool)
        try:
            text = source.decode()
            found = harness.drive(text, start, name=path.stem, tier=case.tier)
        except (UnicodeDecodeError, harness.ContractError):
            return None, []
        return found, list(getattr(start, "reasons", []))


def end_of(evidence: dict[str, Any] | None) -> str:
    """As the table writes it: of what a repro said itself, only that it did."""
    if evidence is None:
        return NOT_READ
    reason = evidence["reason"] or ""
    return f"{evidence['verdict']} {re.sub('^said:.*', 'said', reason)}".strip()


def send(
    program: Program,
    case: Case,
    python: str,
    here: Surroundings,
    hurry: bool = True,
    pool: str = "",
) -> Passage:
    """One program through one case, with everything that was wrong about it."""
    began = time.monotonic()
    source = instance(program, here, hurry)
    try:
        evidence, reasons = drive(source, program.name, case, python, pool)
    except Exception:  # noqa: BLE001  # whatever a program makes the driver raise
        trace = traceback.format_exc(limit=-3)
        return Passage(program, "raised", time.monotonic() - began, [trace])
    passage = Passage(program, end_of(evidence), time.monotonic() - began)
    passage.evidence = evidence or {}
    wanted = program.may_end(case.tier)
    if passage.end not in wanted:
        passage.problems.append(
            f"ended as {passage.end}, not {' / '.join(sorted(wanted))}"
        )
    if evidence:
        passage.problems += unsound(evidence, program, case, source.decode(), here)
        served = {check["served"] for check in evidence["checks"]}
        # What needs variables, or what a tier does not give, never starts warm.
        must_be_cold = (
            pool_start.ENVIRONMENT in reasons or evidence["reason"] == "refused"
        )
        if served != {case.served} and not must_be_cold:
            passage.problems.append(
                f"served {served}: {'; '.join(sorted(set(reasons)))}"
            )
    return passage


def unsound(
    evidence: dict[str, Any],
    program: Program,
    case: Case,
    source: str,
    here: Surroundings,
) -> Iterator[str]:
    """What is wrong with an evidence object, whatever its verdict."""
    text = json.dumps(evidence, allow_nan=False)
    if json.loads(text) != evidence or harness.encode(evidence) != evidence:
        yield "it does not survive JSON"
    if evidence["digest"] != harness.evidence_digest(json.loads(text)):
        yield "its digest is another"
    if here.secret in text and case.tier != "D":
        yield "it holds a secret"
    for bad in surroundings.unsafe_texts(evidence):
        yield f"it holds a text that is not safe to print: {bad!r}"
    yield from unsound_verdict(evidence, program, case, source)


def unsound_verdict(
    evidence: dict[str, Any], program: Program, case: Case, source: str
) -> Iterator[str]:
    header, names = harness.read_repro(source)
    again = harness.judge(header, evidence["checks"], names)
    if (again.verdict, again.reason) != (evidence["verdict"], evidence["reason"]):
        yield f"judged again it is {again.verdict} {again.reason}"
    if evidence["build"]["raw"] == "9.9.9":  # forgery/another_build
        yield "it names a build that is not there"
    if (evidence["device"]["class"], evidence["tier"]) != (header.device, case.tier):
        yield f"it names {evidence['device']} in tier {evidence['tier']}"
    if program.at and evidence["checks"][-1]["name"] != program.at:
        yield f"it ended at {evidence['checks'][-1]['name']}, not {program.at}"
    for check in evidence["checks"]:
        for problem in unsound_check(check, header):
            yield f"{check['name']}: {problem}"


def unsound_check(check: dict[str, Any], header: harness.Header) -> Iterator[str]:
    limit_s = header.timeout_s
    if check["name"] == "requirements":
        limit_s = max(limit_s, harness.PROBE_TIMEOUT_S)
    if check["duration_s"] > limit_s + GRACE_S:
        yield f"it took {check['duration_s']} s"
    size = len(check["log"]["text"].encode())
    if size > LOG_BYTES:
        yield f"its log has {size} bytes"


def run_all(
    programs: Iterable[Program],
    case: Case,
    python: str,
    here: Surroundings,
    *,
    hurry: bool = True,
    jobs: int = 0,
    pool: str = "",
    tell: Callable[[Passage], None] | None = None,
) -> list[Passage]:
    """Several programs side by side. What they left: `here.leftovers()`, afterwards."""

    def one(program: Program) -> Passage:
        passage = send(program, case, python, here, hurry, pool)
        with lock:
            passage.problems += here.damage(reachable=case.tier == "D")
            if tell:
                tell(passage)
        return passage

    lock = threading.Lock()

    with ThreadPoolExecutor(jobs or (os.cpu_count() or 1) * 2) as threads:
        return list(threads.map(one, programs))


def selected(names: Sequence[str], torch: bool = True) -> list[Program]:
    """Programs whose name begins with one of these; all of them without any."""
    return [
        program
        for program in PROGRAMS
        if (not names or program.name.startswith(tuple(names)))
        and (torch or not program.needs_torch)
    ]


# --- as a program ----------------------------------------
def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def torch_python() -> str:
    # Imports Celery: what needs no torch also runs on a Python that has nothing.
    from tests.support import builds

    return builds.torch_python()


def go_through(
    case: Case, programs: Sequence[Program], options: argparse.Namespace
) -> int:
    """All programs through one case; returns how many were wrong."""

    def tell(passage: Passage) -> None:
        mark = "!!" if passage.problems else "ok"
        name, end = passage.program.name, passage.end
        say(f"{mark} {name:36} {end:28} {passage.seconds:6.2f} s", *passage.problems)
        if options.log and passage.problems and passage.evidence:
            for check in passage.evidence["checks"]:
                say(harness.summary(check)[:1000], check["log"]["text"][-options.log :])

    say(f"== {case}")
    bad = 0
    warm = case.served == "warm"
    with ExitStack() as stack:
        light = stack.enter_context(light_build())
        here = stack.enter_context(surroundings.plant())
        inner = stack.enter_context(ExitStack())
        pool = inner.enter_context(warm_pool(here)) if warm else ""
        for real in (False, True):
            part = [p for p in programs if (p.needs_torch or options.torch) == real]
            if not part:
                continue
            done = run_all(
                part,
                case,
                torch_python() if real else light,
                here,
                hurry=warm or not real,
                jobs=options.jobs,
                pool=pool,
                tell=tell,
            )
            bad += sum(bool(passage.problems) for passage in done)
        left = here.leftovers()
        inner.close()
        for name in left + here.leftovers():
            bad += 1
            say(f"!! left behind: {name}")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gauntlet")
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginning of a name")
    parser.add_argument("--served", choices=("cold", "warm"), default="cold")
    parser.add_argument("--torch", action="store_true", help="a real torch for all")
    parser.add_argument("--light", action="store_true", help="none that needs torch")
    parser.add_argument("--tier", default="", help="only these, as they are headed")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument(
        "--log", type=int, default=0, metavar="N", help="end of the logs of the wrong"
    )
    options = parser.parse_args()
    surroundings.adopt_orphans()
    # Whoever sends hostile programs through knows what this machine is worth.
    sandbox.configure(allow_shared_root=True)
    programs = selected(options.names, torch=not options.light)
    chosen = [c for c in cases(options.served) if str(c).startswith(options.tier)]
    if not programs or not chosen:
        parser.error("there is no such program, or no such tier here")
    bad = sum(go_through(case, programs, options) for case in chosen)
    say(f"{len(programs)} programs, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
