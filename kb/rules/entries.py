"""Where the reading of a file begins: its statements, its functions and methods.

Most functions of a large library hold nothing that a rule could find. Only those are
read in which one of the words stands that a finding is made of, and those that call
them, from which a value may come.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from kb.rules.calling import FUNCTIONS, is_static, of_class
from kb.rules.flows import Trace
from kb.rules.reading import OF_ENTRY, Reader
from kb.rules.values import Event, Value

# Nodes that are read of one file.
OF_FILE = 400_000
WORD = re.compile(r"\w+")
# Calling something by such a name does not say what is called.
COMMON = frozenset(["forward", "__init__", "__call__", "step", "__new__", "main"])
# What others call, whatever the file calls itself.
ENTRIES = frozenset(["forward", "training_step", "loss", "step", "log_prob"])


class Entries:
    """The parts of one file, read one after the other.

    `words`: those of which a finding needs one where it is; None where any place may
    have one.
    """

    def __init__(
        self,
        tree: ast.Module,
        lines: Sequence[str],
        words: Optional[Set[str]],
        most_nodes: int = OF_FILE,
        is_alone: bool = True,
    ) -> None:
        self.tree = tree
        self.lines = lines
        self.words = words
        self.reader = Reader()
        self.reader.is_alone = is_alone
        self.left = most_nodes
        # What the making of an object does, which comes before each of its methods.
        self.makings: Dict[int, Trace] = {}
        # Methods that an object calls on itself.
        self.own_calls = {
            node.func.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and getattr(node.func.value, "id", "") == "self"
        }

    def traces(self) -> Iterator[Trace]:
        """What each part of the file does."""
        given = self.reader.budget = min(OF_ENTRY, self.left)
        yield self.reader.read_module(self.tree)
        self.left -= given - max(self.reader.budget, 0)
        wanted = self.wanted()
        entries = list(self.reader.pending.values())
        for value in list(self.reader.scope.names.values()):
            if value.scope is not self.reader.scope:
                continue
            if isinstance(value.node, FUNCTIONS):
                entries.append(value)
            elif isinstance(value.node, ast.ClassDef):
                entries += self.methods(value, wanted)
        helpers = [value for value in entries if self.is_helper(value)]
        found = {id(value) for value in helpers}
        yield from self.each([x for x in entries if id(x) not in found], wanted)
        # Whoever calls a helper says what it gets.
        done = self.reader.followed
        yield from self.each([x for x in helpers if id(x.node) not in done], wanted)

    def is_helper(self, value: Value) -> bool:
        """Whether the file's own calls show what a method or function is for."""
        name = getattr(value.node, "name", "")
        is_own = name.startswith("_") or (value.called and name in self.own_calls)
        return bool(is_own) and name not in ENTRIES and not name.endswith("__")

    def each(self, entries: List[Value], wanted: Optional[Set[int]]) -> Iterator[Trace]:
        seen = set()
        while entries and self.left > 0:
            value = entries.pop(0)
            key = (id(value.node), id(value.receiver))
            if key in seen or not self.is_wanted(value.node, wanted):
                continue
            seen.add(key)
            making = self.makings.get(id(value.receiver), Trace())
            if making and value.node.name == "__init__":
                yield making
                continue
            self.reader.pending = {}
            given = self.reader.budget = min(OF_ENTRY, self.left)
            yield self.reader.read_function(value, making)
            self.left -= given - max(self.reader.budget, 0)
            # Functions that were defined in it and that it did not call.
            entries = [*self.reader.pending.values(), *entries]

    def methods(self, cls: Value, wanted: Optional[Set[int]]) -> List[Value]:
        """The wanted methods of a class, bound to one instance."""
        found = [
            statement
            for statement in cls.node.body
            if isinstance(statement, FUNCTIONS) and self.is_wanted(statement, wanted)
        ]
        if not found:
            return []
        self.reader.pending = {}
        owner = self.instance(cls)
        methods = [bound(owner, cls, statement) for statement in found]
        return [*methods, *self.reader.pending.values()]

    def instance(self, cls: Value) -> Value:
        self.reader.budget = OF_ENTRY
        event = Event("", [])
        event.open_args = event.open_kwargs = True
        made: List[Value] = []
        making = self.reader.trace_of(
            lambda: made.append(self.reader.instance(cls, event))
        )
        owner = made[0] if made else Value()
        owner.cls = cls
        self.makings[id(owner)] = making
        return owner

    # --- which functions --------------------------------------------------------------
    def is_wanted(self, node: ast.AST, wanted: Optional[Set[int]]) -> bool:
        if wanted is None or id(node) in wanted:
            return True
        words = self.words or set()
        return isinstance(node, ast.Lambda) and bool(words & self.words_in(node))

    def wanted(self) -> Optional[Set[int]]:
        """The functions that hold such a word, and those that call them by name."""
        if self.words is None or self.words & self.outside():
            return None
        held: Dict[int, Set[str]] = {}
        names: Dict[int, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS[:2]):
                held[id(node)] = self.words_in(node)
                names[id(node)] = node.name
        wanted = self.of_objects(held)
        words = set(self.words)
        while words:
            new = {key for key, has in held.items() if has & words} - wanted
            wanted |= new
            words = {names[key] for key in new} - COMMON
        return wanted

    def outside(self) -> Set[str]:
        """The words of the module's own statements: an object that is made there is
        used anywhere."""
        found: Set[str] = set()
        for node in self.tree.body:
            apart = (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
            if not isinstance(node, apart):
                found |= self.words_in(node)
        return found

    def of_objects(self, held: Dict[int, Set[str]]) -> Set[int]:
        """All methods of a class that makes such an object for them."""
        wanted: Set[int] = set()
        for node in self.tree.body:
            methods = [x for x in getattr(node, "body", ()) if id(x) in held]
            if isinstance(node, ast.ClassDef) and any(
                getattr(x, "name", "") == "__init__"
                and held[id(x)] & (self.words or set())
                for x in methods
            ):
                wanted |= {id(x) for x in methods}
        return wanted

    def words_in(self, node: Any) -> Set[str]:
        text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
        return set(WORD.findall(text))


def bound(owner: Value, cls: Value, node: Any) -> Value:
    value = of_class(cls, node)
    value.receiver = None if is_static(node) else owner
    return value
