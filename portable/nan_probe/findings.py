"""Who watches: what it was asked for, what it found, and how that is told."""

from __future__ import annotations

import sys

import torch

from .places import shown
from .reports import CAUSES, SHOWN, NotFinite, compiled, graphs, ranks, written
from .values import limit


class Owner:
    """`found`: the Birth that was reported. `steps`: that there were."""

    def __init__(self, model, scaler=None, error=False, eager=False, file=None):
        self.model = model
        self.scaler = scaler
        self.error = error
        self.eager = eager
        self.file = file
        self.found = None
        self.steps = 0
        self.rerun = None
        self.text = ""
        self.graphs = graphs()

    def stop(self):
        """Once something was found, nothing is watched any more."""

    def say(self, now, failed):
        self.found = now.reached.first()
        self.text = written("first non-finite value", self.rows(now))
        self.stop()
        if self.error and not failed:
            raise NotFinite(self.text)
        if not self.error:
            file = self.file or sys.stderr
            file.write(self.text + "\n")
            file.flush()

    def rows(self, now):
        birth = now.reached.first()
        facts, place = birth.facts, birth.place
        # The NaN that this Inf became.
        later = [one for one in now.births if one.goes_back_to(birth)]
        then = next((one for one in later if one is not birth), None)
        return [
            ("step", self.which_step()),
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
            *self.surroundings(),
        ]

    def surroundings(self):
        names, every = compiled(self.model, self.graphs), graphs()
        hidden = "inside compiled code no op is seen: TORCH_COMPILE_DISABLE=1 or "
        hidden += "watch(..., eager=True) shows them, TORCHINDUCTOR_NAN_ASSERTS=1 "
        hidden += "raises where the first buffer is not finite"
        is_compiled = "yes, " + "; ".join(names[:SHOWN])
        if not names:
            is_compiled = f"no module of the model; {every} graphs here" * bool(every)
        if self.eager:
            hidden = "nothing: watched steps ran compiled code op by op"
        return [
            ("compiled", is_compiled or "no"),
            ("hidden", hidden if names else None),
            ("loss_scale", self.scaler and self.scaler.get_scale()),
            ("rank", "{} of {}".format(*ranks())),
            ("torch", torch.__version__),
        ]
