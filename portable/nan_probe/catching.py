"""Keeps the call that made the first value that is not finite.

Only a child process gets its operands, to shrink the call; no other numbers of the
model are written. A capture is written whole or not at all.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple

import torch
from torch.overrides import TorchFunctionMode

from .calls import name_of
from .values import is_writing, tensors

LARGEST, SECONDS = 64 * 2**20, 120
# No folder to write to; an argument that is a function of the program's own.
FAILS = (OSError, RuntimeError, pickle.PickleError, TypeError, AttributeError)
# The folder of this package, or the one file that it is.
HOME = os.path.dirname(os.path.abspath(__file__))
PASSED_BY = {"__get__", "__set__", "backward"}

# `gradients`: what may have come in where the call went wrong in backward only.
Caught = namedtuple("Caught", "function args kwargs gradients aten")


class Public(TorchFunctionMode):
    """Knows which public function runs, and what it was called with."""

    now = None
    # The ops of these copies are the probe's own: they read also what nobody wrote yet.
    is_copying = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in PASSED_BY:
            return func(*args, **kwargs)
        before = self.now
        writes = is_writing(name, kwargs)
        self.now = (func, self.copied(args) if writes else args, kwargs)
        try:
            return func(*args, **kwargs)
        finally:
            self.now = before

    def copied(self, args):
        self.is_copying = True
        try:
            return copied(args)
        finally:
            self.is_copying = False


def caught(call, gradients, aten, aten_args):
    """Copies of the operands as they are now; None where they are too large."""
    function, args, kwargs = call or (None, (), {})
    name = name_of(function) if function is not None else None
    size = sum(
        one.numel() * one.element_size() for one in tensors([args, kwargs, aten_args])
    )
    if size > LARGEST:
        return None
    fallback = public_of(aten, copied(aten_args))
    return Caught(name, copied(args), copied(kwargs), copied(gradients), fallback)


def public_of(aten, args):
    """The public function of an aten op; of some the arguments differ."""
    name = aten.split(".")[1]
    if name in ("_softmax", "_log_softmax"):
        args = args[:2]
    if name == "_weight_norm_interface":
        return "torch._weight_norm", args
    if name == "_linalg_solve_ex":
        return "torch.linalg.solve_ex", args
    return "torch." + name.strip("_"), args


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [copied(one) for one in value]
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    return value


def kept(birth, folder):
    """(the folder of the capture, what the child says) of a birth with a call."""
    if birth.call is None:
        return None, "no call to keep: no op made it, or it is too large"
    work = None
    try:
        os.makedirs(folder, exist_ok=True)
        work = tempfile.mkdtemp(prefix=".catching-", dir=folder)
        path = os.path.join(work, "call.pt")
        call = birth.call._asdict()
        call.update(direction=birth.place.direction, slice=birth.slice)
        torch.save(call, path)
        done = asked(["--shrink", path, folder], SECONDS)
        if done.returncode != 0:
            return None, last_line(done.stderr)
        return last_line(done.stdout), None
    except (subprocess.TimeoutExpired, *FAILS) as error:
        return None, str(error)
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def asked(arguments, seconds, python=sys.executable):
    """What a fresh process of this package says, as one file or as a package."""
    environment = dict(os.environ)
    for name in ("RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    command = [HOME]
    if not os.path.isfile(HOME):
        environment["PYTHONPATH"] = folder_above()
        command = ["-m", __package__]
    return subprocess.run(
        [python, *command, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=seconds,
    )


def folder_above():
    """From which this package is imported."""
    home = HOME
    for _ in __package__.split("."):
        home = os.path.dirname(home)
    return home


def last_line(text):
    return (text.strip().splitlines() or ["the child died"])[-1]
