"""One watched step: every op below autograd, and which of them made the bad value."""

from __future__ import annotations

import math
import threading
from collections import namedtuple

import torch

from .catching import caught
from .laws import GIVEN, law
from .places import Graphs, Look, Place, inside_backward
from .reports import SHOWN, Birth, NotFinite, written
from .slices import Made, plain_name, slice_of
from .values import (
    FILLS,
    UNREADABLE,
    UNWRITTEN,
    any_bad,
    checksum,
    described,
    facts_of,
    gradients_of,
    has_nan,
    is_bad,
    is_finite,
    is_whole,
    losses_of,
    numbers,
    plain_values,
    plan_of,
    plans,
    quick_facts,
    storage_of,
    tensors,
    written_to,
)

LABEL, CALL, MADE = "nan_probe", "nan_probe call", "nan_probe made"
current_node = getattr(torch._C, "_current_autograd_node", None)
# `copy`: what it held, where calls are kept.
Held = namedtuple("Held", "facts birth copy")


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
        self.held = ()  # what the model held when the step was found to be bad
        # What calls that are not kept have made; whether some made what looks like it.
        self.hidden, self.is_hidden = set(), False
        # The birth in the last result of the forward; the one that had an effect.
        self.last = self.reached = self.reached_as = self.collective = None
        self.phase = "forward"
        self.ops = self.unread = 0
        self.sums = sums
        # With `public` the functions that ran, by the storage of what they gave.
        self.public, self.calls = None, {}
        # With `chain` which op made what, for the slice.
        self.chain = None
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
        read = None if self.chain is None else self.chain.read(plan.base, args)
        for value, is_read in written_to(plan, args, kwargs):
            written_ones.append(value)
            before[id(value)] = self.before(plan, value, place) if is_read else None
        result = func(*args, **kwargs)
        self.ops += 1
        try:
            made = written_ones, result, read
            self.after(plan, place, (args, kwargs), before, *made)
            if read is not None:
                self.chain.add(plan.base, read, [*written_ones, *tensors(result)])
        except UNREADABLE:
            self.unread += 1
        return result

    def note(self, plan, args, kwargs, result):
        """Ops that compute nothing: views, new memory, and what other ranks send."""
        if plan.base in UNWRITTEN:
            for storage in map(storage_of, tensors(result)):
                self.unwritten.add(storage)
                self.origins.pop(storage, None)
                if self.chain is not None:
                    self.chain.made.pop(storage, None)
        elif not plan.name.startswith("aten."):
            self.collective = plan.name
            self.unwritten.difference_update(map(storage_of, tensors((args, kwargs))))

    def label(self, args):
        """Note with the autograd node of each input which line made it."""
        try:
            for value in tensors(args):
                node = value.grad_fn
                if node is not None and LABEL not in node.metadata:
                    storage = storage_of(value)
                    node.metadata[LABEL] = self.places.get(storage)
                    node.metadata[CALL] = self.calls.get(storage)
                    made = None if self.chain is None else self.chain.of(value)
                    node.metadata[MADE] = made
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
            if self.phase != "backward" or plan.base == "ones_like":
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
        for name, one in self.owner.model.named_buffers():
            birth = self.origins.get(storage_of(one))
            if birth is not None and not birth.on_purpose:
                self.reach(birth, f"{name}, which the next step reads")
        real = [birth for birth in self.births if not birth.on_purpose]
        if failed and real:
            self.reach(self.last or real[0], "an exception ended the step")
        self.graphs.leave()

    def reach(self, birth, what):
        if birth is not None and self.reached is None:
            self.reached, self.reached_as = birth, what

    def unseen(self, where, losses):
        """A finding without an op: that loss, gradients or weights are not finite."""
        weights = self.owner.model.parameters()
        looked_at = [
            *(("forward", "(the loss)", one) for one in losses_of(losses)),
            *(("backward", "(a gradient)", one) for one in gradients_of(weights)),
            *(("optimizer", "(a weight)", one) for one in weights),
        ]
        none = ("optimizer", "(a weight)", torch.tensor(math.nan))
        bad = (row for row in looked_at if any_bad([row[2]]))
        direction, module, value = next(bad, none)
        place = Place(direction, where, None, module)
        birth = Birth("unseen", "(not seen)", place, value)
        self.births.append(birth)
        self.reach(birth, module)

    def before(self, plan, value, place):
        """What a tensor that the op writes to held, where the op reads that, too."""
        try:
            if plain_values(value) is None:
                return None
            facts = quick_facts(value)
            bad = facts.nan or facts.inf
            copy = None if self.public is None else value.detach().clone()
            birth = self.origin(value, plan.name, place) if bad else None
            return Held(facts, birth, copy)
        except UNREADABLE:
            return None

    def after(self, plan, place, inputs, before, written_ones, result, read):
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
            if self.public is not None:
                self.calls[storage] = self.public.now
            self.unwritten.discard(storage)
            if finite is False:
                bad.append(value)
            elif self.origins and is_whole(value):
                gone.append(storage)
        if bad:
            with self.lock:
                birth = self.explain(plan, place, inputs, before, bad, read)
        for storage in gone:
            self.origins.pop(storage, None)
        if values and place.direction == "forward":
            self.last = None if birth is None or birth.on_purpose else birth
        if birth is not None:
            written = [one for one in bad if storage_of(one) in storages]
            self.reach_a_weight(birth, place, written)

    def reach_a_weight(self, birth, place, written):
        """What is written into a weight has an effect, though there is no loss yet."""
        if place.direction == "optimizer":
            self.reach(birth, "a weight, by the optimizer")
        elif written and not torch.is_grad_enabled():
            names = list(filter(None, map(self.weight_name, written)))
            if names and birth.cause not in ("weight", "fill"):
                self.reach(birth, f"{names[0]}, written by hand")

    def explain(self, plan, place, inputs, before, bad, operands):
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
                sources.append(Held(facts_of(one), birth, None))
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
            if self.public is not None and cause != "fill":
                birth.call = self.caught(plan, place, inputs, before)
            if operands is not None and cause != "fill":
                self.trace(birth, place, Made(plain_name(plan.base), operands))
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
            rows = self.owner.rows(self)
            raise NotFinite(written("first non-finite value", rows))
        return birth

    def caught(self, plan, place, inputs, before):
        """The public call behind an op, and the op with what it read."""
        args = [getattr(before.get(id(one)), "copy", one) for one in inputs[0]]
        if place.direction != "backward" or place.line:  # code of a Function's own
            is_here = threading.get_ident() == self.thread
            now = self.public.now if is_here else None
            return caught(now, None, plan.name, args)
        node = current_node() if current_node else self.graphs.node()
        call = None if node is None else node.metadata.get(CALL)
        gradients = [one for one in tensors(args) if one.is_floating_point()]
        return caught(call, gradients, plan.name, args)

    def trace(self, birth, place, made):
        """Slice and law of what was just made; in backward those of the node's op."""
        direction, is_nan = place.direction, bool(birth.facts.nan)
        direction = "forward" if place.line else direction
        if direction == "backward":
            node = current_node() if current_node else self.graphs.node()
            made = None if node is None else node.metadata.get(MADE)
        if birth.cause == "constant":
            birth.law = GIVEN
        elif made is not None:
            kinds = [held for _, held in made.operands]
            birth.law = law(made.name, kinds, is_nan, direction == "backward")
            birth.slice = slice_of(made, direction)

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

    def weight_names(self):
        """Storage -> (name, tensor) of each parameter and buffer in it."""
        if self.weights is None:
            model, self.weights = self.owner.model, {}
            for name, one in (*model.named_parameters(), *model.named_buffers()):
                self.weights.setdefault(storage_of(one), []).append((name, one))
        return self.weights

    def weight_name(self, value):
        """Of the weight or buffer that holds a value; None where none does."""
        found = self.weight_names().get(storage_of(value), [])
        if len(found) > 1:  # flattened: the last that begins before it
            at = value.data_ptr()
            before = [row for row in found if row[1].data_ptr() <= at]
            found = sorted(before or found, key=lambda row: row[1].data_ptr())
        return found[-1][0] if found else None

    def stranger(self, value, storage):
        """(cause, name) of a tensor that no op seen has made."""
        name = self.weight_name(value)
        if name is not None:
            return "weight", name
        if storage in self.batch:
            return "input", "(an argument of the model)"
        if storage in self.unwritten:
            return "unwritten", ""
        fresh = value.grad_fn is None and not value.requires_grad
        fresh = fresh and not self.is_hidden and storage not in self.hidden
        if fresh and torch.is_grad_enabled():
            return "input", "(a batch or target)"
        return "unseen", ""
