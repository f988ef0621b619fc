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

Of each step loss, gradients and weights are looked at; one that is not finite is run
again with the same inputs and random numbers, op by op. `probe.step(fn, *batch)` says
which function a step is. What was found is reported once, on stderr, and nothing is
watched after it. Paste it into the look-up box.

`watch(model, every=10)` watches every tenth step op by op, from one call of the model
to the next, or as marked: `with probe.step(): ...`. `every=0` installs nothing;
`error=True` raises NotFinite, a NaN where it is made.

Op by op is a TorchDispatchMode: below autograd, and each result is waited for. Named
is the op that *made* the value, not those that pass it on; an infinity that the code
itself fills in, a mask, is told apart. Seen are the thread
that runs the model and those of autograd, not those of DataParallel; one watch at a
time.

What torch.compile fused is not seen, and the report says so. `eager=True` runs compiled
code op by op in watched steps (torch 2.6), TORCH_COMPILE_DISABLE=1 in all.

`loss = probe.run(lambda: loss_fn(model(x), y))` is forward and backward as one step,
which is repeated with the same inputs and random numbers when it goes wrong: a result
that differs points to the machine, or to an op that races. Not among several ranks,
where the others would wait.
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
