"""What a step consists of, so that it can be run again: its outermost calls.

In your own loop nothing tells which function a step is. So the calls outside every
module are kept (one call of a model is one of them): together they lead from the batch
to the loss. They are kept until backward has run; of those without a gradient, which
make batches and targets, only the last ones.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque, namedtuple

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from .places import again, kind_of, kinds, line_of
from .states import Buffers, Chance
from .values import REPLACES, storage_of, tensors

FULLY_SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")
LONGEST, LARGEST = 4096, 256 * 2**20
# Of calls without a gradient; of what a tensor held before it is written to.
PLAIN, PLAIN_BYTES, COPIED = 512, 64 * 2**20, 2**20
# A property is a call, too: of these only what carries a gradient matters, as x.T does.
PROPERTY = "__get__"
READING = ("__invert__", "__int__", "__index__", "__iter__")
# What these draw is drawn again in a repeat.
DRAWS = ("rand", "dropout", "bernoulli", "normal", "multinomial", "rrelu", "gumbel")
IGNORED = {"backward", "__set__", "requires_grad_", "retain_grad", "register_hook"}
call_of_module = torch.nn.Module._call_impl.__code__
compiler = getattr(torch, "compiler", None)
is_compiling = getattr(compiler, "is_compiling", bool)
modes_on_stack = torch._C._len_torch_function_stack

# `versions`: how often each tensor that came from outside had been written to.
# `chance`: of what draws, as what draws between two calls, a sampler, is not repeated.
# `held`: what the tensor that it writes to held before.
NAMES = "function args kwargs result site context versions chance held"
Call = namedtuple("Call", NAMES, defaults=(None, None))


class Tape(TorchFunctionMode):
    """The calls since the last backward; `meet` is told of modules that are new."""

    def __init__(self, meet):
        super().__init__()
        self.meet = meet
        self.is_on, self.below = False, sys.maxsize
        self.buffers = Buffers()
        self.begun = None
        self.clear()

    def clear(self):
        self.calls, self.bytes, self.chance = [], 0, None
        # Those without a gradient: (how many of the others came before, the call).
        self.plain, self.plain_bytes = deque(), 0
        self.broken = None
        self.buffers.end_step()

    def enter(self):
        """Below the modes that the program entered since: they leave from the top."""
        if not self.is_on:
            self.is_on = True
            above = [_pop_mode() for _ in range(modes_on_stack() - self.below)]
            for mode in (self, *reversed(above)):
                _push_mode(mode)

    def leave(self):
        if self.is_on:
            self.is_on, above = False, []
            while modes_on_stack() and (not above or above[-1] is not self):
                above.append(_pop_mode())
            self.below = modes_on_stack()
            for mode in reversed(above):
                if mode is not self:
                    _push_mode(mode)

    def begin(self):
        if self.chance is None:
            self.chance = Chance()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if is_compiling() or name in IGNORED or "out" in kwargs:
            return func(*args, **kwargs)
        if name != PROPERTY and torch.is_grad_enabled():
            self.begin()
        given = list(tensors([args, kwargs]))
        draws = any(one in name for one in DRAWS)
        is_kept = draws and any(one.requires_grad for one in given)
        chance = Chance() if is_kept else None
        held = held_before(name, args) if is_writing(name, kwargs) else None
        versions = versions_of(given)
        result = func(*args, **kwargs)
        made = list(tensors(args[0] if result is None and args else result))
        call = (func, args, kwargs, result)
        if any(map(has_graph, made)):
            self.add(*call, site(self.meet), versions, chance, held)
        elif made and given and not (draws or name == PROPERTY):
            self.add_plain(*call, site(self.meet), (), None, held)
        return result

    def add(self, function, args, kwargs, result, where, *rest):
        size = sum(one.numel() * one.element_size() for one in tensors(result))
        self.bytes += size
        if len(self.calls) >= LONGEST or self.bytes > LARGEST:
            # What comes is another step, or the same without its beginning.
            self.clear()
            self.broken = "it is longer or larger than what is kept of a step"
            return
        kept = (function, args, kwargs, result, where, context(), *rest)
        self.calls.append(Call(*kept))

    def add_plain(self, function, args, kwargs, result, where, *rest):
        """What makes a batch or a target; one that writes needs what was there."""
        name = getattr(function, "__name__", "")
        if is_writing(name, kwargs) and rest[-1] is None:
            return
        call = Call(function, args, kwargs, result, where, context(), *rest)
        self.plain.append((len(self.calls), call))
        self.plain_bytes += bytes_of(call)
        while len(self.plain) > PLAIN or self.plain_bytes > PLAIN_BYTES:
            self.plain_bytes -= bytes_of(self.plain.popleft()[1])

    def begin_module(self, module, args, kwargs):
        """An outermost model is called: the tape keeps this one call."""
        self.leave()
        if self.broken:
            self.clear()
        if torch.is_grad_enabled():
            self.begin()
            self.buffers.keep(module)
        where = site(lambda module: None)
        versions = versions_of(tensors([args, kwargs]))
        self.begun = (module, args, kwargs, where, versions, Chance())

    def end_module(self, module, result):
        if self.begun is not None and self.begun[0] is module:
            module, args, kwargs, where, versions, chance = self.begun
            add = self.add if torch.is_grad_enabled() else self.add_plain
            add(module, args, kwargs, result, where, versions, chance)
        self.begun = None
        self.enter()

    def ordered(self, losses, weights):
        """(call, whether it is one without a gradient) of what leads to a loss, or was
        written into a weight."""
        needed = {id(one) for one in tensors([losses, [c[1:3] for c in self.calls]])}
        found = []
        for before, call in reversed(self.plain):
            is_used = not needed.isdisjoint(map(id, written_by(call)))
            if is_used or weight_of(call, weights) is not None:
                needed.update(map(id, tensors(call[1:3])))
                found.append((before, call))
        for at, call in enumerate(self.calls):
            while found and found[-1][0] <= at:
                yield found.pop()[1], True
            yield call, False
        yield from ((call, True) for _, call in reversed(found))

    def call(self, function, args, kwargs):
        """One of a compiled function."""
        self.begin_module(function, args, kwargs)
        result = None
        try:
            result = function(*args, **kwargs)
        finally:
            self.end_module(function, result)
        return result

    def parameters(self):
        """The leaves that the calls kept have read, models aside."""
        found = {}
        for call in self.calls:
            for one in tensors([call.args, call.kwargs, call.result]):
                if one.requires_grad and one.is_leaf:
                    found[id(one)] = one
        return list(found.values())


def versions_of(given):
    return [(one, one._version) for one in given if is_counted(one)]


def is_writing(name, kwargs):
    """Whether a function writes to its first argument, by its name."""
    if name.startswith("__"):
        return name == "__setitem__" or (name[2] == "i" and name not in READING)
    return name.endswith("_") or bool(kwargs.get("inplace"))


def held_before(name, args):
    """A copy of what is written to; a stand-in if nothing reads it."""
    one = args[0] if args else None
    if not isinstance(one, torch.Tensor) or one.is_inference():
        return None
    if name in REPLACES:
        return one.detach()
    if size_of(one) > COPIED or (one.requires_grad and torch.is_grad_enabled()):
        return None
    return one.detach().clone()


def weight_of(call, weights):
    """The weight that a call without a gradient writes to, by its storage."""
    name = getattr(call.function, "__name__", "")
    if call.held is None or not is_writing(name, call.kwargs):
        return None
    storage = storage_of(call.args[0])
    return storage if storage in weights else None


def has_graph(one):
    try:
        return one.requires_grad and not one.is_leaf
    except RuntimeError:  # a view that was made in no_grad, of what was written to
        return False


def is_weight(made):
    return any(one.is_leaf and one.requires_grad for one in made)


def place_of(one):
    return one.data_ptr(), one.dtype, one.shape, one.stride()


def size_of(one):
    return one.numel() * one.element_size()


def bytes_of(call):
    return sum(map(size_of, tensors([call.result, call.held])))


def written_by(call):
    return tensors(call.args[0] if call.result is None else call.result)


def is_counted(one):
    return not one.requires_grad and not one.is_inference()


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


FAILS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError)


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
        self.made = {}
        self.notes = []

    def forward(self, losses=()):
        calls = list(self.tape.ordered(losses, self.owned))
        for call, _ in reversed(calls):
            if call.held is not None:
                self.earlier.setdefault(place_of(call.args[0]), []).append(call)
        for call, is_plain in calls:
            if any(one._version != version for one, version in call.versions):
                self.notes.append("a tensor was written to after the step had read it")
            try:
                self.repeat(call, is_plain)
            except FAILS:
                if not is_plain:
                    raise  # else what it gave then is used
            if call.held is not None:
                self.earlier[place_of(call.args[0])].pop()

    def repeat(self, call, is_plain):
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
            stack.enter_context(torch.set_grad_enabled(not is_plain))
            result = again(function, args, self.mapped(call.kwargs), call.site)
        if is_plain and self.is_owned(call, args[:1]):
            return
        if call.result is None:
            self.made[id(call.args[0])] = args[0]
        for old, new in zip(tensors(call.result), tensors(result)):
            # A weight stays itself: gradients go to it.
            self.made[id(old)] = old if is_weight([old]) else new

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
        if id(one) in self.made:
            return self.made[id(one)]
        return (one if call.held is None else call.held).detach().clone()

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
            waiting = self.earlier and self.earlier.get(place_of(value))
            if waiting:
                return waiting[-1].held
            # Its graph is gone: gradients end here.
            return value if value.is_leaf else value.detach()
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
