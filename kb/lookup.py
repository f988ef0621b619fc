"""A pasted log and environment to known issues: what the box and the API answer.

Nothing of the paste is stored, and nothing of it is ever used as a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from kb import claims, documents, versions
from kb.choices import Verdict
from kb.environment import Environment, find_environment, parse_environment
from kb.models import Finding, Record
from kb.search.lognorm import Reading, read_log
from kb.search.masks import ALGORITHM
from kb.search.rank import BY_CONFIDENCE, Confidence, LogMatch, match_log
from kb.search.store import current_store
from kb.search.tokens import words_of

MAX_BYTES = 1024 * 1024
MAX_MATCHES = 20
MAX_KEY_LINES = 50
# Controls other than tab, line ends and escape; halves of surrogate pairs.
UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff\ufffd]")
MAX_UNREADABLE = 0.3
FEW_WORDS = 30
Json = dict[str, Any]


class PasteTooLarge(ValueError):
    """More than MAX_BYTES of log and environment together."""


class EmptyPaste(ValueError):
    """Nothing was pasted, or nothing that is text."""


def look_up(log: str, env: str = "", lang: str | None = None) -> Json:
    """The whole answer for a paste, as contract §6 has it.

    `lang` "en" or "zh" flattens its bilingual texts. Raises PasteTooLarge,
    EmptyPaste.
    """
    check_size(log, env)
    log, env = readable(log), readable(env)
    if not (log.strip() or env.strip()):
        raise EmptyPaste(_("Nothing was pasted: paste a warning, a traceback, a log."))
    paste = read_paste(log)
    environment = parse_environment(env).merged(paste.environment)
    matches = match_log(paste.reading, current_store())[:MAX_MATCHES]
    found = ranked(matches, paste.reading, environment)
    answer = {
        "query": query_document(paste, env, environment),
        "outcome": found[0]["confidence"] if found else Confidence.NONE.value,
        "matches": found,
        "also_affecting": also_affecting(
            environment, {item["record"] for item in found}
        ),
    }
    return {**documents.flatten(answer, lang), "lang_used": lang} if lang else answer


@dataclass(frozen=True)
class Paste:
    """A text as a log and as a list of versions; it may be both."""

    text: str
    reading: Reading
    environment: Environment
    is_only_environment: bool


def read_paste(text: str) -> Paste:
    whole = parse_environment(text)
    only = whole.is_given and not whole.unparsed_lines
    return Paste(text, read_log(text), whole if only else find_environment(text), only)


def check_size(log: str, env: str) -> None:
    size = sum(len(text.encode("utf-8", "replace")) for text in (log, env))
    if size > MAX_BYTES:
        raise PasteTooLarge(
            _(
                "The paste has %(size)d bytes; at most %(limit)d are read. Paste the "
                "part around the first warning or error."
            )
            % {"size": size, "limit": MAX_BYTES}
        )


def readable(text: str) -> str:
    """The text with a mark in place of what is none. Raises EmptyPaste for binary."""
    if text.count("\x00") * 3 > len(text):
        text = text.replace("\x00", "")  # UTF-16 read as bytes
    marked, count = UNREADABLE.subn("\ufffd", text)
    if count > MAX_UNREADABLE * len(text):
        raise EmptyPaste(_("This is not text: paste the lines of the log as text."))
    return marked


def classify_paste(text: str) -> list[str]:
    """What a paste is taken for: log, traceback, collect_env, freeze, conda, words."""
    return kinds_of(read_paste(readable(text)))


def kinds_of(paste: Paste) -> list[str]:
    environment = [paste.environment.kind] if paste.environment.kind else []
    if paste.is_only_environment or not paste.text.strip():
        return environment
    reading = paste.reading
    says = bool(reading.facets) or any(line.class_name for line in reading.key_lines)
    if reading.traceback:
        return ["traceback", *environment]
    if not says and len(words_of(paste.text)) <= FEW_WORDS and not environment:
        return ["words"]
    return ["log", *environment]


def query_document(paste: Paste, env: str, environment: Environment) -> Json:
    """How the paste was understood."""
    kinds = kinds_of(paste)
    if env.strip():
        kinds.append(environment.kind or "words")
    key_lines = paste.reading.key_lines[:MAX_KEY_LINES]
    return {
        "took_it_for": list(dict.fromkeys(kinds)),
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
    torch = env.torch_raw and {"raw": env.torch_raw, "build": build_of(env.torch_raw)}
    return {
        "torch": torch or None,
        "packages": dict(sorted(env.packages.items())),
        "gpu": env.gpu,
        "unparsed_lines": env.unparsed_lines,
    }


def build_of(raw: str) -> str | None:
    """The slug of a build that runs have named with this version, if only one."""
    slugs = Finding.objects.filter(build_raw=raw).order_by().values_list("build")
    known = {slug for (slug,) in slugs.distinct()}
    return known.pop() if len(known) == 1 else None


def ranked(matches: list[LogMatch], reading: Reading, env: Environment) -> list[Json]:
    """By confidence and score; where equal, what affects, is verified, is newer."""
    ids = [match.record for match in matches]
    rows = Record.objects.visible().with_everything().in_bulk(ids)
    found = []
    for match in matches:
        row = rows.get(match.record)
        if row is None:
            continue
        findings = list(row.findings.all())
        answer = versions.answer_for(row, env, findings)
        order = (
            BY_CONFIDENCE[match.confidence],
            -round(match.score, 2),
            answer.is_affected is not True,
            all(item.verdict != Verdict.BUG_PRESENT for item in findings),
            -row.modified.timestamp(),
        )
        remedies = workarounds(row, findings, env)
        document = match_document(match, row, answer, remedies, reading)
        found.append((order, document))
    return [document for _order, document in sorted(found, key=lambda pair: pair[0])]


def match_document(
    match: LogMatch,
    row: Record,
    answer: versions.Answer,
    remedies: list[Json],
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
                "pasted": reading.lines[why.line],
                "signature": why.signature,
            }
            for why in match.why
        ],
        "affected": answer.as_dict(),
        "workarounds": remedies,
        "fix_version": [documents.fix_version(entry) for entry in row.fixes],
        "urls": documents.record_urls(row),
    }


def workarounds(
    row: Record, findings: Iterable[Finding], env: Environment
) -> list[Json]:
    """Each with its status on the pasted build, where it was run there, or on all."""
    inputs = [finding.as_claim_input() for finding in findings]
    here = [
        finding.as_claim_input()
        for finding in findings
        if finding.build_raw == env.torch_raw
    ]
    found = []
    for entry in row.workarounds:
        status, evidence = claims.workaround_status(entry["name"], here)
        if evidence is None:
            status, evidence = claims.workaround_status(entry["name"], inputs)
        found.append(
            {
                "name": entry["name"],
                "apply": entry["apply"],
                "status": status,
                "evidence": evidence,
            }
        )
    return found


def also_affecting(env: Environment, matched: set[str]) -> list[str]:
    """Ids of the other visible records that affect the pasted environment."""
    if not env.is_given:
        return []
    tested: dict[str, list[Finding]] = {}
    here = Finding.objects.fresh().triggers().of_the_bug()
    for finding in here.filter(build_raw=env.torch_raw or ""):
        tested.setdefault(finding.record_id, []).append(finding)
    rows = Record.objects.visible().exclude(id__in=matched)
    rows = rows.only("id", "affected", "affected_when", "preconditions")
    return [
        row.id
        for row in rows
        if versions.answer_for(row, env, tested.get(row.id, [])).is_affected
    ]
