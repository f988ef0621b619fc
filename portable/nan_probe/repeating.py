"""Running the calls of a tape again, under a mode that sees every op."""

from __future__ import annotations

import contextlib

import torch

from .places import again
from .values import tensors

FULLY_SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")


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
