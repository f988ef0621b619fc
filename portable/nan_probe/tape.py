"""What a step consists of, so that it can be run again: its outermost calls.

In your own loop nothing tells which function a step is. So the calls outside every
module are kept (one call of a model is one of them): together they lead from the batch
to the loss. They are kept until backward has run; of those without a gradient, which
make batches and targets, only the last ones.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque, namedtuple
from functools import partial
from itertools import accumulate

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from .places import is_running, site
from .states import Buffers, Chance, generators_of
from .values import (
    REPLACES,
    any_bad,
    has_nan,
    is_plain,
    is_weight,
    is_writing,
    losses_of,
    size_of,
    tensors,
    weight_of,
)

LONGEST, LARGEST = 16384, 256 * 2**20
# Of calls without a gradient; of what a tensor held before it is written to.
PLAIN, PLAIN_BYTES, COPIED = 512, 64 * 2**20, 2**20
# A property is a call, too: of these only what carries a gradient matters, as x.T does.
PROPERTY = "__get__"
# What these draw is drawn again in a repeat.
DRAWS = ("rand", "dropout", "bernoulli", "normal", "multinomial", "rrelu", "gumbel")
IGNORED = {"backward", "__set__", "requires_grad_", "retain_grad"}
# By which a program asks whether its loss is finite, before it leaves a step out.
READS = {"item", "__float__", "isnan", "isinf", "isfinite", "tolist"}
if hasattr(torch, "get_autocast_dtype"):  # torch 2.4, where the others warn
    ASKED = (torch.is_autocast_enabled, torch.get_autocast_dtype)
    AUTOCAST = [(one, *(partial(ask, one) for ask in ASKED)) for one in ("cpu", "cuda")]
else:
    AUTOCAST = [
        ("cpu", torch.is_autocast_cpu_enabled, torch.get_autocast_cpu_dtype),
        ("cuda", torch.is_autocast_enabled, torch.get_autocast_gpu_dtype),
    ]
compiler = getattr(torch, "compiler", None)
is_compiled = getattr(compiler, "is_compiling", bool)
# In place of what a call gave and nobody has any more.
GONE = torch.empty(0)
modes_on_stack = torch._C._len_torch_function_stack
functorch = getattr(torch._C, "_functorch", None)
# Within a transform of torch.func tensors stand for others, and have no numbers.
transform = getattr(functorch, "peek_interpreter_stack", lambda: None)


def is_compiling():
    """Whether a compiler reads the program, or torch.jit.trace, which takes down what
    we compute, too."""
    return is_compiled() or torch.jit.is_tracing()


# `versions`: how often each tensor that came from outside had been written to.
# `chance`: of what draws, as what draws between two calls, a sampler, is not repeated.
# `held`: what the tensor that it writes to held before.
# `graph`: whether autograd was on.
NAMES = "function args kwargs result site context versions chance held graph"
Call = namedtuple("Call", NAMES, defaults=(None, None, True))


class Tape(TorchFunctionMode):
    """The calls since the last backward; `meet` is told of modules that are new."""

    def __init__(self, meet):
        super().__init__()
        self.meet = meet
        self.is_on, self.below = False, sys.maxsize
        self.thread = None  # where it is on the stack
        self.buffers = Buffers()
        self.begun = None
        self.clear()

    def clear(self):
        self.calls, self.bytes, self.chance = [], 0, None
        self.earlier = Earlier()
        # Those without a gradient: (how many of the others came before, the call).
        self.plain, self.plain_bytes = deque(), 0
        self.broken = None
        # After how many calls the program looked at a number; whether one was hidden.
        self.read_at, self.is_hidden = [], False
        self.was_read = set()  # ids of what came from outside
        self.buffers.end_step()

    def enter(self):
        """Below the modes that the program entered since: they leave from the top."""
        if not self.is_on and self.is_here():
            self.is_on = True
            above = [_pop_mode() for _ in range(modes_on_stack() - self.below)]
            for mode in (self, *reversed(above)):
                _push_mode(mode)

    def is_here(self):
        return threading.get_ident() == self.thread

    def leave(self):
        if self.is_on and self.is_here():
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
        is_left = not self.is_on or not self.is_here()  # of a thread that it was on
        is_out = kwargs.get("out") is not None
        if is_left or is_compiling() or name in IGNORED or is_out:
            return func(*args, **kwargs)
        if transform() is not None:
            self.is_hidden = True
            return func(*args, **kwargs)
        if name in READS and self.read_at[-1:] != [len(self.calls)]:
            self.read_at.append(len(self.calls))
        if name != PROPERTY and torch.is_grad_enabled():
            self.begin()
        given = list(tensors([args, kwargs]))
        draws = any(one in name for one in DRAWS)
        is_kept = draws and any(one.requires_grad for one in given)
        chance = Chance() if is_kept else None
        held = None
        if is_writing(name, kwargs):
            held = held_before(name, args, self.was_read)
        self.was_read.update(map(id, given))
        versions = versions_of(given)
        result = func(*args, **kwargs)
        made = list(tensors(args[0] if result is None and args else result))
        call = (func, args, kwargs, result)
        is_hook = name == "register_hook" and has_graph(args[0])
        if is_hook or any(map(has_graph, made)):
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
        self.was_read.update(id(one) for one, _ in rest[0])

    def add_plain(self, function, args, kwargs, result, where, *rest):
        """What makes a batch or a target; one that writes needs what was there."""
        name = getattr(function, "__name__", "")
        if is_writing(name, kwargs) and rest[-1] is None:
            return
        call = Call(function, args, kwargs, result, where, context(), *rest)
        call = call._replace(graph=torch.is_grad_enabled())
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
        chance = Chance(generators_of(module))
        self.begun = (module, args, kwargs, where, versions, chance)

    def is_within(self):
        """Whether what was begun still runs; if it raised, nobody ended it."""
        begun = self.begun and self.begun[0]
        return is_running(begun) if isinstance(begun, torch.nn.Module) else bool(begun)

    def end_module(self, module, result):
        if self.begun is not None and self.begun[0] is not module:
            return  # a part of what was begun
        if self.begun is not None:
            module, args, kwargs, where, versions, chance = self.begun
            add = self.add if torch.is_grad_enabled() else self.add_plain
            add(module, args, kwargs, result, where, versions, chance)
        self.begun = None
        self.enter()

    def spend(self, losses=()):
        """What these were made of is over; what else was called may be needed yet."""
        rows = self.earlier.unused(self.calls, losses)
        self.clear()
        self.earlier.keep(rows)

    def ordered(self, losses, weights):
        """(call, whether it is one without a gradient) of what leads to a loss, or was
        written into a weight."""
        needed = {id(one) for one in tensors([losses, [c[1:3] for c in self.calls]])}
        yield from ((call, False) for call in self.earlier.leading_to(needed))

        def is_used(call):
            return not needed.isdisjoint(map(id, written_by(call)))

        used = set()
        for _, call in reversed(self.plain):
            if is_used(call) or weight_of(call, weights) is not None:
                needed.update(map(id, tensors(call[1:3])))
                used.add(id(call))
        # And what wrote over a tensor after it was read: a batch is fetched ahead.
        found = [
            (before, call)
            for before, call in reversed(self.plain)
            if id(call) in used or (call.held is not None and is_used(call))
        ]
        for at, call in enumerate(self.calls):
            while found and found[-1][0] <= at:
                yield found.pop()[1], True
            yield call, False
        yield from ((call, True) for _, call in reversed(found))

    def cut_at_bad_end(self, end, may_evaluate):
        """The last call that gave what is not finite, and that no other read; what came
        after it is no part of the step."""
        calls = self.calls[:end]
        if may_evaluate and not calls:
            self.calls = calls = [call for _, call in self.plain]
        elif not has_begun(calls):
            return None
        read = {id(one) for call in calls for one in tensors(call[1:3])}
        for at, call in reversed(list(enumerate(calls, 1))):
            ends = [one for one in tensors(call.result) if id(one) not in read]
            # Of more than one number an infinity may well be a mask.
            if any_bad(losses_of(ends)) or any(map(has_nan, filter(is_plain, ends))):
                del self.calls[at:]
                self.plain = deque(one for one in self.plain if one[0] < at)
                return call
        return None

    def left_out(self, losses):
        """After how many calls the program looked at a number and then left the step
        out: nothing that came later, nor a loss, was made of what came before."""
        makers, crossed = {}, [0] * (len(self.calls) + 2)
        given = [*(one[1:3] for one in self.calls), losses]
        for at, these in enumerate(given if self.read_at else ()):
            made = [makers[id(one)] for one in tensors(these) if id(one) in makers]
            if made:
                crossed[min(made) + 1] += 1
                crossed[at + 1] -= 1
            for one in tensors([call.result for call in self.calls[at : at + 1]]):
                makers.setdefault(id(one), at)
        crossed = list(accumulate(crossed))
        return [
            at for at in self.read_at if not crossed[at] and has_begun(self.calls[:at])
        ]

    def call(self, function, args, kwargs):
        """One of a compiled function, or of a Function."""
        if self.begun is not None:  # within that of a model
            return function(*args, **kwargs)
        self.begin_module(function, args, kwargs)
        result = None
        try:
            result = function(*args, **kwargs)
        finally:
            self.end_module(function, result)
        return result

    def has_made(self, given):
        """Whether a loss, of which another thread calls backward, is one of these."""
        wanted = set(map(id, tensors(given)))
        return any(wanted.intersection(map(id, tensors(c.result))) for c in self.calls)

    def parameters(self):
        """The leaves that the calls kept have read, models aside."""
        found = {}
        for call in self.calls:
            for one in tensors([call.args, call.kwargs, call.result]):
                if one.requires_grad and one.is_leaf:
                    found[id(one)] = one
        return list(found.values())


class Earlier:
    """Calls that a backward pass left unused, while the program has what they gave.

    A generator's images outlive the discriminator's step: a later loss is made of
    them. `rows`: (call without its result, weak references to that).
    """

    def __init__(self):
        self.rows = []

    def unused(self, calls, losses):
        """Rows of these calls, and of what was left before, that no loss is made of."""
        needed, rows = set(map(id, tensors(losses))), []
        for call in reversed([*self.alive(), *calls]):
            if leads_to(needed, call):
                continue
            if call.result is not None and call.held is None:
                results = list(map(weakref.ref, tensors(call.result)))
                rows.append((call._replace(result=None), results))
        return rows[::-1]

    def keep(self, rows):
        """Those whose results somebody else has, too."""
        self.rows = [row for row in rows if any(one() is not None for one in row[1])]

    def alive(self):
        for call, results in self.rows:
            made = [one() for one in results]
            if any(one is not None for one in made):
                made = [GONE if one is None else one for one in made]
                yield call._replace(result=made)

    def leading_to(self, needed):
        """The calls that gave something of `needed`, ids, which grows by theirs."""
        found = [call for call in reversed([*self.alive()]) if leads_to(needed, call)]
        return found[::-1]


def leads_to(needed, call):
    if needed.isdisjoint(map(id, written_by(call))):
        return False
    needed.update(map(id, tensors(call[1:3])))
    return True


def written_by(call):
    return tensors(call.args[0] if call.result is None else call.result)


def versions_of(given):
    return [(one, one._version) for one in given if is_counted(one)]


def held_before(name, args, was_read):
    """A copy of what is written to; a stand-in if nothing reads it or has read it."""
    one = args[0] if args else None
    if not isinstance(one, torch.Tensor) or one.is_inference():
        return None
    if name in REPLACES and id(one) not in was_read:
        return one.detach()
    if size_of(one) > COPIED or (one.requires_grad and torch.is_grad_enabled()):
        return None
    return one.detach().clone()


def has_begun(calls):
    """Whether a model or a weight is among what was called, as in a step."""
    return any(
        isinstance(call.function, torch.nn.Module) or is_weight(tensors(call[1:3]))
        for call in calls
    )


def has_graph(one):
    try:
        return one.requires_grad and not one.is_leaf
    except RuntimeError:  # a view that was made in no_grad, of what was written to
        return False


def bytes_of(call):
    """What a call keeps alive; what it was given may be held by nobody else."""
    return sum(map(size_of, tensors([*call[1:4], call.held])))


def is_counted(one):
    return not one.requires_grad and not one.is_inference()


def context():
    """What a call depends on besides its arguments: autocast."""
    found = []
    for kind, is_on, dtype in AUTOCAST:
        if is_on():
            found.append((kind, dtype()))
    return found
