"""Expressions of a program, read to values; what they call becomes events."""

from __future__ import annotations

import ast
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from kb.rules.effects import MATHS, SHAPES, combined
from kb.rules.flows import Trace
from kb.rules.gradients import MAYBE
from kb.rules.parts import (
    attributes_in,
    element_of,
    index_of,
    is_between_rows,
    is_count,
    is_handed_on,
    is_read,
    is_read_off,
    named,
    part_of,
)
from kb.rules.values import (
    NOTHING,
    UNKNOWN,
    Event,
    Scope,
    Value,
    compared,
    computed,
    joined,
    keyed,
    listed,
)

OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}
COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
}
# Give back another object each time, or change the one that they are called on.
FRESH = (
    "parameters named_parameters buffers rand_like randn_like dropout clone Parameter "
    "tensor masked_fill_ add_ mul_ nan_to_num_"
)
FUNCTIONS_OF_TENSORS = (MATHS | SHAPES | set(OPERATORS.values())) - set(FRESH.split())
# Dicts and objects of what was loaded, of which nobody takes the gradient.
LOADED = ("batch", "data", "feats", "sample", "target", "targets")
INFINITIES = ("math.inf", "torch.inf", "numpy.inf", "numpy.Inf")
# What code means that was pasted without its imports.
CUSTOMARY = {
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "np": "numpy",
    "optim": "torch.optim",
    "torch": "torch",
    "math": "math",
    "copy": "copy",
    "checkpoint": "torch.utils.checkpoint.checkpoint",
    "clip_grad_norm_": "torch.nn.utils.clip_grad_norm_",
    "autocast": "torch.autocast",
    "GradScaler": "torch.amp.GradScaler",
    "weight_norm": "torch.nn.utils.weight_norm",
}
BUILTINS = frozenset(
    "list dict enumerate filter float len max min sum getattr tuple".split()
)


class TooMuch(Exception):
    """The program is larger than what is read of one."""


