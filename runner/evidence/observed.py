"""Names in a repro's header that its checks can never report: slips of the pen.

A predicate about such a name fails only once the repro is run, and then it reads like
a fault of the check. Read from the source alone, and in doubt a name is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from portable import harness
from portable.harness.checks import tree_of

NAME = re.compile(r"[a-z][a-z0-9_]*")
# Holes of a text that is filled in: "%s", "%(name)d", "{}", "{name}".
HOLE = re.compile(r"%(?:\([^)]*\))?[#0 +-]*[\d.]*[a-zA-Z]|\{[^{}]*\}")
# They make observations of whatever names the code has.
REFLECTING = {"vars", "locals", "globals", "asdict", "_asdict", "__dict__", "dir"}


def unreported(header: harness.Header, source: str) -> list[str]:
    """A sentence for each name in `bug`, `match` and `expect` that nothing reports."""
    names, patterns = reported(tree_of(source))
    found = []
    for key, name in asked(header):
        known = name in names or name in harness.RESERVED_TEXTS
        if not known and not any(pattern.fullmatch(name) for pattern in patterns):
            found.append(sentence(key, name, names))
    return found


def asked(header: harness.Header) -> Iterator[tuple[str, str]]:
    """(key of the header, observation) of everything that is read of a check."""
    for predicate in header.bug:
        yield "bug", harness.parse_predicate(predicate).key
    yield from (("match", name) for name in header.match)
    yield from (("expect", name) for name in header.expect)


def sentence(key: str, name: str, names: set[str]) -> str:
    near = get_close_matches(name, sorted(names), 1)
    advice = f'; did you mean "{near[0]}"?' if near else ""
    return (
        f"tool.doesitnan.{key}: no check can report {name!r}, the code names it "
        f"nowhere{advice}"
    )


def reported(tree: ast.Module) -> tuple[set[str], list[re.Pattern[str]]]:
    """Names that the code can give to observations, and patterns of more."""
    names: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    identifiers: set[str] = set()
    for node in ast.walk(tree):
        identifiers.update(identifiers_of(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(NAME.findall(node.value))
            if HOLE.search(node.value):
                patterns.append(pattern_of(HOLE.split(node.value)))
        elif isinstance(node, ast.keyword) and node.arg:
            names.add(node.arg)
        elif isinstance(node, ast.JoinedStr):
            patterns.append(pattern_of(pieces(node)))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            patterns += sums(node)
    return (names | identifiers if REFLECTING & identifiers else names), patterns


def pieces(node: ast.JoinedStr) -> list[str]:
    """The literal parts of an f-string, with "" where something is filled in."""
    found = [""]
    for part in node.values:
        if isinstance(part, ast.Constant):
            found[-1] += str(part.value)
        else:
            found.append("")
    return found


def sums(node: ast.BinOp) -> Iterator[re.Pattern[str]]:
    """`"grad_" + name` and `name + "_norm"`."""
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, ast.Constant) and isinstance(side.value, str):
            if isinstance(other, ast.Constant):
                continue
            parts = [side.value, ""] if side is node.left else ["", side.value]
            yield pattern_of(parts)


def pattern_of(parts: list[str]) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)


def identifiers_of(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "arg", "name"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value
