"""The warm parent of one torch build: imports torch once, forks a child for each check.

    BUILD_PYTHON zygote.py --fd N --harness PATH [--compiler] [--seed DIR] [--bare]

Runs no tensor operation and touches no GPU, so that its children can. `--fd` is a
SOCK_SEQPACKET socket to the pool. It says {"ready": …} or {"failed": "why"} once; then
each {"fork": …} that comes, with the descriptors [control, request], becomes a child
that is ready for one request. `--bare`: torch alone, nothing preloaded beside it.

Standard library and torch only, syntax of Python 3.8: it runs under the build's Python.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import os
import shutil
import signal
import socket
import sys
import tempfile
import types
from typing import Any, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

import confine  # noqa: E402
import init  # noqa: E402
import kernel  # noqa: E402
import namespaces  # noqa: E402
import seccomp  # noqa: E402
import wire  # noqa: E402

# What torch.compile imports at its first use.
PRELOAD_COMPILER = (
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.cpu_vec_isa",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.post_grad",
    "torch._inductor.fx_passes.pad_mm",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.repro.after_dynamo",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch.distributed.tensor.experimental._attention",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "torch.utils.cpp_extension",
)
SAMPLE = """\
# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "x > 0.5"
# match = {y = 1e-6}
# ///
"""
MADV_COLLAPSE = 25  # Linux 6.1
HUGE = 2 * 1024 * 1024


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--harness", required=True)
    parser.add_argument("--compiler", action="store_true")
    parser.add_argument("--seed", default="")
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args(argv)
    if "TMPDIR" in os.environ:  # Some look where it is when they are imported.
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)
    pool = socket.socket(fileno=options.fd)
    pool.set_inheritable(False)
    kernel.die_with_parent()
    try:
        harness = load_harness(options.harness)
        torch = load_torch(harness, options.compiler, options.bare, options.seed)
        ready = stamp(torch)
        harness.check_fitness(torch)
        warm_caches(harness)
    except (ImportError, OSError, SyntaxError) as error:
        wire.send(pool, {"failed": "%s: %s" % (type(error).__name__, error)})
        return 1
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError):
        merge_pages()
    # The kernel reaps: the exit status of the forks below is not used.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    wire.send(pool, {"ready": ready})
    return serve(pool, harness, torch)


def load_harness(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(
        "harness", os.path.join(path, "__init__.py"), submodule_search_locations=[path]
    )
    if spec is None or spec.loader is None:
        raise ImportError("no harness at %s" % path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["harness"] = module
    spec.loader.exec_module(module)
    return module


def main_of(harness: Any) -> types.ModuleType:
    """What a cold child has as __main__; a worker that it spawns starts from there."""
    main = types.ModuleType("__main__")
    main.__file__ = os.path.join(os.path.dirname(harness.__file__), "__main__.py")
    return main


def load_torch(harness: Any, compiler: bool, bare: bool, seed: str) -> Any:
    """Import torch and, unless `bare`, what checks commonly import later on."""
    # The siblings of this file are no library; their names must not hide one.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    if bare:
        return importlib.import_module("torch")
    torch = harness.import_torch(PRELOAD_COMPILER * compiler)
    if compiler:
        with harness.no_gpu(torch):
            probe_vector_isa(seed)
    return torch


def probe_vector_isa(seed: str) -> None:
    """Let Inductor probe which vector ISAs processor and compiler support.

    It starts a compiler and a Python that imports torch, about a second each time; what
    `seed` has compiled already is loaded only.
    """
    name = "TORCHINDUCTOR_CACHE_DIR"
    previous = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        # Not into the folder of the checks: that is another user's.
        os.environ[name] = os.path.join(folder, "inductor")
        if seed:
            small = shutil.ignore_patterns("precompiled_headers")
            with contextlib.suppress(OSError):
                shutil.copytree(seed, os.environ[name], ignore=small)
        with contextlib.suppress(Exception):  # No compiler, or an older release.
            importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()
    os.environ.pop(name)
    if previous is not None:
        os.environ[name] = previous


def merge_pages() -> None:
    """Collapse the memory of this process into huge pages, where the kernel can.

    A child copies and frees one entry for each 2 MiB then, not 512: fork and exit take
    a quarter of the time. What a child writes is still copied by small pages.
    """
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    for fields in lines:
        if "w" in fields[1] and (len(fields) < 6 or fields[5] == "[heap]"):
            begin, end = (int(text, 16) for text in fields[0].split("-"))
            begin, end = -(-begin // HUGE) * HUGE, end // HUGE * HUGE
            if begin < end:
                # Best effort: the result does not matter.
                kernel.libc.madvise(
                    ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_COLLAPSE
                )


def warm_caches(harness: Any) -> None:
    """Warm caches for all children: compiled patterns and the seccomp filters."""
    harness.parse_header(SAMPLE)
    with contextlib.suppress(OSError):  # The check will say so, where it needs one.
        for level in seccomp.LEVELS:
            seccomp.program(level)


def stamp(torch: Any) -> Dict[str, Any]:
    """torch's version and files with their mtimes; a change makes this parent stale."""
    place = os.path.dirname(os.path.abspath(torch.__file__))
    names = (os.path.join(place, name) for name in ("version.py", "__init__.py"))
    files = {name: os.stat(name).st_mtime_ns for name in names if os.path.exists(name)}
    return {"torch": str(torch.__version__), "files": files}


