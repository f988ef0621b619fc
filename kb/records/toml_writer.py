"""issue.toml in its one canonical form, so that a change is a small diff."""

from __future__ import annotations

import re
from typing import Any

from kb.records.facts import TABLES, Facts, canonical

MAX_INTEGER = 2**63 - 1
BARE = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def write_facts(facts: Facts) -> str:
    """`key = value` lines, then each [[table]] after one blank line."""
    ordered = canonical(facts)
    plain = {name: value for name, value in ordered.items() if name not in TABLES}
    blocks = [key_lines(plain)]
    for name in TABLES:
        blocks += [f"[[{name}]]\n{key_lines(row)}" for row in ordered.get(name, [])]
    return "\n".join(blocks)


def key_lines(facts: Facts) -> str:
    return "".join(f"{name} = {literal(value)}\n" for name, value in facts.items())


def literal(value: Any) -> str:
    """One value on one line. Raises TypeError for what no key may hold."""
    if isinstance(value, str):
        return basic_string(value)
    if isinstance(value, list):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, dict):
        pairs = ", ".join(
            f"{bare_or_quoted(name)} = {literal(item)}" for name, item in value.items()
        )
        return f"{{{pairs}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        # PostgreSQL gives 1e300 back as an integer, longer than TOML's.
        return repr(float(value) if abs(value) > MAX_INTEGER else value)
    raise TypeError(f"issue.toml holds no {type(value).__name__}")


def bare_or_quoted(name: str) -> str:
    """A key of an inline table, such as "input@0"."""
    return name if BARE.fullmatch(name) else basic_string(name)


def basic_string(text: str) -> str:
    return '"' + "".join(ESCAPES.get(char, char) for char in text) + '"'
