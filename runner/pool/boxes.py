"""The process of a warm parent: what it serves, and its sandbox. Standard library."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from typing import Any, NamedTuple

from portable import harness
from runner.sandbox import box, layout, policy, view
from runner.sandbox.tiers import Layers

LAST_WORD_S = 1.0
KILLS = {signal.SIGKILL, signal.SIGTERM}
# Of a process, and as the outer box tells it of the one that it started.
KILLED = {-number for number in KILLS} | {128 + number for number in KILLS}
# These would start threads at import, which a fork does not copy.
SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Key(NamedTuple):
    """What a parent serves, and its sandbox.

    `compiler`: whether its checks compile. `cache`: their compile cache, or "".
    `namespaces`: bubblewrap, unshare or None. `hidden`: folders that no check sees.
    `seed`: what a build compiles first, to be read (runner.builds.compile_seed), or "".
    `caches`: the folder of the build's compile caches, of which each check gets the one
    that it asks for; "" where `cache` is the only one.
    """

    python: str
    compiler: bool = False
    cache: str = ""
    namespaces: str | None = None
    hidden: tuple[str, ...] = ()
    seed: str = ""
    caches: str = ""


def key_of(request: dict[str, Any]) -> Key:
    """The parent that a request is for. Raises ValueError where it is malformed."""
    namespaces, hidden = request.get("namespaces"), request.get("hidden", [])
    folders = [request.get(name, "") for name in ("cache", "seed", "caches")]
    texts = [request.get("python"), *folders, namespaces or ""]
    if not isinstance(hidden, list) or not all(
        isinstance(text, str) for text in [*texts, *hidden]
    ):
        raise ValueError("a request names its interpreter and what holds it")
    return Key(
        str(request["python"]),
        bool(request.get("compiler")),
        str(request.get("cache", "")),
        namespaces,
        tuple(hidden),
        str(request.get("seed", "")),
        str(request.get("caches", "")),
    )


class ParentBox(NamedTuple):
    """The process of a parent, and the socket whose closing ends all of it."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def end(self) -> None:
        self.control.close()
        box.reap(self.process)

    def was_killed(self) -> bool:
        """Whether somebody ended it, such as the kernel for want of memory.

        Only for one whose end has shown: waits a moment for its status.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(LAST_WORD_S) in KILLED or self.init_says_killed()
        return False

    def init_says_killed(self) -> bool:
        """Whether a signal ended the Python of the parent itself, not what holds it."""
        status = box.last_packet(self.control, LAST_WORD_S).get("status")
        return status is not None and os.waitstatus_to_exitcode(status) in KILLED


def start_box(key: Key, descriptor: int, stderr: int, *, bare: bool) -> ParentBox:
    """Start the process of a parent in its sandbox. Raises NotStarted."""
    inside = key.namespaces is not None
    layers = Layers(namespaces=key.namespaces)
    try:
        entries = view.build_view(
            layout.layout_of(key.python),
            hidden=key.hidden,
            compile_cache=key.cache,
            users=policy.users(),
        )
    except OSError as error:
        # Part of this build is not readable.
        raise box.NotStarted(str(error)) from error
    folder = view.INSIDE_JAIL if inside else str(view.JAIL)
    harness_path = view.INSIDE_HARNESS if inside else str(view.HARNESS)
    command = [key.python, f"{folder}/zygote.py", "--harness", harness_path]
    command += ["--compiler"] * key.compiler + ["--bare"] * bare
    if key.caches:
        entries += view.caches_entries(key.caches)
    if key.seed:
        entries += view.seed_entries(key.seed)
        command += ["--seed", view.INSIDE_SEED if inside else key.seed]
    command += ["--fd", str(descriptor)]
    started = box.start(
        policy.parent_policy(layers, entries),
        command,
        entries,
        env=environment_of(key),
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        given=box.Given([descriptor]),
    )
    return ParentBox(started.process, started.control)


def environment_of(key: Key) -> dict[str, str]:
    inside = key.namespaces is not None
    has_cache = bool(key.cache or key.caches)
    cache = view.INSIDE_CACHE if has_cache and inside else key.cache
    # These start threads later, but read their number when torch is imported.
    threads = dict.fromkeys(THREAD_COUNTS, str(harness.wanted_threads()))
    env = policy.environment(
        view.SCRATCH, SINGLE_THREADED | threads, compile_cache=cache, gpus=""
    )
    if not inside:
        del env["TMPDIR"]  # each child has one elsewhere
    return env
