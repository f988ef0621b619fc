"""What is known of a value of a program that is read and not run."""

from __future__ import annotations

import ast
import math
from operator import add, floordiv, ge, gt, le, lt, mul, sub, truediv
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

UNKNOWN: Any = object()
NOTHING: FrozenSet[str] = frozenset()
MOST_ITEMS = 64
LARGE = 1e18
# The label that cross_entropy leaves out.
IGNORED = -100


class Scope:
    """Names of a function or module, and those of what stands around it."""

    __slots__ = ("around", "names")

    def __init__(self, around: Optional[Scope] = None) -> None:
        self.names: Dict[str, Value] = {}
        self.around = around

    def outermost(self) -> Scope:
        scope = self
        while scope.around is not None:
            scope = scope.around
        return scope

    def find(self, name: str) -> Optional[Value]:
        scope: Optional[Scope] = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return None


class Value:
    """One value. What is not known is empty; `const` is UNKNOWN then.

    `name`: of an import ("torch.float16"); `node`: of a function or class of the file,
    with its `scope`; `cls`: the class of an instance; `holds`: "inf", "-inf" or "min";
    `made`: the event that made it; `inputs`: what it was made from; `ident`: shared by
    values that are one object; `called`: the first name that the program gives it;
    `is_cut`: no gradient comes back through it; False: one is asked for; `dims`: how
    many sizes the program takes off it, 0 where it takes none.
    """

    __slots__ = (
        *("const", "name", "node", "scope", "cls", "receiver", "items", "entries"),
        *("is_open", "attrs", "dtype", "holds", "made", "inputs", "attribute"),
        *("sliced", "ident", "options", "is_compiled", "called"),
        *("is_cut", "dims"),
    )

    def __init__(
        self,
        const: Any = UNKNOWN,
        name: str = "",
        dtype: str = "",
        holds: FrozenSet[str] = NOTHING,
        made: Optional[Event] = None,
        inputs: Sequence[Value] = (),
    ) -> None:
        self.const = const
        self.name = name
        self.node: Any = None
        self.scope: Optional[Scope] = None
        self.cls: Optional[Value] = None
        self.receiver: Optional[Value] = None
        self.items: Optional[List[Value]] = None
        self.entries: Optional[Dict[str, Value]] = None
        self.is_open = False
        self.attrs: Dict[str, Value] = {}
        self.dtype = dtype
        self.holds = holds or tags_of(const)
        self.made = made
        self.inputs = tuple(inputs)
        self.attribute = ""
        self.sliced = False
        self.ident: object = self
        self.options: Tuple[Value, ...] = ()
        self.is_compiled = False
        self.called = ""
        self.is_cut: Optional[bool] = None
        self.dims = 0

    @property
    def is_known(self) -> bool:
        return self.const is not UNKNOWN

    def alike(self, dtype: Optional[str] = None) -> Value:
        """The same object, of another type where one is given."""
        other = Value.__new__(Value)
        for slot in Value.__slots__:
            setattr(other, slot, getattr(self, slot))
        if dtype is not None:
            other.dtype = dtype
        return other


class Event:
    """Something that the program does: a call, an operator, an assignment to a part.

    `args` of a method begin with its object, which is `owner` too, as is an object that
    is called. `open_args`, `open_kwargs`: there may be more than those that are seen.
    """

    __slots__ = (
        *("name", "args", "kwargs", "owner", "open_args", "open_kwargs", "node"),
        *("contexts", "path", "guards", "trained", "at", "result"),
    )

    def __init__(
        self,
        name: str,
        args: Sequence[Value],
        kwargs: Optional[Dict[str, Value]] = None,
        owner: Optional[Value] = None,
        node: Optional[ast.AST] = None,
    ) -> None:
        self.name = name
        self.args = list(args)
        self.kwargs = kwargs or {}
        self.owner = owner
        self.open_args = self.open_kwargs = False
        self.node = node
        self.contexts: Tuple[Value, ...] = ()
        self.path: Tuple[Tuple[int, int], ...] = ()
        self.guards: FrozenSet[str] = NOTHING
        # Whether somebody takes the gradient of the function that it happens in.
        self.trained = 0
        self.at = 0
        self.result: Optional[Value] = None

    def all_values(self) -> List[Value]:
        owner = [self.owner] if self.owner is not None else []
        return [*owner, *self.args, *self.kwargs.values()]


