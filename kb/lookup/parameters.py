"""Parameters of a record's repros, as far as a paste states their values.

Nothing is guessed: a value is suggested where the paste states one and only one, and
where the repro's declaration allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kb.lookup.known import Known
from kb.lookup.paste import Paste
from kb.models import Repro
from kb.search.reading.parts import Kind
from kb.search.reading.values import Stated, stated_in

# In which order the sizes stand in a shape. A shape is read for the repros whose sizes
# are exactly these.
AXES = (
    ("batch", "heads", "length", "head_dim"),
    ("batch", "length", "width"),
    ("batch", "channels"),
    ("batch", "classes"),
    ("batch", "dim"),
    ("batch", "length"),
    ("batch", "width"),
    ("length", "classes"),
    ("length", "width"),
    ("rows", "classes"),
    ("rows", "dim"),
    ("rows", "width"),
)
SIZES = frozenset(chain.from_iterable(AXES)) | {"size", "vocabulary"}
COMMENT = re.compile(r"(?:^|\s)#.*")
FACTOR = re.compile(r"([*/]?)\s*([\w.]+)")
Json = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """One value, and the line of the box (`log` or `env`) that states it."""

    stated: Stated
    box: str


def read_values(paste: Paste, env: str) -> list[Source]:
    """All that both boxes state."""
    log = stated_in(list(lines_of(paste)))
    below = stated_in(enumerate(env.splitlines(), start=1)) if env.strip() else []
    return [Source(stated, "log") for stated in log] + [
        Source(stated, "env") for stated in below
    ]


def lines_of(paste: Paste) -> Iterator[tuple[int, str]]:
    """All but sentences, which name what need not have run; code without comments."""
    kind_of = {
        number: part.kind
        for part in paste.parts
        for number in range(part.first, part.last + 1)
    }
    for number, line in paste.lines:
        kind = kind_of.get(number)
        if kind == Kind.CODE:
            yield number, COMMENT.sub("", line)
        elif kind not in (None, Kind.WORDS):
            yield number, line


def add_to(
    items: Iterable[Json], records: Mapping[str, Known], paste: Paste, env: str
) -> None:
    """Fill in the `parameters` of each match or lead: of each repro that has any."""
    declaring = [item for item in items if records[item["record"]].with_parameters]
    # Most records have none: then nobody asks what values the paste states.
    sources = read_values(paste, env) if declaring else []
    for item in declaring:
        repros = records[item["record"]].with_parameters
        found = (suggested(repro, sources) for repro in repros)
        item["parameters"] = [document for document in found if document["values"]]


def suggested(repro: Repro, sources: Sequence[Source]) -> Json:
    """`values`: as a run takes them; `read`: which line states each."""
    declared = repro.header.get("parameters") or {}
    chosen = within_bounds(repro.header, allowed(declared, sources))
    return {
        "repro": repro.name,
        "values": {name: value for name, (value, _source) in chosen.items()},
        "read": [
            {
                "name": name,
                "box": source.box,
                "line": source.stated.line,
                "pasted": source.stated.text,
            }
            for name, (_value, source) in chosen.items()
        ],
    }


def allowed(
    declared: Mapping[str, Json], sources: Sequence[Source]
) -> dict[str, tuple[Any, Source]]:
    """What the paste states once, or always alike, and the declaration allows."""
    stated: dict[str, list[tuple[Any, Source]]] = {}
    for source in sources:
        for name, value in named(declared, source.stated):
            stated.setdefault(name, []).append((value, source))
    return {
        name: stated[name][0]
        for name, parameter in sorted(declared.items())  # jsonb keeps no order
        if name in stated
        and len({value for value, _source in stated[name]}) == 1
        and allows(parameter, stated[name][0][0])
    }


def named(declared: Mapping[str, Json], stated: Stated) -> Iterator[tuple[str, Any]]:
    """The value under its parameter's name; of a shape each size."""
    if not isinstance(stated.value, tuple):
        yield stated.name, stated.value
        return
    for axes in AXES:
        if len(axes) == len(stated.value) and SIZES.intersection(declared) == set(axes):
            yield from zip(axes, stated.value, strict=True)


def allows(parameter: Mapping[str, Any], value: Any) -> bool:
    if "choices" in parameter:
        return value in parameter["choices"]
    if isinstance(value, str):
        return False
    limits = [parameter[key] for key in ("min", "max", "default")]
    whole = all(isinstance(limit, int) for limit in limits)
    return limits[0] <= value <= limits[1] and not (whole and isinstance(value, float))


def within_bounds(
    header: Mapping[str, Any], chosen: dict[str, tuple[Any, Source]]
) -> dict[str, tuple[Any, Source]]:
    """Without values that together take more than the repro may have."""
    values = {
        name: parameter["default"] for name, parameter in header["parameters"].items()
    } | {name: value for name, (value, _source) in chosen.items()}
    limits = {"memory_mib": "memory_mib", "time_s": "timeout_s"}
    for key, formula in (header.get("bounds") or {}).items():
        if not needed(formula, values) <= header[limits[key]]:
            names = set(re.findall(r"[a-z]\w*", formula))
            chosen = {name: row for name, row in chosen.items() if name not in names}
    return chosen


def needed(formula: str, values: Mapping[str, Any]) -> float:
    """What a bound gives: a sum of products of numbers and parameters."""
    total = 0.0
    for product in formula.split("+"):
        term = 1.0
        for sign, factor in FACTOR.findall(product):
            amount = float(values.get(factor, factor))
            if sign == "/":
                term = term / amount if amount else float("inf")
            else:
                term *= amount
        total += term
    return total
