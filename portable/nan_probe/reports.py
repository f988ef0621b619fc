"""The report of a finding and of what surrounds it."""

from __future__ import annotations

import sys

import torch

from .places import shown
from .values import facts_of, has_gradient, limit, plain_values, weights_of

VERSION = 2
SHOWN = 4
CAUSES = {
    "op": "the op, from finite inputs",
    "inf": "the op, from an Inf among its inputs",
    "fill": "a constant that the code fills in",
    "constant": "a constant in the code that is not finite",
    "weight": "a weight or buffer that was not finite before; where no optimizer of "
    "torch.optim wrote it, watch(model, every=1) names the op that did",
    "loaded": "a weight or buffer that was not finite before the first step: as it was "
    "made or loaded",
    "input": "an input: the tensor came from outside the step",
    "unwritten": "memory of torch.empty that no op seen here wrote: unwritten, or "
    "written by a kernel outside torch",
    "unseen": "not seen: compiled code, a kernel outside torch, another thread or "
    "rank, or what ran before the step",
}

# What to do then, by cause; of a call that was kept, what heals it stands there.
KEEP = "python nan_probe.py --capture DIR … keeps this call and tries what fixes it"
NEXT = {
    "op": KEEP,
    "inf": KEEP,
    "constant": "see where the number comes from that this line is given",
    "loaded": "initialize it, as with torch.nn.init; of a checkpoint look at the file",
    "input": "look at these elements in the loader, its transforms and its files; with "
    "num_workers=0 an op of torch there is named",
    "unwritten": "torch.zeros instead of torch.empty, or write to it before it is read",
}


class Birth:
    """Where values that are not finite came into being, and from what."""

    def __init__(self, cause, op, place, value, inputs=(), parent=None):
        self.cause = cause
        self.op = op
        self.place = place
        self.facts = facts_of(value)
        self.at = places_of(value)
        self.inputs = list(inputs)
        # The call that made it, where such are kept (catching); slice and law.
        self.call = self.slice = self.law = None
        # The birth of the Inf that it was made from.
        self.parent = parent
        # A mask: -inf that came from outside and is not learned, or that a number made.
        given = cause in ("weight", "input", "constant") and self.facts.lowest
        given = given and not value.requires_grad
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


def places_of(value):
    """Indices of the first values that are not finite."""
    plain = plain_values(value)
    if value.layout != torch.strided or plain.dim() == 0:
        return ""
    bad = (~torch.isfinite(plain)).nonzero()
    return "; ".join(map(str, bad[:SHOWN].tolist())) + "; ..." * (len(bad) > SHOWN)


class NotFinite(FloatingPointError):
    """What `error=True` raises."""


def compiled(model, graphs_before):
    """Names of what torch.compile has of the model, or that it compiled meanwhile."""
    names = [
        name or "the model itself"
        for name, module in model.named_modules()
        if type(module).__name__ == "OptimizedModule"
        or getattr(module, "_compiled_call_impl", None) is not None
    ]
    new = graphs() - graphs_before
    return names or [f"{new} graphs since the watch began"] * bool(new > 0)


def graphs():
    """How many graphs torch.compile has made in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0


def ranks():
    """(the number of this one, how many there are)."""
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    return 0, 1


def written(title, rows):
    lines = [f"nan_probe {VERSION}: {title}"]
    rows = [(name, value) for name, value in rows if value or value == []]
    lines += [f"  {name}: {value}" for name, value in rows]
    return "\n".join(lines)


def merged(logs):
    """Of the reports of several ranks the one that made the value, and who heard."""
    # A log may end within a report.
    found = [one for log in logs for one in reports_in(log) if "cause" in one]
    if not found:
        return None
    unseen = CAUSES["unseen"].partition(":")[0]
    found.sort(key=lambda rows: (rows["cause"].startswith(unseen), step_of(rows)))
    first = dict(found[0])
    others = [f"{one.get('rank')}: {one['op']}, {one['cause']}" for one in found[1:]]
    first["other ranks"] = "; ".join(others)
    title = f"first non-finite value, of {len(found)} reports"
    return written(title, first.items())


def step_of(rows):
    number = rows.get("step", "").split(" ")[0]
    return int(number) if number.isdigit() else 0


def reports_in(log):
    """The findings in a log, as rows; before each line the launcher's own prefix."""
    rows = None
    for line in [*log.splitlines(), ""]:
        begin = line.find(f"nan_probe {VERSION}: first non-finite value")
        name, colon, value = line[line.find("  ") + 2 :].partition(": ")
        if begin >= 0:
            if rows:
                yield rows
            rows = {}
        elif rows is not None and "  " in line and colon:
            rows[name.strip()] = value
        elif rows:
            yield rows
            rows = None


class Unreached:
    """Weights of optimizers whose gradient was None, or only 0, in each step so far."""

    # A weight beside one that begins at 0, as of LoRA, has none in the first step.
    ENOUGH = 3

    def __init__(self):
        self.known, self.left = set(), {}

    def look(self, optimizer):
        for one in weights_of(optimizer):
            if id(one) not in self.known and one.requires_grad:
                self.left[id(one)] = [one, 0]
            self.known.add(id(one))
            if id(one) in self.left and has_gradient(one):
                del self.left[id(one)]
            if id(one) in self.left:
                self.left[id(one)][1] += 1

    def told(self, named):
        """Their names; None where gradients reach each weight."""
        mine = [one for one, steps in self.left.values() if steps >= self.ENOUGH]
        names = {id(one): name for name, one in reversed(list(named))}
        listed = [names.get(id(one), f"a weight {list(one.shape)}") for one in mine]
        more = ", ..." * (len(listed) > SHOWN)
        said = f"{len(mine)} of {len(self.known)} weights of the optimizer"
        said += ": None or only 0 in each step"
        return f"{', '.join(listed[:SHOWN])}{more}: {said}" if listed else None


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

    def forward_and_backward(self, compute_loss):
        """What `run` runs as one step; returns the loss."""
        loss = compute_loss()
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        return loss

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

    def cause_of(self, birth):
        is_early = birth.cause == "weight" and self.steps <= 1
        return "loaded" if is_early else birth.cause

    def rows(self, now):
        birth = now.reached.first()
        facts, place, cause = birth.facts, birth.place, self.cause_of(birth)
        # The NaN that this Inf became.
        later = [one for one in now.births if one.goes_back_to(birth)]
        then = next((one for one in later if one is not birth), None)
        return [
            ("step", self.which_step()),
            ("direction", place.direction),
            ("module", place.module),
            ("op", birth.op),
            ("cause", CAUSES[cause]),
            ("next", NEXT.get(cause)),
            ("line", shown(place.line)),
            ("called at", place.caller and shown(place.caller)),
            ("dtype", f"{facts.dtype} (up to {limit(facts.dtype):.5g})"),
            ("shape", facts.shape),
            ("device", facts.device),
            ("value", f"nan {facts.nan}, inf {facts.inf} of {facts.total}"),
            ("indices", birth.cause in ("input", "weight") and birth.at),
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
