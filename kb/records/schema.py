"""Checks for the values of issue.toml; messages in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.utils.translation import gettext as _
from packaging.version import InvalidVersion, Version

from kb.choices import LANGS
from kb.records import conditions
from kb.records.articles import translation_problem
from portable.harness.values import INVISIBLE

# (path below the key, message) of each.
Problems = Iterator[tuple[str, str]]
Check = Callable[[Any], Problems]

SCHEMA = 1
EVENT_KINDS = ("introduced", "fixed", "last_affected")
# "git+https://github.com/fla-org/flash-linear-attention@b4ff1936"
TEXT_DIGEST = re.compile(r"[0-9a-f]{16}")
REVISION = re.compile(r"git\+https?://\S+@[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Key:
    """One key; an optional one is left out of the file where it is empty."""

    name: str
    check: Check
    optional: bool = False


def text(longest: int = 2000, empty: bool = False, one_line: bool = False) -> Check:
    def check(value: Any) -> Problems:
        if not isinstance(value, str):
            yield "", _("must be a string, not %s") % kind_of(value)
        elif not value.strip() and not (empty and value == ""):
            yield "", _("must not be empty")
        elif len(value) > longest:
            yield "", _("is longer than %d characters") % longest
        elif INVISIBLE.search(value):
            yield "", _("holds a control character")
        elif one_line and "\n" in value:
            yield "", _("must be one line")

    return check


def translated_from(value: Any) -> Problems:
    """{en = "…"}: one language, and the digest of its text (kb.records.translation)."""
    if not isinstance(value, dict) or len(value) != 1 or not set(value) <= set(LANGS):
        yield "", _("must be %s") % '{en = "…"} or {zh = "…"}'
        return
    for lang, digest in value.items():
        if not (isinstance(digest, str) and TEXT_DIGEST.fullmatch(digest)):
            message = _(
                "must be 16 hexadecimal digits; manage.py check_record prints them"
            )
            yield lang, message


def one_of(words: Iterable[str]) -> Check:
    allowed = tuple(words)

    def check(value: Any) -> Problems:
        if value not in allowed:
            values = {"known": ", ".join(allowed), "value": repr(value)}
            yield "", _("must be one of %(known)s, not %(value)s") % values

    return check


def matching(pattern: str, example: str, longest: int = 200) -> Check:
    whole = re.compile(pattern)

    def check(value: Any) -> Problems:
        if not isinstance(value, str) or not whole.fullmatch(value):
            values = {"example": repr(example), "value": repr(value)}
            yield "", _("must look like %(example)s, not %(value)s") % values
        elif len(value) > longest:
            yield "", _("is longer than %d characters") % longest

    return check


def whole_number(value: Any) -> Problems:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        yield "", _("must be a whole number above 0")


def condition(value: Any) -> Problems:
    """On the parameters of the record's repros, see `kb.records.conditions`."""
    try:
        conditions.parse(value if isinstance(value, str) else "")
    except conditions.ConditionError as error:
        yield "", _("is not a condition: %s") % error


def both_languages(longest: int = 2000, one_line: bool = False) -> Check:
    single = text(longest, one_line=one_line)

    def check(value: Any) -> Problems:
        if not isinstance(value, dict) or set(value) != set(LANGS):
            yield "", _("must be {en = …, zh = …}")
            return
        problems = [
            (f".{lang}", message)
            for lang in LANGS
            for _path, message in single(value[lang])
        ]
        yield from problems
        message = None if problems else translation_problem(value)
        if message:
            yield ".zh", message

    return check


def list_of(item: Check, empty: bool = True, unique: bool = True) -> Check:
    def check(value: Any) -> Problems:
        if not isinstance(value, list):
            yield "", _("must be an array, not %s") % kind_of(value)
            return
        if not value and not empty:
            yield "", _("must not be empty")
        for position, entry in enumerate(value):
            for path, message in item(entry):
                yield f"[{position}]{path}", message
            if unique and entry in value[:position]:
                yield f"[{position}]", _("%s stands twice") % repr(entry)

    return check


