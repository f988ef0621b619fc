"""Starts the checks of a repro with what this machine has to hold them.

So far that is tier D: limits, no isolation. `start_in` is the seam where stronger
tiers take its place; whoever drives a repro need not know which it is.

    python -m runner.sandbox REPRO.py [--json] [--python PATH] [--trials N]
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from runner import exits, harness

HARNESS = harness.__file__
CONFINE = str(Path(__file__).with_name("confine.py"))
FILE_MIB = 512
LIMITS: Mapping[str, Any] = {"file_mib": FILE_MIB}
SCRATCH = "doesitnan-run-"
SCRATCH_GRACE_S = 60  # between making and locking a folder
ORDER = "ABCDE"  # strongest first; E is the harness alone


class Tier(NamedTuple):
    """How well runs are held here, why not better, and what would help."""

    tier: str
    reason_en: str
    reason_zh: str
    remedy_en: str
    remedy_zh: str


TIERS = {
    "D": Tier(
        "D",
        "Limits only: time, memory, output and file size are bounded and every process "
        "of the run is killed at its end, but files and network are not closed off.",
        "仅有限额：时间、内存、输出和单个文件的大小受限，运行结束时其全部进程都会被终止；"
        "但文件系统和网络没有隔离。",
        "Only reviewed repros run here. Keep secrets out of reach of the user who runs "
        "the worker.",
        "此处只运行经过审核的复现脚本。请勿让运行执行节点的用户能够读到机密文件。",
    ),
    "E": Tier(
        "E",
        "No sandbox: the harness alone started the checks.",
        "没有沙箱：由 harness 直接启动各项检查。",
        "Run it through the site or manage.py run_repro for a stronger tier.",
        "通过本站或 manage.py run_repro 运行可获得更强的隔离。",
    ),
}


def tier() -> Tier:
    """The tier of this machine."""
    return TIERS["D"]


def reaches(wanted: str) -> bool:
    """Whether this machine holds a repro at least as well as tier `wanted`."""
    return ORDER.index(tier().tier) <= ORDER.index(wanted)


def start_in(
    interpreter: str,
    repro: str,
    *,
    hide_gpus: bool = False,
    compile_cache: str = "",
    on_line: Callable[[str, str, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> harness.Start:
    """A Start for `harness.drive`: each check a fresh process under `interpreter`.

    `repro` is the path of the source that is driven, `on_line(check, stream, text)`
    gets its output as it comes; `cancelled` is asked four times a second.
    `compile_cache`: a folder that the checks share for what Inductor builds.
    """
    repro = os.path.abspath(repro)  # noqa: PTH100  # keeps symbolic links

    def start(spec: harness.CheckSpec) -> harness.Report:
        def tell(stream: str, text: str) -> None:
            if on_line:
                on_line(spec.name, stream, text)

        if not os.access(interpreter, os.X_OK):
            tell("harness", f"{interpreter} is gone")
            return harness.Report(failure="build_missing")
        with scratch_folder() as scratch:
            return harness.supervise(
                confined(harness.child_command(interpreter, HARNESS, repro, spec)),
                spec,
                cwd=scratch,
                env=environment(scratch, spec.env, hide_gpus, compile_cache),
                on_line=tell,
                cancelled=cancelled,
            )

    return start


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder for one check; locked while its owner lives, so that others can tell."""
    folder = tempfile.mkdtemp(prefix=SCRATCH)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned_scratch() -> int:
    """Delete what killed workers of this user left behind; returns how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(SCRATCH + "*"):
        try:
            status = folder.lstat()
            fresh = time.time() - status.st_mtime < SCRATCH_GRACE_S
            if (
                fresh
                or status.st_uid != os.getuid()
                or not stat.S_ISDIR(status.st_mode)
            ):
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        except BlockingIOError:
            continue
        finally:
            os.close(handle)
    return removed


def confined(command: Sequence[str]) -> list[str]:
    """The command behind a process that first gives itself limits."""
    return [sys.executable, "-I", "-S", CONFINE, str(FILE_MIB), *command]


def environment(
    scratch: str, extra: Mapping[str, str], hide_gpus: bool, compile_cache: str
) -> dict[str, str]:
    env = dict(harness.plain_environment(scratch, extra, compile_cache))
    if hide_gpus:
        env["CUDA_VISIBLE_DEVICES"] = ""
    return env


def main(argv: Sequence[str] | None = None) -> int:
    """Run one repro here; the exit codes are those of the harness."""
    parser = argparse.ArgumentParser(prog="python -m runner.sandbox")
    parser.add_argument("repro", metavar="REPRO.py")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    path = Path(options.repro)
    try:
        source = path.read_bytes().decode()
        header, _ = harness.read_repro(source)
        evidence = harness.drive(
            source,
            start_in(options.python, str(path)),
            name=path.stem,
            record=header.record,
            trials=options.trials,
            tier=tier().tier,
            limits=LIMITS,
            on_event=lambda phase, text: print_progress(f"{phase} · {text}"),
        )
    except (OSError, UnicodeDecodeError, harness.ContractError) as error:
        for problem in getattr(error, "errors", [str(error)]):
            print_progress(f"runner.sandbox: {problem}")
        return 2
    lines = harness.sentences(evidence)
    sys.stdout.write(harness.dumps(evidence, 2) if options.json else "\n".join(lines))
    sys.stdout.write("\n")
    return harness.EXIT_CODES[evidence["verdict"]]


def print_progress(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    exits.crash_with_two()
    sys.exit(main())
