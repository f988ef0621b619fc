#!/usr/bin/env python3
"""Which op made the first NaN or Inf of a training step, forward or backward?

One file, standard library and torch (1.13 or later). Copy it beside your program:

    import nan_probe

    with nan_probe.watch(model, every=10) as probe:  # scaler=scaler with a GradScaler
        for batch in loader:
            loss = loss_fn(model(batch.x), batch.y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print(probe.report())

A step lasts from one call of the model to the next; every tenth is watched, the first
included. `@nan_probe.watch(model)` before a function does the same. Where nobody calls
`model(...)`, and after `model.compile()`, mark steps: `with probe.step(): ...`. A step
whose loss, gradient or weights are not finite is reported once, on stderr, and nothing
is watched after it; with `error=True` it raises NotFinite instead, a NaN where it is
made. Paste what is printed into the look-up box.

Every op below autograd is seen (a TorchDispatchMode) and its result waited for. Named
is the op that *made* the value, not those that pass it on; an infinity that the code
itself fills in, a mask, is told apart. `every=0` installs nothing. Seen are the thread
that runs the model and those of autograd, not those of DataParallel; one watch at a
time.

What torch.compile fused is not seen, and the report says so. `eager=True` runs compiled
code op by op in watched steps (torch 2.6), TORCH_COMPILE_DISABLE=1 in all.

`loss = probe.run(lambda: loss_fn(model(x), y))` is forward and backward as one step,
which is repeated with the same inputs and random numbers when it goes wrong: a result
that differs points to the machine, or to an op that races. Not among several ranks,
where the others would wait.
"""

from __future__ import annotations

import contextlib
import linecache
import math
import os
import sys
import threading
from collections import namedtuple

import torch
from torch.utils import _python_dispatch as dispatch

VERSION = 2
RERUNS = 2
SHOWN = 4
HOME = os.path.dirname(torch.__file__) + os.sep
STANDARD = os.path.dirname(os.__file__) + os.sep
PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
LABEL = "nan_probe"
# Of ops, without namespace and overload: memory that nobody wrote yet; constants that
# the caller chose; ops that write over their first argument without reading it.
UNWRITTEN = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"}
UNWRITTEN |= {"new_empty_strided", "resize_", "set_", "_empty_affine_quantized"}
FILLS = {"full", "full_like", "new_full", "fill", "fill_", "masked_fill", "where"}
FILLS |= {"masked_fill_", "scalar_tensor", "constant_pad_nd", "index_fill"}
FILLS |= {"index_fill_", "lift_fresh", "lift_fresh_copy"}
REPLACES = {"copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_", "random_"}
# Stand-ins for tensors, which have no numbers.
UNREAL = ("FakeTensor", "FunctionalTensor")
UNREADABLE = (RuntimeError, NotImplementedError, TypeError)
BY_HAND = "mark steps with `with probe.step():`"
CAUSES = {
    "op": "the op, from finite inputs",
    "inf": "the op, from an Inf among its inputs",
    "fill": "a constant that the code fills in",
    "constant": "a constant in the code that is not finite",
    "weight": "a weight or buffer that was not finite before",
    "input": "an input: the tensor came from outside the step",
    "unwritten": "memory of torch.empty that no op seen here wrote: unwritten, or "
    "written by a kernel outside torch",
    "unseen": "not seen: compiled code, a kernel outside torch, another rank, or what "
    "ran before the step",
}
current_node = getattr(torch._C, "_current_autograd_node", None)
modes_on_stack = torch._C._len_torch_dispatch_stack
graph_task = getattr(torch._C, "_current_graph_task_id", None)
compiler = getattr(torch, "compiler", None)
is_compiling = getattr(compiler, "is_compiling", bool)

Line = namedtuple("Line", "file number function")
Place = namedtuple("Place", "direction line caller module")
Plan = namedtuple("Plan", "name base writes computes")
# `lowest`: infinite it is at the lower end only.
Facts = namedtuple("Facts", "dtype shape device nan inf total highest lowest")
Held = namedtuple("Held", "facts birth")
# By op, and by code object.
plans, kinds = {}, {}


class NotFinite(FloatingPointError):
    """What `error=True` raises."""


