"""A capture as source: ten lines that stand alone, or a record's repro.

Of a capture it contains only a function of the list and numbers.
"""

from __future__ import annotations

import re

import torch

from .functions import SEVERAL
from .known import FORMS
from .shrinking import is_real

TEXT = '''\
import torch


def operands(is_triggered):
    """The captured call's, shrunk; without the trigger each number is 0.5."""
    found = [{operands}]
    if is_triggered:
        return found
    return [torch.full_like(x, 0.5) if x.is_floating_point() else x for x in found]


def captured({names}):
    """TODO: the smallest code that calls it as a program would."""
    return {called}


def compute(is_triggered, call=captured):
    args = operands(is_triggered)
{run}


def measure(results):
    """Observations, not judgements: `bug` in the header reads them."""
    bad = [int((~torch.isfinite(one)).sum()) for one in results]
    return {{"nonfinite": sum(bad)}}


def control():
    """The same code without the trigger: must be clean."""
    return measure(compute(is_triggered=False))


def detector():
    """The symptom by construction: shows that `bug` sees it."""
    return measure([torch.full((8,), float("nan"))])


def trigger():
    """The bug, if this build has it."""
    return measure(compute(is_triggered=True))


def apply_todo_name({names}):
    """TODO: what readers paste, for any dtype and device: in place of the call."""
    return {healed}


def workaround_todo_name():
    """The trigger with the remedy on: must be clean."""
    return measure(compute(is_triggered=True, call=apply_todo_name))
'''
FORWARD = """\
    result = call(*args)
    return [result] if isinstance(result, torch.Tensor) else list(result)"""
BACKWARD = """\
    floats = [x.requires_grad_() for x in args if x.is_floating_point()]
    result = call(*args)
    gradient = {gradient}
    return torch.autograd.grad(result, floats, gradient.expand_as(result))"""


def repro_of(run):
    """A program of ten lines that needs nothing but torch."""
    lines = ["import torch", "from torch import inf, nan", ""]
    names, operands, called = parts_of(run)
    lines += [f"{name} = {value}" for name, value in zip(names, operands)]
    if run.gradient is None and run.name.rpartition(".")[2] in SEVERAL:
        lines.append(f"result = torch.cat([one.flatten() for one in {called}])")
    elif run.gradient is None:
        lines.append(f"result = {called}")
    else:
        variables = [n for n, v in zip(names, run.tensors()) if is_real(v)]
        listed = ", ".join(variables)
        lines += [f"for one in [{listed}]:", "    one.requires_grad_()"]
        lines.append(f"loss, gradient = {called}, {literal(run.gradient)}")
        lines.append(
            f"(result,) = torch.autograd.grad(loss, [{variables[0]}], gradient)"
        )
    lines.append("print(torch.__version__, result)")
    lines.append("raise SystemExit(int(not torch.isfinite(result).all()))")
    return "\n".join(lines) + "\n"


def parts_of(run):
    """(names of its tensors, their source, the call's source)."""
    names, operands, given = [], [], []
    for value in run.args:
        if isinstance(value, torch.Tensor):
            names.append("abcdefgh"[len(names)])
            operands.append(literal(value))
        given.append(names[-1] if isinstance(value, torch.Tensor) else repr(value))
    given += [f"{name}={plain(value)}" for name, value in run.kwargs.items()]
    is_first = run.gradient is not None and run.name.rpartition(".")[2] in SEVERAL
    return names, operands, f"{run.name}({', '.join(given)})" + "[0]" * is_first


def plain(value):
    return literal(value) if isinstance(value, torch.Tensor) else repr(value)


def literal(value):
    if value.numel() == 0:
        return f"torch.empty({list(value.shape)}, dtype={value.dtype})"
    return f"torch.tensor({value.tolist()}, dtype={value.dtype})"


def drafted(run, capture):
    """A record's repro from its import on, with open places; the class of symptom."""
    names, operands, called = parts_of(run)
    # A capture is a stranger's: only a form of our own becomes code.
    forms = [one for one in FORMS.get(capture["law"], []) if one in capture["heals"]]
    gradient = None if run.gradient is None else literal(run.gradient)
    values = {
        "operands": ", ".join(operands),
        "names": ", ".join(names),
        "called": called,
        "healed": next((one for one in forms if fits(one, names)), called),
        "run": FORWARD if gradient is None else BACKWARD.format(gradient=gradient),
    }
    kind = "nan_forward" if gradient is None else "nan_grad"
    text = TEXT.format(**values)
    names = [name for name in ("inf", "nan") if re.search(rf"\b{name}\b[^\"]", text)]
    if names:
        text = text.replace("\n", f"\nfrom torch import {', '.join(names)}\n", 1)
    return {"repro": text, "class": kind}


def fits(form, names):
    """Whether a form needs no operand that the call gives as a number."""
    return len(names) > 1 or re.search(r"\bb\b", form) is None
