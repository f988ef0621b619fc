"""Code that tells whether a bug is there, called in models as people write them.

Run by a Python with torch; prints one object: {"case": [answer, …]}.
"""

import ast
import json
import sys
import types
import warnings
from pathlib import Path

import torch
from torch import nn

ISSUES = Path(sys.argv[1])
warnings.simplefilter("ignore")


def snippets(slug):
    """The functions that readers copy, without the rest of the repro."""
    tree = ast.parse((ISSUES / slug / "repro.py").read_text(encoding="utf-8"))
    kept = [
        node
        for node in tree.body
        if isinstance(node, ast.Import)
        or (isinstance(node, ast.ImportFrom) and node.module != "doesitnan")
        or (
            isinstance(node, ast.FunctionDef)
            and node.name.startswith(("diagnose_", "apply_"))
        )
    ]
    module = types.ModuleType(slug)
    exec(compile(ast.Module(kept, []), slug, "exec"), module.__dict__)
    return module


class Keeps(nn.Module):
    """Keeps its last activation, as models do to look at it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        self.last = self.layer(x)
        return self.last


def used(model):
    model(torch.ones(1, 2))
    return model


def distances():
    told = snippets("sqrt-at-zero-nan-grad").diagnose_equal_points
    half, small = (
        torch.full((4, 3), 1e-4, dtype=torch.float16),
        torch.full((2, 3), 1e-23),
    )
    return [told(half), told(small), told(torch.ones(2, 3))]


def weight_norms():
    told = snippets("weight-norm-zero-row-nan").diagnose_zero_row
    lstm = nn.LSTM(3, 4)
    with torch.no_grad():
        lstm.weight_hh_l0[0] = 0
    nn.utils.weight_norm(lstm, "weight_hh_l0")
    return [told(lstm), told(nn.utils.weight_norm(nn.Linear(3, 3)))]


def entropies():
    told = snippets("entropy-neginf-logits-nan").diagnose_zero_probability
    return [told(torch.tensor([0.0, low])) for low in (-200.0, -20.0, -float("inf"))]


def ctc():
    told = snippets("ctc-infeasible-target-inf-nan").diagnose_too_short
    joined, padded = torch.tensor([1, 1, 2, 3]), torch.tensor([[1, 2], [2, 3]])
    return [told(joined, (2, 5), (2, 2)), told(padded, (5, 5), (2, 2))]


def sparse():
    told = snippets("clip-grad-norm-nonfinite").diagnose_nonfinite_gradient
    answers = []
    for factor in (1.0, float("inf")):
        table = nn.Embedding(5, 2, sparse=True)
        (table(torch.tensor([1])).sum() * factor).backward()
        answers.append(told(table))
    return answers


def unregistered():
    told = snippets("parameter-moved-not-registered").diagnose_unregistered
    moved, listed = Keeps(), Keeps()
    moved.scale = nn.Parameter(torch.ones(2)).double()
    listed.many = [nn.Parameter(torch.ones(2))]
    healthy = [
        Keeps(),
        nn.utils.weight_norm(nn.Linear(2, 2)),
        nn.utils.spectral_norm(nn.Linear(2, 2)),
    ]
    return [told(moved), told(listed), *(told(used(one)) for one in healthy)]


def no_graph():
    told = snippets("requires-grad-set-on-loss").diagnose_no_graph
    loss = torch.tensor(1.0, requires_grad=True)
    trained = nn.Linear(2, 1)(torch.ones(1, 2)).mean()
    return [told(loss), told(loss / 4), told(trained / 4)]


def tuples():
    told = snippets("checkpoint-reentrant-lost-grad").diagnose_cut_off
    block = nn.Linear(2, 2)
    out = block(torch.ones(1, 2))
    return [told(block, (out.detach(), None)), told(block, (out, None))]


def buffers():
    """One holds NaN by design, another a mask, a third numbers."""
    told = snippets("meta-to-empty-nonpersistent-buffer-garbage").diagnose_lost_buffers

    def model(last):
        made = nn.Linear(2, 2)
        values = ([float("nan"), 1.0], [True, False], [1, 2], [1.0, last])
        for at, value in enumerate(values):
            made.register_buffer(f"b{at}", torch.tensor(value), persistent=False)
        return made

    return [told(model(2.0), model(2.0)), told(model(float("nan")), model(2.0))]


def modes():
    """Whoever computes deterministically does so afterwards as well."""
    name = "grouped-mm-uninitialized-tail-nan-grad"
    told = snippets(name).diagnose_unwritten_memory
    x, kept = torch.ones(2, requires_grad=True), []
    for mode in ("default", "error"):
        torch.set_deterministic_debug_mode(mode)
        told(lambda one: one.sum(), x)
        kept.append(torch.are_deterministic_algorithms_enabled())
    torch.set_deterministic_debug_mode("default")
    return kept


def sparse_clipped():
    told = snippets("clip-grad-norm-exhausted-generator").diagnose_nothing_clipped
    table = nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    return [told(table, torch.tensor(0.0)), told(table, torch.tensor(1.4))]


CASES = (
    buffers,
    modes,
    sparse_clipped,
    distances,
    weight_norms,
    entropies,
    ctc,
    sparse,
    unregistered,
    no_graph,
    tuples,
)
sys.stdout.write(json.dumps({case.__name__: case() for case in CASES}))
