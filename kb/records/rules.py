"""The [[rule]]s of a record: their form, and the proof of each on its repros."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from kb.records.schema import (
    Check,
    Key,
    Problems,
    kind_of,
    list_of,
    matching,
    one_of,
    table,
    text,
)
from kb.records.snippets import parsed
from kb.rules.findings import fires
from kb.rules.patterns import ARGUMENT, Rule

MOST_STEPS = 4
DTYPES = ("bfloat16", "float16", "float32", "float64")
HELD = ("inf", "-inf", "min", "-100")
RETURNED = ("dict",)
TRAINED = ("seen", "maybe")
WORD = matching(r"[A-Za-z_]\w*", "training", 60)
GUARD = matching(r"[A-Za-z_]\w*|@\d|\(untrained\)", "training", 60)
EVENT = matching(r"\S+", "torch.where", 120)
FIX = (Key("argument", WORD), Key("value", text(60, one_line=True)))


def number(value: Any) -> Problems:
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield "", _("must be a number, not %s") % kind_of(value)


def truth(value: Any) -> Problems:
    if not isinstance(value, bool):
        yield "", _("must be true or false, not %s") % kind_of(value)


def pattern(value: Any) -> Problems:
    yield from text(200, one_line=True)(value)
    try:
        re.compile(str(value))
    except re.error as error:
        yield "", str(error)


def constant(value: Any) -> Problems:
    if not isinstance(value, int | float | str):
        message = _("must be a number, a string, true or false, not %s")
        yield "", message % kind_of(value)


def arguments(value: Any) -> Problems:
    """{"input@0" = condition, …}: of each argument what has to be known."""
    if not isinstance(value, dict) or not value:
        yield "", _("must be a table of arguments, not %s") % kind_of(value)
        return
    for spec, condition in value.items():
        if not all(name and ARGUMENT.fullmatch(name) for name in spec.split("|")):
            values = {"example": repr("input@0"), "value": repr(spec)}
            yield f".{spec}", _("must look like %(example)s, not %(value)s") % values
            continue
        listed = condition if isinstance(condition, list) else [condition]
        for at, entry in enumerate(listed):
            place = f"[{at}]" if isinstance(condition, list) else ""
            for path, message in condition_problems(entry):
                yield f".{spec}{place}{path}", message


def condition_problems(value: Any) -> Problems:
    yield from table(CONDITION)(value)
    if not isinstance(value, dict):
        return
    if not value:
        yield "", _("must not be empty")
    if {"made_by", "from"} <= value.keys():
        yield "", _("has both made_by and from; keep one of them")
    if "of" in value and not {"made_by", "from"} & value.keys():
        yield ".of", _("belongs to made_by or from")


NAMES = list_of(EVENT, empty=False)
WORDS = list_of(WORD, empty=False)
CONDITION: tuple[Key, ...] = tuple(
    Key(name, check, optional=True)
    for name, check in {
        "given": truth,
        "known": truth,
        "is": constant,
        "none": truth,
        "above": number,
        "below": number,
        "at_most": number,
        "dtype": list_of(one_of(DTYPES), empty=False),
        "named": NAMES,
        "holds": one_of(HELD),
        "made_by": NAMES,
        "not_made_by": NAMES,
        "not_from": NAMES,
        "from": NAMES,
        "of": arguments,
        "asked": truth,
        "cut": truth,
        "attribute": truth,
        "imported": truth,
        "member": truth,
        "called": NAMES,
        "uncalled": NAMES,
        "unmentioned": WORDS,
        "sliced": truth,
        "dims": list_of(number, empty=False),
        "not_dims": list_of(number, empty=False),
        "same": WORD,
        "part_of": WORD,
        "contains": lambda value: condition_problems(value),
        "returns": one_of(RETURNED),
    }.items()
)
CONTEXT = (Key("event", NAMES), Key("with", arguments, optional=True))
WAY = (
    *CONTEXT,
    Key("inside", list_of(table(CONTEXT), empty=False), optional=True),
    Key("outside", NAMES, optional=True),
    Key("unguarded", list_of(GUARD, empty=False), optional=True),
    Key("keywords", WORDS, optional=True),
    Key("without", NAMES, optional=True),
    Key("trained", one_of(TRAINED), optional=True),
    Key("used", truth, optional=True),
    Key("before", truth, optional=True),
)
STEP = (Key("any", list_of(table(WAY), empty=False), optional=True), *WAY)


def step(value: Any) -> Problems:
    """What happens, or any of several things that are each written like a step."""
    either = isinstance(value, dict) and "any" in value
    yield from table(STEP[:1] if either else WAY)(value)


def steps(value: Any) -> Problems:
    yield from list_of(step, empty=False, unique=False)(value)
    if isinstance(value, list) and len(value) > MOST_STEPS:
        message = _("has %(n)d entries; the limit is %(most)d")
        yield "", message % {"n": len(value), "most": MOST_STEPS}
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, dict) and "without" in first:
        message = _("only a later step can have it: nothing comes before the first")
        yield "[0].without", message


fix: Check = table(FIX)


# --- proof --------------------------------------------------------------------------
def proof_problems(
    rules: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, str],
    headers: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str]]:
    """(key, message) of each rule that its record's own repros do not bear out.

    A rule has to fire in the trigger of one of them, and to be silent in the control
    of each and in every `apply_`. Where only the data tell trigger and control apart
    (`by_data`) it fires in both. `rules`: by their key in issue.toml.
    """
    # Of those that are no Python the contract speaks.
    modules = {
        stem: module
        for stem, source in sources.items()
        if (module := parsed(source)) is not None
    }
    for key, row in rules.items():
        rule = Rule(dict(row))
        fired = {
            (stem, function)
            for stem, module in modules.items()
            for function in functions_of(sources[stem])
            if fires(rule, module, function, defaults(headers.get(stem, {})))
        }
        wanted = {"trigger", "control"} if row.get("by_data") else {"trigger"}
        for missing in sorted(wanted - {function for _stem, function in fired}):
            yield key, _("fires in no repro's %s") % missing
        for stem, function in sorted(fired):
            if function not in wanted:
                message = _("fires in %s, which does not have the trap")
                yield key, message % f"{stem}.py:{function}"


def functions_of(source: str) -> list[str]:
    pattern = r"^def (trigger|control|apply_[a-z0-9_]+)\("
    return re.findall(pattern, source, re.MULTILINE)


def defaults(header: Mapping[str, Any]) -> dict[str, Any]:
    """The values of its parameters at which a repro was reviewed."""
    return {
        name: spec.get("default") for name, spec in header.get("parameters", {}).items()
    }
