"""The answer to a paste as a page: what matches, why, and for which build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.utils.translation import gettext as _, ngettext

from kb import wording
from kb.languages import LIST_COMMA, current_lang
from kb.lookup import answer as lookup
from kb.models import Record
from kb.pages import front as front_page, triage
from kb.pages.alignment import Alignment, align
from kb.pages.front import FrontPage
from kb.pages.paste import form as paste_form
from kb.pages.paste.form import Pasted
from kb.pages.paste.parts import ShownPart, corrections_of, shown_parts
from kb.pages.paste.symptoms import Symptom, causes_in, symptoms_of
from kb.pages.paste.values import ReadValues, values_of
from kb.search.ranking.log_lines import SURE
from kb.search.reading.cleaning import UNSEEN
from kb.search.reading.lines import split_lines
from kb.search.reading.parts import MAX_PARTS
from kb.search.reading.signatures import read_signatures

DRAIN_BYTES = 32 * 1024 * 1024
AROUND = 2
LINES_SHOWN = 60
CHARS_SHOWN = 2000
PACKAGES_SHOWN = 8
OTHERS_SHOWN = 8


@dataclass(frozen=True)
class Facet:
    """A property of a line, such as grad_norm_nan; it has no text to align."""

    line: int
    name: str


@dataclass(frozen=True)
class Match:
    """One match as the look-up gives it, its record, and its lines aligned."""

    found: dict[str, Any]
    record: Record
    alignments: list[Alignment]
    facets: list[Facet]
    preconditions: list[str]
    values: ReadValues

    @property
    def workaround(self) -> dict[str, Any] | None:
        """The first verified workaround, else the first untested one."""
        for status in ("verified", "untested"):
            for entry in self.found["workarounds"]:
                if entry["status"] == status:
                    return dict(entry)
        return None


@dataclass(frozen=True)
class Lead:
    """A record that speaks of the same, as the look-up gives it."""

    found: dict[str, Any]
    record: Record
    values: ReadValues

    @property
    def diagnosis(self) -> dict[str, Any] | None:
        """The code that tells whether it is the reader's, where there is one."""
        return next(iter(self.found["diagnoses"]), None)


@dataclass(frozen=True)
class PastedLine:
    number: int
    kind: str
    text: str
    is_key: bool


@dataclass(frozen=True)
class LookupPage:
    template: str
    status: int
    log: str = ""
    env: str = ""
    # More was sent than this, which are its telling lines.
    is_part: bool = False
    error: str = ""
    front: FrontPage | None = None
    query: dict[str, Any] = field(default_factory=dict)
    outcome: str = "none"
    heading: str = ""
    best: Match | None = None
    others: list[Match] = field(default_factory=list)
    also: list[Record] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    symptoms: list[Symptom] = field(default_factory=list)
    parts: list[ShownPart] = field(default_factory=list)
    # What the reader said of parts, to be sent again.
    corrections: list[str] = field(default_factory=list)
    pasted: list[PastedLine] = field(default_factory=list)
    packages: list[tuple[str, str]] = field(default_factory=list)
    took_it_for: str = ""
    # Where numbers or nothing was recognised: questions that narrow the records.
    triage: str = ""

    @property
    def has_kinds(self) -> bool:
        """Whether any line shown is of a kind worth naming."""
        return any(line.kind for line in self.pasted)

    @property
    def found_anything(self) -> bool:
        found = (self.best, self.others, self.also, self.leads, self.symptoms)
        return any(found)

    @property
    def typed_torch(self) -> str:
        """The version that was typed as the whole environment, or ""."""
        return paste_form.typed_torch(self.env)

    @property
    def asks_torch(self) -> bool:
        """Whether a build can be typed without contradicting what was pasted."""
        env = self.query["env"]
        unknown = not env["torch"] and not env["contradicting"]
        return unknown or bool(self.typed_torch)

    @property
    def also_shown(self) -> list[Record]:
        return self.also[:OTHERS_SHOWN]

    @property
    def also_folded(self) -> list[Record]:
        return self.also[OTHERS_SHOWN:]

    @property
    def torch_query(self) -> str:
        """The end of a link to a record that asks about the reader's build, or ""."""
        torch = self.query["env"]["torch"]
        return f"?torch={quote(torch['raw'], safe='')}" if torch else ""


