# /// script
# requires-python = ">=3.8"
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = ["nonfinite > 0", "loss is_nonfinite"]
# match = {grad_norm = 1e-6}
# trials = 2
# env = {all = {SCALE = "1"}, workaround_scale = {SCALE = "0.5"}}
# ///
"""A small repro whose bug is the overflow of float16, which every build has."""

import os

import torch


def _observe(value):
    x = torch.tensor([float(value)], dtype=torch.float16)
    y = (x * 2).double()
    return {
        "nonfinite": int((~torch.isfinite(y)).sum()),
        "loss": [float(item) for item in y],
        "grad_norm": 2.0,
        "scale": float(os.environ["SCALE"]),
    }


def reference():
    return {"loss": 120000.0}


def control():
    print("control says hello")
    return _observe(1)


def detector():
    return {"nonfinite": 1, "loss": float("nan")}


def trigger():
    return _observe(60000)


def workaround_scale():
    return _observe(60000 * float(os.environ["SCALE"]))


def workaround_other_gradient():
    return dict(_observe(1), grad_norm=2.1)


def workaround_emptied():
    return {}


def refuted_useless():
    return _observe(60000)
