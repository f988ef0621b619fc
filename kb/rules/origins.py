"""What is known of a value: what it is, what it is a part of, and what made it."""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from kb.rules.effects import MATHS, SHAPES
from kb.rules.gradients import GIVEN
from kb.rules.names import names_of
from kb.rules.values import Event, Value

DEEPEST, MOST_SEEN = 12, 100
# Calls that give back the elements of their first argument in another shape, or often.
SHAPED = re.compile(
    r".*\.(?:view|reshape|flatten|squeeze|unsqueeze|transpose|permute|expand|clone"
    r"|repeat|tile)"
)
# What makes numbers of which nobody takes the gradient.
CONSTANTS = re.compile(
    r"torch\.(?:arange|linspace|logspace|zeros|ones|empty|full|eye|rand|randn|randint|normal"
    r"|tensor|from_numpy|bincount|zeros_like|ones_like|rand_like|randn_like"
    r"|nn\.utils\.clip_grad_norm_)"
)
COUNTED = ("int8", "int16", "int32", "int64", "uint8", "bool")
# Layers and functions that leave the number of dimensions as it is; that do not.
KEEP_DIMS = frozenset(
    "Linear() ReLU() LeakyReLU() ELU() GELU() SiLU() Tanh() Sigmoid() Identity() "
    "Dropout() LayerNorm() BatchNorm1d() leaky_relu elu + - * /".split()
)
# What has a dimension for time, or may have one.
SEQUENCE = re.compile(
    r"torch\.nn\.(?:LSTM|GRU|RNN|Embedding|Conv1d|MultiheadAttention|Transformer\w*)\(\)"
    r"|@|.*\.(?:matmul|bmm|einsum|transpose|permute|stack|unsqueeze|embedding)"
)
REDUCE = frozenset("sum mean amax amin norm logsumexp max min".split())
# Modules that have their arguments as parts.
HOLDERS = ("torch.nn.Sequential", "torch.nn.ModuleList")


def wholes(value: Value) -> List[Value]:
    """The objects that it is a part of: of layer.weight.data weight and layer."""
    found: List[Value] = []
    while value.attribute and value.inputs and len(found) < DEEPEST:
        value = value.inputs[0]
        found.append(value)
    return found


def parts(value: Value, depth: int = 4) -> List[Value]:
    """What an object has on it, or was made of, and what those have."""
    name = value.made.name if value.made is not None else ""
    layers = value.made.args if value.made and name in HOLDERS else []
    each = value.inputs if name == "[for]" else ()
    near = [*value.attrs.values(), *(value.items or []), *layers, *each]
    for part in list(near) if depth else ():
        near += parts(part, depth - 1)
        if len(near) > MOST_SEEN:
            break
    return near[:MOST_SEEN]


def made_by(value: Value, deeply: bool) -> Iterator[Event]:
    """What made a value; deeply, also what made that of which it was made."""
    if value.made is not None:
        yield value.made
    if not deeply:
        yield from reshaped(value)
        return
    seen: Set[int] = {id(value)}
    pending: List[Tuple[Value, int]] = [(entry, 1) for entry in value.inputs]
    while pending:
        part, depth = pending.pop(0)
        if id(part) in seen or depth > DEEPEST or len(seen) > MOST_SEEN:
            continue
        seen.add(id(part))
        if part.made is not None:
            yield part.made
        pending += [(entry, depth + 1) for entry in part.inputs]


def is_made_by(value: Value, names: Sequence[str], deeply: bool) -> bool:
    matched = names_of(names).match
    ways = value.options or (value,)
    return any(matched(event.name) for x in ways for event in made_by(x, deeply))


def reshaped(value: Value) -> Iterator[Event]:
    """What made the elements that were only cut out or put into another shape."""
    for _ in range(DEEPEST):
        made = value.made
        if value.sliced and value.inputs:
            value = value.inputs[0]
        elif made is not None and made.args and SHAPED.fullmatch(made.name):
            value = made.args[0]
        else:
            return
        if value.made is not None:
            yield value.made


def dims_of(value: Value, depth: int = 0) -> Optional[int]:
    """How many dimensions it has, by how it was put into shape; None: not seen."""
    made = value.made
    if value.dims or made is None or made.open_args or not made.args or depth > DEEPEST:
        return value.dims or None
    word, sizes = made.name.rpartition(".")[2], made.args[1:]
    if made.name in ("torch.zeros", "torch.ones"):
        one = made.args[0].made
        is_count = one is not None and one.name == "builtins.len"
        return len(made.args) if len(made.args) > 1 or is_count else None
    if word in ("mm", "t") or (word == "Flatten()" and is_plain(made.owner)):
        return 2
    if word in ("view", "reshape", "permute"):
        whole = sizes[0].items if len(sizes) == 1 else sizes
        is_flat = len(sizes) == 1 and sizes[0].const == -1
        return 1 if is_flat else len(whole) if whole else None
    if word == "flatten":
        start = made.kwargs.get("start_dim", sizes[0] if sizes else Value(0))
        plain = len(sizes) < 2 and "end_dim" not in made.kwargs
        return start.const + 1 if plain and start.const in (0, 1) else None
    keeps = word not in REDUCE and (word in MATHS or word in KEEP_DIMS)
    return dims_of(made.args[0], depth + 1) if keeps else None


