"""Captures made, cut off and run: python capturing.py FOLDER prints JSON.

FOLDER is where nan_probe lies. Nothing but torch; the syntax of 3.8.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import signal
import sys
import tempfile

import torch

sys.path.insert(0, sys.argv[1])
from nan_probe import captures, reports, shrinking
from nan_probe.calls import Run, decoded, encoded
from nan_probe.drafting import repro_of
from nan_probe.explaining import explained, ways
from nan_probe.session import Session
from triggers import births_of

F = "torch.nn.functional."
INF = math.inf
MOMENTS = 40


def runs():
    """Calls of real sizes -> law, class and numbers that remain."""
    torch.manual_seed(0)
    x = torch.rand(8, 16) + 0.5
    x[3, 4] = 0
    masked = torch.randn(4, 6, 6)
    masked[2, 3] = -INF
    labels = torch.full((8,), -100)
    return {
        "log": Run("torch.log", [x]),
        "division": Run("torch.Tensor.__truediv__", [x, x]),
        "softmax": Run("torch.softmax", [masked, -1]),
        "root": Run("torch.sqrt", [x], None, torch.rand(8, 16)),
        "power": Run("torch.Tensor.pow", [x, 0.3], None, torch.rand(8, 16)),
        "exp": Run("torch.exp", [(x * 20).to(torch.float32) * 8]),
        "labels": Run(F + "cross_entropy", [torch.randn(8, 5), labels]),
        "sum": Run("torch.Tensor.sum", [torch.full((9, 9), 2e38)]),
        "product": Run(
            F + "linear",
            [torch.full((4, 300), 16.0).half(), torch.full((2, 300), 16.0).half()],
        ),
        "constant": Run("torch.Tensor.mul", [x, INF]),
        "other log": Run("torch.log1p", [-2 * x - 1]),
        "several": Run("torch.linalg.svd", [torch.eye(3)], None, torch.ones(3, 3)),
        "variance": Run("torch.var_mean", [torch.ones(1)]),
        "cast": Run("torch.Tensor.half", [torch.full((8,), 70000.0)]),
        "arc": Run("torch.acos", [torch.ones(8)], None, torch.ones(8)),
    }


def shrunk():
    found = {}
    for name, run in runs().items():
        small = shrinking.Shrinker(run).shrunk()
        told = {"reference": ways(small).get("reference"), **explained(small)}
        told["lines"] = len(repro_of(small).splitlines())
        told["exit"] = exit_of(repro_of(small))
        found[name] = {"numbers": small.numbers(), **told}
    return found


def exit_of(source):
    """Of the program as it is written beside a capture, with names of its own."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(source, {})
    except SystemExit as end:
        return end.code


def made(folder, name="log"):
    small = shrinking.Shrinker(runs()[name]).shrunk()
    call = {"aten": ["torch.log", []], "direction": "forward"}
    return captures.written(captures.capture_of(small, call), folder)


def handed_on():
    """What F.softmax hands on to modes, of which one writes only `dim`."""
    kwargs = {"dim": -1, "_stacklevel": 3, "dtype": None}
    call = {"function": F + "softmax", "args": [], "kwargs": kwargs}
    return next(captures.candidates({**call, "direction": "forward"})).kwargs


