"""The schema of issue.toml: its keys in order, and the check of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from kb.choices import (
    ANYWHERE,
    FIX_KINDS,
    FRAMEWORKS,
    HOLDS_ANYWHERE_BY,
    HOLDS_ON,
    HOLDS_THERE_BY,
    PRECONDITION_KEYS,
    RULE_SEVERITIES,
    SIGNATURE_KINDS,
    SIGNATURE_LINES,
    SIGNATURE_SEEN,
    SOURCE_KINDS,
    WORKAROUND_KINDS,
    AffectedWhen,
    ClaimKind,
    Depth,
    Expects,
    Publication,
    SymptomClass,
    Upstream,
)
from kb.records import rules
from kb.records.schema import (
    Key,
    Problems,
    address,
    both_languages,
    build_raw,
    by_name,
    condition,
    day,
    events,
    keys_problems,
    list_of,
    matching,
    one_of,
    schema,
    table,
    text,
    translated_from,
    version,
)

Facts = dict[str, Any]

FACTS_FILE = "issue.toml"
BUILD_STATES = ("affected", "not_affected")
BUILD_SLUG = r"[a-z0-9][a-z0-9._-]{0,60}"


# --- the keys ---------------------------------------------------------------------
WORD = r"[a-z][a-z0-9_]*"
RECORD_ID = matching(r"NAN-\d{4}", "NAN-0007")
SLUG = matching(r"[a-z0-9]+(-[a-z0-9]+)*", "cudnn-sdpa-nan", 80)
NAME = matching(WORD, "disable_cudnn_sdp", 60)
TOPIC = matching(r"[a-z0-9][a-z0-9._-]*", "sdpa", 60)
REFERENCE = matching(r"[a-z0-9][a-z0-9._-]*", "up-1", 40)
PACKAGE = matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "torch", 80)
ALIAS = matching(r"\S+", "pytorch/pytorch#196678")

DEVICES = list_of(one_of(HOLDS_ON[1:]), empty=False)
HOLDS = (
    Key("devices", list_of(one_of(HOLDS_ON), empty=False)),
    Key("why", one_of((*HOLDS_ANYWHERE_BY, *HOLDS_THERE_BY))),
)
LINE = (Key("apply", text(1000)), Key("source", REFERENCE))
BUILD = (Key("raw", build_raw), Key("state", one_of(BUILD_STATES)))
TABLES: dict[str, tuple[Key, ...]] = {
    "precondition": (
        Key("key", one_of(PRECONDITION_KEYS)),
        Key("value", text(200)),
        Key("where", condition, optional=True),
        Key("text", both_languages()),
    ),
    "signature": (
        Key("kind", one_of(SIGNATURE_KINDS)),
        Key("text", text(4000)),
        Key("seen", one_of(SIGNATURE_SEEN), optional=True),
        Key("source", REFERENCE, optional=True),
    ),
    "affected": (
        Key("package", PACKAGE),
        Key("events", events),
        Key("builds", list_of(table(BUILD)), optional=True),
        Key("unknown", events, optional=True),
        Key("cuda", matching(r"\d+\.\d+", "12.9"), optional=True),
        Key("source", REFERENCE),
    ),
    "fix": (
        Key("kind", one_of(FIX_KINDS)),
        Key("package", PACKAGE),
        Key("version", version(empty=True)),
        Key("devices", DEVICES, optional=True),
        Key("source", REFERENCE),
    ),
    "workaround": (
        Key("name", NAME),
        Key("kind", one_of(WORKAROUND_KINDS)),
        Key("apply", text(4000), optional=True),
        Key("needs", text(200, empty=True)),
        Key("cost", both_languages()),
        Key("lines", by_name(FRAMEWORKS, table(LINE)), optional=True),
    ),
    "diagnosis": (
        Key("name", NAME),
        Key("text", both_languages()),
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
    "check": (
        Key("name", matching(WORD, "workaround_upcast", 80)),
        Key("text", both_languages(200, one_line=True)),
    ),
    "rule": (
        Key("name", NAME),
        Key("severity", one_of(RULE_SEVERITIES)),
        Key("message", both_languages(400, one_line=True)),
        Key("step", rules.steps),
        Key("unless", rules.steps, optional=True),
        Key("at", rules.number, optional=True),
        Key("by_data", rules.truth, optional=True),
        Key("written", rules.pattern, optional=True),
        Key("fix", rules.fix, optional=True),
    ),
}
NAMED = (
    *(("workaround", "name"), ("diagnosis", "name")),
    *(("claim", "id"), ("source", "id"), ("check", "name"), ("rule", "name")),
)
KEYS: tuple[Key, ...] = (
    Key("schema", schema),
    Key("id", RECORD_ID),
    Key("slug", SLUG),
    Key("depth", one_of((Depth.BRIEF.value,)), optional=True),
    Key("publication", one_of(Publication.values)),
    Key("withdrawn_because", both_languages(), optional=True),
    Key("upstream", one_of(Upstream.values)),
    Key("symptom_class", one_of(SymptomClass.values)),
    Key("components", list_of(TOPIC)),
    Key("aliases", list_of(ALIAS)),
    Key("related", list_of(RECORD_ID)),
    Key("title", both_languages(200, one_line=True)),
    Key("symptom", both_languages(400, one_line=True)),
    Key("translated_from", translated_from, optional=True),
    Key("updated", day, optional=True),
    Key("environment", list_of(text(200))),
    Key("affected_when", one_of(AffectedWhen.values)),
    Key("holds_on", table(HOLDS)),
    *(Key(name, list_of(table(keys)), optional=True) for name, keys in TABLES.items()),
)


def facts_problems(facts: Facts) -> Problems:
    """Every (key, message) of an issue.toml."""
    yield from keys_problems(facts, KEYS)
    yield from withdrawal_problems(facts)
    if depth_of(facts) == Depth.BRIEF and not facts.get("source"):
        yield "source", _("is missing; a brief record names at least one source")
    yield from holding_problems(facts)
    for table_name, key in NAMED:
        yield from repeated_problems(facts, table_name, key)
    yield from source_problems(facts)
    yield from signature_problems(facts)
    yield from range_problems(facts)
    yield from claim_problems(facts)


def depth_of(facts: Mapping[str, Any]) -> str:
    return str(facts.get("depth", Depth.FULL.value))


def rows(facts: Facts, table_name: str) -> Iterator[tuple[str, Facts]]:
    """The sound rows of a table with their keys: ("claim[0]", {…})."""
    for position, row in enumerate(listed(facts, table_name)):
        if not list(table(TABLES[table_name])(row)):
            yield f"{table_name}[{position}]", row


def listed(facts: Facts, table_name: str) -> list[Any]:
    """The rows of a table, sound or not; none of what is no table."""
    found = facts.get(table_name, [])
    return found if isinstance(found, list) else []


def withdrawal_problems(facts: Facts) -> Problems:
    withdrawn = facts.get("publication") == Publication.WITHDRAWN
    if withdrawn and "withdrawn_because" not in facts:
        message = _("is missing; a withdrawn record must give its reason")
        yield "withdrawn_because", message
    if not withdrawn and "withdrawn_because" in facts:
        yield "withdrawn_because", _("only a withdrawn record has it")


def holding_problems(facts: Facts) -> Problems:
    holds = facts.get("holds_on", {})
    if list(table(HOLDS)(holds)):
        return
    reasons = HOLDS_THERE_BY
    if ANYWHERE in holds["devices"]:
        reasons = HOLDS_ANYWHERE_BY
        if len(holds["devices"]) > 1:
            yield "holds_on.devices", _("any already holds the others")
    if holds["why"] not in reasons:
        values = {"known": ", ".join(reasons), "devices": ", ".join(holds["devices"])}
        yield "holds_on.why", _("for %(devices)s must be one of %(known)s") % values


def repeated_problems(facts: Facts, table_name: str, key: str) -> Problems:
    seen: set[str] = set()
    for path, row in rows(facts, table_name):
        if row[key] in seen:
            yield f"{path}.{key}", _("%s stands twice") % repr(row[key])
        seen.add(row[key])


def sources(facts: Facts) -> dict[Any, Any]:
    """Addresses by id, also of unsound rows: one fault is reported once."""
    found = [row for row in listed(facts, "source") if isinstance(row, dict)]
    return {str(row.get("id")): row.get("url") for row in found}


def source_problems(facts: Facts) -> Problems:
    ids = sources(facts)
    for table_name in ("affected", "fix", "claim"):
        for path, row in rows(facts, table_name):
            if row["source"] not in ids:
                message = _("no [[source]] has the id %s") % repr(row["source"])
                yield f"{path}.source", message
    for path, row in rows(facts, "workaround"):
        for framework, line in row.get("lines", {}).items():
            if line["source"] not in ids:
                message = _("no [[source]] has the id %s") % repr(line["source"])
                yield f"{path}.lines.{framework}.source", message
    for path, row in rows(facts, "source"):
        if row["kind"] != "article" and not row["url"]:
            yield f"{path}.url", _("only an article may be without address")


def signature_problems(facts: Facts) -> Problems:
    """A line that nobody has seen is no signature; a reported one names its thread."""
    urls = sources(facts)
    for path, row in rows(facts, "signature"):
        seen, source = row.get("seen"), row.get("source")
        if row["kind"] not in SIGNATURE_LINES:
            for key in sorted({"seen", "source"} & row.keys()):
                yield f"{path}.{key}", _("only a line of a log was seen; leave it out")
        elif seen is None:
            yield f"{path}.seen", _("is missing; printed by a run here, or reported")
        elif seen == "printed" and source is not None:
            yield f"{path}.source", _("only a line that is reported names its thread")
        elif seen == "reported" and source is None:
            yield f"{path}.source", _("is missing; a reported line names its thread")
        elif seen == "reported" and source not in urls:
            yield f"{path}.source", _("no [[source]] has the id %s") % repr(source)
        elif seen == "reported" and not urls[source]:
            yield f"{path}.source", _("%s has no address") % repr(source)


def range_problems(facts: Facts) -> Problems:
    for path, row in rows(facts, "affected"):
        if not row["events"] and not row.get("builds"):
            yield f"{path}.events", _("names neither a range nor a build")


def claim_problems(facts: Facts) -> Problems:
    for path, row in rows(facts, "claim"):
        if "check" in row and "expects" not in row:
            yield f"{path}.expects", _("is missing; `check` needs it")
        if "expects" in row and "check" not in row:
            yield f"{path}.check", _("is missing; `expects` needs it")
