"""The keys of issue.toml in their order, and what each may hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from packaging.version import InvalidVersion, Version

from kb.articles import UNPRINTABLE, translation_problem
from kb.choices import (
    FIX_KINDS,
    LANGS,
    PRECONDITION_KEYS,
    SIGNATURE_KINDS,
    SOURCE_KINDS,
    WORKAROUND_KINDS,
    AffectedWhen,
    ClaimKind,
    Expects,
    Publication,
    SymptomClass,
    Upstream,
)

Facts = dict[str, Any]
Found = Iterator[tuple[str, str]]
Check = Callable[[Any], Found]

SCHEMA = 1
EVENT_KINDS = ("introduced", "fixed", "last_affected")
BUILD_STATES = ("affected", "not_affected")
BUILD_SLUG = r"[a-z0-9][a-z0-9._-]{0,60}"


@dataclass(frozen=True)
class Key:
    """One key; an optional one is left out of the file where it is empty."""

    name: str
    check: Check
    optional: bool = False


# --- what a value may be: each yields (path below the key, message) ---------------
def text(longest: int = 2000, empty: bool = False, one_line: bool = False) -> Check:
    def check(value: Any) -> Found:
        if not isinstance(value, str):
            yield "", f"must be a string, not {kind_of(value)}"
        elif not value.strip() and not (empty and value == ""):
            yield "", "must not be empty"
        elif len(value) > longest:
            yield "", f"is longer than {longest} characters"
        elif UNPRINTABLE.search(value):
            yield "", "holds a control character"
        elif one_line and "\n" in value:
            yield "", "must be one line"

    return check


def one_of(words: Iterable[str]) -> Check:
    known = tuple(words)

    def check(value: Any) -> Found:
        if value not in known:
            yield "", f"must be one of {', '.join(known)}, not {value!r}"

    return check


def matching(pattern: str, example: str, longest: int = 200) -> Check:
    whole = re.compile(pattern)

    def check(value: Any) -> Found:
        if not isinstance(value, str) or not whole.fullmatch(value):
            yield "", f"must look like {example!r}, not {value!r}"
        elif len(value) > longest:
            yield "", f"is longer than {longest} characters"

    return check


def both_languages(longest: int = 2000, one_line: bool = False) -> Check:
    single = text(longest, one_line=one_line)

    def check(value: Any) -> Found:
        if not isinstance(value, dict) or set(value) != set(LANGS):
            yield "", "must be {en = …, zh = …}"
            return
        found = [
            (f".{lang}", message)
            for lang in LANGS
            for _path, message in single(value[lang])
        ]
        yield from found
        message = None if found else translation_problem(value)
        if message:
            yield ".zh", message

    return check


def list_of(item: Check, empty: bool = True, unique: bool = True) -> Check:
    def check(value: Any) -> Found:
        if not isinstance(value, list):
            yield "", f"must be an array, not {kind_of(value)}"
            return
        if not value and not empty:
            yield "", "must not be empty"
        for position, entry in enumerate(value):
            for path, message in item(entry):
                yield f"[{position}]{path}", message
            if unique and entry in value[:position]:
                yield f"[{position}]", f"{entry!r} stands twice"

    return check


def table(keys: tuple[Key, ...]) -> Check:
    def check(value: Any) -> Found:
        if not isinstance(value, dict):
            yield "", f"must be a table, not {kind_of(value)}"
            return
        for path, message in keys_problems(value, keys):
            yield f".{path}", message

    return check


def keys_problems(value: Mapping[str, Any], keys: tuple[Key, ...]) -> Found:
    known = {key.name for key in keys}
    for name in value:
        if name not in known:
            yield name, f"unknown key; known are {', '.join(key.name for key in keys)}"
    for key in keys:
        if key.name in value:
            for path, message in key.check(value[key.name]):
                yield f"{key.name}{path}", message
        elif not key.optional:
            yield key.name, "is missing"


def version(empty: bool) -> Check:
    def check(value: Any) -> Found:
        if empty and value == "":
            return
        try:
            Version(value)
        except (InvalidVersion, TypeError):
            yield "", f"must be a version such as '2.5.1', not {value!r}"

    return check


def event(value: Any) -> Found:
    """One event of an OSV range: {introduced = "2.5.0"}."""
    if not isinstance(value, dict) or len(value) != 1:
        yield (
            "",
            'must be one of {introduced = "…"}, {fixed = "…"}, {last_affected = "…"}',
        )
        return
    ((kind, number),) = value.items()
    if kind not in EVENT_KINDS:
        yield f".{kind}", f"unknown event; known are {', '.join(EVENT_KINDS)}"
        return
    for _path, message in version(empty=False)(number):
        yield f".{kind}", message


def events(value: Any) -> Found:
    """An OSV range: begins with `introduced`, versions ascend, kinds alternate."""
    found = list(list_of(event)(value))
    yield from found
    if found or not value:
        return
    kinds = [next(iter(entry)) for entry in value]
    numbers = [Version(next(iter(entry.values()))) for entry in value]
    starts = [kind == "introduced" for kind in kinds]
    if starts != [position % 2 == 0 for position in range(len(starts))]:
        yield "", "must alternate: introduced, then fixed or last_affected, and so on"
    if numbers != sorted(numbers):
        yield "", "versions must ascend"


def address(value: Any) -> Found:
    if value != "" and not (
        isinstance(value, str) and re.fullmatch(r"https?://[^\s<>\"\\^`{|}]+", value)
    ):
        yield "", f"must be an http(s) address or empty, not {value!r}"


def day(value: Any) -> Found:
    try:
        valid = date.fromisoformat(value).isoformat() == value
    except (TypeError, ValueError):
        valid = False
    if not valid:
        yield "", f"must be a string such as '2025-03-20', not {value!r}"


def schema(value: Any) -> Found:
    if value != SCHEMA or isinstance(value, bool):
        yield "", f"must be {SCHEMA}, not {value!r}"


def kind_of(value: Any) -> str:
    names = {dict: "a table", list: "an array", bool: "a boolean", str: "a string"}
    return names.get(type(value), type(value).__name__)


# --- the keys ---------------------------------------------------------------------
WORD = r"[a-z][a-z0-9_]*"
RECORD_ID = matching(r"NAN-\d{4}", "NAN-0007")
SLUG = matching(r"[a-z0-9]+(-[a-z0-9]+)*", "cudnn-sdpa-nan", 80)
NAME = matching(WORD, "disable_cudnn_sdp", 60)
TOPIC = matching(r"[a-z0-9][a-z0-9._-]*", "sdpa", 60)
REFERENCE = matching(r"[a-z0-9][a-z0-9._-]*", "up-1", 40)
PACKAGE = matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "torch", 80)
ALIAS = matching(r"\S+", "pytorch/pytorch#196678")

BUILD = (Key("raw", text(120)), Key("state", one_of(BUILD_STATES)))
TABLES: dict[str, tuple[Key, ...]] = {
    "precondition": (
        Key("key", one_of(PRECONDITION_KEYS)),
        Key("value", text(200)),
        Key("text", both_languages()),
    ),
    "signature": (
        Key("kind", one_of(SIGNATURE_KINDS)),
        Key("text", text(4000)),
    ),
    "affected": (
        Key("package", PACKAGE),
        Key("events", events),
        Key(
            "builds",
            list_of(table(BUILD)),
            optional=True,
        ),
        Key("source", REFERENCE),
    ),
    "fix": (
        Key("kind", one_of(FIX_KINDS)),
        Key("package", PACKAGE),
        Key("version", version(empty=True)),
        Key("source", REFERENCE),
    ),
    "workaround": (
        Key("name", NAME),
        Key("kind", one_of(WORKAROUND_KINDS)),
        Key("apply", text(4000)),
        Key("needs", text(200, empty=True)),
        Key("cost", both_languages()),
    ),
    "claim": (
        Key("id", REFERENCE),
        Key("kind", one_of(ClaimKind.values)),
        Key("text", both_languages()),
        Key("source", REFERENCE),
        Key(
            "check",
            matching(rf"repro(_[a-z0-9_]+)?:{WORD}", "repro:trigger", 120),
            optional=True,
        ),
        Key("expects", one_of(Expects.values), optional=True),
        Key(
            "builds",
            list_of(matching(rf"\*|{BUILD_SLUG}", "2.13.0-cpu")),
            optional=True,
        ),
    ),
    "source": (
        Key("id", REFERENCE),
        Key("kind", one_of(SOURCE_KINDS)),
        Key("url", address),
        Key("title", text(400)),
        Key("date", day, optional=True),
        Key("note", both_languages(), optional=True),
    ),
}
KEYS: tuple[Key, ...] = (
    Key("schema", schema),
    Key("id", RECORD_ID),
    Key("slug", SLUG),
    Key("publication", one_of(Publication.values)),
    Key("withdrawn_because", both_languages(), optional=True),
    Key("upstream", one_of(Upstream.values)),
    Key("symptom_class", one_of(SymptomClass.values)),
    Key("components", list_of(TOPIC)),
    Key("aliases", list_of(ALIAS)),
    Key("related", list_of(RECORD_ID)),
    Key("title", both_languages(200, one_line=True)),
    Key("symptom", both_languages(400, one_line=True)),
    Key("environment", list_of(text(200))),
    Key("affected_when", one_of(AffectedWhen.values)),
    *(Key(name, list_of(table(keys)), optional=True) for name, keys in TABLES.items()),
)


def facts_problems(facts: Facts) -> Found:
    """Every (key, message) of an issue.toml."""
    yield from keys_problems(facts, KEYS)
    yield from withdrawal_problems(facts)
    for table_name, key in (("workaround", "name"), ("claim", "id"), ("source", "id")):
        yield from repeated_problems(facts, table_name, key)
    yield from source_problems(facts)
    yield from range_problems(facts)
    yield from claim_problems(facts)


def rows(facts: Facts, table_name: str) -> Iterator[tuple[str, Facts]]:
    """The sound rows of a table with their keys: ("claim[0]", {…})."""
    found = facts.get(table_name, [])
    for position, row in enumerate(found if isinstance(found, list) else []):
        if not list(table(TABLES[table_name])(row)):
            yield f"{table_name}[{position}]", row


def withdrawal_problems(facts: Facts) -> Found:
    withdrawn = facts.get("publication") == Publication.WITHDRAWN
    if withdrawn and "withdrawn_because" not in facts:
        yield "withdrawn_because", "is missing; a withdrawn record says why"
    if not withdrawn and "withdrawn_because" in facts:
        yield "withdrawn_because", "only a withdrawn record has it"


def repeated_problems(facts: Facts, table_name: str, key: str) -> Found:
    seen: set[str] = set()
    for path, row in rows(facts, table_name):
        if row[key] in seen:
            yield f"{path}.{key}", f"{row[key]!r} stands twice"
        seen.add(row[key])


def source_problems(facts: Facts) -> Found:
    # Also those of unsound rows: one fault is reported once.
    listed = facts.get("source", [])
    known = [row.get("id") for row in listed if isinstance(row, dict)]
    for table_name in ("affected", "fix", "claim"):
        for path, row in rows(facts, table_name):
            if row["source"] not in known:
                yield f"{path}.source", f"no [[source]] has the id {row['source']!r}"
    for path, row in rows(facts, "source"):
        if row["kind"] != "article" and not row["url"]:
            yield f"{path}.url", "only an article may be without address"


def range_problems(facts: Facts) -> Found:
    for path, row in rows(facts, "affected"):
        if not row["events"] and not row.get("builds"):
            yield f"{path}.events", "names neither a range nor a build"


def claim_problems(facts: Facts) -> Found:
    for path, row in rows(facts, "claim"):
        if "check" in row and "expects" not in row:
            yield f"{path}.expects", "is missing; `check` needs it"
        if "expects" in row and "check" not in row:
            yield f"{path}.check", "is missing; `expects` needs it"


def canonical(facts: Facts) -> Facts:
    """The same facts with their keys in order and empty optional ones left out."""
    return ordered(facts, KEYS)


def ordered(value: Mapping[str, Any], keys: tuple[Key, ...]) -> Facts:
    kept = {
        key.name: value[key.name]
        for key in keys
        if key.name in value and (value[key.name] or not key.optional)
    }
    return {name: ordered_value(name, entry) for name, entry in kept.items()}


def ordered_value(name: str, value: Any) -> Any:
    if isinstance(value, dict) and set(value) == set(LANGS):
        return {lang: value[lang] for lang in LANGS}
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return value
    if name in TABLES:
        return [ordered(row, TABLES[name]) for row in value]
    return [ordered(row, BUILD) if name == "builds" else row for row in value]