class Birth:
    """Where values that are not finite came into being, and from what."""

    def __init__(self, cause, op, place, value, inputs=(), parent=None):
        self.cause = cause
        self.op = op
        self.place = place
        self.facts = facts_of(value)
        self.inputs = list(inputs)
        # The birth of the Inf that it was made from.
        self.parent = parent
        # A mask: -inf that came from outside, or what a fill was asked for.
        given = cause in ("weight", "input") and self.facts.lowest
        self.on_purpose = not self.facts.nan and (given or cause == "fill")

    def first(self):
        """The birth that it goes back to; masks, which are no failure, left aside."""
        parent = self.parent
        return self if parent is None or parent.on_purpose else parent.first()

    def goes_back_to(self, other):
        return self is other or bool(self.parent and self.parent.goes_back_to(other))

    def where(self):
        """What must be equal for two runs to have failed alike."""
        place, facts = self.place, self.facts
        return (place.direction, place.module, self.op, facts.nan, facts.inf)

    def short(self, with_parent=True):
        name = "nan" if self.facts.nan else "inf"
        parts = [
            f"{name} of {self.op}, {self.place.direction}, in {self.place.module}",
            f"at {shown(self.place.line)}",
            CAUSES[self.cause],
            *self.inputs,
        ]
        if self.parent and with_parent:
            parts.append(f"made from {self.parent.short()}")
        return "; ".join(parts)


