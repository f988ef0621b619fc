"""The watch of one model: which steps are watched, and what is reported."""

from __future__ import annotations

import contextlib

import torch

from .patches import Mode, registered
from .places import inside_backward
from .reports import SHOWN, Owner, compiled, ranks, written
from .session import Session
from .states import State, compared
from .steps import Step
from .tape import compiler, is_compiling
from .values import storage_of, tensors

RERUNS = 2
BY_HAND = "mark steps with `with probe.step():`"
modes_on_stack = torch._C._len_torch_dispatch_stack


class Sampled(contextlib.ContextDecorator, Owner):
    """Watches every n-th step of one model op by op."""

    def __init__(self, model, every, scaler=None, error=False, eager=False, file=None):
        """`scaler`: a GradScaler; the steps that it skips are no finding. `eager`:
        compiled code op by op in watched steps. `file`: for the report (stderr)."""
        Owner.__init__(self, model, scaler, error, eager, file)
        self.every = every
        self.watched = self.ops = 0
        self.skipped = self.missed = self.unread = 0
        self.absorbed = []
        self._mode = Mode()
        self._now = self._hook = self._stance = None
        self._others = 0
        self._by_hand = False

    def __enter__(self):
        self._others = modes_on_stack()
        if self.every and not self._by_hand and not self.found:
            register = self.model.register_forward_pre_hook
            self._hook = registered(register, self._called)
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
            loss = self.forward_and_backward(compute_loss)
            now = self._now
            if now is not None:
                now.finish()
                if now.reached is not None and before is not None:
                    self.rerun = self._repeat(before, compute_loss, now.reached)
        return loss

    def report(self):
        """What was found; else what was watched, and what could not be seen."""
        if self.text:
            return self.text
        absorbed = "; ".join(birth.short() for birth in self.absorbed)
        seen = f"{self.watched} of {self.steps} steps, {self.ops} ops"
        rows = [
            ("watched", seen if self.steps else f"no step was seen; {BY_HAND}"),
            ("not watched", self.missed and f"{self.missed} steps in another mode"),
            ("not finite, without effect", absorbed),
            ("skipped", self.skipped and f"{self.skipped} steps, for the loss scale"),
            ("not read", self.unread and f"{self.unread} results of unusual kinds"),
            *self.surroundings(),
        ]
        if not self.watched:
            return written("nothing watched", rows)
        hidden = compiled(self.model, self.graphs) and not self.eager
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
            self.say(now, failed)

    def _is_skipped(self, birth):
        """GradScaler takes back a step whose scaled gradients overflow: a finding only
        when its scale is down to 1, or where the NaN does not come from an Inf."""
        birth = birth.first()
        if self.scaler is None or birth.place.direction != "backward":
            return False
        return birth.facts.nan == 0 and self.scaler.get_scale() > 1

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
                self.forward_and_backward(compute_loss)
                again.finish()
                runs.append(again)
        finally:
            self._mode.step = None
            after.restore()
        return compared(first, runs)

    def which_step(self):
        return f"{self.steps - 1} (from 0; every {self.every} is watched)"

    def stop(self):
        self._unhook()

    def _unhook(self):
        if self._hook is not None:
            self._hook.remove()
            self._hook = None


def watch(
    model,
    every=None,
    scaler=None,
    error=False,
    eager=False,
    file=None,
    capture=None,
):
    """Each step is checked and the bad one repeated; with `every=n` every n-th step is
    watched op by op instead, with `every=0` nothing. `error`: raises in the very op,
    for which each step is watched. `scaler`: a GradScaler; the steps that it skips are
    no finding. `eager`: compiled code op by op. `file`: for the report (stderr).
    `capture`: a folder for the call that made the value, shrunk; not with `every`."""
    if every is None and not error:
        return Session(model, scaler, eager, file, capture)
    return Sampled(model, 1 if every is None else every, scaler, error, eager, file)
