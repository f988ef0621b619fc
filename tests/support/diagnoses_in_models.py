"""Code that tells whether a bug is there, called in models as people write them.

Run by a Python with torch; prints one object: {"case": [answer, …]}.
"""

import ast
import importlib.util
import json
import math
import multiprocessing
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path

import torch
from torch import nn

ISSUES = Path(sys.argv[1])
warnings.simplefilter("ignore")
QKV = ("query", "key", "value")
ONES = torch.ones(1, 1, 2, 2)


def snippets(slug):
    """The functions that readers copy, without the rest of the repro."""
    tree = ast.parse((ISSUES / slug / "repro.py").read_text(encoding="utf-8"))
    kept = [
        node
        for node in tree.body
        if isinstance(node, ast.Import)
        or (isinstance(node, ast.ImportFrom) and importlib.util.find_spec(node.module))
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


class Answers(nn.Module):
    """A block that takes keyword arguments and gives more than one tensor."""

    def __init__(self, layer, kind=tuple):
        super().__init__()
        self.layer, self.kind = layer, kind

    def forward(self, x, *, times=1):
        y = self.layer(x) * times
        return {"y": y, "kept": None} if self.kind is dict else (y, None)


def first_of(output):
    return output["y"] if isinstance(output, dict) else output[0]


def checkpointed():
    """Behind an embedding that gives more than a tensor, by keyword."""
    record = snippets("checkpoint-reentrant-lost-grad")
    trains = []
    for kind in (tuple, dict):
        block, front = (Answers(nn.Linear(2, 2), kind) for _ in range(2))
        out = record.apply_use_reentrant_false(block, torch.ones(1, 2), times=2)
        trains.append(first_of(out).requires_grad)
        record.apply_input_requires_grad(front.requires_grad_(False))
        trains.append(first_of(front(torch.ones(1, 2))).requires_grad)
        trains.append(record.diagnose_cut_off(block, out))
    nested = snippets("checkpoint-reentrant-nested-structure")
    for apply in (nested.apply_use_reentrant_false, nested.apply_disable_checkpointing):
        out = apply(Answers(nn.Linear(2, 2), dict), torch.ones(1, 2), times=2)
        trains.append(out["y"].requires_grad)
    return trains


class Attends(nn.Module):
    def __init__(self, softmax):
        super().__init__()
        self.softmax = softmax

    def forward(self, scores, mask=0.0):
        return self.softmax(scores + mask)


def hidden_rows():
    """Softmax by its other names; who never calls it is told."""
    told = snippets("additive-mask-finfo-min-sum-overflows").diagnose_row_of_minus_inf
    batch = {"scores": torch.zeros(2, 2), "mask": torch.full((2, 2), -math.inf)}
    ways = (
        lambda x: nn.functional.softmax(x, dim=-1, dtype=torch.float32),
        lambda x: torch.softmax(x, -1),
        lambda x: x.softmax(dim=-1),
        nn.Softmax(dim=-1),
    )
    answers = [told(Attends(way), batch) for way in ways]
    answers.append(told(Attends(ways[1]), {"scores": torch.zeros(2, 2)}))
    try:
        told(nn.functional.scaled_dot_product_attention, dict.fromkeys(QKV, ONES))
    except RuntimeError as error:
        answers.append("eager" in str(error))
    return answers


def checkpoints_compared():
    """Tuples, gradients that are NaN anyway, and the generator of the caller."""
    told = snippets("rrelu-checkpoint-garbage-grad").diagnose_checkpoint_differs
    x = torch.ones(1, 2, requires_grad=True)
    block = Answers(nn.Linear(2, 2))
    nan = Answers(nn.Linear(2, 2))
    nan.layer.weight.data.fill_(math.nan)
    before = torch.random.get_rng_state()
    answers = [told(one, one, x) for one in (block, nan, lambda x: [x * 2, None])]
    answers.append(told(block, lambda x: (block(x)[0] * 2, None), x))
    return [*answers, torch.equal(before, torch.random.get_rng_state())]


def normed_along_one():
    """Images [batch, channels, rows, columns], as F.normalize takes them."""
    record = snippets("normalize-fp16-eps-underflow")
    x = torch.ones(2, 3, 2, 2)
    x[0, :, 0, 0] = 0
    row = torch.ones(2, 3, 2, 2)
    row[0, 0, 0] = 0
    given = (x, row, row.transpose(1, 3))
    told = [record.diagnose_eps_is_zero(one.half()) for one in given]
    right = nn.functional.normalize(row)
    for apply in (record.apply_larger_eps, record.apply_float32):
        told.append(torch.allclose(apply(row), right, rtol=1e-3))
    return told


def gumbel():
    """Masked logits, and the one-hot sample that most code asks for."""
    record = snippets("gumbel-softmax-nan")
    logits = torch.tensor([[0.0, 1.0, -math.inf]])
    told = [record.diagnose_tau_zero(logits, tau) for tau in (1.0, 0.0, 1e-45)]
    picked = record.apply_floor(logits.half(), 0.0, hard=True, dim=-1)
    return [*told, sorted(picked[0].tolist())]


def ctc_kept():
    """Lengths as tuples, as ctc_loss takes them."""
    kept = snippets("ctc-infeasible-target-inf-nan").apply_filter
    return kept(torch.tensor([[1, 1], [2, 3]]), (2, 2), (2, 2)).tolist()


def dropped():
    """Attention under another name, as `from torch.nn.functional import` binds it."""
    told = snippets("sdpa-dropout-active-in-eval").diagnose_dropout_in_eval
    attention = nn.functional.scaled_dot_product_attention

    class Layer(nn.Module):
        def __init__(self, p):
            super().__init__()
            self.p = p

        def forward(self, x):
            return attention(x, x, x, None, self.p), None

    return [told(Layer(p), ONES) for p in (0.5, 0.0)]


def spectral_norms():
    """Convolutions, in both directions and in both ways to put the norm on."""
    told = snippets("spectral-norm-eval").diagnose_not_normed
    torch.manual_seed(0)
    answers = []
    for kind in (nn.Conv2d, nn.ConvTranspose2d):
        for norm in (
            nn.utils.spectral_norm,
            nn.utils.parametrizations.spectral_norm,
        ):
            layer = norm(kind(16, 64, 3))
            for _ in range(30):
                layer(torch.ones(1, 16, 8, 8))
            answers.append(told(layer.eval()))
    torch.manual_seed(0)
    fresh = nn.utils.spectral_norm(nn.Conv2d(64, 64, 3, bias=False))
    return [*answers, told(fresh.eval())]


def standing():
    """A learning rate of 0, as a warm-up begins, and a step without gradients."""
    told = snippets("dynamo-grad-none").diagnose_step_stands
    answers = []
    for rate, backward in ((0.0, True), (0.1, False), (0.1, True)):
        layer = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(layer.parameters(), lr=rate)
        if backward:
            layer(torch.ones(1, 2)).sum().backward()
        answers.append(told(optimizer, optimizer.step))
        if backward:
            answers.append(told(optimizer, lambda: None))
    return answers


def class_indices():
    """A loss whose target is the index of each class."""
    told = snippets("log-of-probability").diagnose_lost_gradient
    logits, target = torch.tensor([[200.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])

    def by_hand(logits, target):
        p = logits.softmax(-1).clamp_min(1e-7)
        return nn.functional.nll_loss(p.log(), target)

    return [told(by_hand, logits, target), told(by_hand, logits, target.flip(0) * 0)]


def scalers():
    """A scaler for the device that trains."""
    made = snippets("loss-scale-first-steps").apply_init_scale
    return [made("cpu").get_scale(), made("cpu", init_scale=8.0).get_scale()]


def as_rank(rank, store, slug, answers):
    """Alike; None on one rank alone; NaN on both."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2
    )
    told, given = snippets(slug).diagnose_ranks_differ, []
    for value, missing in ((1.0, ()), (1.0, (1,)), (math.nan, ()), (math.nan, (0, 1))):
        model = nn.Linear(2, 1)
        model.weight.grad = torch.full((1, 2), value)
        model.bias.grad = None if rank in missing else torch.zeros(1)
        given.append(told(model))
    answers.put(given)
    torch.distributed.barrier()
    os._exit(0)  # older releases may never come back from destroy_process_group


def ranks():
    """Two processes joined by gloo, for each record that compares them."""
    processes, found = multiprocessing.get_context("fork"), []
    for slug in ("ddp-sync-flag-after-forward", "ddp-no-sync-unused", "ddp-bypassed"):
        answers = processes.SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            given = (f"{folder}/store", slug, answers)
            both = [
                processes.Process(target=as_rank, args=(rank, *given), daemon=True)
                for rank in (0, 1)
            ]
            for one in both:
                one.start()
            for one in both:
                one.join()
        found += [answers.get() for _ in both if not answers.empty()]
    return found


def distances_compared():
    told = snippets("cdist-matmul-cancellation").diagnose_cancellation
    x = torch.randn(30, 2)
    x[0] = math.nan
    return [told(x, x + 0.5), told(x + 1e6, x + 1e6 + 0.25)]


def means_compared():
    """One number, or one for each row."""
    name = "inductor-cpu-large-mean-saturates"
    told, x = snippets(name).diagnose_only_compiled, torch.ones(2, 3)
    rows = lambda x: x.mean(dim=1)  # noqa: E731
    half = lambda x: x.mean(dim=1) * torch.tensor([1.0, 0.5])  # noqa: E731
    return [told(rows, rows, x), told(rows, half, x), told(torch.mean, torch.mean, x)]


CASES = (
    ranks,
    distances_compared,
    means_compared,
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
    checkpointed,
    hidden_rows,
    checkpoints_compared,
    normed_along_one,
    gumbel,
    ctc_kept,
    dropped,
    spectral_norms,
    standing,
    class_indices,
    scalers,
)
sys.stdout.write(json.dumps({case.__name__: case() for case in CASES}))
