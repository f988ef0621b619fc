"""Captures as nan_probe writes them, made by hand."""

from __future__ import annotations

import json
from typing import Any

from portable.nan_probe.schema import digest_of
from runner.models import Worker
from tests.support import runs

QUEUES = [f"{runs.SLUG}.cpu"]


def tensor(*values: float, dtype: str = "float32") -> dict[str, Any]:
    held = {
        "dtype": dtype,
        "shape": [len(values)],
        "strides": [1],
        "values": [float(value).hex() for value in values],
    }
    return {"tensor": held}


def capture(
    function: str = "torch.log", *args: Any, gradient: Any = None, **changes: Any
) -> dict[str, Any]:
    """The logarithm of -1, unless another call is given."""
    found = {
        "kind": "doesitnan-capture",
        "version": 1,
        "call": {
            "function": function,
            "args": list(args or [tensor(-1.0)]),
            "kwargs": {},
            "gradient": gradient,
        },
        "aten": "aten.log.default",
        "direction": "forward" if gradient is None else "backward",
        "value": "nan",
        "law": "log of a negative number",
        "class": "mathematics",
        "heals": [],
        "does_not_heal": [],
        "environment": {
            "torch": "2.5.1+cu124",
            "python": "3.11.2",
            "system": "Linux",
            "machine": "x86_64",
        },
        **changes,
    }
    return {**found, "digest": digest_of(found)}


def text(*call: Any, **changes: Any) -> str:
    return json.dumps(capture(*call, **changes))


def worker(tier: str = "B", queues: list[str] = QUEUES, **fields: Any) -> Worker:
    given = {"tier": tier, "queues": queues, "slots": 2, "protocol": 0, **fields}
    return runs.make_worker(host="here", **given)