class watch(contextlib.ContextDecorator):
    """Watches every n-th step of one model; `found`: the Birth that was reported."""

    def __init__(
        self, model, every=10, scaler=None, error=False, eager=False, file=None
    ):
        """`scaler`: a GradScaler; the steps that it skips are no finding. `eager`:
        compiled code op by op in watched steps. `file`: for the report (stderr)."""
        self.model = model
        self.every = every
        self.scaler = scaler
        self.error = error
        self.eager = eager
        self.file = file
        self.found = None
        self.steps = self.watched = self.ops = 0
        self.skipped = self.missed = self.unread = 0
        self.absorbed = []
        self.rerun = None
        self._text = ""
        self._mode = Mode()
        self._now = self._hook = self._stance = None
        self._others = 0
        self._by_hand = False

    def __enter__(self):
        self._others = modes_on_stack()
        if self.every and not self._by_hand and not self.found:
            register = self.model.register_forward_pre_hook
            try:
                self._hook = register(self._called, with_kwargs=True)
            except TypeError:  # before torch 2.0
                self._hook = register(self._called)
        return self

    def __exit__(self, kind, error, trace):
        try:
            self._close(failed=kind is not None)
        finally:
            self._unhook()

    @contextlib.contextmanager
    def step(self):
        """One step, marked by hand; from here on calls of the model mark none."""
        self._by_hand = True
        self._unhook()
        self._close()
        self._open(by_hand=True)
        try:
            yield self
        except BaseException:
            self._close(failed=True)
            raise
        self._close()

    def run(self, compute_loss):
        """Forward and backward as a step, repeated if it is bad; returns the loss."""
        before = State(self.model) if self._is_due() else None
        with self.step():
            loss = self._both(compute_loss)
            now = self._now
            if now is not None:
                now.finish()
                if now.reached is not None and before is not None:
                    self.rerun = self._repeat(before, compute_loss, now.reached)
        return loss

    def _both(self, compute_loss):
        loss = compute_loss()
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        return loss

    def report(self):
        """What was found; else what was watched, and what could not be seen."""
        if self._text:
            return self._text
        absorbed = "; ".join(birth.short() for birth in self.absorbed)
        seen = f"{self.watched} of {self.steps} steps, {self.ops} ops"
        rows = [
            ("watched", seen if self.steps else f"no step was seen; {BY_HAND}"),
            ("not watched", self.missed and f"{self.missed} steps in another mode"),
            ("not finite, without effect", absorbed),
            ("skipped", self.skipped and f"{self.skipped} steps, for the loss scale"),
            ("not read", self.unread and f"{self.unread} results of unusual kinds"),
            *self._surroundings(),
        ]
        if not self.watched:
            return written("nothing watched", rows)
        hidden = compiled(self.model) and not self.eager
        return written("nothing found" + " in what is seen" * bool(hidden), rows)

    def _is_due(self):
        return bool(self.every) and not self.found and self.steps % self.every == 0

    def _called(self, module, *inputs):
        """The model begins: the step before is over. Not where autograd repeats it."""
        if is_compiling() or self._by_hand or inside_backward():
            return
        self._close()
        self._open()
        if self._now is not None:
            self._now.batch = {storage_of(one): one for one in tensors(inputs)}

    def _open(self, by_hand=False):
        due = self._is_due()
        self.steps += bool(self.every)
        if not due:
            return
        if not by_hand and modes_on_stack() != self._others + self._mode.is_on:
            # A mode that ends before the step does would take this one off.
            self.missed += 1
            return
        if self.eager and hasattr(compiler, "set_stance"):
            self._stance = compiler.set_stance("force_eager")
            self._stance.__enter__()
        self.watched += 1
        self._now = self._mode.step = Step(self)
        self._mode.enter()

    def _close(self, failed=False):
        """End the step being watched; say what it found."""
        now, self._now, self._mode.step = self._now, None, None
        self._mode.leave()
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None
        if now is None:
            return
        now.finish(failed)
        self.ops += now.ops
        self.unread += now.unread
        if now.reached is None:
            self.absorbed += [one for one in now.births if not one.on_purpose]
            del self.absorbed[SHOWN:]
        elif self._is_skipped(now.reached):
            self.skipped += 1
        else:
            self._say(now, failed)

    def _is_skipped(self, birth):
        """GradScaler takes back a step whose scaled gradients overflow: a finding only
        when its scale is down to 1, or where the NaN does not come from an Inf."""
        birth = birth.first()
        if self.scaler is None or birth.place.direction != "backward":
            return False
        return birth.facts.nan == 0 and self.scaler.get_scale() > 1

    def _say(self, now, failed):
        self.found = now.reached.first()
        self._text = written("first non-finite value", self._rows(now))
        self._unhook()
        if self.error and not failed:
            raise NotFinite(self._text)
        if not self.error:
            file = self.file or sys.stderr
            file.write(self._text + "\n")
            file.flush()

    def _rows(self, now):
        birth = now.reached.first()
        facts, place = birth.facts, birth.place
        # The NaN that this Inf became.
        later = [one for one in now.births if one.goes_back_to(birth)]
        then = next((one for one in later if one is not birth), None)
        return [
            ("step", f"{self.steps - 1} (from 0; every {self.every} is watched)"),
            ("direction", place.direction),
            ("module", place.module),
            ("op", birth.op),
            ("cause", CAUSES[birth.cause]),
            ("line", shown(place.line)),
            ("called at", place.caller and shown(place.caller)),
            ("dtype", f"{facts.dtype} (up to {limit(facts.dtype):.5g})"),
            ("shape", facts.shape),
            ("device", facts.device),
            ("value", f"nan {facts.nan}, inf {facts.inf} of {facts.total}"),
            ("inputs", "; ".join(birth.inputs)),
            ("made from", birth.parent and birth.parent.short()),
            ("then", then and then.short(with_parent=False)),
            ("reached", now.reached_as),
            ("other ranks", now.collective and f"{now.collective}; read their reports"),
            ("not read", now.unread and f"{now.unread} results of unusual kinds"),
            ("rerun", self.rerun and "{} ({})".format(*self.rerun)),
            *self._surroundings(),
        ]

    def _surroundings(self):
        names = compiled(self.model)
        hidden = "inside compiled code no op is seen: TORCH_COMPILE_DISABLE=1 or "
        hidden += "watch(..., eager=True) shows them"
        if self.eager:
            hidden = "nothing: watched steps ran compiled code op by op"
        return [
            ("compiled", "yes, " + "; ".join(names[:SHOWN]) if names else "no"),
            ("hidden", hidden if names else None),
            ("loss_scale", self.scaler and self.scaler.get_scale()),
            ("rank", "{} of {}".format(*ranks())),
            ("torch", torch.__version__),
        ]

    def _repeat(self, before, compute_loss, first):
        """What repeats showed: (word, explanation). Leaves the state as it was."""
        if ranks()[1] > 1:
            return "not tried", "other ranks would wait; run this batch alone"
        after = State(self.model, with_grads=True)
        runs = []
        try:
            for _ in range(RERUNS):
                before.restore()
                for parameter in self.model.parameters():
                    parameter.grad = None
                again = self._mode.step = Step(self, sums=[])
                self._both(compute_loss)
                again.finish()
                runs.append(again)
        finally:
            self._mode.step = None
            after.restore()
        return compared(first, runs)

    def _unhook(self):
        if self._hook is not None:
            self._hook.remove()
            self._hook = None


