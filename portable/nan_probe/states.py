"""What a repeat of a step needs to be the same, and what repeats show."""

from __future__ import annotations

import contextlib
import random
import sys

import torch

# Of weights and optimizer state that are kept for a repeat.
LARGEST = 16 * 2**20


class Chance:
    """The random states of Python, numpy, torch and its GPUs."""

    def __init__(self):
        self.python = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if hasattr(numpy, "random") else None
        self.cpu = torch.get_rng_state()
        ready = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.cuda = torch.cuda.get_rng_state_all() if ready else None

    def restore(self):
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)


class Buffers:
    """Copies of a model's buffers as a step found them, made anew only of what was
    written to since the last step."""

    def __init__(self):
        self.before, self.kept = {}, {}

    def end_step(self):
        """A program may make a buffer anew in each step: those of the last one stay."""
        if self.kept:
            self.before, self.kept = self.kept, {}

    def keep(self, model):
        for buffer in getattr(model, "buffers", list)():
            if id(buffer) in self.kept:
                continue
            known = self.before.get(id(buffer))
            if known is None or known[1] != buffer._version:
                known = (buffer, buffer._version, buffer.detach().clone())
            self.kept[id(buffer)] = known

    def restore(self):
        with torch.no_grad():
            for buffer, version, copy in self.kept.values():
                if buffer._version != version:
                    buffer.copy_(copy)


class State:
    """Random states, buffers and, if asked for, gradients."""

    def __init__(self, model, with_grads=False):
        self.model = model
        self.chance = Chance()
        self.buffers = [buffer.detach().clone() for buffer in model.buffers()]
        self.grads = [p.grad for p in model.parameters()] if with_grads else None

    def restore(self):
        self.chance.restore()
        with torch.no_grad():
            for buffer, value in zip(self.model.buffers(), self.buffers):
                buffer.copy_(value)
        if self.grads is not None:
            for parameter, grad in zip(self.model.parameters(), self.grads):
                parameter.grad = grad


def compared(first, runs):
    """(same | rounding | differs, in words)."""
    places = [first.where(), *(run.reached and run.reached.where() for run in runs)]
    if len(set(places)) > 1:
        bad = sum(place is not None for place in places[1:])
        return "differs", (
            f"{bad} of {len(runs)} repeats not finite, not all at one place: "
            "suspect the node, or an op that races"
        )
    for one, other in zip(runs[0].sums, runs[1].sums):
        if one != other:
            words = f"same place; bits first differ after {one[0]} in {one[1]}"
            return "rounding", words
    return "same", f"{len(runs)} repeats with the same inputs give the same bits"


class Weights:
    """Copies of the weights and of the optimizer's state before its step."""

    def __init__(self):
        self.copies = []

    def clear(self):
        self.copies = []

    @staticmethod
    def of(optimizer):
        return [one for group in optimizer.param_groups for one in group["params"]]

    def keep(self, optimizer):
        self.clear()
        mine = self.of(optimizer)
        every = mine + [one for state in self.states(optimizer) for one in state]
        if sum(one.numel() * one.element_size() for one in every) <= LARGEST:
            self.copies = self.copied(optimizer)

    def states(self, optimizer):
        for one in self.of(optimizer):
            state = optimizer.state.get(one, {})
            yield [value for value in state.values() if isinstance(value, torch.Tensor)]

    def copied(self, optimizer):
        return [
            (one, one.detach().clone(), copy_of(optimizer.state.get(one, {})))
            for one in self.of(optimizer)
        ]

    @contextlib.contextmanager
    def as_before(self, optimizer):
        """The optimizer set back, and afterwards what it has become."""
        after = self.copied(optimizer)
        self.put(optimizer, self.copies)
        try:
            yield
        finally:
            self.put(optimizer, after)

    @staticmethod
    def put(optimizer, copies):
        with torch.no_grad():
            for one, value, state in copies:
                one.copy_(value)
                optimizer.state.pop(one, None)
                if state:
                    optimizer.state[one] = copy_of(state)


def copy_of(state):
    return {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in state.items()
    }
