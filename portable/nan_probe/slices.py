"""The fingerprint of a failure: the op that made the value, and what led there.

It follows back what holds 0, an infinity or NaN, since the failure comes from there: at
most six ops, to a weight, an input, or an op with ordinary operands (x). The same
function serves reports, captures and the triggers of records (known).
"""

from __future__ import annotations

from collections import namedtuple

import torch

from .values import UNREADABLE, plain_values, storage_of

MOST = 6
NUMERIC = (torch.Tensor, int, float)
# They hand on what they are given.
PASSING = {"clone", "_to_copy", "copy_", "lift_fresh", "lift_fresh_copy", "detach"}
PASSING |= {"alias", "contiguous", "expand_copy", "_unsafe_view"}
SAME = {"true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub"}
SAME.update({"rsub": "sub", "square": "pow", "cudnn_batch_norm": "batch_norm"})
# A zero that they read is no cause of what they give, unless it meets an infinity.
AWAY = {"softmax", "log_softmax", "sigmoid", "exp", "cos", "softplus", "logsumexp"}
AWAY |= {"logsigmoid", "cross_entropy", "nll_loss_forward", "layer_norm", "lerp"}
AWAY |= {"mm", "bmm", "addmm", "matmul", "convolution", "std", "var"}
# `operands`: (what it comes from, what it holds) of each.
Made = namedtuple("Made", "name operands")


def plain_name(name):
    """`aten.native_layer_norm.default` and `torch.Tensor.div_` by their plain names."""
    parts = name.split(".")
    name = parts[1] if parts[0] == "aten" else parts[-1]
    name = name.strip("_")
    for begin in ("native_", "linalg_", "special_"):
        name = name[len(begin) :] if name.startswith(begin) else name
    return SAME.get(name, name)


def holds(value, are_counts=False):
    """In one word what matters about an operand; "" for ordinary numbers.

    Of integers, which may be classes or places, only where they count something.
    """
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(float(value))
    if are_counts and not value.is_complex():
        value = value.double()
    try:
        plain = plain_values(value)
        if plain is None:
            return ""
        if plain.numel() == 0:
            return "nothing"
        if bool(torch.isnan(plain).any()):
            return "nan"
        if bool(torch.isinf(plain).any()):
            return (
                "inf" if bool((plain > 0).logical_and(plain.isinf()).any()) else "-inf"
            )
        return "0" if bool((plain == 0).any()) else ""
    except UNREADABLE:
        return ""


def operands_in(values):
    """Tensors and numbers, in order, in nested lists; no switches and no types."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from operands_in(value)
        elif isinstance(value, NUMERIC) and not isinstance(value, bool):
            yield value


class Chain:
    """Which op made what lies in which memory, in one step."""

    def __init__(self, weights):
        self.weights = weights
        self.made = {}

    def read(self, base, args):
        """What an op is about to read."""
        name, args = plain_name(base), list(operands_in(args))
        held = [holds(one, name == "div") for one in args]
        if name in AWAY and set(held) <= {"", "0"}:
            held = [""] * len(held)
        return list(zip(map(self.source, args), held))

    def source(self, value):
        if not isinstance(value, torch.Tensor):
            return f"{value:g}"
        storage = storage_of(value)
        kind = "weight" if storage in self.weights() else "input"
        return self.made.get(storage, kind)

    def add(self, base, operands, values):
        made = Made(plain_name(base), operands)
        if base in PASSING and operands:
            made = operands[0][0]
        for value in values:
            self.made[storage_of(value)] = made

    def of(self, value):
        return self.made.get(storage_of(value))


def slice_of(made, direction):
    """As text: equal slices are equal texts. None where the op is not known."""
    if not isinstance(made, Made):
        return None
    return "backward of " * (direction == "backward") + told(made, nearest(made))


def nearest(made):
    """The ids of the ops that are followed back, those of the last one first."""
    found, ahead = [id(made)], [made]
    for one in ahead:
        for source, held in one.operands:
            if not (isinstance(source, Made) and held) or id(source) in found:
                continue
            if len(found) < MOST:
                found.append(id(source))
                ahead.append(source)
    return found


def told(made, shown):
    parts = []
    for source, held in made.operands:
        if isinstance(source, Made):
            inner = told(source, shown) if held and id(source) in shown else "x"
            parts.append(f"{inner}: {held}" if held else "x")
        elif isinstance(source, str) and source not in ("weight", "input"):
            is_telling = made.name in ("pow", "float_power") or held
            parts += [source] if is_telling else []
        else:
            parts.append(f"{source}: {held}" if held else "x")
    return f"{made.name}({', '.join(parts)})"
