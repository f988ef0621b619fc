"""Known issues for a pasted log and environment: the answer of page and API.

The paste is untrusted input: it is never stored and never used as a pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, BinaryIO

from django.utils.translation import gettext as _

from kb.addresses import page_urls
from kb.environments.environment import Environment, parse_environment
from kb.lookup import laws, symptoms
from kb.lookup.affecting import affecting_list, also_affecting, builds_of, of_list
from kb.lookup.candidate import Candidate
from kb.lookup.candidates import MOST, Asked, candidates_of, document
from kb.lookup.decision import NO_RECORDS, decision, still_open
from kb.lookup.facts import document as facts_document, read_facts
from kb.lookup.first_checks import first_checks
from kb.lookup.known import ORDER
from kb.lookup.paste import (
    EmptyPaste,
    Paste,
    PasteTooLarge,
    check_size,
    kinds_of,
    read_paste,
    read_stream,
    readable,
)
from kb.lookup.reasons import RULED_OUT
from kb.models import Record, Symptom
from kb.search.index.generation import current_generation
from kb.search.index.inverted import index_in, records_in
from kb.search.ranking.log_lines import Confidence
from kb.search.reading.masks import ALGORITHM
from kb.search.reading.parts import Part
from kb.versions import affected

__all__ = [
    "EmptyPaste",
    "PasteTooLarge",
    "affected_by",
    "all_affecting",
    "look_up",
    "look_up_stream",
]

MAX_KEY_LINES = 50
Json = dict[str, Any]


def look_up(
    log: str,
    env: str = "",
    parts: Sequence[Part] = (),
    said: Mapping[str, bool] | None = None,
    dropped: Collection[str] = (),
) -> Json:
    """The whole answer for a paste, in both languages.

    `parts`: how the reader says that parts of the log are to be read; `said`: answers
    to the questions of causes, by slug; `dropped`: facts that were read wrongly, such
    as "device=mps". Raises PasteTooLarge, EmptyPaste.
    """
    check_size(log, env)
    return answer(read_paste(readable(log), parts), readable(env), said or {}, dropped)


def look_up_stream(log: BinaryIO, env: str = "") -> Json:
    """The same for a log of any size, read once in bounded memory.

    Raises EmptyPaste.
    """
    return answer(read_stream(log), readable(env))


def answer(
    paste: Paste,
    env: str,
    said: Mapping[str, bool] = MappingProxyType({}),
    dropped: Collection[str] = (),
) -> Json:
    if not (paste.text.strip() or env.strip()):
        raise EmptyPaste(
            _("Nothing was pasted. Paste a warning, a traceback or a log.")
        )
    environment = parse_environment(env).merged(paste.environment)
    generation = current_generation()
    facts = read_facts(paste, env, environment).without(dropped)
    shown = [] if is_list(paste) else symptoms.of_paste(paste, facts)
    asked = Asked(paste, facts, shown, index_in(generation), generation, said)
    found, out = ([], []) if is_list(paste) else candidates_of(asked)
    affecting = affecting_list(facts, generation) if is_list(paste) else []
    certain, found = [row for row in found if row.is_sure], found[:MOST]
    named = [] if certain or is_list(paste) else laws.of_paste(paste)
    decided = (
        of_list(facts, affecting)
        if is_list(paste)
        else decision(certain, found, shown, facts, laws.sentence(named))
    )
    explained = bool(certain) and still_open(certain, facts) is None
    settled = is_list(paste) or explained
    if certain and not explained:
        found = led_by_the_nan(found, certain)
    items = [document(candidate, facts) for candidate in found]
    return {
        "decision": decided if records_in(generation) else NO_RECORDS.filled(),
        "outcome": items[0]["confidence"] if items else Confidence.NONE.value,
        "facts": facts_document(facts),
        "laws": list(map(laws.document, named)),
        "candidates": items,
        "first_checks": [] if settled else first_checks(facts),
        "ruled_out": ruled_out(out),
        "symptoms": [symptom_document(row.symptom) for row in shown],
        "affecting": affecting,
        "query": query_document(paste, env, facts.environment),
    }


def led_by_the_nan(
    found: Sequence[Candidate], certain: Sequence[Candidate]
) -> list[Candidate]:
    """What speaks for a cause of the NaN goes before the record of a warning, which is
    no sure cause of it.
    """
    order = sorted(found, key=lambda row: (row in certain) + 2 * (not row.is_told))
    return [replace(row, confidence=Confidence.POSSIBLE) for row in order]


def is_list(paste: Paste) -> bool:
    """Whether nothing was pasted but what is installed."""
    return paste.is_only_environment or not paste.text.strip()


def ruled_out(out: Sequence[Candidate]) -> list[Json]:
    """By reason, with the records that it rules out."""
    return [
        {
            "reason": name,
            "title": dict(title),
            "records": [row.known.row.pk for row in rows if row.known],
            "slugs": [row.slug for row in rows],
        }
        for name, title in RULED_OUT.items()
        if (rows := [row for row in out if row.ruled_out == name])
    ]


def symptom_document(row: Symptom) -> Json:
    return {
        "slug": row.slug,
        "title": row.both("title"),
        "summary": row.both("summary"),
        "urls": {"html": page_urls("symptom-detail", row.slug)},
    }


def query_document(paste: Paste, env: str, environment: Environment) -> Json:
    """How the paste was understood."""
    kinds = kinds_of(paste)
    if env.strip():
        kinds.append(environment.kind or "words")
    key_lines = paste.reading.key_lines[:MAX_KEY_LINES]
    return {
        "took_it_for": list(dict.fromkeys(kinds)),
        "parts": [
            {"kind": part.kind.value, "first": part.first, "last": part.last}
            for part in paste.parts
        ],
        "key_lines": [
            {"line": line.number, "class": line.class_name, "text": line.text}
            for line in key_lines
        ],
        "facets": sorted(paste.reading.facets),
        "fingerprints": {
            "algorithm": ALGORITHM,
            "values": [line.fingerprint for line in key_lines],
        },
        "cut": {"lines": paste.reading.cut_lines, "bytes": paste.reading.cut_bytes},
        "env": environment_document(environment),
    }


def environment_document(env: Environment) -> Json:
    raw = env.torch_raw
    torch = raw and {"raw": raw, "build": build_of(raw)}
    return {
        "torch": torch or None,
        "contradicting": list(env.contradicting),
        "packages": dict(sorted(env.packages.items())),
        "gpu": env.gpu,
        "unparsed_lines": env.unparsed_lines,
    }


def build_of(raw: str) -> str | None:
    """The slug of a build that runs have named with this version, if only one."""
    slugs = builds_of(raw)
    return slugs[0] if len(slugs) == 1 else None


def affected_by(row: Record, env: str) -> Json:
    """Whether an environment is affected by one record.

    Raises PasteTooLarge, EmptyPaste.
    """
    environment = read_environment(env)
    findings = row.findings.fresh().triggers().of_the_bug().order_by(*ORDER)
    return {
        "record": row.id,
        "env": environment_document(environment),
        "affected": affected.answer_for(row, environment, findings).as_dict(),
    }


def all_affecting(env: str) -> Json:
    """The ids of all records that affect an environment."""
    environment, generation = read_environment(env), current_generation()
    return {
        "env": environment_document(environment),
        "affecting": also_affecting(environment, set(), generation),
    }


def read_environment(env: str) -> Environment:
    """Raises PasteTooLarge, EmptyPaste."""
    check_size("", env)
    env = readable(env)
    if not env.strip():
        raise EmptyPaste(_("No environment was given. Send the output of pip freeze."))
    return parse_environment(env)
