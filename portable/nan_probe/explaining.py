"""Runs a shrunk call in other ways, to find its class and what heals it."""

from __future__ import annotations

import math
import re

import torch

from .known import CAST, FORMS, GIVEN, UNKNOWN
from .laws import all_finite, law_of
from .shrinking import FAILS, is_finite_wide, widened

REPEATS = 5
CLASSES = {
    "mathematics": "the same in float64 and by arithmetic: no type heals it",
    "range": "finite in a wider type: it exceeds what this type can hold",
    "kernel": "the reference is finite in this very type: a bug of this build",
    "unstable": "not the same in every repeat: a race, unwritten memory, the machine",
    "input": "the value came in: it is no result of this op",
    "undecided": "no independent reference: class not decided",
}
# By Python's own arithmetic, number by number.
REFERENCE = {
    "log": math.log,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "expm1": math.expm1,
    "log1p": math.log1p,
    "reciprocal": lambda a: 1 / a,
    "square": lambda a: a * a,
    "acos": math.acos,
    "asin": math.asin,
    "div": lambda a, b: a / b,
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "pow": math.pow,
    "sum": lambda *values: math.fsum(values),
    "mean": lambda *values: math.fsum(values) / len(values),
    "softmax": lambda *values: max_exp(values),
}
SAME = {"__truediv__": "div", "__mul__": "mul", "__rmul__": "mul", "__add__": "add"}
SAME.update({"__radd__": "add", "__sub__": "sub", "__pow__": "pow", "divide": "div"})


# How a form begins: with its function, with an operator, or it is a cast.
FORM = re.compile(r"torch\.(\w+)\(|(b / |a(?:\.nan_to_num\(\))? [-*/] )|")
OPERATORS = {"a -": "sub", "a *": "mul", "a /": "div", "b /": "rdiv"}
OPERATORS["a.nan_to_num() -"] = "sub"
SAME_FORM = {"truediv": "div", "true_divide": "div", "divide": "div", "to": "half"}
SAME_FORM.update(multiply="mul", rmul="mul", subtract="sub", rtruediv="rdiv")


def max_exp(values):
    highest = max(values)
    return max(math.exp(one - highest) for one in values)


def class_of(run):
    """One of CLASSES, by running the call."""
    law = law_of(run, run())
    if law in (GIVEN, CAST):  # what is cast has the wider type
        return "input" if law == GIVEN else "range"
    if not is_steady(run):
        return "unstable"
    known = reference(run)
    if known is not None and math.isfinite(known):
        ends = min(torch.finfo(one.dtype).max for one in run() if floats(one))
        return "range" if abs(known) > ends else "kernel"
    if is_finite_wide(run):
        return "range"
    is_known = known is not None or law != UNKNOWN
    return "mathematics" if is_known else "undecided"


def floats(one):
    return one.is_floating_point()


def reference(run):
    """The value by Python's arithmetic where it is worst; None where there is none."""
    short = run.name.rpartition(".")[2]
    function = REFERENCE.get(SAME.get(short, short))
    if function is None or run.gradient is not None or run.numbers() > 64:
        return None
    operands = run.tensors() + [
        torch.tensor(float(one))
        for one in run.args[1:2]
        if isinstance(one, (int, float))
    ]
    if any(one.is_complex() for one in operands):
        return None
    if short in ("sum", "mean", "softmax"):
        rows = [operands[0].reshape(-1).double().tolist()]
    else:
        every = torch.broadcast_tensors(*operands[:2])
        rows = zip(*(one.reshape(-1).double().tolist() for one in every))
    return max((computed(function, row) for row in rows), key=badness, default=None)


def badness(value):
    return (not math.isfinite(value), abs(value) if value == value else 0)


def computed(function, row):
    try:
        return float(function(*row))
    except ZeroDivisionError:
        return math.nan
    except OverflowError:
        return math.inf
    except ValueError:  # outside the domain of the function, or log(0)
        return -math.inf if function is math.log and row[0] == 0 else math.nan


def ways(run):
    """How the call ends in other types, by Python's arithmetic, and when repeated."""
    found = {}
    types = {one.dtype for one in run.tensors() if floats(one)}
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        if types - {dtype}:
            found[str(dtype).partition(".")[2]] = ended(run, dtype)
    known = reference(run)
    if known is not None:
        found["reference"] = word([torch.tensor(known)])
    found["repeats"] = "same" if is_steady(run) else "differs"
    return found


def is_steady(run):
    """Whether the same numbers are finite each time."""
    shown = {str([one.isfinite().tolist() for one in run()]) for _ in range(REPEATS)}
    return len(shown) == 1


def ended(run, dtype):
    try:
        return word(run(*widened(run, dtype)))
    except FAILS:
        return "absent"


def word(results):
    if all_finite(results):
        return "finite"
    return "nan" if any(bool(one.isnan().any()) for one in results) else "inf"


def remedies(run, law):
    """(source, whether it was finite), the cheapest first, each of them tried."""
    forms = [one for one in FORMS.get(law, []) if belongs(one, run.name)]
    found = [(source, is_healed(source, run)) for source in forms]
    for dtype in (torch.float32, torch.float64):
        if any(floats(one) and one.dtype != dtype for one in run.tensors()):
            found.append((f"in {dtype}", ended(run, dtype) == "finite"))
    return found


def belongs(source, name):
    """Whether a form computes what the function does: many fail by the same law."""
    short = name.rpartition(".")[2].strip("_")
    form = FORM.match(source)
    computes = form[1] or OPERATORS.get((form[2] or "").strip()) or "half"
    return computes == SAME_FORM.get(short, short)


def is_healed(source, run):
    """Runs a form of our own (FORMS), nothing of the capture, on the operands."""
    values = [one for one in run.args if isinstance(one, (torch.Tensor, int, float))]
    try:
        values = [torch.as_tensor(one).detach().clone() for one in values[:2]]
        if run.gradient is not None:
            values = [one.requires_grad_(floats(one)) for one in values]
        names = {"torch": torch, "a": None, "b": None}
        names.update(zip("ab", values))
        result = eval(source, names)
        if run.gradient is None:
            return all_finite([result])
        result.sum().backward()
        return all_finite([one.grad for one in values if one.grad is not None])
    except FAILS:
        return False


def explained(run):
    law = law_of(run, run())
    tried = remedies(run, law)
    return {
        "law": law,
        "class": class_of(run),
        "heals": [source for source, healed in tried if healed],
        "does_not_heal": [source for source, healed in tried if not healed],
    }