def dims_taken(value: Value) -> Optional[int]:
    """The same, with two for the scores of a Linear: of no sequence as far as is seen,
    and not one score for each, as attention has them."""
    dims, made = dims_of(value), value.made
    for _ in range(DEEPEST):
        if dims is not None or made is None or not made.args:
            break
        layer = made.owner.made if made.owner is not None else None
        if made.name == "torch.nn.Linear()":
            sizes = layer.args[1:2] if layer is not None else []
            is_one = not sizes or sizes[0].const == 1
            seen = (SEQUENCE.fullmatch(x.name) for x in made_by(made.args[0], True))
            return None if is_one or any(seen) else 2
        word = made.name.rpartition(".")[2]
        keeps = word not in REDUCE and (word in MATHS or word in KEEP_DIMS)
        made = made.args[0].made if keeps else None
    return dims


def is_plain(layer: Optional[Value]) -> bool:
    """Whether it was made without arguments."""
    made = layer.made if layer is not None else None
    return made is not None and not made.all_values() and not made.open_args


def has_no_gradient(value: Value, depth: int = 0) -> bool:
    """Whether it is seen to be made of constants, or cut off from its graph."""
    made = value.made
    if value.is_cut is False:
        return False
    if value.is_known or value.name or value.is_cut or value.dtype in COUNTED:
        return True
    if value.attribute == "grad" or GIVEN.fullmatch(value.called or value.attribute):
        return True
    if value.options and depth < DEEPEST:
        return all(has_no_gradient(x, depth + 1) for x in value.options)
    if made is None:
        return value.sliced and has_no_gradient(value.inputs[0], depth + 1)
    word = made.name.rpartition(".")[2]
    if CONSTANTS.fullmatch(made.name) or word == "Parameter":
        asked = made.kwargs.get("requires_grad", Value(word == "Parameter"))
        return asked.const is False
    is_math = word in MATHS or word in SHAPES or not word[:1].isalpha()
    return bool(
        depth < DEEPEST
        and is_math
        and made.args
        and all(has_no_gradient(x, depth + 1) for x in made.all_values())
    )


def mentions(value: Value, names: Sequence[str]) -> bool:
    """Whether it was made from an attribute of one of these names."""
    seen: Set[int] = set()
    pending = [value]
    while pending and len(seen) < MOST_SEEN:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if part.attribute in names:
            return True
        pending += part.inputs
    return False


def returns_dict(value: Value) -> bool:
    """Whether a function or module of the file does, as far as can be seen."""
    node = value.node
    if value.cls is not None:
        methods = {getattr(x, "name", ""): x for x in value.cls.node.body}
        node = methods.get("forward") or methods.get("__call__")
    walked = ast.walk(node) if node is not None else ()
    given = [x for x in walked if isinstance(x, ast.Return)]
    return any(isinstance(x, ast.Dict) for one in given for x in ast.walk(one))


def is_member(value: Value) -> bool:
    """Whether it was read off an object of a class that stands in the file."""
    return any(whole.cls is not None for whole in wholes(value))


def is_imported(value: Value) -> bool:
    """Whether it is, or may be, something imported itself, compiled or not."""
    made = value.made
    given = made.args[:1] if made is not None and made.name == "torch.compile" else []
    return bool(value.name) or any(map(is_imported, [*value.options, *given]))


def is_called(value: Value, patterns: Sequence[str]) -> bool:
    """Whether its name in the program is one of these, an underline apart."""
    names = names_of(patterns)
    return any(names.match(x.strip("_")) for x in (value.called, value.attribute) if x)


def is_number(value: Value) -> bool:
    const = value.const
    return isinstance(const, (int, float)) and not isinstance(const, bool)


def equal(value: Value, wanted: Any) -> bool:
    if not value.is_known:
        return False
    return value.const == wanted and isinstance(value.const, bool) == isinstance(
        wanted, bool
    )


# What a condition may ask of one value.
CHECKS: Dict[str, Any] = {
    "given": lambda value, wanted: wanted is True,
    "is": equal,
    "none": lambda value, wanted: (value.is_known and value.const is None) == wanted,
    "above": lambda value, wanted: is_number(value) and value.const > wanted,
    "below": lambda value, wanted: is_number(value) and value.const < wanted,
    "at_most": lambda value, wanted: is_number(value) and value.const <= wanted,
    "dtype": lambda value, wanted: value.dtype in wanted,
    "holds": lambda value, wanted: wanted in value.holds,
    "imported": lambda value, wanted: is_imported(value) == wanted,
    "asked": lambda value, wanted: (value.is_cut is False) == wanted,
    "cut": lambda value, wanted: has_no_gradient(value) == wanted,
    "attribute": lambda value, wanted: bool(value.attribute) == wanted,
    "member": lambda value, wanted: is_member(value) == wanted,
    "called": is_called,
    "uncalled": lambda value, wanted: not is_called(value, wanted),
    "unmentioned": lambda value, wanted: not mentions(value, wanted),
    "sliced": lambda value, wanted: value.sliced == wanted,
    "dims": lambda value, wanted: dims_taken(value) in wanted,
    "not_dims": lambda value, wanted: dims_taken(value) not in wanted,
    "returns": lambda value, wanted: returns_dict(value),
    "not_made_by": lambda value, wanted: not is_made_by(value, wanted, False),
    "not_from": lambda value, wanted: not is_made_by(value, wanted, True),
    "named": lambda value, wanted: value.name in wanted,
    "known": lambda value, wanted: value.is_known == wanted,
}
