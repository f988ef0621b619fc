"""The default watch: each step is checked, the bad one is repeated.

A check is one look at the loss and one at the gradients, and after the optimizer one at
the weights. Only what goes wrong is run again with the same inputs and random numbers,
under the mode that sees every op.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque

from .captures import read
from .catching import kept
from .explaining import CLASSES
from .known import known_by
from .patches import Patches, registered
from .places import inside_backward, site
from .repeats import Repeats
from .reports import KEEP, Owner, Unreached, written
from .states import Models, Weights
from .tape import Call, Tape, context, is_compiling, transform
from .values import any_bad, gradients_of, losses_of, tensors, weights_of

# So many bad steps in a row, or a scale below 1, are no search for the loss scale, if
# the scale is where so many lead from the one that GradScaler begins with.
HALVINGS, SEARCHED = 8, 2.0**16 / 2**7
sessions = []
# A loss or a gradient from which on growth is no ordinary one.
LARGE = 1e4
KEPT = ("loss", "gradients", "weights")
DIVERGES = "lower the learning rate, warm it up, or clip the gradients"
ELSEWHERE = "another process that trains needs `with watch(model)` of its own"


def active():
    """The session that goes on, if one does."""
    return sessions[-1] if sessions else None


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
        self.weights, self.unreached = Weights(), Unreached()
        self.patches = Patches(self)
        self.stepping = None  # the Call of a step function while it runs
        self.repeats = Repeats(self)
        self.losses, self.backwards, self.bad_in_row = [], 0, 0
        self.is_in_backward = self.is_counted = False
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
            if self.is_call() and not self.tape.is_within():
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
        is_busy = self.stepping or self.repeats.are_on or self.found
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
            by_tape = functools.partial(self.repeats.by_tape, given, gradients, where)
            self.find(by_tape, where, given)
        if not (kwargs.get("retain_graph") or any(one is True for one in args[2:3])):
            self.tape.spend(given)
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
        if self.repeats.are_on:
            self.repeats.end_at_optimizer()
            return
        if self.stepping is not None and self.backwards:
            self.judge()
        self.unreached.look(optimizer)
        self.weights.keep(optimizer)
        if not self.totals["weights"]:
            any_bad(weights_of(optimizer), self.totals["weights"])
        if has_closure and self.is_mine():
            self.tape.enter()

    def after_optimizer(self, optimizer):
        self.tape.leave()
        if self.repeats.are_on or self.found:
            return
        self.steps += not self.totals["loss"]  # none of its backward passes was seen
        if any_bad(weights_of(optimizer), self.totals["weights"]):
            where = site(lambda module: None)
            before = None
            if self.weights.copies:
                before = self.weights.as_before(optimizer)
            repeat = functools.partial(self.repeats.by_optimizer, optimizer, where)
            self.find(repeat, where, None, before)
        self.weights.clear()
        if self.stepping is None and not self.found:
            self.tape.spend()
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
        return self.step(self.forward_and_backward, compute_loss)

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
            repeat = functools.partial(self.repeats.by_function, call)
            self.find(repeat, call.site, losses)
        self.losses, self.unscaled = [], []

    # --- findings ---

    def find(self, repeat, where, losses, before=None):
        """The step is bad: what made it so, by running it again."""
        why = None
        self.model = Models(self.roots, self.tape.parameters())
        try:
            step, notes = self.repeats.run(repeat, True, before)
            if step.reached is None:
                why = self.repeats.why_gone(repeat)
        except Exception as error:  # of the program's own code, which runs again
            step, notes = self.repeats.cut_short(), []
            why = f"not repeated: {str(error) or repr(error)}"
        once = "; ".join(["once, under the full probe", *sorted(set(notes))])
        self.repeated = why or once
        if step.reached is None:
            step.unseen(where, losses)
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

    def check_rest(self, end=None):
        """A program that never calls backward, or leaves a bad loss out by itself."""
        if not self.is_mine():
            return False
        call = self.tape.cut_at_bad_end(end, may_evaluate=not self.steps)
        if call is None:
            return False
        self.steps += 1
        self.find(self.repeats.forward_only, call.site, call.result)
        return True

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
            ("no gradient", self.unreached.told(Models(self.roots).named_parameters())),
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


def growth(seen):
    """Whether the last of some totals is beyond the first of them by orders."""
    first, last = (abs(seen[0]), abs(seen[-1])) if seen else (0, 0)
    return last > LARGE and last > 1000 * first
