"""Calls of a program: those of the file are followed, the others become events."""

from __future__ import annotations

import ast
from typing import Any, Dict, List, Mapping, Optional, Set

from kb.rules.effects import result_of
from kb.rules.expressions import Expressions
from kb.rules.gradients import BLOCKED, GIVEN, MAYBE
from kb.rules.origins import has_no_gradient
from kb.rules.parts import element_of, is_count, is_read_off
from kb.rules.values import (
    MOST_ITEMS,
    UNKNOWN,
    Event,
    Scope,
    Value,
    joined,
    keyed,
    listed,
)

# Methods that change a model in place where nobody takes what they give back.
IN_PLACE = ("half", "bfloat16", "float", "double", "to", "type")
# Methods after which a tensor holds other numbers.
CHANGES = frozenset(
    "add_ sub_ mul_ div_ clamp_ clamp_min_ clamp_max_ masked_fill_ nan_to_num_".split()
)
# Methods by which a list or dict gets what it holds.
COLLECTS = frozenset(["append", "extend", "add", "insert"])
# Calls a module on many devices; makes one that is called so.
SPREAD = "torch.nn.parallel.data_parallel"
SPREADS = (
    SPREAD,
    *("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"),
    "torch.nn.parallel.DistributedDataParallel",
)
EMBEDS = "torch.nn.Embedding()"
MOST_LAYERS = 32
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Calls(Expressions):
    """Follows functions, classes and lambdas of the file, `deepest` into each other.

    `parameters`: what `doesitnan.parameter` gives in a repro.
    """

    def __init__(
        self, budget: int, deepest: int, parameters: Mapping[str, Any]
    ) -> None:
        super().__init__(budget)
        self.deepest = deepest
        self.parameters = parameters
        self.returns: List[List[Value]] = []
        self.active: List[ast.AST] = []
        # Functions that were defined and not followed yet.
        self.pending: Dict[int, Value] = {}
        # All that were followed, by whomever.
        self.followed: Set[int] = set()

    def run(self, body: List[ast.stmt]) -> bool:
        raise NotImplementedError

    def function(self, node: Any) -> Value:
        value = super().function(node)
        self.pending[id(node)] = value
        return value

    # --- what is called ---------------------------------------------------------------
    def call(self, node: ast.Call) -> Value:
        func = node.func
        if not isinstance(func, ast.Attribute):
            return self.call_value(self.read(func), self.arguments(node), node)
        owner = self.whole(func.value)
        event = self.arguments(node)
        stored = owner.attrs.get(func.attr)
        if owner.name:
            return self.call_value(self.attribute_of(owner, func.attr), event, node)
        if stored is not None and not is_read_off(stored, owner):
            return self.call_value(stored, event, node)
        method = self.method(owner, func.attr)
        event.name, event.owner = "." + func.attr, owner
        event.args.insert(0, owner)
        if func.attr == "where" and len(event.args) == 3:
            # x.where(condition, y) is torch.where(condition, x, y).
            event.name, event.args[:2] = "torch.where", event.args[1::-1]
        self.note(event, node)
        if func.attr in COLLECTS:
            owner.inputs = (*owner.inputs[-MOST_ITEMS:], *event.args[1:])
            owner.is_open = True
        if method is not None:
            return self.follow(method, handed_on(event, Event("", [])))
        if func.attr == "size" and len(event.args) > 1:
            at = event.args[1].const
            # The last of its sizes that anybody asks for.
            owner.dims = max(owner.dims, at + 1 if is_count(at) and at else 0)
        return self.once(result_of(event))

    def arguments(self, node: ast.Call) -> Event:
        event = Event("", [])
        for part in node.args:
            if isinstance(part, ast.Starred):
                value = self.read(part.value)
                event.args += value.items or []
                event.open_args |= value.items is None or value.is_open
            else:
                event.args.append(self.read(part))
        for keyword in node.keywords:
            value = self.read(keyword.value)
            if keyword.arg is not None:
                event.kwargs[keyword.arg] = value
            else:
                event.kwargs.update(value.entries or {})
                event.open_kwargs |= value.entries is None or value.is_open
        return event

    def call_value(self, callee: Value, event: Event, node: ast.AST) -> Value:
        if callee.name:
            if callee.name in SPREADS and event.args:
                return self.spread(callee.name, event, node)
            special = self.special(callee.name, event)
            if special is not None:
                return special
            event.name = callee.name
            if event.name == "functools.partial" and event.args and event.args[0].name:
                later = Event(event.args[0].name, event.args[1:], event.kwargs)
                later.open_args = later.open_kwargs = True
                self.note(later, node)
            return self.once(result_of(self.note(event, node)))
        if isinstance(callee.node, ast.ClassDef):
            return self.instance(callee, event)
        if callee.node is not None:
            event.name = "<%s>" % getattr(callee.node, "name", "lambda")
            return self.follow(callee, self.note(event, node))
        made = callee.made
        if made is not None and made.name == "functools.partial" and made.args:
            return self.call_value(made.args[0], handed_on(made, event), node)
        start = made.name[:1] if made is not None else ""
        qualified = start not in ("", ".", "[", "(") and not callee.cls
        name = made.name if made and qualified else callee.called or callee.attribute
        event.name, event.owner = name + "()", callee
        self.note(event, node)
        if made is not None and made.name == "torch.nn.Sequential":
            return self.in_turn(made, event, node)
        forward = self.method(callee, "forward") or self.method(callee, "__call__")
        if forward is not None:
            forward.is_compiled = callee.is_compiled
            return self.follow(forward, event)
        result = Value(made=event, inputs=event.all_values())
        # Of a frozen layer of constants, or one that looks numbers up.
        is_cut = event.name == EMBEDS or all(map(has_no_gradient, event.args))
        result.is_cut = (callee.is_cut and is_cut) or None
        return result

    def spread(self, name: str, event: Event, node: ast.AST) -> Value:
        """A module called on many devices, or made one that is called so."""
        module = event.args[0]
        if name == SPREAD:
            return self.call_value(module, Event("", event.args[1:2]), node)
        event.name = name
        self.note(event, node).result = module
        module.attrs.setdefault("module", module)
        return module

    def in_turn(self, made: Event, event: Event, node: ast.AST) -> Value:
        """What the last of the layers gives that are called one after the other."""
        if made.open_args or not made.args or made.args[-1].entries is not None:
            return Value(made=event, inputs=event.all_values())
        value = event.args[0] if event.args else Value()
        for layer in made.args[-MOST_LAYERS:]:
            value = self.call_value(layer, Event("", [value]), node)
        return value

    def special(self, name: str, event: Event) -> Optional[Value]:
        """Calls whose result is known: getattr(torch, "float16"), float("-inf")."""
        args = event.args
        first = args[0] if args else Value()
        if name == "doesitnan.parameter":
            return Value(self.parameters.get(first.const, UNKNOWN))
        if name == "builtins.getattr" and len(args) > 1:
            if isinstance(args[1].const, str):
                return self.attribute_of(first, args[1].const)
            return Value(inputs=args)
        if name == "builtins.float" and len(args) == 1:
            return Value(number_of(first.const), inputs=args, holds=first.holds)
        if name in ("builtins.min", "builtins.max") and not event.open_args:
            known = [value.const for value in args]
            if args and all(isinstance(const, (int, float)) for const in known):
                return Value(min(known) if name.endswith("min") else max(known))
            return Value(inputs=args)
        if name == "builtins.enumerate" and args:
            pairs = listed([listed([Value(), element_of(first)])])
            pairs.is_open = True
            return pairs
        if name in ("builtins.len", "builtins.sum"):
            items = first.items if not first.is_open else None
            length = UNKNOWN if items is None or name.endswith("sum") else len(items)
            return Value(length, made=Event(name, args), inputs=args) if args else None
        return None

    # --- following --------------------------------------------------------------------
    def follow(self, function: Value, event: Event) -> Value:
        """What a function of the file returns for these arguments."""
        node = function.node
        self.pending.pop(id(node), None)
        self.followed.add(id(node))
        if len(self.active) >= self.deepest or self.active.count(node) > 0:
            return Value(inputs=event.all_values())
        before, self.scope = self.scope, Scope(function.scope)
        self.active.append(node)
        outer = self.places[-1] if self.places else MAYBE
        self.places.append(self.degrees.get(id(node), outer))
        contexts = self.around(function)
        self.contexts += contexts
        words = getattr(node, "name", "").split("_")
        words += ["(untrained)"] if self.places[-1] == BLOCKED else []
        self.guards.append(frozenset(words))
        try:
            self.bind_arguments(function, event)
            return self.returned(node)
        finally:
            del self.contexts[len(self.contexts) - len(contexts) :]
            self.active.pop()
            self.guards.pop()
            self.places.pop()
            self.scope = before

    def returned(self, node: Any) -> Value:
        if isinstance(node, ast.Lambda):
            return self.read(node.body)
        self.returns.append([])
        path = len(self.path)
        try:
            self.run(node.body)
        finally:
            del self.path[path:]
            found = self.returns.pop()
        return joined(found) if found else Value(None)

    def around(self, function: Value) -> List[Value]:
        """Decorators that are contexts, and torch.compile where it was compiled so."""
        contexts = []
        if function.is_compiled:
            contexts.append(Value(name="torch.compile"))
        for decorator in getattr(function.node, "decorator_list", ()):
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(named, (ast.Attribute, ast.Name)):
                value = self.read(named)
                if value.name.startswith("torch."):
                    contexts.append(value)
        return contexts

    def bind_arguments(self, function: Value, event: Event) -> None:
        names = self.scope.names
        spec = function.node.args
        values = list(event.args)
        if function.receiver is not None:
            values.insert(0, function.receiver)
        plain = [*spec.posonlyargs, *spec.args]
        first_default = len(plain) - len(spec.defaults)
        kwargs = dict(event.kwargs)
        for at, parameter in enumerate(plain):
            default = spec.defaults[at - first_default] if at >= first_default else None
            if at < len(values):
                names[parameter.arg] = values[at]
            else:
                is_open = event.open_args or event.open_kwargs
                names[parameter.arg] = self.taken(
                    kwargs, parameter.arg, default, is_open, function
                )
        for parameter, default in zip(spec.kwonlyargs, spec.kw_defaults):
            names[parameter.arg] = self.taken(
                kwargs, parameter.arg, default, event.open_kwargs, function
            )
        for name, value in list(names.items()):
            value.called = value.called or name
            if GIVEN.fullmatch(name) and value.is_cut is None:
                # Whatever it was called outside.
                names[name] = value.alike()
                names[name].is_cut = True
        if spec.vararg:
            names[spec.vararg.arg] = rest = listed(values[len(plain) :])
            rest.is_open = event.open_args
            if rest.is_open:
                names[spec.vararg.arg] = Value(inputs=rest.inputs)
        if spec.kwarg:
            names[spec.kwarg.arg] = keyed(kwargs, event.open_kwargs)

    def taken(
        self,
        kwargs: Dict[str, Value],
        name: str,
        default: Optional[ast.AST],
        is_open: bool,
        function: Value,
    ) -> Value:
        """The argument of that name; of what may have been given nothing is known."""
        if name in kwargs:
            return kwargs.pop(name)
        if is_open or default is None:
            return Value()
        before, self.scope = self.scope, function.scope or self.scope
        try:
            return self.read(default)
        finally:
            self.scope = before

    # --- classes ----------------------------------------------------------------------
    def instance(self, cls: Value, event: Event) -> Value:
        made = Value(inputs=event.all_values())
        made.cls = cls
        made.dtype = ""
        made.made = Event("class." + lineage(cls.node), event.args, event.kwargs)
        for part in cls.node.body:
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant):
                for target in part.targets:
                    made.attrs[getattr(target, "id", "")] = self.read(part.value)
        start = self.method(made, "__init__")
        if start is not None:
            self.follow(start, event)
        return made

    def method(self, owner: Value, name: str) -> Optional[Value]:
        """A method of an instance whose class stands in the file, bound to it."""
        if owner.cls is None:
            return None
        found = self.defined(owner.cls, name, 0)
        if found is None:
            return None
        found.receiver = owner if not is_static(found.node) else None
        return found

    def defined(self, cls: Value, name: str, depth: int) -> Optional[Value]:
        for statement in cls.node.body:
            if isinstance(statement, FUNCTIONS) and statement.name == name:  # type: ignore[union-attr]
                return of_class(cls, statement)
        for base in cls.node.bases if depth < 8 else ():
            parent = (
                cls.scope.find(base.id)
                if isinstance(base, ast.Name) and cls.scope
                else None
            )
            if parent is not None and isinstance(parent.node, ast.ClassDef):
                found = self.defined(parent, name, depth + 1)
                if found is not None:
                    return found
        return None


def handed_on(part: Event, event: Event) -> Event:
    """What f gets of functools.partial(f, …), or a method without its object."""
    whole = Event("", [*part.args[1:], *event.args], {**part.kwargs, **event.kwargs})
    whole.open_args = part.open_args or event.open_args
    whole.open_kwargs = part.open_kwargs or event.open_kwargs
    return whole


def lineage(node: ast.ClassDef) -> str:
    """The names of a class and of its bases: Net.Module."""
    bases = (getattr(x, "attr", getattr(x, "id", "")) for x in node.bases)
    return ".".join([node.name, *bases])


def of_class(cls: Value, node: Any) -> Value:
    """A method, not bound; it is called after its class and the bases of that."""
    value = Value()
    value.node, value.scope, value.called = node, cls.scope, lineage(cls.node)
    return value


def is_static(node: Any) -> bool:
    names = (getattr(part, "id", "") for part in node.decorator_list)
    return "staticmethod" in names


def number_of(const: Any) -> Any:
    if isinstance(const, (int, str)):
        try:
            return float(const)
        except (ValueError, OverflowError):
            return UNKNOWN
    return const if isinstance(const, float) else UNKNOWN