def answer(request: HttpRequest) -> LookupPage:
    """The page for a paste; the front page again, saying why, where it cannot be."""
    try:
        pasted = paste_form.read(request)
    except RequestDataTooBig:
        drain(request)
        return refusal(413, too_large())
    said = request.POST.getlist("part")[: 2 * MAX_PARTS]
    try:
        result = lookup.look_up(pasted.log, pasted.env, corrections_of(said))
    except lookup.EmptyPaste as error:
        return refusal(400, str(error), env=pasted.env)
    except lookup.PasteTooLarge:
        return refusal(413, too_large())
    return result_page(pasted, result, said)


def too_large() -> str:
    return _(
        "That is more than a form may hold. Go back: what you pasted is still in the "
        "box. Send the log as a file, up to 64 MiB, or paste the part around the first "
        "warning or traceback."
    )


def drain(request: HttpRequest) -> None:
    """Read the rest: a browser that is still sending would see a broken connection."""
    left = DRAIN_BYTES
    while left > 0:
        chunk = request.read(min(left, 65536))
        if not chunk:
            return
        left -= len(chunk)


def refusal(status: int, text: str, env: str = "") -> LookupPage:
    return LookupPage(
        "kb/front.html", status, env=env[:500], error=text, front=front_page.build()
    )


def result_page(pasted: Pasted, result: dict[str, Any], said: list[str]) -> LookupPage:
    records = named_records(result)
    torch = result["query"]["env"]["torch"]
    matches = [
        match_of(item, records[item["record"]], values_of(item, torch))
        for item in result["matches"]
        if item["record"] in records
    ]
    sure = bool(matches) and result["outcome"] in SURE
    also = [records[key] for key in result["also_affecting"] if key in records]
    best = matches[0] if sure else None
    # What tells causes apart is said of each once.
    told = set(causes_in(result["symptoms"]))
    affected = {match.record.pk: match.found["affected"] for match in matches}
    leads = [
        Lead(item, records[item["record"]], values_of(item, torch))
        for item in result["leads"]
        if item["record"] in records.keys() - told
    ]
    others = [item for item in matches[sure:] if item.record.pk not in told]
    return LookupPage(
        template="kb/lookup.html",
        status=200,
        log=pasted.log,
        env=pasted.env,
        is_part=pasted.is_part,
        query=result["query"],
        outcome=result["outcome"],
        heading=heading(result, best, matches, also, leads),
        best=best,
        others=others[:OTHERS_SHOWN],
        also=also,
        leads=leads,
        symptoms=symptoms_of(result["symptoms"], records, affected),
        corrections=said,
        triage="" if sure else triage.address_for(result["query"]),
        **how_read(pasted.log, result["query"], matches),
    )


def named_records(result: dict[str, Any]) -> dict[str, Record]:
    """The records that an answer names, as far as they may be seen."""
    ids = [item["record"] for item in (*result["matches"], *result["leads"])]
    ids += [*causes_in(result["symptoms"]), *result["also_affecting"]]
    return Record.objects.visible().in_bulk(ids)


def how_read(log: str, query: dict[str, Any], matches: list[Match]) -> dict[str, Any]:
    """What the page says of the paste itself."""
    return {
        "parts": shown_parts(query["parts"]),
        "pasted": pasted_lines(log, kinds_of(query["key_lines"], matches)),
        "packages": list(query["env"]["packages"].items())[:PACKAGES_SHOWN],
        "took_it_for": taken_for(query),
    }