def tags_of(const: Any) -> FrozenSet[str]:
    if const == IGNORED and not isinstance(const, bool):
        return frozenset([str(IGNORED)])
    if isinstance(const, float) and math.isinf(const):
        return frozenset(["inf" if const > 0 else "-inf"])
    return NOTHING


def listed(items: Iterable[Value]) -> Value:
    """A list or tuple; its type is that of its tensors, where they have one."""
    found = list(items)[:MOST_ITEMS]
    value = Value(inputs=found, dtype=common_dtype(found))
    value.items = found
    value.holds = frozenset().union(*(item.holds for item in found))
    if not all(str(IGNORED) in item.holds for item in found):
        value.holds -= {str(IGNORED)}
    return value


def keyed(entries: Dict[str, Value], is_open: bool) -> Value:
    value = Value(inputs=list(entries.values()))
    value.made = Event("builtins.dict", [], entries)
    value.made.open_kwargs = is_open
    value.entries, value.is_open = entries, is_open
    if "params" in entries:  # a group of an optimizer
        value.dtype = entries["params"].dtype
    return value


def common_dtype(values: Iterable[Value]) -> str:
    found = {value.dtype for value in values}
    return found.pop() if len(found) == 1 else ""


def joined(values: Sequence[Value]) -> Value:
    """What is true of a value that may be any of these."""
    first = values[0]
    if all(value is first for value in values):
        return first
    result = Value(inputs=values, dtype=common_dtype(values))
    result.holds = first.holds.intersection(*(value.holds for value in values))
    result.options = tuple(values)
    consts = [value.const for value in values]
    if all(const is not UNKNOWN and const == consts[0] for const in consts):
        result.const = consts[0]
    if all(value.ident is first.ident for value in values):
        result.ident = first.ident
    layers = {x.made and (x.made.name, id(x.made.owner)) for x in values}
    if len(layers) == 1 and first.made is not None and first.made.name.endswith("()"):
        result.made = first.made  # by one layer either way
    lengths = {None if value.items is None else len(value.items) for value in values}
    if len(lengths) == 1 and None not in lengths:
        columns = zip(*(value.items or () for value in values))
        result.items = [joined(column) for column in columns]
    return result


# --- arithmetic of constants --------------------------------------------------------
NUMBER = (int, float)
ORDER = {"<": lt, "<=": le, ">": gt, ">=": ge}
ARITHMETIC = {"+": add, "-": sub, "*": mul, "/": truediv, "//": floordiv}


def computed(operator: str, left: Any, right: Any) -> Any:
    """The constant, or UNKNOWN: nothing large is ever computed."""
    if not isinstance(left, NUMBER) or not isinstance(right, NUMBER):
        return UNKNOWN
    try:
        if abs(left) > LARGE or abs(right) > LARGE:
            left, right = float(left), float(right)
        if operator in ARITHMETIC:
            return ARITHMETIC[operator](left, right)
        if operator == "**":
            power = float(left) ** float(right)
            return power if isinstance(power, float) else UNKNOWN
    except (ArithmeticError, ValueError):
        pass
    return UNKNOWN


def compared(operator: str, left: Any, right: Any) -> Any:
    """True, False or UNKNOWN."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    try:
        if operator in ("==", "is"):
            return bool(left == right)
        if operator in ("!=", "is not"):
            return bool(left != right)
        if isinstance(left, NUMBER) and isinstance(right, NUMBER):
            return ORDER[operator](left, right) if operator in ORDER else UNKNOWN
    except (TypeError, ValueError):
        pass
    return UNKNOWN
