"""Repeats of a bad step: with the same inputs and random numbers, op by op.

What the step held is set back before a repeat, and after it to where the program was.
"""

from __future__ import annotations

import contextlib

from .catching import Public
from .patches import Mode, in_threads
from .places import again
from .reports import compiled, ranks
from .slices import Chain
from .states import Cannot, Replay, State, unwrapped
from .steps import Step
from .tape import compiler
from .values import any_bad, gradients_of, weights_of


class Enough(BaseException):
    """Ends a repeated step function where the optimizer would begin."""


class Repeats:
    """Of the steps of one session; `are_on` while one runs."""

    def __init__(self, session):
        self.session = session
        self.are_on = self.ends_at_optimizer = False
        self.seen = None  # what the last one saw, a Step

    # --- ways to run a step again: each returns notes for the report ---

    def by_tape(self, losses, gradients, where):
        """Its forward as the tape has it, and the backward pass."""
        if self.session.tape.broken:
            raise Cannot(self.session.tape.broken)
        replay = Replay(self.session.tape, self.seen)
        replay.forward([losses, gradients])
        replay.backward(losses, gradients, where)
        return replay.notes

    def forward_only(self):
        replay = Replay(self.session.tape, self.seen)
        replay.forward()
        return replay.notes

    def by_function(self, call):
        """The step function of the program, up to its optimizer."""
        function, args = call.function, tuple(map(unwrapped, call.args))
        with contextlib.ExitStack() as stack:
            for root in self.session.roots:
                if hasattr(root, "no_sync"):
                    stack.enter_context(root.no_sync())
                    root.require_forward_param_sync = False
            self.ends_at_optimizer = True
            stack.callback(setattr, self, "ends_at_optimizer", False)
            with contextlib.suppress(Enough):
                again(function, args, call.kwargs, call.site)
        return []

    def by_optimizer(self, optimizer, where):
        """The optimizer's step, with gradients that the forward may have given."""
        if not self.session.weights.copies:
            raise Cannot("a copy of the weights before the step was too large to keep")
        replay = Replay(self.session.tape, self.seen)
        weights = weights_of(optimizer)
        replay.forward([one.grad for one in weights])
        for one in weights:
            one.grad = replay.made.get(id(one.grad), one.grad)
        again(optimizer.step, (), {}, where)
        return []

    def end_at_optimizer(self):
        if self.ends_at_optimizer:
            raise Enough

    # --- running one ---

    def run(self, repeat, eager, before=None):
        """(what a Step saw, notes); all but what the program counts is set back."""
        session = self.session
        session.tape.leave()
        after = State(session.model, with_grads=True)
        step, mode = Step(session), Mode()
        step.chain, step.held = Chain(step.weight_names), after.held
        self.seen = step
        self.are_on = True
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
                if eager and session.capture:
                    step.public = stack.enter_context(Public())
                notes = repeat()
            step.finish()
            step.is_bad = any_bad(gradients_of(session.model.parameters()))
        finally:
            self.are_on = False
            after.restore()
        return step, notes

    def set_back(self, with_gradients):
        """To what was when the step began; of the optimizer's step, its gradients."""
        tape = self.session.tape
        if tape.chance is not None:
            tape.chance.restore()
            tape.buffers.restore()
        if not with_gradients:
            for one in self.session.model.parameters():
                one.grad = None

    def cut_short(self):
        """Of a repeat that raised: what it had made, if that was bad."""
        step = self.seen or Step(self.session)
        step.graphs.leave()
        step.reach(step.last, "the last result before the repeat ended")
        return step if step.reached is not None else Step(self.session)

    def why_gone(self, repeat):
        """Why a bad step is a good one when it is run op by op."""
        if ranks()[1] > 1:
            return "finite in this rank's own repeat: read the reports of the others"
        if compiled(self.session.model, self.session.graphs):
            plain, _ = self.run(repeat, False)
            if plain.reached is not None or plain.is_bad:
                return "compiled only: gone in eager, there again as it was compiled"
        if self.seen.hidden:
            return "finite in the part of the step that is kept; it began before that"
        return "gone when repeated: something counts or races, or it is the machine"
