"""What nan_probe.py costs: python cost.py FOLDER prints seconds of steps as JSON.

Two transformers on one thread of the CPU, forward, backward and AdamW; of the tiny one
most of the time is torch's own, not that of numbers. Blocks of
ten steps take turns (without the probe, every tenth step watched, every step watched);
the time is the process's own, so that what else the machine does counts little.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn

sys.path.insert(0, sys.argv[1])
import nan_probe

BLOCK, ROUNDS = 10, 3
# Width, layers, tokens, batch.
SIZES = {"small": (256, 4, 128, 4), "tiny": (32, 2, 16, 2)}


def steps(model, optimizer, batch):
    """Seconds of each step of a block."""
    taken = []
    for _ in range(BLOCK):
        begin = time.process_time()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        taken.append(time.process_time() - begin)
    return taken


def measure(width, layers, tokens, count):
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    batch = torch.randn(count, tokens, width)
    steps(model, optimizer, batch)
    found = {"off": [], "tenth": [], "each": []}
    for _ in range(ROUNDS):
        found["off"].append(steps(model, optimizer, batch))
        for name, every in (("tenth", 10), ("each", 1)):
            with nan_probe.watch(model, every=every) as probe:
                found[name].append(steps(model, optimizer, batch))
            assert probe.found is None and probe.watched == BLOCK // every
    return found


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    found = {name: measure(*size) for name, size in SIZES.items()}
    print(json.dumps({"sizes": found, "torch": torch.__version__}))
