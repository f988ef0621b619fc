"""A process with torch imported that forks one check after the other.

Runs no tensor operation and touches no GPU, so that its children can.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Sequence

from .child import become_check, settle_torch
from .identity import identity, source_text
from .process import children_of, exit_status

PROBE_S = 30.0
# How many threads the parent may start; no check sees these.
PARENT_ENV = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TORCHINDUCTOR_COMPILE_THREADS",
)
# What a backward pass and an optimizer's first step import, 0.3 to 1.2 s each time.
PRELOAD = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch._subclasses.schema_check_mode",
    "torch.utils.checkpoint",
    "torch.utils.data",
    "numpy.random",
)
MESSAGE_BYTES = 256 * 1024


class Unfit(ImportError):
    """This build cannot be the parent of checks; the text says why."""


def import_torch(more: Sequence[str] = ()) -> Any:
    """torch, with what checks commonly import later on and `more`."""
    torch = importlib.import_module("torch")
    with no_gpu(torch):
        for name in (*PRELOAD, *more):
            if name.startswith("torch.") and not hasattr(torch, "compile"):
                continue  # Before 2.0 nothing imports these by itself.
            with contextlib.suppress(Exception):  # This release has no such module.
                importlib.import_module(name)
    return torch


@contextlib.contextmanager
def no_gpu(torch: Any) -> Iterator[None]:
    """Keep imports from asking the CUDA runtime, which would spoil every child.

    Here the answer is known: CUDA_VISIBLE_DEVICES is empty. torch._dynamo of 2.1 asks.
    """
    cuda = getattr(torch, "cuda", None)
    answers: Dict[str, Any] = {"is_available": False, "device_count": 0}
    originals = {name: getattr(cuda, name) for name in answers if hasattr(cuda, name)}
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        originals = {}
    for name in originals:
        setattr(cuda, name, lambda answer=answers[name]: answer)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(cuda, name, function)


# --- fitness --------------------------------------
def check_fitness(torch: Any) -> None:
    """Raise Unfit unless forks of this process work like fresh processes."""
    with no_gpu(torch):  # Since 2.10, cuDNN's version asks for the GPUs.
        identity(torch, None)  # once for all children
    tasks = os.listdir("/proc/self/task")
    if len(tasks) != 1:
        raise Unfit("%d threads run after the imports" % len(tasks))
    if children_of(os.getpid()):
        raise Unfit("the imports started another process")
    pid = os.fork()
    if pid == 0:
        _probe(torch)
    answer = _wait_for(pid, PROBE_S)
    if answer is None:
        raise Unfit("a forked child hangs at its first parallel operation")
    if answer:
        words = {3: "the imports initialised CUDA"}
        raise Unfit(words.get(answer, "a forked child ended with status %d" % answer))


def _probe(torch: Any) -> NoReturn:
    """In a fork: exit with 0 if torch works, 3 if CUDA cannot be used any more."""
    status = 1
    try:
        poisoned = getattr(getattr(torch, "cuda", None), "_is_in_bad_fork", None)
        if poisoned is not None and poisoned():
            status = 3
        elif hasattr(torch, "ones"):
            restore_environment()
            settle_torch(torch)
            x = torch.ones(256, 256)
            status = 0 if float((x @ x).exp().sum()) > 0 else 1
        else:
            status = 0
    finally:
        os._exit(status)


def _wait_for(pid: int, limit_s: float) -> Optional[int]:
    """Exit status of a child, negative for a signal; None, and dead, at the limit."""
    deadline = time.monotonic() + limit_s
    pause_s = 0.001
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return exit_status(status)
        select.select([], [], [], pause_s)
        pause_s = min(pause_s * 2, 0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


# --- children -------------------------------------
def restore_environment() -> None:
    for name in PARENT_ENV:
        os.environ.pop(name, None)


def reseed(torch: Any) -> None:
    """Reseed the generators of torch (CPU) and numpy, as in a fresh process.

    Python reseeds `random` after a fork; generators of devices start with a constant.
    """
    tempfile.tempdir = None
    if hasattr(torch, "default_generator"):
        torch.default_generator.seed()
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def run_parent(argv: Sequence[str]) -> int:
    """`--parent --fd N`: says on that socket {"ready": true} or {"failed": "why"}.

    Then it forks a check for each order, with the descriptors that come with it (its
    standard ones and the channel), and answers {"pid": …} and, once the check and all
    that it began is gone, how it ended.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    owner = socket.socket(fileno=parser.parse_args(argv).fd)
    owner.set_inheritable(False)
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: daemons of a check become ours.
    try:
        torch = import_torch()
        check_fitness(torch)
    except (ImportError, OSError, SyntaxError) as error:
        _say(owner, failed="%s: %s" % (type(error).__name__, error))
        return 1
    gc.collect()
    gc.freeze()
    _say(owner, ready=True)
    while True:
        data, ancillary, _, _ = owner.recvmsg(MESSAGE_BYTES, 256)
        if not data:
            return 0
        descriptors = list(memoryview(ancillary[0][2]).cast("i"))
        pid = os.fork()
        if pid == 0:
            owner.close()
            _become(json.loads(data.decode()), descriptors, torch)
        for number in descriptors:
            os.close(number)
        _say(owner, pid=pid)
        _, status, usage = os.wait4(pid, 0)
        _end_orphans()
        cpu_s = usage.ru_utime + usage.ru_stime
        _say(owner, status=status, cpu_s=cpu_s, peak_mib=usage.ru_maxrss // 1024)


def _say(owner: socket.socket, **message: Any) -> None:
    owner.send(json.dumps(message).encode())


def _end_orphans() -> None:
    """Kill what a check left behind; what that began comes to this process, too."""
    while True:
        left = children_of(os.getpid())
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _become(order: Dict[str, Any], descriptors: List[int], torch: Any) -> NoReturn:
    """In a fork: turn into the check of this order; never returns."""
    try:
        os.setsid()
        for number in range(3):
            os.dup2(descriptors[number], number)
            os.close(descriptors[number])
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        reseed(torch)
        path = order["repro"]
        become_check(descriptors[3], path, source_text(path), *order["check"])
    finally:
        os._exit(1)