class Mode(dispatch.TorchDispatchMode):
    """Hands every op to the step being watched, if there is one."""

    supports_higher_order_operators = True
    step = None
    is_on = False

    @classmethod
    def ignore_compile_internals(cls):
        """Else torch.compile gives up, for good, on code that it first meets here."""
        return True

    def enter(self):
        if not self.is_on:
            self.__enter__()
            self.is_on = True

    def leave(self):
        """Off the stack, unless another mode lies on top: then at the next end."""
        if self.is_on and dispatch._get_current_dispatch_mode() is self:
            self.is_on = False
            self.__exit__(None, None, None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        step, kwargs = self.step, kwargs or {}
        if step is None:
            return func(*args, **kwargs)
        return step.call(func, args, kwargs)


class Step:
    """One watched step: which op made which value that is not finite."""

    def __init__(self, owner, sums=None):
        self.owner = owner
        self.names = {id(m): name for name, m in owner.model.named_modules()}
        self.thread = threading.get_ident()
        self.lock = threading.RLock()
        self.births = []
        # By storage: the birth of what is not finite in it; the op that wrote it last.
        self.origins, self.places = {}, {}
        self.unwritten, self.batch, self.weights = set(), {}, None
        # The birth in the last result of the forward; the one that had an effect.
        self.last = self.reached = self.reached_as = self.collective = None
        self.phase = "forward"
        self.ops = self.unread = 0
        self.sums = sums
        self.graphs = Graphs()

    def call(self, func, args, kwargs):
        plan = plans.get(func) or plan_of(func)
        self.label(args)
        if not plan.computes:
            if args and isinstance(args[0], (int, float)) and plan.base == "detach":
                # torch 1.13 hands a number here where a checkpoint runs again.
                args = (torch.scalar_tensor(args[0]), *args[1:])
            result = func(*args, **kwargs)
            self.note(plan, args, kwargs, result)
            return result
        place = self.place(plan, args)
        written_ones, before = [], {}
        for value, is_read in written_to(plan, args, kwargs):
            written_ones.append(value)
            before[id(value)] = self.before(plan, value, place) if is_read else None
        result = func(*args, **kwargs)
        self.ops += 1
        try:
            self.after(plan, place, (args, kwargs), before, written_ones, result)
        except UNREADABLE:
            self.unread += 1
        return result

    def note(self, plan, args, kwargs, result):
        """Ops that compute nothing: views, new memory, and what other ranks send."""
        if plan.base in UNWRITTEN:
            for storage in map(storage_of, tensors(result)):
                self.unwritten.add(storage)
                self.origins.pop(storage, None)
        elif not plan.name.startswith("aten."):
            self.collective = plan.name
            self.unwritten.difference_update(map(storage_of, tensors((args, kwargs))))

    def label(self, args):
        """Note with the autograd node of each input which line made it."""
        try:
            for value in tensors(args):
                node = value.grad_fn
                if node is not None and LABEL not in node.metadata:
                    node.metadata[LABEL] = self.places.get(storage_of(value))
        except UNREADABLE:
            return  # a view that must not be used any more

    def place(self, plan, args):
        """Where the program stands; notices where backward begins and ends."""
        seen = Look(self.names)
        direction = seen.direction
        here = threading.get_ident() == self.thread
        if direction == "forward" and seen.line is None and not here:
            direction = "backward"  # a thread of autograd has no line of the program
        if direction == "backward":
            if current_node is None:
                self.graphs.enter(seen.engine)
            if self.phase != "backward":
                self.phase = "backward"
                self.begin_backward(plan, args)
        elif self.phase == "backward" and here and not inside_backward():
            self.phase = "after backward"
            self.end_backward()
        if direction == "forward" and self.phase == "after backward":
            # Gradient accumulation: the model runs again in the same step.
            self.phase = "forward" if seen.module else self.phase
            direction = self.phase
        module = seen.module or "(outside the model)"
        return Place(direction, seen.line, seen.caller, module)

    def begin_backward(self, plan, args):
        """The loss is what autograd makes ones for; else the last that was computed."""
        birth = self.last
        if plan.base == "ones_like":
            bad = list(filter(is_bad, tensors(args)))
            place = Place("forward", None, None, "(outside the model)")
            birth = self.origin(bad[0], "backward", place) if bad else None
        self.reach(birth, "the loss")

    def end_backward(self):
        place = Place("backward", None, None, "(unknown)")
        found = [
            (self.origin(parameter.grad, "the optimizer", place), name)
            for name, parameter in self.owner.model.named_parameters()
            if parameter.grad is not None and is_bad(parameter.grad)
        ]
        if found:
            birth, name = min(found, key=lambda one: self.births.index(one[0]))
            self.reach(birth, f"the gradient of {name}")

    def finish(self, failed=False):
        """The step is over. What reached neither loss nor gradient had no effect."""
        if self.phase == "backward":
            self.end_backward()
        elif self.phase == "forward":
            self.reach(self.last, "the last result; there was no backward")
        self.phase = "over"
        real = [birth for birth in self.births if not birth.on_purpose]
        if failed and real:
            self.reach(self.last or real[0], "an exception ended the step")
        self.graphs.leave()

    def reach(self, birth, what):
        if birth is not None and self.reached is None:
            self.reached, self.reached_as = birth, what

    def before(self, plan, value, place):
        """What a tensor that the op writes to held, where the op reads that, too."""
        try:
            if plain_values(value) is None:
                return None
            facts = quick_facts(value)
            bad = facts.nan or facts.inf
            return Held(facts, self.origin(value, plan.name, place) if bad else None)
        except UNREADABLE:
            return None

    def after(self, plan, place, inputs, before, written_ones, result):
        """Check what the op wrote and returned; remember which line wrote it."""
        storages = set(map(storage_of, written_ones))
        values = [one for one in tensors(result) if storage_of(one) not in storages]
        values = [one for one in written_ones + values if plain_values(one) is not None]
        bad, gone, birth = [], [], None
        for value in values:
            if self.sums is not None:
                self.sums.append((plan.name, place.module, checksum(value)))
            finite, storage = is_finite(value), storage_of(value)
            self.unread += finite is None
            self.places[storage] = place
            self.unwritten.discard(storage)
            if finite is False:
                bad.append(value)
            elif self.origins and is_whole(value):
                gone.append(storage)
        if bad:
            with self.lock:
                birth = self.explain(plan, place, inputs, before, bad)
        for storage in gone:
            self.origins.pop(storage, None)
        if values and place.direction == "forward":
            self.last = None if birth is None or birth.on_purpose else birth
        if birth is not None and place.direction == "optimizer":
            self.reach(birth, "a weight, by the optimizer")

    def explain(self, plan, place, inputs, before, bad):
        """The birth of what is not finite in the results: here, or earlier."""
        value = next((one for one in bad if has_nan(one)), bad[0])
        is_nan = has_nan(value)
        # What a fill returns may be its own input; a tensor that is written to is
        # judged by what it held before.
        read = [one for one in tensors(inputs) if id(one) not in before]
        if plan.base.startswith("lift_fresh"):
            read = []
        read = [one for one in read if plain_values(one) is not None]
        sources = [one for one in before.values() if one is not None]
        infos = [one.facts for one in sources] + list(map(facts_of, read[:SHOWN]))
        sources = [one for one in sources if one.birth is not None]
        for one in read:
            if is_bad(one):
                birth = self.origin(one, plan.name, place)
                sources.append(Held(facts_of(one), birth))
        # An Inf among the inputs does not explain a NaN: the op made that of it.
        passed = [one.birth for one in sources if one.facts.nan or not is_nan]
        birth = passed[0] if passed else None
        if birth is None:
            cause = "inf" if sources else "op"
            if not all(map(math.isfinite, numbers(inputs))):
                cause = "fill" if plan.base in FILLS else "constant"
            if plan.base.startswith("lift_fresh"):
                cause = "fill"
            parent = sources[0].birth if sources else None
            birth = self.born(cause, plan, place, value, infos, parent)
        for one in bad:
            self.origins[storage_of(one)] = birth
        return birth

    def born(self, cause, plan, place, value, infos, parent):
        op = plan.name
        if place.direction == "backward":
            op, place = self.backward_place(op, place)
        inputs = [described(facts) for facts in infos[:SHOWN]]
        birth = Birth(cause, op, place, value, inputs, parent)
        self.births.append(birth)
        if self.owner.error and birth.facts.nan and self.sums is None:
            self.reach(birth, "nothing yet, for error=True")
            rows = self.owner._rows(self)
            raise NotFinite(written("first non-finite value", rows))
        return birth

    def backward_place(self, op, place):
        """The autograd node that runs, and the line whose backward it is."""
        node = current_node() if current_node else self.graphs.node()
        if node is None:
            return f"(a sum of gradients: {op})", place
        made = node.metadata.get(LABEL)
        if made is None:
            return f"{node.name()} ({op})", place
        place = place._replace(line=place.line or made.line, module=made.module)
        return f"{node.name()} ({op})", place

    def origin(self, value, reader, place):
        """The birth of a value that is not finite, also where no op seen made it."""
        storage = storage_of(value)
        if storage in self.origins:
            return self.origins[storage]
        cause, name = self.stranger(value, storage)
        if cause == "unseen" and place.direction == "backward":
            # Gradients share storage with others, as in the buckets of DDP.
            mine = [one for one in self.births if one.place.direction == "backward"]
            if mine:
                return mine[0]
        if cause in ("weight", "input"):
            place = place._replace(direction="before the step", module=name)
        parent = None
        if cause == "unseen" and place.direction == "forward":
            # What was put into the code that is not seen.
            given = [*self.batch.values(), *self.owner.model.parameters()]
            bad = next(filter(is_bad, given), None)
            parent = None if bad is None else self.origin(bad, reader, place)
        birth = Birth(cause, f"(read by {reader})", place, value, (), parent)
        self.origins[storage] = birth
        self.births.append(birth)
        return birth

    def stranger(self, value, storage):
        """(cause, name) of a tensor that no op seen has made."""
        if self.weights is None:
            model = self.owner.model
            named = [*model.named_parameters(), *model.named_buffers()]
            self.weights = {storage_of(one): name for name, one in named}
        if storage in self.weights:
            return "weight", self.weights[storage]
        if storage in self.batch:
            return "input", "(an argument of the model)"
        if storage in self.unwritten:
            return "unwritten", ""
        fresh = value.grad_fn is None and not value.requires_grad
        if fresh and torch.is_grad_enabled():
            return "input", "(a batch or target)"
        return "unseen", ""


class Graphs:
    """Which autograd node runs, for torch before 2.1, which does not tell."""

    def __init__(self):
        self.known, self.handles, self.running = set(), [], {}

    def enter(self, frame):
        """Hook every node behind the tensors of this call of backward or grad."""
        names = frame.f_locals if frame is not None else {}
        roots = names.get("tensors", names.get("outputs"))
        waiting = [one.grad_fn for one in tensors(roots)]
        while waiting:
            node = waiting.pop()
            if node is None or node in self.known:
                continue
            self.known.add(node)
            self.handles.append(node.register_prehook(self.setter(node)))
            self.handles.append(node.register_hook(self.setter(None)))
            waiting.extend(after for after, _ in node.next_functions)

    def setter(self, node):
        def hook(*gradients):
            self.running[threading.get_ident()] = node

        return hook

    def node(self):
        return self.running.get(threading.get_ident())

    def leave(self):
        for handle in self.handles:
            handle.remove()
        self.__init__()


class State:
    """Random states, buffers and, if asked for, gradients."""

    def __init__(self, model, with_grads=False):
        self.model = model
        self.cpu = torch.get_rng_state()
        ready = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.cuda = torch.cuda.get_rng_state_all() if ready else None
        self.buffers = [buffer.detach().clone() for buffer in model.buffers()]
        self.grads = [p.grad for p in model.parameters()] if with_grads else None

    def restore(self):
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)
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


