"""The default watch: each step is checked, the bad one is repeated.

A check is one look at the loss and one at the gradients, and after the optimizer one at
the weights. Only what goes wrong is run again with the same inputs and random numbers,
under the mode that sees every op.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque

import torch

from .captures import read
from .catching import Public, kept
from .cheap import Models, any_bad, gradients_of, growth, losses_of
from .explaining import CLASSES
from .known import known_by
from .patches import Mode, Patches, in_threads, registered
from .places import again, inside_backward
from .reports import KEEP, Owner, compiled, ranks, written
from .slices import Chain
from .states import Cannot, Replay, State, Weights, unwrapped
from .steps import Step
from .tape import Call, Tape, context, is_compiling, site, transform
from .values import tensors

# So many bad steps in a row, or a scale below 1, are no search for the loss scale, if
# the scale is where so many lead from the one that GradScaler begins with.
HALVINGS, SEARCHED = 8, 2.0**16 / 2**7
sessions = []
KEPT = ("loss", "gradients", "weights")
DIVERGES = "lower the learning rate, warm it up, or clip the gradients"
ELSEWHERE = "another process that trains needs `with watch(model)` of its own"
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
        self.step_seen = None  # what the last repeat saw
        self.losses, self.backwards, self.bad_in_row = [], 0, 0
        self.is_repeating = self.is_in_backward = False
        self.ends_at_optimizer = self.is_counted = False
        self.repeated = None
        self.gave_way = False  # to a watch of the program itself
        self.started = 0  # processes, by a script that launch.py runs
        self.unscaled = []
        # Of the last steps: what they were before one of them was not finite.
        self.totals = {one: deque(maxlen=8) for one in KEPT}
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
                self.tape.buffers.keep(module)

    def hook(self, module):
        def begin(module, args, kwargs=None):
            if self.is_call():
                self.tape.begin_module(module, args, kwargs or {})

        def end(module, *given):
            if self.is_call():
                self.tape.end_module(module, given[-1])

        self.handles.append(registered(module.register_forward_pre_hook, begin))
        self.handles.append(registered(module.register_forward_hook, end))

    def is_call(self):
        """Whether the call of a module is one of a step, and not within autograd."""
        if is_compiling():  # which reads hooks, too: there they must be nothing
            return False
        return self.is_mine() and not inside_backward() and transform() is None

    def is_mine(self):
        is_busy = self.stepping or self.is_repeating or self.found
        return self.patches.is_here() and not is_busy

    # --- what the patches tell ---

    def backward(self, original, args, kwargs, gradients):
        """Before it the loss is looked at, after it the gradients."""
        if self.is_in_backward:
            return original(*args, **kwargs)
        self.is_in_backward = True
        try:
            return self.outer_backward(original, args, kwargs, gradients)
        finally:
            self.is_in_backward = False

    def outer_backward(self, original, args, kwargs, gradients):
        given = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        if self.stepping is not None or not self.is_mine() or inside_backward():
            self.losses = [given]
            self.backwards += 1
            return original(*args, **kwargs)
        where = site(self.meet)
        self.tape.leave()
        for end in self.tape.left_out(given):
            if self.check_rest(end):
                return original(*args, **kwargs)
        is_bad = any_bad(losses_of(self.unscaled or given), self.totals["loss"])
        try:
            result = original(*args, **kwargs)
            is_bad = is_bad or self.are_gradients_bad() or any_bad(tensors(result))
            is_bad = is_bad or self.tape.buffers.are_spoilt()
        finally:
            self.tape.enter()
        self.steps += not self.is_counted
        self.is_counted = False
        if is_bad:
            self.find(lambda: self.again_by_tape(given, gradients, where), where, given)
        if not (kwargs.get("retain_graph") or any(one is True for one in args[2:3])):
            self.tape.clear()
        self.unscaled = []
        return result

    def are_gradients_bad(self):
        leaves = self.tape.parameters()
        self.model = Models(self.roots, leaves)
        gradients = gradients_of(self.model.parameters())
        is_bad = any_bad(gradients, self.totals["gradients"])
        if self.scaler is None or not is_bad:
            self.bad_in_row = 0
            return is_bad
        self.bad_in_row += 1
        scale = self.scaler.get_scale()
        return (self.bad_in_row >= HALVINGS and scale <= SEARCHED) or scale < 1

    def before_optimizer(self, optimizer, has_closure):
        self.tape.leave()
        if self.is_repeating:
            if self.ends_at_optimizer:
                raise Enough
            return
        if self.stepping is not None and self.backwards:
            self.judge()
        self.weights.keep(optimizer)
        if not self.totals["weights"]:
            any_bad(self.weights.of(optimizer), self.totals["weights"])
        if has_closure and self.is_mine():
            self.tape.enter()

    def after_optimizer(self, optimizer):
        self.tape.leave()
        if self.is_repeating or self.found:
            return
        self.steps += not self.totals["loss"]  # none of its backward passes was seen
        if any_bad(self.weights.of(optimizer), self.totals["weights"]):
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
        replay = Replay(self.tape, self.step_seen)
        weights = self.weights.of(optimizer)
        replay.forward([one.grad for one in weights])
        for one in weights:
            one.grad = replay.made.get(id(one.grad), one.grad)
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
            step, notes = self.seen_of(), []
            why = f"not repeated: {str(error) or repr(error)}"
        once = "; ".join(["once, under the full probe", *sorted(set(notes))])
        self.repeated = why or once
        if step.reached is None:
            step.unseen(where, losses)
        elif self.capture:
            self.keep(step.reached.first())
        self.say(step, False)

    def seen_of(self):
        """Of a repeat that was cut short: what it had made, if that was bad."""
        step = self.step_seen or Step(self)
        step.graphs.leave()
        step.reach(step.last, "the last result before the repeat ended")
        return step if step.reached is not None else Step(self)

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
        step.chain, step.held = Chain(step.weight_names), after.held
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
                    stack.enter_context(in_threads(mode))
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

    def check_rest(self, end=None):
        """A program that never calls backward, or leaves a bad loss out by itself."""
        if not self.is_mine():
            return False
        call = self.tape.cut_at_bad_end(end, may_evaluate=not self.steps)
        if call is None:
            return False
        self.steps += 1
        self.find(self.forward_only, call.site, call.result)
        return True

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
        none = "no step was seen here" + f"; {ELSEWHERE}" * (not self.started)
        rows = [
            ("watched", seen if self.steps else none),
            ("processes", self.started and f"{self.started}; each watched itself"),
            *self.surroundings(),
        ]
        return written("nothing found" if self.steps else "nothing watched", rows)

    def surroundings(self):
        missed = self.patches.elsewhere
        row = ("not watched", missed and f"{missed} backward passes of other threads")
        return [row, *super().surroundings()]

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
        found = [row for row in found if not (captured and row[1] == KEEP)]
        return [("diverges", self.diverges()), *captured, *found]