# --- children ------------------------------------------------------------------


def serve(pool: socket.socket, harness: Any, torch: Any) -> int:
    """Fork a child for each order of the pool, until it closes."""
    while True:
        message = wire.receive(pool)
        if message is None:
            return 0
        order, descriptors = message
        own = os.getpid()
        try:
            fork(pool, order["fork"]["fresh"], descriptors, harness, torch)
        except OSError as error:
            init.say(descriptors[0], {"status": None, "error": str(error)})
            if os.getpid() != own:
                os._exit(1)
        wire.close_all(descriptors)


def fork(
    pool: socket.socket,
    fresh: Optional[Dict[str, int]],
    descriptors: List[int],
    harness: Any,
    torch: Any,
) -> None:
    """A child, with namespaces of its own, that waits for one request.

    Raises OSError, in the parent or in the child; else only the parent returns.
    """
    pid = os.fork() if fresh is None else namespaces.fork_fresh()
    if pid:
        return
    pool.close()
    control, request = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if fresh is not None:
        namespaces.furnish(**fresh)
    check = Check(request, harness, torch)
    init.run(check.prepare, check.run, control, alone=fresh is not None)


class Check:
    """The process of one check, from its fork to its end."""

    def __init__(self, request: int, harness: Any, torch: Any) -> None:
        self.request = request
        self.harness = harness
        self.torch = torch
        self.order: Dict[str, Any] = {}
        self.channel = -1
        self.path = ""

    def prepare(self) -> None:
        """Set up, receive the request, and confine the process."""
        self.harness.restore_environment()
        self.harness.reseed(self.torch)
        sys.modules["__main__"] = main_of(self.harness)
        with socket.socket(fileno=self.request) as stream:
            message = wire.receive_stream(stream)
        if message is None:
            os._exit(0)  # The pool dropped this spare.
        self.order, descriptors = message
        for number in range(3):
            os.dup2(descriptors[number], number)
            os.close(descriptors[number])
        self.channel, cgroups = descriptors[3], descriptors[4:]
        policy = self.order["policy"]
        os.environ.update(self.order["env"])
        self.path = os.path.join(policy["scratch"], self.order["name"] + ".py")
        if self.order.get("cache"):
            namespaces.show_one(**self.order["cache"])
        confine.make_folders(policy)
        confine.write_source(self.path, self.order["source"].encode("utf-8"))
        os.chdir(policy["scratch"])
        confine.apply(policy, cgroups)

    def run(self) -> None:
        source, check = self.order["source"], self.order["check"]
        self.harness.become_check(self.channel, self.path, source, *check)


if __name__ == "__main__":
    sys.exit(main())