class Look:
    """Where the program stands: from the stack, the innermost line outside torch.

    `engine`: the frame that called autograd. `caller`: the program's own line, where
    the innermost is in a package or autograd's.
    """

    def __init__(self, names):
        self.direction = "forward"
        self.line = self.caller = self.module = self.engine = None
        self.in_package = False
        frame = sys._getframe(1)
        while frame is not None and not self.is_done(frame, names):
            frame = frame.f_back

    def is_done(self, frame, names):
        kind, has_self = kinds.get(frame.f_code) or kind_of(frame.f_code)
        if kind == "engine":
            if self.line is not None and self.direction == "forward":
                return True  # autograd repeats a forward: a checkpoint
            self.direction, self.engine = "backward", self.engine or frame
        elif kind == "custom" and self.line is not None:
            self.direction = "backward"
        elif kind == "optimizer" and self.line is None:
            self.direction = "optimizer"
        elif kind in ("program", "package"):
            self.add_line(frame, kind == "package")
        if has_self and self.module is None and self.engine is None:
            one = frame.f_locals.get("self")
            if isinstance(one, torch.nn.Module):
                self.module = label_of(one, names)
        if self.engine is not None:
            return self.caller is not None
        found = self.line is not None and self.module is not None
        return found and not self.in_package and self.direction == "forward"

    def add_line(self, frame, in_package):
        if self.engine is not None:
            self.caller = self.caller or line_of(frame)
        elif self.line is None:
            self.line, self.in_package = line_of(frame), in_package
        elif self.in_package and not in_package:
            self.caller, self.in_package = line_of(frame), False