def killed():
    """What is taken for a capture after a process was killed while it wrote one, and
    how many moments there were in which the capture was not yet complete."""
    small = shrinking.Shrinker(runs()["log"]).shrunk()
    capture = captures.capture_of(
        small, {"aten": ["torch.log", []], "direction": "forward"}
    )
    lines = counted(capture, 10**9)
    whole = empty = 0
    for moment in range(MOMENTS):
        with tempfile.TemporaryDirectory() as folder:
            counted(capture, 1 + moment * lines // (MOMENTS - 1), folder)
            there = [one for one in os.listdir(folder) if not one.startswith(".")]
            for one in there:
                captures.read(os.path.join(folder, one))
                assert os.path.isfile(os.path.join(folder, one, "repro.py"))
            whole, empty = whole + bool(there), empty + (not there)
    return {"lines": lines, "whole": whole, "empty": empty}


def counted(capture, last, folder=None):
    """Lines that writing it takes; a child is killed before it runs line `last`."""
    seen = [0]

    def trace(frame, event, argument):
        seen[0] += event == "line"
        if seen[0] >= last:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    if folder is None:
        with tempfile.TemporaryDirectory() as own:
            sys.settrace(trace)
            captures.written(capture, own)
            sys.settrace(None)
        return seen[0]
    child = os.fork()
    if child == 0:
        sys.settrace(trace)
        captures.written(capture, folder)
        os._exit(0)
    os.waitpid(child, 0)
    return None


def cut_off():
    """Of a file that was cut off at 40 places: how often it was taken for one."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(made(folder), "capture.json")
        with open(path) as file:
            text = file.read()
        taken = 0
        for moment in range(MOMENTS):
            with open(path, "w") as file:
                file.write(text[: moment * len(text.rstrip()) // MOMENTS])
            try:
                captures.read(path)
                taken += 1
            except captures.Refused:
                pass
    return taken


def sliced():
    """What is said of one failure in programs of two sizes, and of two others."""

    def root(size):
        x = torch.rand(size, 3, requires_grad=True)
        ((x - x.detach()) ** 2).sum(-1).sqrt().sum().backward()

    def log():
        x = torch.rand(2, 3, requires_grad=True)
        (
            torch.softmax(x * 0 + torch.tensor([0.0, 200, 0]), -1).log() * x
        ).sum().backward()

    def constant():
        (torch.rand(3, requires_grad=True) * INF).sum().backward()

    found = []
    for program in (lambda: root(2), lambda: root(5), log, constant):
        with Session(file=io.StringIO()) as session:
            program()
        rows = [line[2:].split(": ", 1) for line in session.report().splitlines()[1:]]
        found.append(dict(rows))
    return found


def overwritten():
    """What made a value that is not finite, where memory is written to before."""
    garbage = torch.full((3,), math.nan)

    def trigger():
        weight = torch.empty(0).set_(garbage).fill_(1.0).requires_grad_()
        (weight - 1).log()

    return [birth.cause for birth in births_of(trigger)]


def merged():
    """Of two ranks' reports in one log the one that made the value."""
    rows = [("step", "7"), ("op", "x"), ("cause", "not seen: rank"), ("rank", "0 of 2")]
    heard = reports.written("first non-finite value", rows)
    rows = [("step", "7"), ("op", "y"), ("cause", "the op"), ("rank", "1 of 2")]
    made = reports.written("first non-finite value", rows)
    log = "\n".join(f"[rank1]: {line}" for line in made.splitlines())
    cut = reports.written("first non-finite value", rows[:1])
    return reports.merged([f"epoch 1\n{heard}\nloss: nan\n{log}\nepoch 2\n", cut])


def bits():
    """Numbers of each type as bits, before and after they were written."""
    found = {}
    for dtype, patterns in {
        torch.float16: [0x7E01, -1, 0x7C00, -0x8000, 1],
        torch.bfloat16: [0x7FC1, -1, 0x7F80, -0x8000, 1],
        torch.float32: [0x7FC00001, -1, 0x7F800000, -(2**31), 1],
        torch.float64: [0x7FF8000000000001, -1, 0x7FF << 52, -(2**63), 1],
    }.items():
        kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}
        size = torch.empty(0, dtype=dtype).element_size()
        one = torch.tensor(patterns, dtype=kind[size]).view(dtype)
        again = decoded(json.loads(json.dumps(encoded(one))))
        found[str(dtype)] = [patterns, again.view(kind[size]).tolist()]
    pairs = torch.complex(torch.tensor([-0.0, INF]), torch.tensor([math.nan, -INF]))
    again = decoded(json.loads(json.dumps(encoded(pairs))))
    for name, one in (("before", pairs), ("after", again)):
        found[name] = torch.view_as_real(one).reshape(-1).view(torch.int32).tolist()
    turned = torch.arange(6.0).reshape(2, 3).t()
    found["strides"] = list(decoded(encoded(turned)).stride()), list(turned.stride())
    return found


def told():
    """What one posts of a slice that a record has, and of one that none has."""
    small, found = shrinking.Shrinker(runs()["root"]).shrunk(), {}
    slices = {"known": "sqrt(sum(pow(sub(x, x): 0, 2): 0): 0)", "unknown": "sqrt(x: 0)"}
    for name, text in slices.items():
        call = {"aten": ["torch.sqrt", []], "direction": "backward"}
        call["slice"] = f"backward of {text}"
        capture = {**captures.capture_of(small, call), "digest": ""}
        found[name] = captures.markdown(capture, [])
    return found


def repro():
    """How two of them, forward and backward, end under a Python of their own."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: os.spawnv(os.P_WAIT, sys.executable, [sys.executable, path])
            for name in ("log", "root")
            for path in [os.path.join(made(folder, name), "repro.py")]
        }


if __name__ == "__main__":
    kinds = {"shrunk": shrunk, "killed": killed, "cut_off": cut_off}
    kinds.update({"overwritten": overwritten, "handed_on": handed_on})
    kinds.update(
        {"told": told, "repro": repro, "sliced": sliced, "merged": merged, "bits": bits}
    )
    stdout = os.dup(1)
    os.dup2(2, 1)
    said = json.dumps({name: kind() for name, kind in kinds.items()})
    os.write(stdout, said.encode())
