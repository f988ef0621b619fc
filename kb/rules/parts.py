"""Parts of values and of the tree: attributes, elements, places in brackets."""

from __future__ import annotations

import ast
import re
from typing import Any, FrozenSet

from kb.rules.gradients import names_in
from kb.rules.values import NOTHING, Event, Value, joined

MOST_PARTS = 4
PADDING = re.compile(r"pad_|padding")
# Which of what they give back are the values.
DECOMPOSED = {"svd": 1, "eigh": 0, "symeig": 0}
COMPARED = ("<", "<=", ">", ">=", "==", "!=")


def index_of(node: ast.Subscript) -> Any:
    """What stands in the brackets; Python 3.8 puts it into a node of its own."""
    place: Any = node.slice
    return place.value if type(place).__name__ == "Index" else place


def part_of(owner: Value, name: str) -> Value:
    value = Value(inputs=[owner])
    value.attribute = name
    value.is_cut = name in ("data", "shape") or None
    if name not in ("shape", "device", "size", "grad_fn", "is_cuda"):
        value.dtype = owner.dtype
    if owner.made is not None and owner.made.name == "torch.finfo":
        value.holds = frozenset([name]) if name in ("min", "max") else NOTHING
        value.dtype = ""
    return value


def element_of(value: Value) -> Value:
    """What a loop over a value gives each time."""
    if value.items:
        element = joined(value.items)
        # Each comes in its turn.
        element.holds = NOTHING.union(*(item.holds for item in value.items))
        return element
    if value.made is not None and value.made.name == "[for]" and value.inputs:
        return value.inputs[0]  # of a comprehension
    result = Value(dtype=value.dtype, inputs=[value])
    result.made = value.made
    return result


def part_at(value: Value, at: int) -> Value:
    """One of several that a call gives back: singular values are no vectors."""
    made = value.made
    word = made.name.rpartition(".")[2] if made is not None else ""
    if made is None or DECOMPOSED.get(word) != at:
        return element_of(value)
    given = Event("torch.linalg.%svals" % word, made.args, made.kwargs)
    return Value(dtype=value.dtype, made=given, inputs=made.all_values())


def whose_dims(node: ast.expr) -> Any:
    """The x of x.ndim, x.dim() and len(x.shape); None of anything else."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len":
        node = node.args[0] if node.args else node
        words = ("shape", "size")
    else:
        words = ("ndim", "dim")
    part: Any = node.func if isinstance(node, ast.Call) else node
    return part.value if getattr(part, "attr", "") in words else None


def named(name: str) -> Value:
    value = Value()
    value.called = name
    return value


def is_read_off(value: Value, owner: Value) -> bool:
    """Whether it is only known as a part that somebody looked at."""
    inputs = value.inputs
    return bool(value.attribute and len(inputs) == 1 and inputs[0] is owner)


def is_handed_on(value: Value) -> bool:
    """Whether an argument or a part of something is all that is known of it."""
    plain = not value.is_known and not value.name and value.made is None
    return plain and value.node is None and (bool(value.attribute) or not value.inputs)


def is_mask(value: Value) -> bool:
    """Whether it was made by comparing."""
    return value.made is not None and value.made.name in COMPARED


def is_between_rows(left: Value, right: Value) -> bool:
    """Whether they are picked from one table, as the two ends of an edge are."""
    picked = [x.inputs for x in (left, right) if x.sliced and len(x.inputs) == 2]
    if len(picked) < 2 or picked[0][0].ident is not picked[1][0].ident:
        return False
    return not any(index.is_known or index.items for _, index in picked)


def is_padding(value: Value) -> bool:
    """Whether it tells what a row is filled up with, which no row is alone."""
    made = value.made
    names = [x.called + x.attribute for x in (value, *(made.args if made else ()))]
    return any(map(PADDING.search, names))


def is_count(const: Any) -> bool:
    return isinstance(const, int) and not isinstance(const, bool) and 0 <= const <= 64


def is_read(node: ast.AST) -> bool:
    return isinstance(node, (ast.expr, ast.keyword, ast.Slice, ast.comprehension))


def attributes_of(value: Value, depth: int = 4) -> FrozenSet[str]:
    """The attributes that a value was made from: that of a test that has a name."""
    found = frozenset([value.attribute] if value.attribute else [])
    parts = value.inputs[:MOST_PARTS] if depth else ()
    return found.union(*(attributes_of(part, depth - 1) for part in parts))


def attributes_in(node: ast.AST) -> FrozenSet[str]:
    """The names that a test mentions: {"self", "training"}."""
    return frozenset(names_in(node))
