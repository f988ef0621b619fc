"""A captured call as Python, to be read and pasted: the same numbers, as decimals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from portable.nan_probe.functions import SEVERAL

NAMES = "abcdefgh"
# With more numbers the source is of no use to a reader; capture.json has them all.
MOST_NUMBERS, FEW = 64, 8
HEAD = "import torch\nfrom torch import inf, nan\n"


def source(call: dict[str, Any]) -> str:
    """Nothing where it has too many numbers, or operands, to be printed."""
    operands = [one for one in call["args"] if is_tensor(one)]
    if numbers_of(call) > MOST_NUMBERS or len(operands) > len(NAMES):
        return ""
    names = iter(NAMES)
    lines, given, leaves = [], [], []
    for value in call["args"]:
        given.append(next(names) if is_tensor(value) else literal(value))
        if is_tensor(value):
            lines.append(f"{given[-1]} = {literal(value)}")
            leaves += given[-1:] if "float" in value["tensor"]["dtype"] else []
    given += [f"{name}={literal(value)}" for name, value in call["kwargs"].items()]
    made = f"{call['function']}({', '.join(given)})"
    if call["gradient"] is None:
        lines.append(f"print({made})")
    else:
        lines += [f"{name}.requires_grad_()" for name in leaves]
        lines.append(f"gradient = {literal(call['gradient'])}")
        wanted = ", ".join(leaves)
        made += "[0]" * (call["function"].rpartition(".")[2] in SEVERAL)
        lines.append(f"print(torch.autograd.grad({made}, [{wanted}], gradient))")
    text = "\n".join(lines)
    head = HEAD if re.search(r"\b(inf|nan)\b", text) else HEAD.split("\n")[0] + "\n"
    return f"{head}\n{text}\n"


def operands(call: dict[str, Any]) -> str:
    """The tensors' numbers in one short line; "" where they are too many for one."""
    tensors = [one["tensor"] for one in call["args"] if is_tensor(one)]
    if numbers_of(call) > FEW:
        return ""
    return "; ".join(f"[{', '.join(flat(one))}]" for one in tensors)


def numbers_of(call: dict[str, Any]) -> int:
    values = (*call["args"], *call["kwargs"].values())
    return sum(len(flat(one["tensor"])) for one in values if is_tensor(one))


def is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and "tensor" in value


def literal(value: Any) -> str:
    """A tagged value of a capture as Python source."""
    if not isinstance(value, dict):
        return repr(value)
    ((kind, held),) = value.items()
    if kind == "float":
        return repr(float.fromhex(held))
    if kind == "dtype":
        return f"torch.{held}"
    if kind == "list":
        return f"[{', '.join(map(literal, held))}]"
    shape = held["shape"]
    if 0 in shape:
        return f"torch.empty({shape}, dtype=torch.{held['dtype']})"
    return f"torch.tensor({nested(flat(held), shape)}, dtype=torch.{held['dtype']})"


def flat(held: dict[str, Any]) -> list[str]:
    if not held["dtype"].startswith("complex"):
        return list(map(number, held["values"]))
    pairs = zip(*held["values"], strict=True)
    return [f"complex({number(real)}, {number(imag)})" for real, imag in pairs]


def number(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    return "nan" if value.startswith("nan") else repr(float.fromhex(value))


def nested(values: list[str], shape: Sequence[int]) -> str:
    """The numbers as lists in lists, as the shape has them."""
    if not shape:
        return values[0]
    step = len(values) // shape[0]
    parts = [values[at : at + step] for at in range(0, len(values), step)]
    return f"[{', '.join(nested(part, shape[1:]) for part in parts)}]"