def match_of(item: dict[str, Any], record: Record, values: ReadValues) -> Match:
    lang = current_lang()
    unverified = set(item["affected"]["unverified_preconditions"])
    signatures = read_signatures(record.signatures)
    facets = {sign.text for sign in signatures if sign.kind == "facet"}
    return Match(
        found=item,
        record=record,
        alignments=[
            align(why["line"], visible(why["pasted"]), why["signature"])
            for why in item["why"]
            if why["signature"] not in facets
        ],
        facets=[
            Facet(why["line"], why["signature"])
            for why in item["why"]
            if why["signature"] in facets
        ],
        preconditions=[
            entry["text"][lang]
            for entry in record.preconditions
            if entry["key"] in unverified
        ],
        values=values,
    )


def kinds_of(key_lines: list[dict[str, Any]], matches: list[Match]) -> dict[int, str]:
    """Pasted line -> what it is; every line that a match rests on is there."""
    facets = [facet for match in matches for facet in match.facets]
    kinds = {facet.line: _("metrics") for facet in facets}
    for item in key_lines:
        kinds[item["line"]] = item["class"] or kinds.get(item["line"], "")
    return kinds


def listed(names: Iterable[str]) -> str:
    return LIST_COMMA[current_lang()].join(dict.fromkeys(names))


def taken_for(query: dict[str, Any]) -> str:
    """What the paste was taken for, in words."""
    return listed(kind_label(kind, query) for kind in query["took_it_for"])


def kind_label(kind: str, query: dict[str, Any]) -> str:
    if kind == "log" and not query["facets"]:
        classes = {line["class"] for line in query["key_lines"]} - {""}
        if classes:
            only_warnings = all(name.endswith("Warning") for name in classes)
            return _("warning") if only_warnings else _("error message")
    return {
        "log": _("training log"),
        "traceback": _("traceback"),
        "collect_env": "collect_env",
        "nan_probe": "nan_probe",
        "freeze": _("package list"),
        "conda": _("package list"),
        "words": _("words"),
        "code": _("code"),
        "config": _("configuration"),
        "tensor": _("printed tensor"),
    }.get(kind, kind)


def heading(
    result: dict[str, Any],
    best: Match | None,
    matches: list[Match],
    also: list[Record],
    leads: list[Lead],
) -> str:
    """One or two sentences that say what was found and what follows."""
    if best:
        first = (
            _("A known issue matches word for word.")
            if result["outcome"] == "exact"
            else _("A known issue matches.")
        )
        return join(first, affected_sentence(best.found["affected"]))
    if matches:
        return ngettext(
            "%(count)d known issue could fit, but it is not certain.",
            "%(count)d known issues could fit, none for certain.",
            len(matches),
        ) % {"count": len(matches)}
    if also:
        return ngettext(
            "%(count)d known issue affects this environment.",
            "%(count)d known issues affect this environment.",
            len(also),
        ) % {"count": len(also)}
    if result["symptoms"]:
        return _("Several causes look like this; nothing tells yet which it is.")
    if leads:
        return ngettext(
            "Nothing matches. %(count)d record speaks of the same.",
            "Nothing matches. %(count)d records speak of the same.",
            len(leads),
        ) % {"count": len(leads)}
    return str(wording.NO_MATCH)


def affected_sentence(affected: dict[str, Any]) -> str:
    tested = affected["basis"] == "tested_build"
    found = wording.ANSWER_SENTENCES.get((affected["answer"], tested), "")
    return str(found)


def join(*sentences: str) -> str:
    gap = "" if current_lang() == "zh" else " "
    return gap.join(sentence for sentence in sentences if sentence)


def pasted_lines(log: str, kinds: dict[int, str]) -> list[PastedLine]:
    """The key lines with their neighbours; the first lines where there are none."""
    lines = split_lines(log.rstrip("\r\n"))
    numbers = {
        number
        for key in kinds
        for number in range(key - AROUND, key + AROUND + 1)
        if 1 <= number <= len(lines)
    }
    shown = sorted(numbers) or range(1, len(lines) + 1)
    return [
        PastedLine(
            number,
            kinds.get(number, ""),
            visible(lines[number - 1].rstrip("\r"))[:CHARS_SHOWN],
            number in kinds,
        )
        for number in list(shown)[:LINES_SHOWN]
    ]


def visible(text: str) -> str:
    """Unseen characters as codes; lone surrogates as the replacement character."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return UNSEEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