def kind_of(code):
    """What a frame is, and whether it has a `self`; kept for the next time."""
    file, name = code.co_filename, code.co_name
    has_self = code.co_argcount > 0 and code.co_varnames[0] == "self"
    kind = "program"
    if file == kind_of.__code__.co_filename:
        kind, has_self = "own", False
    elif file.startswith(HOME):
        kind = "torch"
        inner = file[len(HOME) :]
        if inner.startswith("autograd"):
            if name in ("backward", "grad", "_engine_run_backward") and not has_self:
                kind = "engine"
            elif name == "apply" and has_self:
                kind = "custom"
        elif inner.startswith("optim"):
            kind = "optimizer"
    elif any(part in file for part in PACKAGES):
        kind = "package"
    elif file.startswith((STANDARD, "<frozen", "<eval_with_key>")):
        kind = "standard"
    kinds[code] = kind, has_self
    return kinds[code]


def inside_backward():
    """Whether autograd runs, as where it repeats a checkpoint's forward."""
    if graph_task is not None:
        return graph_task() != -1
    frame = sys._getframe(1)
    while frame is not None:
        if (kinds.get(frame.f_code) or kind_of(frame.f_code))[0] == "engine":
            return True
        frame = frame.f_back
    return False


def line_of(frame):
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def label_of(module, names):
    kind = type(module).__name__
    if id(module) not in names:
        return f"{kind}, outside the model"
    return f"{names[id(module)] or 'the model itself'} ({kind})"