def by_name(names: Iterable[str], item: Check) -> Check:
    """A table with one of these names or more, and an item of each."""
    keys = tuple(Key(name, item, optional=True) for name in names)

    def check(value: Any) -> Problems:
        if value == {}:
            yield "", _("must not be empty")
        yield from table(keys)(value)

    return check


def table(keys: tuple[Key, ...]) -> Check:
    def check(value: Any) -> Problems:
        if not isinstance(value, dict):
            yield "", _("must be a table, not %s") % kind_of(value)
            return
        for path, message in keys_problems(value, keys):
            yield f".{path}", message

    return check


def keys_problems(value: Mapping[str, Any], keys: tuple[Key, ...]) -> Problems:
    known_names = {key.name for key in keys}
    for name in value:
        if name not in known_names:
            names = ", ".join(key.name for key in keys)
            yield name, _("unknown key; known are %s") % names
    for key in keys:
        if key.name in value:
            for path, message in key.check(value[key.name]):
                yield f"{key.name}{path}", message
        elif not key.optional:
            yield key.name, _("is missing")


def version(empty: bool) -> Check:
    def check(value: Any) -> Problems:
        if empty and value == "":
            return
        try:
            Version(value)
        except (InvalidVersion, TypeError):
            yield "", _("must be a version such as '2.5.1', not %s") % repr(value)

    return check


def event(value: Any) -> Problems:
    """One event of an OSV range: {introduced = "2.5.0"}."""
    if not isinstance(value, dict) or len(value) != 1:
        shapes = '{introduced = "…"}, {fixed = "…"}, {last_affected = "…"}'
        yield "", _("must be one of %s") % shapes
        return
    ((kind, number),) = value.items()
    if kind not in EVENT_KINDS:
        kinds = ", ".join(EVENT_KINDS)
        yield f".{kind}", _("unknown event; known are %s") % kinds
        return
    for _path, message in version(empty=False)(number):
        yield f".{kind}", message


def events(value: Any) -> Problems:
    """An OSV range: begins with `introduced`, versions ascend, kinds alternate."""
    problems = list(list_of(event)(value))
    yield from problems
    if problems or not value:
        return
    kinds = [next(iter(entry)) for entry in value]
    numbers = [Version(next(iter(entry.values()))) for entry in value]
    starts = [kind == "introduced" for kind in kinds]
    if starts != [position % 2 == 0 for position in range(len(starts))]:
        message = _(
            "must alternate: introduced, then fixed or last_affected, and so on"
        )
        yield "", message
    if numbers != sorted(numbers):
        yield "", _("versions must ascend")
    for at in range(1, len(numbers)):
        if numbers[at] == numbers[at - 1] and kinds[at] != "last_affected":
            yield f"[{at}].{kinds[at]}", bound_twice(kinds[at], numbers[at])


def bound_twice(kind: str, version: Version) -> str:
    """What is wrong where an event has the version of the event before it."""
    if kind == "fixed":
        message = _("fixed where it was introduced, in %s: the range holds no version")
    else:
        message = _("begins again in %s, where it ended: leave both events out")
    return message % version


def build_raw(value: Any) -> Problems:
    """A single build as its package names it: a version, or a revision of a source."""
    problems = list(text(120)(value))
    if not problems and not REVISION.fullmatch(value):
        problems = list(version(empty=False)(value))
    yield from problems


def address(value: Any) -> Problems:
    if value != "" and not (
        isinstance(value, str) and re.fullmatch(r"https?://[^\s<>\"\\^`{|}]+", value)
    ):
        yield "", _("must be an http(s) address or empty, not %s") % repr(value)


def day(value: Any) -> Problems:
    try:
        valid = date.fromisoformat(value).isoformat() == value
    except (TypeError, ValueError):
        valid = False
    if not valid:
        yield "", _("must be a string such as '2025-03-20', not %s") % repr(value)


def schema(value: Any) -> Problems:
    if value != SCHEMA or isinstance(value, bool):
        values = {"wanted": SCHEMA, "value": repr(value)}
        yield "", _("must be %(wanted)s, not %(value)s") % values


def kind_of(value: Any) -> str:
    names = {
        dict: _("a table"),
        list: _("an array"),
        bool: _("a boolean"),
        str: _("a string"),
    }
    return names.get(type(value), type(value).__name__)
