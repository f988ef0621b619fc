"""The regular expressions of the project: those its modules keep, and their sources."""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as opcodes
import re._parser as parser
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

ROOT = Path(settings.BASE_DIR)
FOLDERS = ("config", "deploy", "kb", "portable", "runner", "static")
# Not modules: programs, and what stands at the end of a file that travels.
PROGRAMS = ("__main__", "importing")
# What stands where a text cannot be read: more than a character, so a group.
UNREAD = "(?:xy)"


def sources() -> list[Path]:
    """Every file of Python that the project ships."""
    found = [path for name in FOLDERS for path in ROOT.joinpath(name).rglob("*.py")]
    return [*sorted(found), ROOT / "manage.py"]


@cache
def names_of(path: Path) -> Mapping[str, Any]:
    """What a module calls by name; nothing of a file that is no module of the site."""
    relative = path.relative_to(ROOT).with_suffix("")
    if relative.parts[0] in ("deploy", "static") or relative.name in PROGRAMS:
        return {}
    try:
        return vars(importlib.import_module(".".join(relative.parts)))
    except ModuleNotFoundError:  # a program that runs beside others, or needs torch
        return {}


def kept() -> dict[tuple[str, int], str]:
    """Of each pattern that a module keeps, by text and flags: where it is."""
    return {
        (pattern.pattern, pattern.flags): f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name, value in names_of(path).items()
        for pattern in patterns_among(value)
        if isinstance(pattern.pattern, str)
    }


def patterns_among(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_among(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from patterns_among(one)


def texts_in(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every text of a file that may be a pattern, put together."""
    names = names_of(path)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            text = text_of(node, names)
            if text != UNREAD:
                yield node.lineno, text


def text_of(node: ast.AST, names: Mapping[str, Any]) -> str:
    """What a constant, an f-string, a name or a sum of them says, else `UNREAD`."""
    value: object = None
    match node:
        case ast.Constant():
            value = node.value
        case ast.Name():
            value = names.get(node.id)
        case ast.Attribute(value=ast.Name()):
            value = getattr(names.get(node.value.id), node.attr, None)
        case ast.JoinedStr():
            value = "".join(text_of(part, names) for part in node.values)
        case ast.FormattedValue():
            value = text_of(node.value, names)
        case ast.BinOp(op=ast.Add()):
            value = text_of(node.left, names) + text_of(node.right, names)
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return value if isinstance(value, str) else UNREAD


def misread(text: str, flags: int | None = None) -> bool:
    """Whether some Python from 3.11.0 on reads a pattern otherwise than the next.

    A possessive repeat of anything but one character: CPython before 3.11.5 goes on
    where its last, failed round stopped, and later ones fail on groups in it.
    `(?>(?:…)*)` means the same and is read right. Without flags a text of several
    lines is taken for a verbose one.
    """
    if flags is None:
        flags = re.VERBOSE if "\n" in text else 0
    try:
        with warnings.catch_warnings(action="ignore"):  # of what is no pattern
            return _misread(parser.parse(text, flags))
    except (re.error, OverflowError, RecursionError):
        return False  # no pattern


def _misread(part: Any) -> bool:
    if isinstance(part, parser.SubPattern):
        part = part.data
    if isinstance(part, tuple) and part and part[0] is opcodes.POSSESSIVE_REPEAT:
        _low, _high, repeated = part[1]
        return not is_one_character(repeated) or _misread(repeated)
    return isinstance(part, (tuple, list)) and any(map(_misread, part))


def is_one_character(repeated: Any) -> bool:
    """A literal or a class, also in a group that keeps nothing."""
    if len(repeated) != 1:
        return False
    ((operation, value),) = repeated
    if operation is opcodes.SUBPATTERN:
        return value[0] is None and is_one_character(value[-1])
    return operation in (
        *(opcodes.ANY, opcodes.IN, opcodes.LITERAL, opcodes.NOT_LITERAL),
    )
