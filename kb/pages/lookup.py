"""The answer to a paste as a page: one decision, what was read, what to test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.utils.translation import gettext as _

from kb.languages import LIST_COMMA, current_lang
from kb.lookup import answer as lookup
from kb.lookup.slots import slot
from kb.pages import front as front_page, paste as paste_form
from kb.pages.front import FrontPage
from kb.pages.paste import Pasted, ShownPart, corrections_of, shown_parts
from kb.pages.trend import Trend, trend_of
from kb.problems import Problem
from kb.releases.documented import facts_of_all
from kb.search.index.generation import current_generation
from kb.search.ranking.log_lines import SURE
from kb.search.reading.lines import split_lines
from kb.search.reading.parts import MAX_PARTS
from kb.search.reading.query import MAX_QUERY
from portable.harness.values import INVISIBLE

AROUND = 2
SENTENCE_END = {"en": ". ", "zh": "。"}
LINES_SHOWN = 60
CHARS_SHOWN = 2000
CHIPS_SHOWN = 14
SENT_AGAIN = 40
Json = dict[str, Any]


@dataclass(frozen=True)
class Chip:
    """A fact that was read; `drop`: what its button sends to take it away."""

    name: str
    value: str
    line: int | None
    drop: str


@dataclass(frozen=True)
class Shown:
    """A candidate as the look-up gives it. `torch`: the build that was pasted."""

    found: Json
    torch: str

    @property
    def url(self) -> str:
        """Its record with the build that was pasted; "" without a record."""
        urls = self.found["urls"]
        query = f"?{urlencode({'torch': self.torch})}" if self.torch else ""
        return f"{urls['html'][current_lang()]}{query}" if urls else ""

    @property
    def is_sure(self) -> bool:
        return self.found["confidence"] in SURE


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
    retry_s: int | None = None
    front: FrontPage | None = None
    answer: Json = field(default_factory=dict)
    candidates: list[Shown] = field(default_factory=list)
    chips: list[Chip] = field(default_factory=list)
    trend: Trend | None = None
    parts: list[ShownPart] = field(default_factory=list)
    # What the reader said of parts, of causes and of facts, to be sent again.
    corrections: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    pasted: list[PastedLine] = field(default_factory=list)
    took_it_for: str = ""

    @property
    def heading(self) -> list[str]:
        """The sentence that decides, and what else is said with it."""
        said = self.answer["decision"][current_lang()]
        first, end, rest = said.partition(SENTENCE_END[current_lang()])
        return [f"{first}{end}".strip(), rest]

    @property
    def searched(self) -> str:
        """The few words that somebody asked with, where no answer is sure; or ""."""
        words = " ".join(self.log.split())
        is_asked = "words" in self.answer["query"]["took_it_for"]
        is_sure = any(shown.is_sure for shown in self.candidates)
        return words if is_asked and not is_sure and len(words) <= MAX_QUERY else ""

    @property
    def ruled_out(self) -> int:
        return sum(len(row["slugs"]) for row in self.answer["ruled_out"])

    @property
    def has_kinds(self) -> bool:
        """Whether any line shown is of a kind worth naming."""
        return any(line.kind for line in self.pasted)


def answer(request: HttpRequest) -> LookupPage:
    """The page for a paste; the front page again, saying why, where it cannot be."""
    try:
        pasted = paste_form.read(request)
    except RequestDataTooBig:
        paste_form.drain(request)
        return refusal(413, too_large())
    said = request.POST.getlist("part")[: 2 * MAX_PARTS]
    try:
        with slot(pasted.log, pasted.env):
            result = lookup.look_up(
                pasted.log,
                pasted.env,
                corrections_of(said),
                answers_in(request.POST.getlist("said")),
                request.POST.getlist("drop")[:SENT_AGAIN],
            )
    except Problem as busy:
        return postponed(pasted, said, busy)
    except lookup.EmptyPaste as error:
        return refusal(422, str(error), env=pasted.env)
    except lookup.PasteTooLarge:
        return refusal(413, too_large())
    return result_page(pasted, result, said, request)


def answers_in(sent: Iterable[str]) -> dict[str, bool]:
    """What a reader answered: "argmax-cuts-gradient=yes"; the last one counts."""
    pairs = (item.rpartition("=") for item in list(sent)[:SENT_AGAIN])
    return {slug: word == "yes" for slug, _sign, word in pairs if slug}


def too_large() -> str:
    return _(
        "Your paste is too large for a form. Go back: it is still in the box. Send "
        "the log as a file, up to 64 MiB, or paste the part around the first warning "
        "or traceback."
    )


def refusal(status: int, text: str, env: str = "") -> LookupPage:
    return LookupPage(
        "kb/front.html", status, env=env[:500], error=text, front=front_page.build()
    )


def postponed(pasted: Pasted, said: list[str], busy: Problem) -> LookupPage:
    """The paste as it came, to be sent again."""
    kept = {**vars(pasted), "corrections": said, "error": str(busy.detail)}
    return LookupPage("kb/busy.html", busy.status_code, **kept, retry_s=busy.wait)


def result_page(
    pasted: Pasted, result: Json, corrections: list[str], request: HttpRequest
) -> LookupPage:
    query = result["query"]
    torch = query["env"]["torch"]
    raw = torch["raw"] if torch else ""
    return LookupPage(
        template="kb/lookup.html",
        status=200,
        log=pasted.log,
        env=pasted.env,
        is_part=pasted.is_part,
        answer=result,
        candidates=[Shown(row, raw) for row in result["candidates"]],
        chips=list(chips_of(result))[:CHIPS_SHOWN],
        trend=trend_of(result["facts"]["figures"]),
        parts=shown_parts(query["parts"]),
        corrections=corrections,
        said=request.POST.getlist("said")[:SENT_AGAIN],
        dropped=request.POST.getlist("drop")[:SENT_AGAIN],
        pasted=pasted_lines(pasted.log, kinds_of(result)),
        took_it_for=taken_for(query),
    )


def chips_of(result: Json) -> Iterable[Chip]:
    """torch, what else names a cause, then packages: those of records first."""
    facts = result["facts"]
    found = [
        Chip(name, version, None, f"package={name}")
        for name, version in facts["packages"].items()
    ]
    known = packages_of_records() if len(found) > 1 else frozenset()
    found.sort(key=lambda chip: (chip.name != "torch", chip.name not in known))
    if found and found[0].name == "torch":
        yield found.pop(0)
    # What a list has installed is neither the trainer nor the mode of a training.
    guessed = ("trainer=", "mode=") if result["affecting"] else ()
    yield from (c for c in named_chips(facts) if not c.drop.startswith(guessed))
    yield from found


def packages_of_records() -> frozenset[str]:
    """What the ranges of records are about."""
    rows = facts_of_all(current_generation()[0]).values()
    return frozenset(entry["package"] for row in rows for entry in row.affected)


def named_chips(facts: Json) -> Iterable[Chip]:
    labels = {
        **{"trainer": _("trainer"), "method": _("method"), "device": _("device")},
        **{"mode": _("mode"), "call": _("call"), "node": _("op")},
        "card": "GPU",
    }
    for row in facts["named"]:
        name, value = row["fact"], row["value"]
        if value != "probe":  # that a report was read, the page says above
            yield Chip(labels.get(name, name), value, row["line"], f"{name}={value}")


def kinds_of(result: Json) -> dict[int, str]:
    """Pasted line -> what it is; every line that a candidate rests on is there."""
    kinds = {line: "" for row in result["candidates"] for line in row["lines"]}
    first = result["facts"]["figures"]["first_bad"]
    if first:
        kinds[first["line"]] = _("metrics")
    for item in result["query"]["key_lines"]:
        kinds[item["line"]] = item["class"] or kinds.get(item["line"], "")
    return kinds


def taken_for(query: dict[str, Any]) -> str:
    """What the paste was taken for, in words."""
    labels = (kind_label(kind, query) for kind in query["took_it_for"])
    return LIST_COMMA[current_lang()].join(dict.fromkeys(labels))


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
    return INVISIBLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
