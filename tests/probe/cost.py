"""What nan_probe costs: python cost.py FOLDER [cuda] prints seconds of steps as JSON.

Two transformers on one thread of the CPU, forward, backward and AdamW; of the tiny one
most of the time is torch's own, not that of numbers. Blocks of ten steps take turns:
without the probe, each step checked, every step op by op, and, of the small one, under
what others offer. The time is the process's own, so that what else the machine does
counts little. On another device it is a larger one by the clock, which waits for it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import sys
import time

import torch
from torch import nn

sys.path.insert(0, sys.argv[1])
import nan_probe

BLOCK, ROUNDS = 10, 5
# Width, layers, tokens, batch.
SIZES = {"small": (256, 4, 128, 4), "tiny": (32, 2, 16, 2)}
LARGE = {"large": (1024, 12, 512, 16)}
DEVICE = "".join(sys.argv[2:])


def now():
    """Seconds, once what was begun on the device is done."""
    if not DEVICE:
        return time.process_time()
    getattr(torch, DEVICE).synchronize()
    return time.perf_counter()


def steps(model, optimizer, batch):
    """Seconds of each step of a block."""
    taken = []
    for _ in range(BLOCK):
        begin = now()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        taken.append(now() - begin)
    return taken


@contextlib.contextmanager
def debug_mode():
    from torch.utils._debug_mode import DebugMode

    with DebugMode(record_stack_trace=True), DebugMode.log_tensor_hashes():
        yield


def others():
    """What is not the probe, where it is installed."""
    found = {"anomaly": lambda: torch.autograd.set_detect_anomaly(True)}
    if importlib.util.find_spec("torch.utils._debug_mode"):
        found["debug_mode"] = debug_mode
    return found


def underflow(model):
    """A copy of the model with hooks that look at each module's values."""
    from transformers.debug_utils import DebugUnderflowOverflow

    model = copy.deepcopy(model)
    DebugUnderflowOverflow(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-5)


def measure(width, layers, tokens, count):
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    batch = torch.randn(count, tokens, width)
    steps(model, optimizer, batch)
    names = others() if layers > 2 else {}
    hooked = None
    if names and importlib.util.find_spec("transformers"):
        hooked = underflow(model)
    found = {"off": [], "default": [], "each": []}
    for _ in range(ROUNDS):
        found["off"].append(steps(model, optimizer, batch))
        for name, every in (("default", None), ("each", 1)):
            with nan_probe.watch(model, every=every) as probe:
                found[name].append(steps(model, optimizer, batch))
            assert probe.found is None and probe.steps == BLOCK
        for name, mode in names.items():
            with mode():
                found.setdefault(name, []).append(steps(model, optimizer, batch))
        if hooked is not None:
            found.setdefault("underflow", []).append(steps(*hooked, batch))
    return found


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if DEVICE:
        torch.set_default_device(DEVICE)
    sizes = LARGE if DEVICE else SIZES
    found = {name: measure(*size) for name, size in sizes.items()}
    print(json.dumps({"sizes": found, "torch": torch.__version__}))
