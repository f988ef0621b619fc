"""Saves and loads a model in its temporary folder."""

import os
import tempfile
import torch


def trigger():
    net = torch.nn.Linear(4, 4)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.pt")
        torch.save(net.state_dict(), path)
        again = torch.load(path)
    wrong = not torch.equal(again["weight"], net.weight)
    wrong += not os.environ["TMPDIR"] or not os.access(os.environ["TMPDIR"], os.W_OK)
    return {"reached": int(wrong)}
