"""Traps in pasted code, by the rules of the records that readers see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from kb.lookup.paste import Paste
from kb.models import Record
from kb.publishing.rules import published_rules
from kb.rules.findings import SEVERITIES, Finding, Unreadable, find_pasted
from kb.rules.patterns import Rule
from kb.search.reading.parts import Kind

MOST_CHARS = 20_000
# Nodes of a paste that are read, those of functions that it calls included.
MOST_NODES = 30_000
MOST_TRAPS = 5
# What a quote or an interactive session puts before a line of code.
PROMPT = re.compile(
    r"^(?:>(?: |$))?(?:\s*(?:(?:In \[\d+\]:|>>>|\.{3}:)(?: |$)|\.{3} ))?"
)
# What an input method types.
WIDE = str.maketrans("，（）：；", ",():;")
Lines = list[tuple[int, str]]


class Trap(NamedTuple):
    """A rule that fires on a line of the paste."""

    finding: Finding
    line: int
    pasted: str


def traps_in(paste: Paste) -> dict[str, Trap]:
    """The first of each record, by record, most severe first."""
    pieces = [piece for piece in code_of(paste) if piece]
    if not pieces:
        return {}
    rules = list(every_rule())
    traps: dict[str, Trap] = {}
    for lines in whole_or_pieces(pieces, rules):
        for finding, (number, text) in lines:
            traps.setdefault(finding.record, Trap(finding, number, text.strip()))
    order = sorted(traps, key=lambda record: rank(traps[record]))
    return {record: traps[record] for record in order[:MOST_TRAPS]}


def every_rule() -> tuple[Rule, ...]:
    """Those of the records that are visible now, made again only after one changed."""
    rows = Record.objects.visible().exclude(rules=[])
    return rules_at(tuple(rows.values_list("id", "modified")))


@lru_cache(maxsize=1)
def rules_at(_state: tuple[Any, ...]) -> tuple[Rule, ...]:
    return tuple(Rule(rule) for rule in published_rules())


def code_of(paste: Paste) -> Iterator[Lines]:
    """The lines of each part that is code, as many as are read."""
    left = MOST_CHARS
    for part in paste.parts:
        if part.kind == Kind.CODE:
            lines = paste.lines_of(part)
            left -= sum(len(text) + 1 for _number, text in lines)
            if left < 0:
                return
            yield lines


def whole_or_pieces(
    pieces: list[Lines], rules: list[Rule]
) -> Iterator[list[tuple[Finding, tuple[int, str]]]]:
    """All code as one program, which it often is; else each part by itself."""
    for group in ([list(chain.from_iterable(pieces))], pieces):
        read = 0
        for lines in group:
            text = "\n".join(PROMPT.sub("", text) for _number, text in lines)
            try:
                found = find_pasted(text.translate(WIDE), rules, MOST_NODES)
            except Unreadable:
                continue
            read += 1
            yield [
                (finding, lines[finding.line - 1])
                for finding in found
                if finding.line <= len(lines)
            ]
        if read:
            return


def rank(trap: Trap) -> tuple[int, int]:
    return SEVERITIES.index(trap.finding.rule["severity"]), trap.line
