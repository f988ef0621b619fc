"""Known issues for a pasted log and environment: the answer of page and API.

The paste is untrusted input: it is never stored and never used as a pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, BinaryIO

from django.utils.translation import gettext as _

from kb.addresses import record_urls
from kb.environments.environment import Environment, parse_environment
from kb.lookup import leads, parameters, symptoms
from kb.lookup.affecting import also_affecting, builds_of
from kb.lookup.known import Known, in_order, known
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
from kb.lookup.traps import traps_in
from kb.models import Record
from kb.search.index.generation import Generation, current_generation
from kb.search.index.store import current_store
from kb.search.ranking.log_lines import BY_CONFIDENCE, SURE, Confidence, Why
from kb.search.ranking.logs import LogMatch, match_log
from kb.search.reading.log import Reading
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

MAX_MATCHES = 20
MAX_KEY_LINES = 50
NEAR_BONUS = 4.0
FIX_FIELDS = ("package", "version", "kind")
Json = dict[str, Any]


def look_up(log: str, env: str = "", parts: Sequence[Part] = ()) -> Json:
    """The whole answer for a paste, as contract §6 has it, in both languages.

    `parts`: how the reader says that parts of the log are to be read.
    Raises PasteTooLarge, EmptyPaste.
    """
    check_size(log, env)
    log, env = readable(log), readable(env)
    if not (log.strip() or env.strip()):
        raise EmptyPaste(_("Nothing was pasted: paste a warning, a traceback, a log."))
    return answer(read_paste(log, parts), env)


def look_up_stream(log: BinaryIO, env: str = "") -> Json:
    """The same for a log of any size, read once in bounded memory.

    Raises EmptyPaste.
    """
    paste = read_stream(log)
    env = readable(env)
    if not (paste.text.strip() or env.strip()):
        raise EmptyPaste(_("Nothing was pasted: paste a warning, a traceback, a log."))
    return answer(paste, env)


def answer(paste: Paste, env: str) -> Json:
    environment = parse_environment(env).merged(paste.environment)
    store = current_store()
    matches = match_log(paste.reading, store)[:MAX_MATCHES]
    generation = store.generation
    found = known([match.record for match in matches], generation)
    words = {} if is_sure(matches, found) else leads.spoken_of(paste)
    spoken = leads.Leads(words, store)
    items = ranked(matches, found, paste.reading, environment, spoken.nearness)
    matched = {item["record"] for item in items}
    traps = traps_in(paste, matched)
    others = leads.with_traps(spoken.besides(matched), traps, spoken.nearness)
    of_others = known([lead.record for lead in others], generation)
    led = leads.documents_of(others, of_others, traps)
    parameters.add_to([*items, *led], found | of_others, paste, env)
    return {
        "query": query_document(paste, env, environment, generation),
        "outcome": items[0]["confidence"] if items else Confidence.NONE.value,
        "matches": items,
        "symptoms": several_causes(items, paste),
        "leads": led,
        "also_affecting": also_affecting(environment, matched, generation),
    }


def is_sure(matches: list[LogMatch], found: Mapping[str, Known]) -> bool:
    """Whether a record that readers see matches for certain.

    What merely speaks of the same would only stand in the way of that answer.
    """
    return any(match.confidence in SURE and match.record in found for match in matches)


def several_causes(items: list[Json], paste: Paste) -> list[Json]:
    """Symptoms that the paste shows, where it does not tell their cause."""
    if items and items[0]["confidence"] in SURE:
        return []
    return symptoms.documents_of(symptoms.of_paste(paste))


def query_document(
    paste: Paste, env: str, environment: Environment, generation: Generation
) -> Json:
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
        "env": environment_document(environment, generation),
    }


def environment_document(env: Environment, generation: Generation) -> Json:
    raw = env.torch_raw
    torch = raw and {"raw": raw, "build": build_of(raw, generation)}
    return {
        "torch": torch or None,
        "contradicting": list(env.contradicting),
        "packages": dict(sorted(env.packages.items())),
        "gpu": env.gpu,
        "unparsed_lines": env.unparsed_lines,
    }


def build_of(raw: str, generation: Generation) -> str | None:
    """The slug of a build that runs have named with this version, if only one."""
    slugs = builds_of(raw, generation)
    return slugs[0] if len(slugs) == 1 else None


def ranked(
    matches: list[LogMatch],
    found: Mapping[str, Known],
    reading: Reading,
    env: Environment,
    nearness: Mapping[str, float],
) -> list[Json]:
    """By confidence and score; where equal, what affects, is verified, is newer.

    `nearness`: of records to all that was pasted, which orders what is only possible.
    """
    keyed = []
    for match in matches:
        record = found.get(match.record)
        if record is None:
            continue
        answer = affected.answer_for(record.row, env, record.findings)
        order = (
            BY_CONFIDENCE[match.confidence],
            -round(match.score + near_bonus(match, nearness), 2),
            answer.is_affected is not True,
            not record.is_seen,
            -record.row.modified.timestamp(),
        )
        code = {
            "workarounds": list(record.workarounds(env.torch_raw)),
            "diagnoses": list(record.diagnoses),
        }
        document = match_document(match, record.row, answer, code, reading)
        keyed.append((order, document))
    return [document for _order, document in sorted(keyed, key=itemgetter(0))]


def near_bonus(match: LogMatch, nearness: Mapping[str, float]) -> float:
    """A metric alone says so little that the words around it decide."""
    if match.confidence != Confidence.POSSIBLE:
        return 0.0
    return NEAR_BONUS * nearness.get(match.record, 0.0)


def match_document(
    match: LogMatch,
    row: Record,
    answer: affected.Answer,
    code: Json,
    reading: Reading,
) -> Json:
    return {
        "record": row.id,
        "title": row.both("title"),
        "confidence": match.confidence.value,
        "score": round(match.score, 2),
        "why": [
            {
                "line": why.line,
                "pasted": pasted(why, reading),
                "signature": why.signature,
            }
            for why in match.why
        ],
        "affected": answer.as_dict(),
        **code,
        "fixes": [{key: entry[key] for key in FIX_FIELDS} for entry in row.fixes],
        "parameters": [],
        "urls": record_urls(row),
    }


def pasted(why: Why, reading: Reading) -> str:
    """The line as pasted; of a message that was broken, its lines."""
    numbers = range(why.line, why.last_line + 1)
    return " ".join(line for at in numbers if (line := reading.lines.get(at)))


def affected_by(row: Record, env: str) -> Json:
    """Whether an environment is affected by one record.

    Raises PasteTooLarge, EmptyPaste.
    """
    environment = read_environment(env)
    findings = sorted(row.findings.order_by(), key=in_order)
    return {
        "record": row.id,
        "env": environment_document(environment, current_generation()),
        "affected": affected.answer_for(row, environment, findings).as_dict(),
    }


def all_affecting(env: str) -> Json:
    """The ids of all records that affect an environment."""
    environment, generation = read_environment(env), current_generation()
    return {
        "env": environment_document(environment, generation),
        "affecting": also_affecting(environment, set(), generation),
    }


def read_environment(env: str) -> Environment:
    """Raises PasteTooLarge, EmptyPaste."""
    check_size("", env)
    env = readable(env)
    if not env.strip():
        raise EmptyPaste(_("No environment was given: send what pip freeze prints."))
    return parse_environment(env)