def plan_of(func):
    """What is to be done about an op; kept for the next time."""
    name, schema = str(func), getattr(func, "_schema", None)
    base = name.split(".")[1] if "." in name else name
    writes, is_view = [], False
    if schema is not None:
        for index, one in enumerate(schema.arguments):
            if one.alias_info is not None and one.alias_info.is_write:
                # `out=` and the like are written over without being read.
                is_read = not one.kwarg_only and base not in REPLACES
                writes.append((index, one.name, is_read))
        returned = [one.alias_info for one in schema.returns]
        is_view = bool(returned) and all(
            info is not None and not info.is_write for info in returned
        )
    is_view = is_view and not base.startswith("lift_fresh")
    computes = not (is_view or base in UNWRITTEN or "c10d" in name.split(".")[0])
    plans[func] = Plan(name, base, writes, computes)
    return plans[func]


def written_to(plan, args, kwargs):
    """(tensor, whether the op reads it, too) of what an op writes to."""
    for index, name, is_read in plan.writes:
        value = args[index] if index < len(args) else kwargs.get(name)
        for one in tensors(value):
            yield one, is_read


def tensors(values):
    """Every tensor in nested tuples, lists and mappings, in order."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors(value)
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors(value)
    elif hasattr(values, "__dataclass_fields__"):
        yield from tensors(vars(values))


def numbers(values):
    if isinstance(values, float):
        yield values
    elif isinstance(values, dict):
        yield from numbers(list(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from numbers(value)


def plain_values(value):
    """The numbers of a tensor as torch can sum them; None where it has none."""
    if not (value.is_floating_point() or value.is_complex()) or value.is_meta:
        return None
    if type(value).__name__ in UNREAL or value.is_quantized or value.is_nested:
        return None
    value = value.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout != torch.strided:
        value = value._values() if value.is_sparse else value.values()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.float() if value.element_size() == 1 else value


def is_finite(value):
    """One pass where all is well: a sum is quicker than looking at each number.
    None of what cannot be read."""
    try:
        plain = plain_values(value)
        if plain is None or plain.numel() == 0:
            return True
        wide = torch.float64 if plain.dtype == torch.float64 else torch.float32
        if math.isfinite(plain.sum(dtype=wide).item()):
            return True
        return bool(torch.isfinite(plain).all())
    except UNREADABLE:
        return None


def is_bad(value):
    return is_finite(value) is False


def has_nan(value):
    return bool(torch.isnan(plain_values(value)).any())


def quick_facts(value):
    """`facts_of` in one pass where all is finite."""
    plain = plain_values(value)
    if plain.numel() and plain.dtype in (torch.float32, torch.float64, torch.bfloat16):
        ends = [float(one) for one in plain.aminmax()]
        if all(map(math.isfinite, ends)):
            return facts(value, 0, 0, plain.numel(), max(map(abs, ends)), False)
    return facts_of(value)


def facts_of(value):
    plain = plain_values(value)
    nan, inf = int(torch.isnan(plain).sum()), int(torch.isinf(plain).sum())
    lowest = bool(inf) and not bool((plain == math.inf).any())
    finite = plain.nan_to_num(0.0, 0.0, 0.0)
    highest = float(finite.abs().max()) if plain.numel() else 0.0
    return facts(value, nan, inf, plain.numel(), highest, lowest)


def facts(value, *rest):
    return Facts(str(value.dtype), list(value.shape), str(value.device), *rest)


def described(facts):
    ends = limit(facts.dtype)
    text = f"{facts.dtype} {facts.shape} |x| up to {facts.highest:.4g}"
    if facts.highest > ends / 10:
        text += f", {facts.highest / ends:.0%} of its range"
    text += f", nan {facts.nan}" * bool(facts.nan)
    return text + f", inf {facts.inf}" * bool(facts.inf)


def limit(dtype):
    kind = getattr(torch, dtype.rpartition(".")[2])
    return torch.finfo(kind).max if kind.is_floating_point else math.inf


def checksum(value):
    """The sum of a tensor's bits as integers."""
    plain = plain_values(value).contiguous()
    return int(plain.view(INTEGERS[plain.element_size()]).sum(dtype=torch.int64))


