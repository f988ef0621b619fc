"""What a repeat of a step needs to be the same, and what repeats show."""

from __future__ import annotations

import contextlib
import random
import sys

import torch

from .places import again
from .values import (
    any_bad,
    has_nan,
    is_plain,
    is_weight,
    is_writing,
    place_of,
    size_of,
    storage_of,
    tensors,
    weight_of,
    weights_of,
)

# Of weights and optimizer state that are kept for a repeat.
LARGEST, SMALL = 16 * 2**20, 2**20
FULLY_SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")
FAILS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError)


class Chance:
    """The random states of Python, numpy, torch and its GPUs."""

    def __init__(self, generators=()):
        """`generators`: those that a model holds itself."""
        self.python = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if hasattr(numpy, "random") else None
        self.cpu = torch.get_rng_state()
        ready = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.cuda = torch.cuda.get_rng_state_all() if ready else None
        self.own = [(one, state_of(one)) for one in generators]

    def restore(self):
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)
        for one, state in self.own:
            put_state(one, state)


def generators_of(model):
    """The generators of torch and numpy that modules hold."""
    kinds = [torch.Generator]
    numpy = sys.modules.get("numpy")
    kinds += [numpy.random.Generator] if hasattr(numpy, "random") else []
    for _, module in getattr(model, "named_modules", tuple)():
        yield from (v for v in vars(module).values() if isinstance(v, tuple(kinds)))


def state_of(one):
    if isinstance(one, torch.Generator):
        return one.get_state()
    return one.bit_generator.state


def put_state(one, state):
    if isinstance(one, torch.Generator):
        one.set_state(state)
    else:
        one.bit_generator.state = state


class Models:
    """Several modules, and tensors outside them, as one model with names."""

    def __init__(self, modules, leaves=()):
        self.roots = list(modules)
        self.leaves = list(leaves)

    def named(self, what):
        for root in self.roots:
            prefix = "" if len(self.roots) == 1 else type(root).__name__ + "."
            for name, one in getattr(root, what)():
                name = name.replace("_orig_mod.", "").replace("_orig_mod", "")
                yield prefix + name if name else prefix.rstrip("."), one

    def named_modules(self):
        return self.named("named_modules")

    def named_buffers(self):
        return self.named("named_buffers")

    def named_parameters(self):
        yield from self.named("named_parameters")
        mine = {id(one) for root in self.roots for one in root.parameters()}
        for one in self.leaves:
            if id(one) not in mine:
                yield f"a weight {list(one.shape)}", one

    def parameters(self):
        return [one for _, one in self.named_parameters()]


def held_by(model):
    """(dictionary, name, tensor) of each buffer and plain attribute of the modules: a
    program writes to them, or puts others in their place (`self.mean = 0.9 * ...`)."""
    for _, module in getattr(model, "named_modules", tuple)():
        for home in (module._buffers, vars(module)):
            for name, one in home.items():
                if isinstance(one, torch.Tensor) and is_state(one, home):
                    yield home, name, one


def is_state(one, home):
    if one.requires_grad or one.is_inference():
        return False
    return "_buffers" not in home or one.numel() * one.element_size() <= LARGEST


def is_small(one, home):
    """Of a buffer, which may be written to by its `.data`, that counts no version."""
    return "_buffers" not in home and is_plain(one) and size_of(one) <= SMALL


class Buffers:
    """What a model holds beside its weights as a step found it, copied anew only where
    it was written to since the last step."""

    def __init__(self):
        self.before, self.kept = {}, {}

    def end_step(self):
        """A program may make a buffer anew in each step: those of the last one stay."""
        if self.kept:
            self.before, self.kept = self.kept, {}

    def keep(self, model):
        for home, name, one in held_by(model):
            key = id(home), name
            if key in self.kept:
                continue
            known = self.before.get(key)
            is_new = known is None or known[2] is not one or known[3] != one._version
            if is_new or is_small(one, home):
                known = (home, name, one, one._version, one.detach().clone())
            self.kept[key] = known

    def are_spoilt(self):
        """Whether NaN came into one: the next step knows only that it was there."""
        now = [
            (home.get(name), copy)
            for home, name, one, _, copy in self.kept.values()
            if is_small(one, home)
        ]
        bad = [row for row in now if any_bad(row[:1])]
        return any(has_nan(one) and not has_nan(copy) for one, copy in bad)

    def restore(self):
        """As copies: a graph of the program, whose backward is still to come, counts
        how often a buffer was written to. `State.restore` puts the buffers back."""
        copies = {}
        for home, name, one, _, copy in self.kept.values():
            if id(one) not in copies:
                copies[id(one)] = copy.clone()
            home[name] = copies[id(one)]


