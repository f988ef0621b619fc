"""What is told of a finding, and of what surrounds it."""

from __future__ import annotations

import sys

import torch

VERSION = 2
SHOWN = 4
CAUSES = {
    "op": "the op, from finite inputs",
    "inf": "the op, from an Inf among its inputs",
    "fill": "a constant that the code fills in",
    "constant": "a constant in the code that is not finite",
    "weight": "a weight or buffer that was not finite before; where no optimizer of "
    "torch.optim wrote it, watch(model, every=1) names the op that did",
    "input": "an input: the tensor came from outside the step",
    "unwritten": "memory of torch.empty that no op seen here wrote: unwritten, or "
    "written by a kernel outside torch",
    "unseen": "not seen: compiled code, a kernel outside torch, another rank, or what "
    "ran before the step",
}


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
    found = [one for log in logs for one in reports_in(log)]
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
