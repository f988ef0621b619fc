"""Which op made the first NaN or Inf of a training step, forward or backward?

Standard library and torch (1.13 or later); as a site serves it, one file. Your training
script stays as it is:

    python nan_probe.py train.py --lr 1e-3
    torchrun --nproc-per-node 2 nan_probe.py train.py

Or in it, for a loop of your own (for a Trainer: TrainerCallback, LightningCallback):

    with nan_probe.watch(model) as probe:
        for batch in loader:
            loss = loss_fn(model(batch.x), batch.y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print(probe.report())

It checks loss, gradients and weights of each step, and repeats a bad step with the same
inputs and random numbers, op by op. `probe.step(fn, *batch)` tells which function a
step is. It reports one finding on stderr, and watches nothing after it. Paste the
report into the look-up box.

`watch(model, every=10)` watches every tenth step op by op, from one call of the model
to the next, or as marked: `with probe.step(): ...`. `every=0` installs nothing;
`error=True` raises NotFinite, a NaN where it is made.

Op by op means a TorchDispatchMode, which is below autograd and waits for each result.
It names the op that *made* the value, not those that pass it on. An infinity that your
code fills in, a mask, is not a finding. It watches one thread that trains, and threads
that a model starts. One watch at a time.

It cannot see inside code that torch.compile fused, and the report says so.
`eager=True` runs compiled code op by op in watched steps (torch 2.6),
TORCH_COMPILE_DISABLE=1 in all.

`loss = probe.run(lambda: loss_fn(model(x), y))` runs forward and backward as one step
and repeats it when it goes wrong: a result that differs points to the machine, or to an
op that races. Do not use it among several ranks, where the others would wait.
"""

from __future__ import annotations

import importlib
from typing import Any

# Looked up when they are used: `schema` is read where there is no torch.
HOMES = {
    "LightningCallback": "trainers",
    "NotFinite": "reports",
    "TrainerCallback": "trainers",
    "watch": "watching",
}
__all__ = ["LightningCallback", "NotFinite", "TrainerCallback", "watch"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("." + HOMES[name], __name__), name)