class State:
    """Random states, what modules hold and, if asked for, gradients."""

    def __init__(self, model, with_grads=False):
        self.model = model
        self.chance = Chance(generators_of(model))
        self.held = [(*row, row[2].detach().clone()) for row in held_by(model)]
        self.grads = [p.grad for p in model.parameters()] if with_grads else None

    def restore(self):
        self.chance.restore()
        with torch.no_grad():
            for home, name, one, copy in self.held:
                home[name] = one
                one.data.copy_(copy)  # of which no graph hears
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

    def keep(self, optimizer):
        self.clear()
        mine = weights_of(optimizer)
        every = mine + [one for state in self.states(optimizer) for one in state]
        if sum(one.numel() * one.element_size() for one in every) <= LARGEST:
            self.copies = self.copied(optimizer)

    def states(self, optimizer):
        for one in weights_of(optimizer):
            state = optimizer.state.get(one, {})
            yield [value for value in state.values() if isinstance(value, torch.Tensor)]

    def copied(self, optimizer):
        return [
            (one, one.detach().clone(), copy_of(optimizer.state.get(one, {})))
            for one in weights_of(optimizer)
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


class Cannot(Exception):
    """Why a step cannot be repeated, in words."""


class Replay:
    """The calls of a tape, each with what those before it have returned anew."""

    def __init__(self, tape, step):
        """`step`: what watches the repeat."""
        self.tape, self.step = tape, step
        gradients = [one.grad for one in step.owner.model.parameters()]
        self.owned = {*step.weight_names(), *map(storage_of, tensors(gradients))}
        # By place in memory the calls to come that write there, the next one last.
        self.earlier = {}
        self.made, self.written = {}, {}
        self.notes = []

    def forward(self, losses=()):
        calls = list(self.tape.ordered(losses, self.owned))
        self.step.is_hidden = self.tape.is_hidden
        for call, _ in reversed(calls):
            if call.held is not None:
                self.earlier.setdefault(place_of(call.args[0]), []).append(call)
        for call, has_no_graph in calls:
            later = [one for one, version in call.versions if one._version != version]
            if any(not self.earlier.get(place_of(one)) for one in later):
                self.notes.append("a tensor was written to after the step had read it")
            try:
                self.repeat(call, has_no_graph)
            except FAILS:
                if not has_no_graph:
                    raise  # else what it gave then is used
            if call.held is not None:
                self.earlier[place_of(call.args[0])].pop()

    def repeat(self, call, has_no_graph):
        function, args = unwrapped(call.function), self.mapped(call.args)
        name = getattr(function, "__name__", "")
        if is_writing(name, call.kwargs) and isinstance(args[0], torch.Tensor):
            args = (self.target(call), *args[1:])
        if call.chance is not None:
            call.chance.restore()
        if isinstance(function, torch.nn.Module):
            # What a model is called with is the batch.
            given = tensors([args, call.kwargs])
            self.step.batch.update((storage_of(one), one) for one in given)
        with contextlib.ExitStack() as stack:
            for kind, dtype in call.context:
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            stack.enter_context(torch.set_grad_enabled(call.graph))
            result = again(function, args, self.mapped(call.kwargs), call.site)
        self.held_anew(call, args)
        if has_no_graph and self.is_owned(call, args[:1]):
            return
        if call.result is None:
            self.made[id(call.args[0])] = args[0]
        for old, new in zip(tensors(call.result), tensors(result)):
            # A weight stays itself: gradients go to it.
            self.made[id(old)] = old if is_weight([old]) else new

    def held_anew(self, call, args):
        """What a model holds now, and a weight that was written to by hand."""
        if isinstance(call.function, torch.nn.Module):
            for home, name, one, _ in self.step.held:
                self.made[id(one)] = home.get(name)
        if weight_of(call, self.owned) is not None:
            self.written[place_of(call.args[0])] = args[0].detach()

    def is_owned(self, call, written):
        """A weight keeps what it became: only who made that is told."""
        storage = weight_of(call, self.owned)
        if storage is None:
            return False
        birth = self.step.origins.get(storage_of(written[0]))
        if birth is not None:
            self.step.origins[storage] = birth
        return True

    def target(self, call):
        """What an op in place writes to: never what the program itself holds."""
        one = call.args[0]
        for known, key in ((self.made, id(one)), (self.written, place_of(one))):
            if key in known:
                return known[key]
        return (one if call.held is None else call.held).detach().clone()

    def backward(self, losses, gradients, site):
        roots = [self.made.get(id(one)) for one in tensors(losses)]
        if not roots or not any(getattr(one, "requires_grad", False) for one in roots):
            raise Cannot("the loss was made by what is not kept, such as a Function")
        gradients = self.mapped(gradients)
        again(torch.autograd.backward, (roots, gradients), {}, site)

    def mapped(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) in self.made:
                return self.made[id(value)]
            if not value.requires_grad and place_of(value) in self.written:
                return self.written[place_of(value)]
            waiting = self.earlier and self.earlier.get(place_of(value))
            if waiting:
                return waiting[-1].held
            if value.is_leaf:
                return value
            # What made it is not kept; gradients end here.
            self.step.hidden.add(storage_of(value))
            return value.detach()
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
