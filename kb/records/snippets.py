"""Code that readers paste: functions of repros, printed as they stand there.

`apply_<name>` is a workaround, called by the check `workaround_<name>`, and
`diagnose_<name>` tells a reader whether the bug is theirs, called by `control` and
`trigger`: what is printed is what was run. A snippet is the function below those
imports of its module that it uses; an article names it in a fence where it is to stand.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator, Mapping
from functools import lru_cache

from django.utils.translation import gettext as _

from kb.records.articles import scan
from portable.harness.checks import tree_of

PREFIXES = ("apply_", "diagnose_")
CALLERS = {"apply_": ("workaround_{}",), "diagnose_": ("control", "trigger")}
# Below the docstring: short enough to be read before it is run.
MAX_DIAGNOSIS_LINES = 10
NAME = re.compile(rf"(?:{'|'.join(PREFIXES)})[a-z0-9_]+")
# Sources that are asked about several times while records are loaded.
KEPT = 256
BUILTINS = frozenset(dir(builtins))

Problems = Iterator[tuple[str, str]]


def snippets_of(sources: Mapping[str, str]) -> dict[str, str]:
    """The snippets of a record's repros by the function's name.

    A source that is no Python has none: the contract reports it.
    """
    every = (snippets_in(source) for source in sources.values())
    return {name: code for found in every for name, code in found.items()}


@lru_cache(maxsize=KEPT)
def snippets_in(source: str) -> Mapping[str, str]:
    module = parsed(source)
    if module is None:
        return {}
    return {
        function.name: snippet(module, source, function)
        for function in functions(module)
        if NAME.fullmatch(function.name)
    }


def different_snippets(sources: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The names for which two repros have other code, with these two."""
    first: dict[str, tuple[str, str]] = {}
    different = {}
    for stem, source in sources.items():
        for name, code in snippets_in(source).items():
            at, before = first.setdefault(name, (stem, code))
            if before != code:
                different[name] = (at, stem)
    return different


@lru_cache(maxsize=KEPT)
def parsed(source: str) -> ast.Module | None:
    try:
        return tree_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(module: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in module.body if isinstance(node, ast.FunctionDef)]


def snippet(module: ast.Module, source: str, function: ast.FunctionDef) -> str:
    code = code_of(source, function)
    used = global_names(code)
    lines = [line for name, line in imports(module).items() if name in used]
    return "\n".join([*dict.fromkeys(lines), *([""] if lines else []), code])


def code_of(source: str, function: ast.FunctionDef) -> str:
    """The lines of a function, from its first decorator on."""
    start = min([function.lineno, *(node.lineno for node in function.decorator_list)])
    return "\n".join(source.split("\n")[start - 1 : function.end_lineno])


def imports(module: ast.Module) -> dict[str, str]:
    """The import statement of each name that the module imports at its top."""
    found = {}
    for node in module.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                bound = (alias.asname or alias.name).partition(".")[0]
                found[bound] = ast.unparse(import_of(node, alias))
    return found


def import_of(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def global_names(code: str) -> set[str]:
    """The names that a function takes from its module, built-in ones too."""
    tables = [symtable.symtable(code, "snippet", "exec")]
    names: set[str] = set()
    for table in tables:  # it grows: tables of functions hold others
        tables += table.get_children()
        if table.get_type() == "function":
            names |= {row.get_name() for row in table.get_symbols() if row.is_global()}
    names |= {  # what decorators, defaults and annotations use
        row.get_name() for row in tables[0].get_symbols() if not row.is_assigned()
    }
    return names


# --- in articles ----------------------------------------------------------------------
def expanded(markdown: str, snippets: Mapping[str, str]) -> str:
    """The text with the code of each snippet in the fence that names it."""
    lines = markdown.split("\n")
    for fence in reversed(scan(markdown)[1]):
        if (code := snippets.get(fence.body.strip())) and fence.closed:
            end = fence.number + fence.body.count("\n") + 1
            lines[fence.number : end] = code.split("\n")
    return "\n".join(lines)


def fence_problems(markdown: str, name: str) -> Iterator[str]:
    """Of the text of a workaround: `apply_<name>` stands there once and alone."""
    bodies = [
        fence.body.strip()
        for fence in scan(markdown)[1]
        if fence.info.partition(" ")[0] in {"python", "py"}
    ]
    if bodies.count(f"apply_{name}") != 1:
        yield _("needs the fence ```python with the one line %s") % f"apply_{name}"
    if any(not NAME.fullmatch(body) for body in bodies):
        yield _("shows code that nothing runs; move it to %s") % f"apply_{name}"


# --- in sources -----------------------------------------------------------------------
def source_problems(
    source: str, *, workarounds: set[str], diagnoses: set[str]
) -> Problems:
    """(function, message) for each snippet that is not what was run, or not whole."""
    module = parsed(source)
    if module is None:
        return
    by_name = {function.name: function for function in functions(module)}
    for name, function in by_name.items():
        if not NAME.fullmatch(name):
            continue
        for message in whole_problems(module, source, function):
            yield name, message
        prefix, _underscore, rest = name.partition("_")
        if prefix == "apply" and rest not in workarounds:
            yield name, _("no [[workaround]] is named %s") % repr(rest)
        if prefix == "diagnose" and rest not in diagnoses:
            yield name, _("no [[diagnosis]] is named %s") % repr(rest)
        for caller in CALLERS[f"{prefix}_"]:
            caller = caller.format(rest)
            if name not in reached(by_name, caller):
                yield name, _("%s must call it: all code on a page is run") % caller


def whole_problems(
    module: ast.Module, source: str, function: ast.FunctionDef
) -> Iterator[str]:
    known = BUILTINS | imports(module).keys() | {function.name}
    outside = sorted(global_names(code_of(source, function)) - known)
    if outside:
        message = _("uses %s from the repro, which readers do not have")
        yield message % ", ".join(outside)
    if not ast.get_docstring(function):
        yield _("needs a docstring: what to pass, and what it returns or changes")
    first = function.body[1] if len(function.body) > 1 else function.body[0]
    length = (function.end_lineno or 0) - first.lineno + 1
    if function.name.startswith("diagnose_") and length > MAX_DIAGNOSIS_LINES:
        values = {"n": length, "most": MAX_DIAGNOSIS_LINES}
        yield _("has %(n)d lines; the limit is %(most)d") % values


@lru_cache(maxsize=KEPT)
def names_in(function: ast.FunctionDef) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}


def reached(by_name: Mapping[str, ast.FunctionDef], start: str) -> set[str]:
    """The functions of the module that one of them names, or those that it names."""
    found: set[str] = set()
    pending = [start]
    while pending:
        function = by_name.get(pending.pop())
        names = names_in(function) & by_name.keys() if function else set()
        pending += names - found
        found |= names
    return found
