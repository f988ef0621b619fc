"""The twelve causes of causes.py under what others offer: python others.py TOOL.

Prints JSON: cause -> what the tool said. Anomaly mode and DebugMode are torch's,
DebugUnderflowOverflow is transformers'.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import traceback
import warnings

import causes
import torch


def anomaly(cause):
    """An error that names the node, beside a warning with its forward."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        said = raised(lambda: in_mode(cause))
    return "\n".join([said, *(str(one.message) for one in warned)])


def in_mode(cause):
    with torch.autograd.set_detect_anomaly(True):
        causes.plain(cause)


def debug_mode(cause):
    """A log of ops with a norm of each result: its first that is not finite."""
    from torch.utils._debug_mode import DebugMode

    with DebugMode(record_stack_trace=True) as mode, DebugMode.log_tensor_hashes():
        said = raised(lambda: causes.plain(cause))
    for one in mode.operators:
        if not all(map(math.isfinite, numbers((one.log or {}).get("hash")))):
            return f"{one}\n{one.stack_trace}\n{one.fwd_stack_trace}"
    return said


def numbers(value):
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, float):
        yield value


def underflow(cause):
    """It raises in the first module that gives or gets what is not finite."""
    from transformers.debug_utils import DebugUnderflowOverflow

    made = []

    def wrap(model):
        made.append(DebugUnderflowOverflow(model))
        return model

    return raised(lambda: causes.plain(cause, wrap))


def raised(run):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            run()
        except Exception:  # noqa: BLE001, whatever a tool raises is what it says
            said.write(traceback.format_exc())
    return said.getvalue()


if __name__ == "__main__":
    stdout = os.dup(1)
    tools = {"anomaly": anomaly, "debug_mode": debug_mode, "underflow": underflow}
    found = {}
    for cause in causes.CAUSES:
        torch.manual_seed(0)
        found[cause] = tools[sys.argv[1]](cause)
    os.write(stdout, json.dumps(found).encode())
