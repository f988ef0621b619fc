"""What a step consists of, so that it can be run again: its outermost calls.

In a loop of the program's own nothing says which function a step is. So the calls that
lie outside every module are kept, one call of a model being one of them; together they
lead from the batch to the loss. Only what carries a gradient is kept, and only until
backward has run.
"""

from __future__ import annotations

import contextlib
import sys
from collections import namedtuple

import torch
from torch.overrides import TorchFunctionMode

from .places import again, kind_of, kinds, line_of
from .states import Buffers, Chance
from .values import tensors

FULLY_SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")
LONGEST, LARGEST = 4096, 256 * 2**20
# A property is a call, too: of these only what carries a gradient matters, as x.T does.
PROPERTY = "__get__"
IGNORED = {"backward", "__set__", "requires_grad_", "retain_grad", "register_hook"}
call_of_module = torch.nn.Module._call_impl.__code__
compiler = getattr(torch, "compiler", None)
is_compiling = getattr(compiler, "is_compiling", bool)

# `versions`: how often each tensor that came from outside had been written to.
# `chance`: of a model, as what draws between two calls, a sampler, is not repeated.
NAMES = "function args kwargs result site context versions chance"
Call = namedtuple("Call", NAMES, defaults=(None,))


class Tape(TorchFunctionMode):
    """The calls since the last backward; `meet` is told of modules that are new."""

    def __init__(self, meet):
        super().__init__()
        self.meet = meet
        self.is_on = False
        self.buffers = Buffers()
        self.begun = None
        self.clear()

    def clear(self):
        self.calls, self.bytes, self.chance = [], 0, None
        self.broken = None

    def enter(self):
        if not self.is_on:
            self.is_on = True
            self.__enter__()

    def leave(self):
        if self.is_on:
            self.is_on = False
            self.__exit__(None, None, None)

    def begin(self):
        if self.chance is None:
            self.chance = Chance()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_compiling() or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in IGNORED:
            return func(*args, **kwargs)
        if name != PROPERTY:
            self.begin()
        versions = versions_of(args, kwargs)
        result = func(*args, **kwargs)
        made = args[0] if result is None and args else result
        if any(one.requires_grad for one in tensors(made)):
            self.add(func, args, kwargs, result, site(self.meet), versions)
        return result

    def add(self, function, args, kwargs, result, where, versions, chance=None):
        size = sum(one.numel() * one.element_size() for one in tensors(result))
        self.bytes += size
        if len(self.calls) >= LONGEST or self.bytes > LARGEST:
            # What comes is another step, or the same without its beginning.
            self.clear()
            self.broken = "it is longer or larger than what is kept of a step"
            return
        kept = (function, args, kwargs, result, where, context(), versions, chance)
        self.calls.append(Call(*kept))

    def begin_module(self, module, args, kwargs):
        """A model that lies outermost is called: of it one call is kept."""
        self.leave()
        if not torch.is_grad_enabled():
            self.begun = None
            return
        if self.broken:
            self.clear()
        self.begin()
        self.buffers.keep(module)
        where = site(lambda module: None)
        versions = versions_of(args, kwargs)
        self.begun = (module, args, kwargs, where, versions, Chance())

    def end_module(self, module, result):
        if self.begun is not None and self.begun[0] is module:
            module, args, kwargs, where, versions, chance = self.begun
            self.add(module, args, kwargs, result, where, versions, chance)
        self.begun = None
        self.enter()

    def parameters(self):
        """The leaves that the calls kept have read, models aside."""
        found = {}
        for call in self.calls:
            for one in tensors([call.args, call.kwargs, call.result]):
                if one.requires_grad and one.is_leaf:
                    found[id(one)] = one
        return list(found.values())


def versions_of(args, kwargs):
    return [(one, one._version) for one in tensors([args, kwargs]) if is_counted(one)]


def is_counted(one):
    return one.grad_fn is None and not one.requires_grad and not one.is_inference()


def context():
    """What a call depends on besides its arguments: autocast."""
    found = []
    for kind, is_on, dtype in (
        ("cpu", torch.is_autocast_cpu_enabled, torch.get_autocast_cpu_dtype),
        ("cuda", torch.is_autocast_enabled, torch.get_autocast_gpu_dtype),
    ):
        if is_on():
            found.append((kind, dtype()))
    return found


def site(meet):
    """The program's line that calls torch; `meet` gets the outermost module around."""
    line = outermost = None
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is call_of_module:
            outermost = frame
        kind = (kinds.get(code) or kind_of(code))[0]
        if line is None and kind in ("program", "package"):
            line = line_of(frame)
        frame = frame.f_back
    if outermost is not None:
        meet(outermost.f_locals["self"])
    return line


class Cannot(Exception):
    """Why a step cannot be repeated, in words."""


class Replay:
    """The calls of a tape, each with what those before it have returned anew."""

    def __init__(self, tape):
        self.tape = tape
        self.made = {}
        self.notes = []

    def forward(self, seen):
        for call in self.tape.calls:
            if any(one._version != version for one, version in call.versions):
                self.notes.append("a tensor was written to after the step had read it")
            function, args = unwrapped(call.function), self.mapped(call.args)
            if call.chance is not None:
                call.chance.restore()
            if isinstance(function, torch.nn.Module):
                seen([args, call.kwargs])
            with contextlib.ExitStack() as stack:
                for kind, dtype in call.context:
                    stack.enter_context(torch.autocast(kind, dtype=dtype))
                stack.enter_context(torch.enable_grad())
                result = again(function, args, self.mapped(call.kwargs), call.site)
            for old, new in zip(tensors(call.result), tensors(result)):
                # A leaf stays itself: it is a weight, and gradients go to it.
                self.made[id(old)] = old if old.is_leaf else new

    def backward(self, losses, gradients, site):
        roots = [self.made.get(id(one)) for one in tensors(losses)]
        if not roots or any(one is None for one in roots):
            raise Cannot("the loss was made by what is not kept, such as a Function")
        gradients = self.mapped(gradients)
        again(torch.autograd.backward, (roots, gradients), {}, site)

    def mapped(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) in self.made:
                return self.made[id(value)]
            # Its graph is gone: gradients end here.
            return value if value.grad_fn is None else value.detach()
        if type(value) in (list, tuple):
            return type(value)(map(self.mapped, value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.mapped, value))
        if type(value) is dict:
            return {name: self.mapped(one) for name, one in value.items()}
        return value


def unwrapped(function):
    """A model without what makes the ranks wait for one another."""
    names = {kind.__name__ for kind in type(function).__mro__}
    if names & set(FULLY_SHARDED):
        raise Cannot("each rank has a part of the weights only")
    if "DistributedDataParallel" in names:
        return function.module
    return function
