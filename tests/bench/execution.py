"""Cold and warm starts of every installed build on the CPU, in pairs that alternate.

Cold is the same check in a fresh interpreter without any sandbox, warm is a child of
the pool in the strongest sandbox there is; both from the request to the judged report.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from portable import harness
from runner import sandbox
from runner.pool import client, parents, start as pool_start
from runner.pool.keeper import PoolKeeper
from runner.sweeps.axes import read_axes
from runner.sweeps.cells import key_of, next_cell
from tests.bench.figures import Figure, figure, share_of, timed
from tests.support.builds import torch_python
from tests.support.runs import source, stand_in_torch

PAIRS = 5
CELLS = 64
COLD_AMONG = 8
WARM_EACH = 4  # warm ones for each cold one
ISSUES = Path(settings.ISSUES_DIR)
TINY = (
    "import torch\nreturn {'nonfinite': int(torch.ones(8).isnan().sum()), 'grad': 1.0}"
)
BACKWARD = """\
import torch
x = torch.ones(64, 64, requires_grad=True)
(x @ x).backward(torch.ones(64, 64))
return {'nonfinite': int(x.grad.isnan().sum()), 'grad': 1.0}
"""
PRIVATE = """\
import re, torch
x = torch.ones(64, 64, requires_grad=True)
(x @ x).backward(torch.ones(64, 64))
text = open('/proc/self/smaps_rollup').read()
kib = sum(map(int, re.findall(r'Private_(?:Clean|Dirty):\\s+(\\d+)', text)))
return {'nonfinite': 0, 'grad': 1.0, 'private_kib': kib}
"""
FLOOD = """\
import sys
for _ in range(1000):
    sys.stdout.write("x" * 65535 + chr(10))
return {'nonfinite': 0, 'grad': 1.0}
"""
# Its own peak: what wait4() tells counts the largest of its children in, and what
# getrusage() tells begins with that of the process that started it.
SUPERVISE = """\
import re, sys
from runner.sandbox.__main__ import main
main(sys.argv[1:])
status = open("/proc/self/status").read()
print(re.search(r"VmHWM:\\s+(\\d+) kB", status).group(1), file=sys.stderr)
"""
CONTROL = harness.CheckSpec("control", preset={"CUDA_VISIBLE_DEVICES": ""})


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name, pool() as socket_path:
        folder = Path(name)
        folder.chmod(0o755)
        found = [*measure_layers(folder), measure_supervisor(folder)]
        for python in interpreters():
            print(f"execution: {python}", file=sys.stderr)
            found += Build(python, folder, socket_path).figures()
        found += measure_sweep(torch_python(), socket_path)
        return [*found, *measure_compiler(torch_python(), folder, socket_path)]


@contextmanager
def pool() -> Iterator[str]:
    """A pool of the bench's own, with room for every build."""
    with tempfile.TemporaryDirectory() as folder:
        keeper = PoolKeeper(str(Path(folder, "pool.sock")), 16384)
        keeper.ensure()
        try:
            while not client.is_there(keeper.path):
                time.sleep(0.01)
            yield keeper.path
        finally:
            keeper.stop()


def interpreters() -> list[str]:
    """Every Python here that is known to import torch, the default build first."""
    managed = sorted(map(str, Path(settings.BUILDS_DIR).glob("*/bin/python")))
    named = [torch_python(), *map(str, settings.BUILDS), *managed, "/usr/bin/python3"]
    return [python for python in dict.fromkeys(named) if imports_torch(python)]


def imports_torch(python: str) -> bool:
    command = [python, "-c", "import importlib.util as u; u.find_spec('torch').name"]
    try:
        return not subprocess.run(command, capture_output=True).returncode
    except OSError:
        return False


def judged(start: harness.Start, text: str) -> harness.Report:
    """One check from its request to its judged report; it must be clean."""
    header, _ = harness.read_repro(text)
    report = start(CONTROL)
    outcome = harness.examine(header, report, "control")
    if outcome.outcome != "clean":
        raise SystemExit(f"a check of the bench ended as {outcome}: {report.log_text}")
    return report