def storage_of(value):
    if hasattr(value, "to_local"):
        value = value.to_local()
    try:
        if hasattr(value, "untyped_storage"):
            return value.untyped_storage().data_ptr()
        return value.storage().data_ptr()
    except UNREADABLE:
        return id(value)  # a tensor without storage


def is_whole(value):
    """Whether it is all of its storage: what is not finite there is gone then."""
    if not hasattr(value, "untyped_storage"):
        return value.numel() == len(value.storage())
    size = value.numel() * value.element_size()
    return size >= value.untyped_storage().nbytes()


def compiled(model):
    """Names of what torch.compile has of the model, and that it has something else."""
    names = [
        name or "the model itself"
        for name, module in model.named_modules()
        if type(module).__name__ == "OptimizedModule"
        or getattr(module, "_compiled_call_impl", None) is not None
    ]
    dynamo = sys.modules.get("torch._dynamo.utils")
    graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo else 0
    if graphs and not names:
        names = [f"{graphs} graphs in this process"]
    return names


def ranks():
    """(the number of this one, how many there are)."""
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    return 0, 1


def shown(line):
    """train.py:12 in main: loss.backward(), with what of the path is below here."""
    if line is None:
        return "(no line known)"
    path, here = line.file, os.getcwd() + os.sep
    if path.startswith(here):
        path = path[len(here) :]
    else:
        path = os.sep.join(path.split(os.sep)[-2:])
    source = linecache.getline(line.file, line.number).strip()
    return f"{path}:{line.number} in {line.function}" + f": {source}" * bool(source)


def written(title, rows):
    lines = [f"nan_probe {VERSION}: {title}"]
    rows = [(name, value) for name, value in rows if value or value == []]
    lines += [f"  {name}: {value}" for name, value in rows]
    return "\n".join(lines)
