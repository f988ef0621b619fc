# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Saves and loads a model in its temporary folder."""

import os
import tempfile
import torch


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    net = torch.nn.Linear(4, 4)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.pt")
        torch.save(net.state_dict(), path)
        again = torch.load(path)
    wrong = not torch.equal(again["weight"], net.weight)
    wrong += not os.environ["TMPDIR"] or not os.access(os.environ["TMPDIR"], os.W_OK)
    return {"reached": int(wrong)}