class Build:
    """The figures of one interpreter."""

    def __init__(self, python: str, folder: Path, socket_path: str) -> None:
        self.python, self.folder, self.socket_path = python, folder, socket_path
        known = harness.probe(python).hello or {}
        self.name = str(known.get("identity", {}).get("slug") or python)

    def starts(self, body: str) -> tuple[harness.Start, harness.Start, str]:
        """Cold without a sandbox, warm with one, and the source of both."""
        text = source(control=body)
        path = Path(tempfile.mkdtemp(dir=self.folder), "repro.py")
        path.write_text(text)
        held = sandbox.start_in(self.python, str(path), gpus="")
        warm = pool_start.WarmStart(self.socket_path, held)
        judged(warm, text)  # starts the parent
        if judged(warm, text).served != "warm":
            print(f"{self.name} is not served warm: {warm.reasons}", file=sys.stderr)
        return harness.start_plain(self.python, str(path)), warm, text

    def figures(self) -> list[Figure]:
        cold, warm = self.pairs(TINY)
        target = ">= 20" if self.name[0] != "1" else ""
        return [
            figure(f"{self.name}: cold check, median", statistics.median(cold), "s"),
            figure(f"{self.name}: warm check, median", median_ms(warm), "ms"),
            *self.ratios("warm check", cold, warm, ">= 50"),
            figure(
                f"{self.name}: p95 of warm / median of cold",
                share_of([w for each in warm for w in each], 0.95)
                / statistics.median(cold),
                "x",
                "<= 0.1",
            ),
            *self.ratios("warm backward", *self.pairs(BACKWARD), target),
            figure(
                f"{self.name}: 16 at once / one cold start",
                self.at_once(16) / statistics.median(cold),
                "x",
                "<= 1",
            ),
            figure(
                f"{self.name}: a child's private memory / its parent's",
                self.private_share(),
                "x",
                "<= 0.15",
            ),
            *self.whole_run(),
        ]

    def pairs(self, body: str) -> tuple[list[float], list[list[float]]]:
        """Seconds of cold checks, and of the warm ones that followed each."""
        cold, warm, text = self.starts(body)
        colds, warms = [], []
        for _ in range(PAIRS):
            colds.append(timed(lambda: judged(cold, text)))
            warms.append([timed(lambda: judged(warm, text)) for _ in range(WARM_EACH)])
        return colds, warms

    def ratios(
        self, what: str, cold: list[float], warm: list[list[float]], target: str
    ) -> list[Figure]:
        """How much faster, pair by pair: against the median warm one of each pair."""
        found = [
            one / statistics.median(each) for one, each in zip(cold, warm, strict=True)
        ]
        return [
            figure(
                f"{self.name}: {what} against cold, median",
                statistics.median(found),
                "x",
                target,
            ),
            figure(f"{self.name}: {what} against cold, minimum", min(found), "x"),
        ]

    def at_once(self, count: int) -> float:
        _, warm, text = self.starts(TINY)
        with ThreadPoolExecutor(count) as threads:
            return timed(
                lambda: list(threads.map(lambda _: judged(warm, text), range(count)))
            )

    def private_share(self) -> float | None:
        _, warm, text = self.starts(PRIVATE)
        told = judged(warm, text).messages[0]["observations"]["private_kib"]
        status = client.status(self.socket_path) or {"parents": []}
        for parent in status["parents"]:
            if parent["interpreter"] == self.python:
                resident = largest_rss_kib(parent["pid"])
                return float(told) / resident if resident else None
        return None

    def whole_run(self) -> list[Figure]:
        """NAN-0002 with all its checks, whose number grows, and one of them."""
        path = ISSUES / "checkpoint-reentrant-lost-grad" / "repro.py"
        held = sandbox.start_in(self.python, str(path), gpus="")
        warm = pool_start.WarmStart(self.socket_path, held)
        evidence = harness.drive(path.read_text(), warm)
        name = f"{self.name}: NAN-0002 warm"
        if evidence["served"] != "warm":
            return [figure(f"{name}, all checks", None, "s")]
        took = timed(lambda: harness.drive(path.read_text(), warm))
        parts = [evidence, *evidence.get("variants", {}).values()]
        count = sum(len(part["checks"]) for part in parts)
        return [
            figure(f"{name}, all {count} checks", took, "s"),
            figure(f"{name}, a check", 1000 * took / count, "ms"),
        ]


def median_ms(warm: list[list[float]]) -> float:
    return 1000 * statistics.median(w for each in warm for w in each)


def largest_rss_kib(pid: int) -> int:
    """Resident memory of a parent, which is below the processes that hold it."""
    found = [0]
    for each in {pid, *parents.kernel.descendants(pid)}:
        try:
            text = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue
        found += map(int, re.findall(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE))
    return max(found)