class Expressions:
    """Reads expressions; statements and calls are of its heirs."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.scope = Scope()
        self.events = Trace()
        self.contexts: List[Value] = []
        self.path: List[Tuple[int, int]] = []
        self.guards: List[FrozenSet[str]] = []
        # What guards the whole file.
        self.around_all: List[FrozenSet[str]] = []
        # Whether gradients are taken of the file's functions, and of those around.
        self.degrees: Dict[int, int] = {}
        self.places: List[int] = []
        self.assumes_imports = False
        self.is_alone = True
        self.idents: Dict[Tuple[object, ...], object] = {}
        self.readers: Dict[type, Callable[[Any], Value]] = {
            ast.Constant: self.constant,
            ast.Name: self.variable,
            ast.Attribute: self.attribute,
            ast.Subscript: self.subscript,
            ast.Call: self.call,
            ast.BinOp: self.operation,
            ast.UnaryOp: self.unary,
            ast.Compare: self.comparison,
            ast.BoolOp: self.choice,
            ast.IfExp: self.conditional,
            ast.Tuple: self.sequence,
            ast.List: self.sequence,
            ast.Dict: self.mapping,
            ast.Lambda: self.function,
            ast.ListComp: self.comprehension,
            ast.GeneratorExp: self.comprehension,
            ast.SetComp: self.comprehension,
            ast.NamedExpr: self.named,
            ast.Yield: self.yielded,
        }

    def read(self, node: ast.AST) -> Value:
        self.budget -= 1
        if self.budget < 0:
            raise TooMuch
        reader = self.readers.get(type(node))
        return reader(node) if reader else self.other(node)

    def call(self, node: ast.Call) -> Value:
        raise NotImplementedError

    def bind(self, target: ast.AST, value: Value) -> None:
        raise NotImplementedError

    def note(self, event: Event, node: ast.AST) -> Event:
        """Keep an event with what stands around it."""
        event.node = node
        event.at = len(self.events)
        event.contexts = tuple(self.contexts)
        event.path = tuple(self.path)
        event.guards = NOTHING.union(*self.guards)
        outside = self.degrees.get(0, MAYBE)
        event.trained = self.places[-1] if self.places else outside
        self.events.append(event)
        return event

    def once(self, value: Value) -> Value:
        """The same object where the same function of the same things is taken again."""
        made = value.made
        word = made.name.rpartition(".")[2] if made is not None else ""
        if made is None or made.kwargs or word not in FUNCTIONS_OF_TENSORS:
            return value
        given = ((x.const if x.is_known else x.ident) for x in made.args)
        value.ident = self.idents.setdefault((word, *given), value.ident)
        return value

    # --- kinds of expressions -------------------------------------------------------
    def other(self, node: ast.AST) -> Value:
        """Of what is not known only the parts are read."""
        parts = [part for part in ast.iter_child_nodes(node) if is_read(part)]
        return Value(inputs=[self.read(part) for part in parts])

    def constant(self, node: ast.Constant) -> Value:
        known = isinstance(node.value, (bool, int, float, str, type(None)))
        return Value(node.value if known else UNKNOWN)

    def variable(self, node: ast.Name) -> Value:
        found = self.scope.find(node.id)
        if found is not None:
            return found
        if self.assumes_imports and node.id in CUSTOMARY:
            return Value(name=CUSTOMARY[node.id])
        if node.id in BUILTINS:
            return Value(name="builtins." + node.id)
        # Of nowhere in the file: the same object wherever it is named.
        return self.scope.outermost().names.setdefault(node.id, named(node.id))

    def attribute(self, node: ast.Attribute) -> Value:
        return self.attribute_of(self.whole(node.value), node.attr)

    def whole(self, node: ast.AST) -> Value:
        """What has parts is not None, whatever it was made as."""
        value = self.read(node)
        return value.attrs.setdefault("", Value()) if value.const is None else value

    def attribute_of(self, owner: Value, name: str) -> Value:
        if owner.name:
            full = owner.name + "." + name
            return Value(float("inf")) if full in INFINITIES else Value(name=full)
        if name not in owner.attrs:
            found = self.method(owner, name)
            if found is not None:
                return found
            owner.attrs[name] = part_of(owner, name)
            if owner.called in LOADED:
                owner.attrs[name].is_cut = True
        found = owner.attrs[name]
        if owner.cls is None or not is_handed_on(found) or is_read_off(found, owner):
            return found
        # What an object was given is a part of it as well.
        part = found.alike()
        part.attribute, part.inputs = name, (owner, found)
        return part

    def method(self, owner: Value, name: str) -> Optional[Value]:
        raise NotImplementedError

    def subscript(self, node: ast.Subscript) -> Value:
        owner = self.whole(node.value)
        place = index_of(node)
        index = self.read(place)
        at = index.const
        if owner.entries is not None and isinstance(at, str) and at in owner.entries:
            return owner.entries[at]
        items = owner.items if not owner.is_open else None
        if items and isinstance(at, int) and -len(items) <= at < len(items):
            return items[at]
        if owner.items is not None and isinstance(place, ast.Slice):
            return self.cut(owner, place)
        if not index.is_known and not isinstance(place, (ast.Slice, ast.Tuple)):
            self.note(Event("[]", [owner, index]), node)
        key = "[%s]" % ast.dump(place)
        if key not in owner.attrs:
            value = Value(dtype=owner.dtype, inputs=[owner, index], holds=owner.holds)
            value.sliced = True
            if isinstance(at, str) and owner.called in LOADED:
                value.is_cut = True
            owner.attrs[key] = value
        return owner.attrs[key]

    def cut(self, owner: Value, node: ast.Slice) -> Value:
        ends = [
            self.read(end).const if end is not None else None
            for end in (node.lower, node.upper, node.step)
        ]
        known = all(end is None or isinstance(end, int) for end in ends)
        if not known or ends[2] == 0:
            return Value(dtype=owner.dtype, inputs=[owner])
        return listed((owner.items or [])[slice(*ends)])

    def operation(self, node: ast.BinOp) -> Value:
        left, right = self.read(node.left), self.read(node.right)
        operator = OPERATORS.get(type(node.op), "")
        if left.is_known and right.is_known:
            return Value(computed(operator, left.const, right.const))
        for one, other in ((left, right), (right, left)):
            if operator == "*" and one.items is not None and is_count(other.const):
                return listed(one.items * other.const)
        result = self.once(combined(self.note(Event(operator, [left, right]), node)))
        if operator == "-" and is_between_rows(left, right):
            result.made = Event("-[]", [left, right])
        return result

    def unary(self, node: ast.UnaryOp) -> Value:
        value = self.read(node.operand)
        if isinstance(node.op, ast.Not):
            known = value.is_known
            result = Value(not value.const if known else UNKNOWN, inputs=[value])
        elif isinstance(node.op, ast.USub):
            result = Value(computed("*", value.const, -1), inputs=[value])
            if not result.holds and value.holds:
                turned = {"inf": "-inf", "-inf": "inf", "max": "min"}
                result.holds = frozenset(turned[x] for x in turned.keys() & value.holds)
            made = value.made if result.is_known else Event(".neg", [value])
            result.dtype, result.made = value.dtype, made
        else:
            result = Value(inputs=[value], dtype=value.dtype)
        return result

    def comparison(self, node: ast.Compare) -> Value:
        left = self.read(node.left)
        rights = [self.read(right) for right in node.comparators]
        operator = COMPARISONS.get(type(node.ops[0]), "in")
        if len(rights) > 1:
            return Value(inputs=[left, *rights])
        known = self.compared(operator, left, rights[0])
        if known is not UNKNOWN:
            return Value(known)
        return combined(self.note(Event(operator, [left, rights[0]]), node))

    def compared(self, operator: str, left: Value, right: Value) -> Any:
        found = compared(operator, left.const, right.const)
        if left.options:
            # One answer for all that it may be.
            ways = {self.compared(operator, x, right) for x in left.options}
            found = ways.pop() if len(ways) == 1 else found
        if found is not UNKNOWN or operator not in ("is", "is not", "==", "!="):
            return found
        if left.name and right.name:
            return (left.name == right.name) == (operator in ("is", "=="))
        # A function of the file, a list or an import is not None.
        for one, other in ((left, right), (right, left)):
            is_there = one.node or one.cls or one.name or one.items is not None
            if is_there and other.const is None:
                return operator in ("is not", "!=")
        return UNKNOWN

    def choice(self, node: ast.BoolOp) -> Value:
        """x or y, x and y: the first that decides it, where that is known."""
        values: List[Value] = []
        for part in node.values:
            value = self.read(part)
            if value.is_known and not values:
                if bool(value.const) == isinstance(node.op, ast.Or):
                    return value
                continue
            values.append(value)
        if len(values) == 1:
            return values[0]
        return joined(values) if values else Value(inputs=[])

    def conditional(self, node: ast.IfExp) -> Value:
        test = self.read(node.test)
        if test.is_known:
            return self.read(node.body if test.const else node.orelse)
        values = []
        for branch, part in enumerate((node.body, node.orelse)):
            self.path.append((id(node), branch))
            self.guards.append(attributes_in(node.test))
            values.append(self.read(part))
            self.guards.pop()
            self.path.pop()
        result = joined(values)
        if result is not values[0]:
            result.inputs = (*result.inputs, test)
        return result

    def sequence(self, node: Any) -> Value:
        items: List[Value] = []
        is_open = False
        for part in node.elts:
            if isinstance(part, ast.Starred):
                value = self.read(part.value)
                items += value.items or []
                is_open |= value.items is None
            else:
                items.append(self.read(part))
        found = listed(items)
        found.is_open = is_open
        return found

    def mapping(self, node: ast.Dict) -> Value:
        entries: Dict[str, Value] = {}
        is_open = False
        for key, part in zip(node.keys, node.values):
            value = self.read(part)
            if key is None:
                entries.update(value.entries or {})
                is_open |= value.entries is None or value.is_open
                continue
            name = self.read(key).const
            if isinstance(name, str):
                entries[name] = value
            else:
                is_open = True
        return keyed(entries, is_open)

    def function(self, node: Any) -> Value:
        value = Value()
        value.node, value.scope = node, self.scope
        return value

    def comprehension(self, node: Any) -> Value:
        """One round of it; the list has the type of what it is made of."""
        before = self.scope
        self.scope = Scope(before)
        made = None
        for part in node.generators:
            value = self.read(part.iter)
            made = self.note(Event("[for]", [value]), node)
            self.bind(part.target, element_of(value))
            for test in part.ifs:
                self.read(test)
        element = self.read(node.elt)
        self.scope = before
        result = Value(dtype=element.dtype, holds=element.holds, inputs=[element])
        result.made = made
        if isinstance(node, ast.GeneratorExp) and made is not None:
            # One can go through it once, as through what it goes through.
            result.made = Event("(for)", made.args)
        return result

    def yielded(self, node: ast.Yield) -> Value:
        value = self.other(node)
        self.note(Event("[do]", [value]), node)
        return Value(inputs=[value])

    def named(self, node: ast.NamedExpr) -> Value:
        value = self.read(node.value)
        self.bind(node.target, value)
        return value
