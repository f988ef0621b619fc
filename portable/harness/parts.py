"""Which parts of a repro each check executes, so that evidence outlives an edit."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Dict, List, Sequence, Set, Tuple

from .checks import read_repro, tree_of
from .fields import Header
from .parameters import defaults_of
from .values import dumps, source_digest

# Fields of the header that decide what a check does or how it is judged. The others
# bound a run (time, memory) or offer values that no reviewed run has.
_EXECUTED_FIELDS = (
    *("fidelity", "device", "bug", "expect", "match", "trials", "needs", "stack"),
    *("min_capability", "min_memory_gib", "min_devices"),
    *("dependencies", "requires_python"),
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def parts_of(source: str) -> Dict[str, str]:
    """Digest of what each check and each `diagnose_` of a repro executes.

    A check's part is the header's executed fields, every statement of the module, and
    the definitions that the check reaches by name, without comments, blank lines and
    docstrings. Left out are constants that it does not name, and the `diagnose_`
    functions that it calls: they only observe, and are parts of their own. The values
    of a variant are the part "variant <name>".
    """
    header, checks = read_repro(source)
    pieces = _Pieces(source)
    diagnoses = [name for name in pieces.named if name.startswith("diagnose_")]
    found = {
        name: _part(header, name, pieces.reached(name))
        for name in (*checks, "requires", *diagnoses)
        if name in pieces.named
    }
    for name, values in header.variants.items():
        found["variant " + name] = source_digest(dumps(values))[7:23]
    return found


def _part(header: Header, name: str, reached: Sequence[str]) -> str:
    fields = {key: getattr(header, key) for key in _EXECUTED_FIELDS}
    env = [header.env.get("all", {}), header.env.get(name, {})]
    values = [fields, env, defaults_of(header.parameters)]
    return source_digest("\n".join([dumps(values), *reached]))[7:23]


class _Pieces:
    """The top level of a module, each definition and each statement as bare text."""

    def __init__(self, source: str) -> None:
        self.named: Dict[str, List[Tuple[int, str, Set[str]]]] = {}
        self.always: List[Tuple[int, str, Set[str]]] = []
        tree = tree_of(source)
        lines = _bare_lines(source, _docstring_lines(tree))
        for node in tree.body:
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(each.lineno for each in decorators)])
            last = node.end_lineno or node.lineno
            text = "\n".join(lines[at] for at in range(first, last + 1) if at in lines)
            piece = (first, text, _names_in(node))
            names = _bound_by(node)
            for name in names:
                self.named.setdefault(name, []).append(piece)
            if decorators or not names:
                self.always.append(piece)

    def reached(self, name: str) -> List[str]:
        """The texts that a check executes, in the order of the module."""
        found = {(first, text) for first, text, _ in self.always}
        wanted = {name}.union(*(names for _, _, names in self.always))
        seen: Set[str] = set()
        while wanted - seen:
            each = (wanted - seen).pop()
            seen.add(each)
            if each.startswith("diagnose_") and each != name:
                continue
            for first, text, names in self.named.get(each, ()):
                found.add((first, text))
                wanted |= names
        return [text for _, text in sorted(found)]


def _bound_by(node: ast.stmt) -> List[str]:
    """The names by which a definition or a plain constant is reached."""
    if isinstance(node, _DEFINITIONS):
        return [node.name]
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return []
    if any(isinstance(each, ast.Call) for each in ast.walk(node)):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    bound = [each for target in targets for each in ast.walk(target)]
    plain = (ast.Name, ast.Tuple, ast.Store)
    if not all(isinstance(each, plain) for each in bound):
        return []
    return [each.id for each in bound if isinstance(each, ast.Name)]


def _names_in(node: ast.AST) -> Set[str]:
    """Names it uses, and texts, by which `getattr` and the like may reach one."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value)
    return found


def _docstring_lines(tree: ast.Module) -> Set[int]:
    found: Set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *_DEFINITIONS)) and node.body:
            first = node.body[0]
            value = getattr(first, "value", None)
            alone = len(node.body) > 1 and isinstance(first, ast.Expr)
            if alone and isinstance(getattr(value, "value", None), str):
                found.update(range(first.lineno, (first.end_lineno or 0) + 1))
    return found


def _bare_lines(source: str, left_out: Set[int]) -> Dict[int, str]:
    """Lines by number without comments; blank lines and `left_out` have none."""
    lines = dict(enumerate(source.split("\n"), 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        at = token.start[0]
        if token.type == tokenize.COMMENT:
            lines[at] = lines[at][: token.start[1]].rstrip()
        elif token.type == tokenize.NL and not lines[at].strip():
            lines.pop(at)
    return {at: text for at, text in lines.items() if at not in left_out}
