"""A program read from top to bottom: statements in order, both ways of a branch."""

from __future__ import annotations

import ast
import contextlib
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from kb.rules.calling import CHANGES, IN_PLACE, Calls
from kb.rules.expressions import FUNCTIONS_OF_TENSORS, TooMuch
from kb.rules.flows import Trace, is_told
from kb.rules.gradients import degrees_of, only_draws
from kb.rules.parts import (
    attributes_in,
    attributes_of,
    element_of,
    index_of,
    is_count,
    is_mask,
    is_padding,
    part_at,
    whose_dims,
)
from kb.rules.values import IGNORED, MOST_ITEMS, NOTHING, Event, Value, joined

# Nodes that are read of one function with all that it calls.
OF_ENTRY = 20_000
DEEP_ENOUGH = 4
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Reader(Calls):
    """Reads statements. A branch that cannot be decided is read both ways."""

    def __init__(
        self,
        budget: int = OF_ENTRY,
        deepest: int = DEEP_ENOUGH,
        parameters: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(budget, deepest, parameters or {})
        self.statements: Dict[type, Callable[[Any], Optional[bool]]] = {
            ast.Expr: self.expression,
            ast.Assign: self.assign,
            ast.AnnAssign: self.assign_typed,
            ast.AugAssign: self.assign_more,
            ast.Assert: self.claim,
            ast.Return: self.give_back,
            ast.If: self.branch,
            ast.For: self.loop,
            ast.AsyncFor: self.loop,
            ast.While: self.repeat,
            ast.With: self.within,
            ast.AsyncWith: self.within,
            ast.Try: self.attempt,
            ast.FunctionDef: self.define,
            ast.AsyncFunctionDef: self.define,
            ast.ClassDef: self.define_class,
            ast.Import: self.import_modules,
            ast.ImportFrom: self.import_names,
        }

    def run(self, body: List[ast.stmt]) -> bool:
        """Whether the block ends early: by return, raise, continue or break."""
        path, guards = len(self.path), len(self.guards)
        ended = False
        for statement in body:
            handler = self.statements.get(type(statement))
            ended = bool((handler or self.parts)(statement))
            if ended or isinstance(statement, ENDS):
                ended = True
                break
        del self.path[path:], self.guards[guards:]
        return ended

    def parts(self, statement: ast.stmt) -> None:
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.expr):
                self.read(part)
            else:
                blocks = getattr(part, "body", None)
                if isinstance(blocks, list):
                    self.run(blocks)

    # --- values and names -------------------------------------------------------------
    def expression(self, node: ast.Expr) -> None:
        value = self.read(node.value)
        call = node.value
        if not isinstance(call, ast.Call):
            return
        if not is_told(value) and not is_dropped(value):
            self.note(Event("[do]", [value]), node)
        if not isinstance(call.func, ast.Attribute):
            return
        model = call.func.value
        if call.func.attr in CHANGES and isinstance(model, ast.Name):
            self.bind(model, value)
        owner = None
        if call.func.attr in IN_PLACE and isinstance(model, ast.Name):
            owner = self.scope.find(model.id)
        elif call.func.attr in IN_PLACE and isinstance(model, ast.Attribute):
            owner = self.read(model.value).attrs.get(model.attr)
        # Nobody takes the result: it is a model, which this changes in place.
        if owner is not None and value.ident is owner.ident:
            owner.dtype = value.dtype

    def assign(self, node: ast.Assign) -> None:
        value = self.read(node.value)
        for target in node.targets:
            self.bind(target, value)

    def assign_typed(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.read(node.value))

    def assign_more(self, node: ast.AugAssign) -> None:
        target = node.target
        load = ast.BinOp(left=as_read(target), op=node.op, right=node.value)
        ast.copy_location(load, node)
        self.bind(target, self.operation(load))

    def bind(self, target: ast.AST, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.scope.names[target.id] = value
            value.called = value.called or target.id
        elif isinstance(target, ast.Attribute):
            owner = self.read(target.value)
            name = owner.name + "." + target.attr if owner.name else "." + target.attr
            event = Event("=" + name, [value], owner=owner)
            self.note(event, target)
            if not owner.name:
                if target.attr == "requires_grad":
                    owner.is_cut = value.const is False
                    if owner.made is not None and owner.made.name == ".parameters":
                        owner.made.args[0].is_cut = owner.is_cut  # of each of them
                old = owner.attrs.get(target.attr)
                if self.path and old is not None and old.const is not None:
                    value = joined([old, value])
                owner.attrs[target.attr] = value
                value.called = value.called or target.attr
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, value)
        elif isinstance(target, ast.Subscript):
            self.put(target, self.read(target.value), value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, Value(dtype=value.dtype, inputs=[value]))

    def put(self, target: ast.Subscript, owner: Value, value: Value) -> None:
        """Set an element."""
        place = index_of(target)
        if isinstance(place, ast.Constant) and owner.entries is not None:
            owner.entries[str(place.value)] = value
            owner.inputs = (*owner.inputs[-MOST_ITEMS:], value)
            return
        self.note(Event("=[]", [value], owner=owner), target)
        index = self.read(place)
        owner.holds |= value.holds - ({str(IGNORED)} if is_padding(index) else NOTHING)
        owner.attrs.pop("[%s]" % ast.dump(place), None)
        if value.is_known and is_mask(index):
            # What was made before has these elements no longer.
            owner.made = Event("=[]", [owner.alike(), value])
            owner.inputs = tuple(owner.made.args)

    def unpack(self, targets: List[ast.expr], value: Value) -> None:
        items = value.items
        starred = any(isinstance(target, ast.Starred) for target in targets)
        whole = items is not None and len(items) == len(targets) and not starred
        sized = value.made is not None and value.made.name == ".size"
        if (sized or value.attribute == "shape") and value.inputs and not starred:
            value.inputs[0].dims = len(targets)
        for at, target in enumerate(targets):
            part = items[at] if whole and items is not None else part_at(value, at)
            self.bind(target, part)

    def claim(self, node: ast.Assert) -> None:
        """`assert x.ndim == 2` says how many dimensions it has; any guards the rest."""
        test = node.test
        self.guards.append(attributes_in(test) | attributes_of(self.read(test)))
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            owner = whose_dims(test.left)
            right = self.read(test.comparators[0]).const
            if owner is not None and is_count(right):
                self.read(owner).dims = right

    def give_back(self, node: ast.Return) -> bool:
        value = self.read(node.value) if node.value is not None else Value(None)
        if self.returns:
            self.returns[-1].append(value)
        return True

    # --- blocks -----------------------------------------------------------------------
    def branch(self, node: ast.If) -> bool:
        test = self.read(node.test)
        if test.is_known:
            return self.run(node.body if test.const else node.orelse)
        before = dict(self.scope.names)
        ends, after = [], []
        self.guards.append(attributes_in(node.test) | attributes_of(test))
        key, turned = question(node.test)
        for number, body in enumerate((node.body, node.orelse)):
            self.scope.names = dict(before)
            self.path.append((key, number ^ turned))
            ends.append(self.run(body))
            self.path.pop()
            after.append(self.scope.names)
        guard = self.guards.pop()
        if all(ends):
            return True
        if any(ends):
            # What follows is the other way.
            self.scope.names = after[ends.index(False)]
            self.path.append((key, ends.index(False) ^ turned))
            self.guards.append(guard)
            return False
        self.scope.names = both(before, *after)
        return False

    def loop(self, node: Any) -> None:
        value = self.read(node.iter)
        self.note(Event("[for]", [value]), node)
        self.bind(node.target, element_of(value))
        self.run(node.body)
        self.run(node.orelse)

    def repeat(self, node: ast.While) -> None:
        self.read(node.test)
        self.run(node.body)
        self.run(node.orelse)

    def within(self, node: Any) -> bool:
        count = len(self.contexts)
        for item in node.items:
            value = self.read(item.context_expr)
            self.contexts.append(value)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        ended = self.run(node.body)
        del self.contexts[count:]
        return ended

    def attempt(self, node: ast.Try) -> bool:
        before = dict(self.scope.names)
        ended = self.run(node.body)
        tried = self.scope.names
        names = [] if ended else [tried]
        ends = [ended]
        for number, handler in enumerate(node.handlers):
            self.scope.names = both(before, before, tried)
            self.path.append((id(node), number))
            ends.append(self.run(handler.body))
            self.path.pop()
            if not ends[-1]:
                names.append(self.scope.names)
        self.scope.names = both(before, *names) if names else tried
        if not ended and self.run(node.orelse):
            ends[0] = True
        self.run(node.finalbody)
        return all(ends)

    # --- definitions ------------------------------------------------------------------
    def define(self, node: Any) -> None:
        self.scope.names[node.name] = self.function(node)

    def define_class(self, node: ast.ClassDef) -> None:
        value = Value()
        value.node, value.scope = node, self.scope
        self.scope.names[node.name] = value

    def import_modules(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self.scope.names[alias.asname or name] = Value(name=name)

    def import_names(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            # A name that begins with a dot is a method's.
            near = "~." if node.level else ""
            full = "%s%s.%s" % (near, node.module or "", alias.name)
            value = Value(float("inf")) if full == "math.inf" else Value(name=full)
            self.scope.names[alias.asname or alias.name] = value

    # --- a whole file -----------------------------------------------------------------
    def read_module(self, tree: ast.Module) -> Trace:
        """The module's own statements; afterwards its names are known."""
        imports = [x for x in tree.body if isinstance(x, (ast.Import, ast.ImportFrom))]
        # Where everything of a module is taken, its imports are too.
        every = any(alias.name == "*" for x in imports for alias in x.names)
        self.assumes_imports = every or not imports
        self.degrees = degrees_of(tree, self.is_alone)
        self.around_all = [frozenset(["draw"])] if only_draws(tree) else []
        return self.trace_of(lambda: self.run_module(tree.body))

    def run_module(self, body: List[ast.stmt]) -> None:
        """What its names stand for in the end is of use to whoever goes on."""
        self.run(body)
        if body:
            self.note(Event("[return]", [*self.scope.names.values()]), body[-1])

    def trace_of(
        self, reads: Callable[[], object], before: Sequence[Event] = ()
    ) -> Trace:
        """What happens while something is read, as far as that goes."""
        self.events, self.contexts, self.path = Trace(before), [], []
        self.guards, self.active, self.returns = [*self.around_all], [], []
        self.idents, self.places = {}, []
        module = self.scope
        with contextlib.suppress(TooMuch, RecursionError):
            reads()
        self.scope = module
        return self.events

    def read_function(self, value: Value, before: Sequence[Event] = ()) -> Trace:
        """One function as if called with what nobody knows."""
        event = Event("", [])
        event.open_args = event.open_kwargs = True
        return self.trace_of(lambda: self.hand_back(value, event), before)

    def hand_back(self, value: Value, event: Event) -> None:
        """What the function returns is of use to whoever calls it."""
        result = self.follow(value, event)
        self.note(Event("[return]", [result]), value.node)


def question(test: ast.AST) -> Tuple[int, int]:
    """The same number for `if x:` and `if not x:`, which is turned."""
    turned = 0
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, turned = test.operand, 1 - turned
    plain = isinstance(test, (ast.Name, ast.Attribute))
    return hash(ast.dump(test)) if plain else id(test), turned


def both(before: Dict[str, Value], *ways: Dict[str, Value]) -> Dict[str, Value]:
    """Names after ways that joined again."""
    result: Dict[str, Value] = {}
    for name in {name: None for way in ways for name in way}:
        found = [way[name] for way in ways if name in way]
        result[name] = found[0] if len(found) == 1 else joined(found)
    return result


def is_dropped(value: Value) -> bool:
    """Whether it is what a function of numbers gives, which changes nothing."""
    word = value.made.name.rpartition(".")[2] if value.made is not None else ""
    return word in FUNCTIONS_OF_TENSORS and not word.endswith("_")


def as_read(target: Any) -> Any:
    """The target of `x += y` as what is read first."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
    return target