def measure_layers(folder: Path) -> list[Figure]:
    """What the sandbox adds to a cold start, under a Python whose torch is nothing."""
    python = str(stand_in_torch(folder))
    text = source(control="return {'nonfinite': 0, 'grad': 1.0}")
    path = folder / "repro.py"
    path.write_text(text)
    plain = harness.start_plain(python, str(path))
    held = sandbox.start_in(python, str(path), gpus="")
    judged(held, text)
    added = [
        timed(lambda: judged(held, text)) - timed(lambda: judged(plain, text))
        for _ in range(4 * PAIRS)
    ]
    tier = sandbox.tier().tier
    return [
        figure(
            f"sandbox layers of tier {tier}, added to a cold start, median",
            1000 * statistics.median(added),
            "ms",
            "<= 60",
        )
    ]


def measure_supervisor(folder: Path) -> Figure:
    """The process that drives a run, over one whose checks write 64 KiB lines."""
    text = source(trigger=FLOOD)
    path = folder / "flood.py"
    path.write_text(text)
    python = str(folder / "python")
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISE, str(path), "--python", python],
        env={**os.environ, "DATA_DIR": str(folder)},
        cwd=settings.BASE_DIR,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = done.stderr.splitlines()[-1]
    if not told.isdigit():
        raise SystemExit(f"a run of the bench did not end: {done.stderr[-2000:]}")
    return figure("supervisor of a flood, peak", int(told) / 1024, "MiB", "<= 90")


def measure_sweep(python: str, socket_path: str) -> list[Figure]:
    """64 cells of NAN-0028, each with all its checks, against as many cold starts."""
    path = ISSUES / "std-single-sample-nan" / "repro.py"
    text = path.read_text()
    header, _ = harness.read_repro(text)
    axes = read_axes(header, {"dtype": "*", "size": "1:16:1"})
    held = sandbox.start_in(python, str(path), gpus="")
    warm = pool_start.WarmStart(socket_path, held)
    plain = harness.start_plain(python, str(path))
    spec = harness.check_spec(header, "control")
    judged(warm, text)  # starts the parent
    cells = harness.Cells(text, warm)
    done: dict[tuple[Any, ...], str] = {}
    cold_cells = harness.Cells(text, plain)
    took, colds, cells_cold = [], [], []
    while at := next_cell(axes, done):
        begin = time.perf_counter()
        done[key_of(axes, at)] = cells.at(at)["verdict"]
        took.append(time.perf_counter() - begin)
        # Among the cells, so that a busy machine slows both alike.
        if len(done) % (CELLS // COLD_AMONG) == 0:
            colds.append(timed(lambda: plain(spec)))
            cells_cold.append(timed(lambda values=at: cold_cells.at(values)))
    if set(done.values()) != {"bug_present", "bug_absent"} or len(done) != CELLS:
        raise SystemExit(f"a sweep of the bench ended with {len(done)} cells: {done}")
    share = sum(took) / (CELLS * statistics.median(colds))
    name = f"sweep of {CELLS} cells of NAN-0028"
    return [
        figure(f"{name} / as many cold starts", share, "x", "<= 0.05"),
        figure(
            f"{name} / as many cells of the same checks, each started cold",
            sum(took) / (CELLS * statistics.median(cells_cold)),
            "x",
            "<= 0.05",
        ),
        figure(f"{name}, median of a cell", median_ms([took]), "ms"),
        figure(f"{name}, median of a cold start", statistics.median(colds), "s"),
    ]


def measure_compiler(python: str, folder: Path, socket_path: str) -> list[Figure]:
    """NAN-0007's detector, which compiles, with what is compiled there already."""
    name = "compile repro, warm cache: warm against cold"
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        return [figure(f"{name}, median", None, "x", ">= 3")]
    path = ISSUES / "inductor-bf16-amax-backward-nan" / "repro.py"
    header, _ = harness.read_repro(path.read_text())
    spec = harness.check_spec(header, "trigger")
    held = sandbox.start_in(
        python, str(path), gpus="", compile_cache=str(folder / "inductor")
    )
    warm = pool_start.WarmStart(socket_path, held)

    def outcome(start: harness.Start) -> None:
        report = start(spec)
        if harness.examine(header, report, "trigger").outcome != "bug":
            raise SystemExit(f"NAN-0007 shows no bug: {report.log_text}")

    outcome(held)  # fills the cache
    outcome(warm)
    found = [
        timed(lambda: outcome(held)) / timed(lambda: outcome(warm))
        for _ in range(PAIRS)
    ]
    if warm.reasons:
        print(f"compile repro is not served warm: {warm.reasons}", file=sys.stderr)
    return [
        figure(f"{name}, median", statistics.median(found), "x", ">= 3"),
        figure(f"{name}, minimum", min(found), "x"),
    ]
