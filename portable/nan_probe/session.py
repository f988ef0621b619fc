"""The default watch: each step is checked, the bad one is repeated.

A check is one look at the loss and one at the gradients, and after the optimizer one at
the weights. Only what goes wrong is run again with the same inputs and random numbers,
under the mode that sees every op.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import deque

import torch

from .captures import read
from .catching import Public, kept
from .cheap import Models, any_bad, gradients_of, growth, is_plain, losses_of
from .explaining import CLASSES
from .known import known_by
from .patches import Patches, registered
from .places import Place, again, inside_backward
from .reports import Birth, Owner, compiled, ranks, written
from .slices import Chain
from .states import State, Weights
from .steps import Mode, Step
from .tape import Call, Cannot, Replay, Tape, context, site, unwrapped
from .values import has_nan, tensors

# So many bad steps in a row, or a scale below 1, are no search for the loss scale.
HALVINGS = 8
sessions = []
DIVERGES = "lower the learning rate, warm it up, or clip the gradients"
compiler = getattr(torch, "compiler", None)


def active():
    """The session that goes on, if one does."""
    return sessions[-1] if sessions else None


class Enough(BaseException):
    """Ends a repeated step function where the optimizer would begin."""


class Session(contextlib.ContextDecorator, Owner):
    """One at a time; `roots`: the models, met or given."""

    def __init__(self, model=None, scaler=None, eager=False, file=None, capture=None):
        """`capture`: a folder; the call that made the value is kept there, shrunk."""
        Owner.__init__(self, model, scaler, False, eager, file)
        self.capture = capture
        self.captured = []
        self.roots = []
        self.handles = []
        self.tape = Tape(self.meet)
        self.weights = Weights()
        self.patches = Patches(self)
        self.stepping = None  # the Call of a step function while it runs
        self.losses, self.backwards, self.bad_in_row = [], 0, 0
        self.is_repeating = self.is_in_backward = False
        self.ends_at_optimizer = self.is_counted = False
        self.repeated = None
        self.gave_way = False  # to a watch of the program itself
        self.unscaled = []
        # Of the last steps: what they were before one of them was not finite.
        self.totals = {one: deque(maxlen=8) for one in ("loss", "gradients")}
        if model is not None:
            self.meet(model)
        self.model = Models(self.roots)

    # --- beginning and end ---

    def __enter__(self):
        for other in list(sessions):
            other.stop()
            other.gave_way = True
        sessions.append(self)
        self.patches.install()
        for root in self.roots:
            self.hook(root)
        self.tape.enter()
        return self

    def __exit__(self, kind, error, trace):
        try:
            if not self.found:
                self.check_rest()
        finally:
            self.stop()

    def stop(self):
        self.tape.leave()
        self.tape.clear()
        self.patches.remove()
        if self in sessions:
            sessions.remove(self)
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def meet(self, module):
        """A module that the program calls, outermost."""
        if module not in self.roots:
            self.roots.append(module)
            if self.patches.are_on:
                self.hook(module)

    def hook(self, module):
        def begin(module, args, kwargs=None):
            if self.is_mine() and not inside_backward():
                self.tape.begin_module(module, args, kwargs or {})

        def end(module, *given):
            if self.is_mine() and not inside_backward():
                self.tape.end_module(module, given[-1])

        self.handles.append(registered(module.register_forward_pre_hook, begin))
        self.handles.append(registered(module.register_forward_hook, end))

    def is_mine(self):
        is_busy = self.stepping or self.is_repeating or self.found
        return self.patches.is_here() and not is_busy

    # --- what the patches tell ---

    def backward(self, original, args, kwargs):
        """Before it the loss is looked at, after it the gradients."""
        if self.is_in_backward:
            return original(*args, **kwargs)
        self.is_in_backward = True
        try:
            return self.outer_backward(original, args, kwargs)
        finally:
            self.is_in_backward = False

    def outer_backward(self, original, args, kwargs):
        given = args[0] if args else kwargs.get("tensors")
        if self.stepping is not None or not self.is_mine() or inside_backward():
            self.losses = [given]
            self.backwards += 1
            return original(*args, **kwargs)
        where = site(self.meet)
        self.tape.leave()
        is_bad = any_bad(losses_of(self.unscaled or given), self.totals["loss"])
        try:
            original(*args, **kwargs)
            is_bad = is_bad or self.are_gradients_bad()
        finally:
            self.tape.enter()
        self.steps += not self.is_counted
        self.is_counted = False
        if is_bad:
            given_gradients = kwargs.get("grad_tensors", kwargs.get("gradient"))
            gradients = args[1] if len(args) > 1 else given_gradients
            self.find(lambda: self.again_by_tape(given, gradients, where), where, given)
        if not (kwargs.get("retain_graph") or args[2:3] == (True,)):
            self.tape.clear()
        self.unscaled = []
        return None

    def are_gradients_bad(self):
        leaves = self.tape.parameters()
        self.model = Models(self.roots, leaves)
        gradients = gradients_of(self.model.parameters())
        is_bad = any_bad(gradients, self.totals["gradients"])
        if self.scaler is None or not is_bad:
            self.bad_in_row = 0
            return is_bad
        self.bad_in_row += 1
        return self.bad_in_row >= HALVINGS or self.scaler.get_scale() < 1

    def before_optimizer(self, optimizer, has_closure):
        self.tape.leave()
        if self.is_repeating:
            if self.ends_at_optimizer:
                raise Enough
            return
        if self.stepping is not None and self.backwards:
            self.judge()
        self.weights.keep(optimizer)
        if has_closure and self.is_mine():
            self.tape.enter()

    def after_optimizer(self, optimizer):
        self.tape.leave()
        if self.is_repeating or self.found:
            return
        if any_bad(self.weights.of(optimizer)):
            where = site(lambda module: None)
            before = None
            if self.weights.copies:
                before = self.weights.as_before(optimizer)
            repeat = functools.partial(self.again_by_optimizer, optimizer, where)
            self.find(repeat, where, None, before)
        self.weights.clear()
        if self.stepping is None and not self.found:
            self.tape.clear()
            self.tape.enter()

    # --- step functions ---

    def step(self, function=None, *batch, **named):
        """`step(fn, *batch)` runs a step function; without one `with step():`."""
        if function is None:
            return self.marked()
        if not self.is_mine():
            return function(*batch, **named)
        self.open(function, batch, named)
        try:
            result = function(*batch, **named)
            self.close(result)
        finally:
            self.stepping = None
            if not self.found:
                self.tape.enter()
        return result

    @contextlib.contextmanager
    def marked(self):
        self.tape.clear()
        yield self
        self.check_rest()

    def run(self, compute_loss):
        """Forward and backward as one step; returns the loss."""

        def forward_and_backward():
            loss = compute_loss()
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            return loss

        return self.step(forward_and_backward)

    def open(self, function, args, kwargs):
        """A step function begins: what its repeat needs is kept."""
        self.tape.clear()
        self.tape.leave()
        self.tape.begin()
        for root in self.roots:
            self.tape.buffers.keep(root)
        where = site(lambda module: None)
        self.losses, self.backwards = [], 0
        self.steps += 1
        self.is_counted = True
        self.stepping = Call(function, args, kwargs, None, where, context(), [])

    def close(self, result):
        """A step function has ended; one without a backward waits for that."""
        if self.found:
            return
        if self.backwards or not any(one.requires_grad for one in losses_of(result)):
            self.losses += losses_of(result)
            self.judge()
            self.is_counted = False
        else:
            self.tape.calls = [self.stepping._replace(result=result)]

    def judge(self):
        """Of the step function that runs: are loss and gradients finite?"""
        call = self.stepping
        losses = losses_of(self.unscaled or self.losses)
        is_bad = not self.found and any_bad(losses, self.totals["loss"])
        if is_bad or (not self.found and self.are_gradients_bad()):
            self.find(lambda: self.again_by_function(call), call.site, losses)
        self.losses, self.unscaled = [], []

    # --- repeats ---

    def again_by_tape(self, losses, gradients, where):
        if self.tape.broken:
            raise Cannot(self.tape.broken)
        replay = Replay(self.tape, self.step_seen)
        replay.forward([losses, gradients])
        replay.backward(losses, gradients, where)
        return replay.notes

    def again_by_function(self, call):
        function, args = call.function, tuple(map(unwrapped, call.args))
        with contextlib.ExitStack() as stack:
            for root in self.roots:
                if hasattr(root, "no_sync"):
                    stack.enter_context(root.no_sync())
                    root.require_forward_param_sync = False
            self.ends_at_optimizer = True
            stack.callback(setattr, self, "ends_at_optimizer", False)
            with contextlib.suppress(Enough):
                again(function, args, call.kwargs, call.site)
        return []

    def again_by_optimizer(self, optimizer, where):
        if not self.weights.copies:
            raise Cannot("a copy of the weights before the step was too large to keep")
        Replay(self.tape, self.step_seen).forward()
        again(optimizer.step, (), {}, where)
        return []

    def find(self, repeat, where, losses, before=None):
        """The step is bad: what made it so, by running it again."""
        why = None
        self.model = Models(self.roots, self.tape.parameters())
        try:
            step, notes = self.repeat(repeat, True, before)
            if step.reached is None:
                why = self.why_gone(repeat)
        except Exception as error:  # of the program's own code, which runs again
            step, notes, why = (
                Step(self),
                [],
                f"not repeated: {str(error) or repr(error)}",
            )
        self.repeated = "; ".join(["once, under the full probe", *sorted(set(notes))])
        if step.reached is None:
            self.repeated = why
            self.unseen(step, where, losses)
        elif self.capture:
            self.keep(step.reached.first())
        self.say(step, False)

    def keep(self, birth):
        """The call behind a finding, and what is known of it once it is small."""
        path, why = kept(birth, self.capture)
        self.captured = [("capture", f"none: {why}")]
        if path is None:
            return
        capture = read(path)
        self.captured = [
            ("heals", "; ".join(capture["heals"]) or "nothing that was tried"),
            ("law", capture["law"]),
            ("class", CLASSES[capture["class"]]),
            ("capture", path),
        ]

    def why_gone(self, repeat):
        """Why a bad step is a good one when it is run op by op."""
        if ranks()[1] > 1:
            return "finite in this rank's own repeat: read the reports of the others"
        if compiled(self.model, self.graphs):
            plain, _ = self.repeat(repeat, False)
            if plain.reached is not None or plain.is_bad:
                return "compiled only: gone in eager, there again as it was compiled"
        return "gone when repeated: something counts or races, or it is the machine"

    def repeat(self, repeat, eager, before=None):
        """(what a Step saw, notes); all but what the program counts is set back."""
        self.tape.leave()
        after = State(self.model, with_grads=True)
        step, mode = Step(self), Mode()
        step.chain = Chain(step.weight_names)
        self.step_seen = step
        self.is_repeating = True
        try:
            with contextlib.ExitStack() as stack:
                if eager and hasattr(compiler, "set_stance"):
                    stack.enter_context(compiler.set_stance("force_eager"))
                self.set_back(before is not None)
                stack.enter_context(before or contextlib.nullcontext())
                mode.step = step if eager else None
                if eager:
                    stack.enter_context(mode)
                if eager and self.capture:
                    step.public = stack.enter_context(Public())
                notes = repeat()
            step.finish()
            step.is_bad = any_bad(gradients_of(self.model.parameters()))
        finally:
            self.is_repeating = False
            after.restore()
        return step, notes

    def set_back(self, with_gradients):
        """To what was when the step began; of the optimizer's step, its gradients."""
        if self.tape.chance is not None:
            self.tape.chance.restore()
            self.tape.buffers.restore()
        if not with_gradients:
            for one in self.model.parameters():
                one.grad = None

    def unseen(self, step, where, losses):
        """A finding without an op: that loss, gradients or weights are not finite."""
        bad = [one for one in losses_of(losses) if any_bad([one])]
        direction, module = "forward", "(the loss)"
        if not bad:
            direction, module = "backward", "(a gradient)"
            bad = [g for g in gradients_of(self.model.parameters()) if any_bad([g])]
        if not bad:
            direction, module = "optimizer", "(a weight)"
            bad = [one for one in self.model.parameters() if any_bad([one])]
        value = bad[0] if bad else torch.tensor(math.nan)
        place = Place(direction, where, None, module)
        birth = Birth("unseen", "(not seen)", place, value)
        step.births.append(birth)
        step.reach(birth, module)

    def check_rest(self):
        """A program that never calls backward, or stops at a bad loss by itself."""
        if not self.is_mine():
            return
        if not self.steps and not self.tape.calls:  # it only evaluates
            self.tape.calls = [call for _, call in self.tape.plain]
        read = {id(one) for call in self.tape.calls for one in tensors(call[1:3])}
        for at, call in reversed(list(enumerate(self.tape.calls, 1))):
            ends = [one for one in tensors(call.result) if id(one) not in read]
            # Of more than one number an infinity may well be a mask.
            if any_bad(losses_of(ends)) or any(map(has_nan, filter(is_plain, ends))):
                self.steps += 1
                del self.tape.calls[at:]
                self.find(self.forward_only, call.site, call.result)
                return

    def forward_only(self):
        replay = Replay(self.tape, self.step_seen)
        replay.forward()
        return replay.notes

    # --- what is said ---

    def diverges(self):
        """Before anything is healed: values that grew from step to step."""
        grown = [
            f"{name} {', '.join(f'{one:.3g}' for one in list(seen)[-4:])}"
            for name, seen in self.totals.items()
            if growth(seen)
        ]
        if not grown:
            return None
        return f"{'; '.join(grown)} in the steps before: {DIVERGES}"

    def which_step(self):
        return f"{self.steps - 1} (from 0; each is checked)"

    def report(self):
        if self.text:
            return self.text
        seen = f"{self.steps} steps, each by its loss, gradients and weights"
        rows = [("watched", seen if self.steps else "no step was seen")]
        title = "nothing found" if self.steps else "nothing watched"
        return written(title, rows + self.surroundings())

    def rows(self, now):
        found = super().rows(now)
        found.insert(-5, ("repeated", self.repeated))
        birth = now.reached.first()
        law = dict(self.captured).get("law", birth.law)
        same, alike = known_by(birth.slice, law)
        found[5:5] = [
            ("law", law),
            ("slice", birth.slice),
            ("known", f"{same[0]}: its trigger has this very slice" if same else None),
            ("of this law", "; ".join(alike)),
        ]
        captured = [row for row in self.captured if row[0] != "law"]
        return [("diverges", self.diverges()), *captured, *found]
