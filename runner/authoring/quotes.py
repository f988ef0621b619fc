"""Whether a program printed what a signature quotes: in a log, or in kept evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kb.choices import SIGNATURE_LINES
from kb.records.facts import FACTS_FILE, rows
from kb.records.files import RecordFile
from kb.records.open_places import OPEN_PLACE
from kb.records.places import line_of_key
from kb.search.reading.cleaning import clean, plain_text
from kb.search.reading.lines import select_lines
from kb.search.reading.log import KeyLine, key_line, read_lines
from kb.search.reading.signatures import Signature, plain, read_signature

# The check whose output counts: the bug as it is reported, not what was made of it.
TRIGGER = "trigger"
Evidence = Mapping[str, Any]


def unseen(
    file: RecordFile, toml: str, printed: list[str], quoted: list[str]
) -> Iterator[str]:
    """Each line of a signature that nothing prints, with file and line.

    `printed`: the output of triggers. `quoted`: logs of the article and pasted ones,
    which may quote what a thread reports.
    """
    for path, row in rows(file.facts, "signature"):
        if row["kind"] not in SIGNATURE_LINES or OPEN_PLACE.search(row["text"]):
            continue
        is_printed = row.get("seen") == "printed"
        logs = printed if is_printed else [*printed, *quoted]
        if not any(prints(log, row["kind"], row["text"]) for log in logs):
            line = line_of_key(toml, f"{path}.text")
            where = f"{file.slug}/{FACTS_FILE}:{line}"
            yield f"{where}: nothing prints “{row['text']}”: {ADVICE[is_printed]}"


ADVICE = {
    True: "it stands in no trigger's output, neither in evidence nor in this run. "
    'Quote the output, or name the thread that shows it: seen = "reported".',
    False: "it stands neither in the log of the article, nor in a pasted log, nor in "
    "what the run printed. Quote the log that has it, or correct it.",
}


def printed_in(folder: Path) -> list[str]:
    """What triggers printed and said in the evidence beside a record, each once."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("evidence/*.json")):
        try:
            evidence = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue  # no evidence; load_evidence says what is wrong with it
        found |= dict.fromkeys(output(evidence))
    return list(found)


def output(evidence: Evidence) -> Iterator[str]:
    """The log of the trigger, and the texts that it observed, such as an error's."""
    for check in evidence.get("checks", ()):
        if check["name"] == TRIGGER:
            yield from filter(None, [check["log"]["text"], check.get("reason")])
            yield from texts(check["observations"].values())


def texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str) and value:
            yield value
        elif isinstance(value, list):
            yield from texts(value)


def prints(log: str, kind: str, text: str) -> bool:
    """Whether a line of the log says what a signature says, numbers aside."""
    if plain(text) in plain(log):
        return True
    reading = read_lines(select_lines(plain_text(log)))
    lines = [*reading.key_lines, *reading.unwrapped]
    lines += [key_line(at, "", line) for at, line in reading.cleaned]
    return any(
        sign.text in reading.facets if sign.kind == "facet" else says(sign, lines)
        for sign in read_signature(kind, clean(text))
    )


def says(signature: Signature, lines: list[KeyLine]) -> bool:
    return any(
        (signature.letters and signature.letters in line.letters)
        or (signature.tokens and signature.tokens <= line.tokens)
        for line in lines
    )
