"""Articles: Markdown with fixed headings, split into sections and checked.

Code fences are recognised as the renderer does: three or more backticks or
tildes in the first column, closed by the same fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from kb.choices import BRIEF_SECTIONS, LANGS, SECTIONS, Depth
from portable.harness.values import INVISIBLE

HEADINGS: dict[str, dict[str, str]] = {
    "en": {
        "symptom": "Symptom",
        "environment": "Environment",
        "root_cause": "Root cause",
        "workaround": "Workarounds",
        "fix": "Fix",
    },
    "zh": {
        "symptom": "现象",
        "environment": "环境",
        "root_cause": "根因",
        "workaround": "规避方法",
        "fix": "修复",
    },
}
# Of a brief record, whose three sections are kept as the full record's.
BRIEF_HEADINGS: dict[str, dict[str, str]] = {
    "en": {
        "root_cause": "What it is",
        "symptom": "How to tell",
        "workaround": "What to do",
    },
    "zh": {
        "root_cause": "是什么",
        "symptom": "如何判断",
        "workaround": "怎么办",
    },
}
# What a paragraph of a brief record may have, code apart.
MAX_PARAGRAPH = 1200
MAX_TEST_LINES = 5
MAX_SECTION_BYTES = 64 * 1024
FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})[ ]*(?P<info>[^`]*)$")
HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
HEADING = re.compile(r"^##(?!#)\s*(.*?)\s*#*$")
SUBHEADING = re.compile(r"^###(?!#)\s*(.*?)\s*#*$")
TOP_HEADING = re.compile(r"^##?(?!#)")
UNDERLINE = re.compile(r"^(=+|-+)\s*$")
RAW_HTML = re.compile(r"<(?:/?[A-Za-z][\w-]*(?=[\s/>])|!--|![A-Z]|\?)")
IMAGE = re.compile(r"!\[")


class ArticleError(ValueError):
    """An article without the fixed headings; `problems` are (key, message)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{key}: {text}" for key, text in problems))
        self.problems = problems


@dataclass(frozen=True)
class Line:
    """A line of Markdown; `fenced` for fences themselves and what they hold."""

    number: int
    text: str
    fenced: bool


@dataclass(frozen=True)
class Fence:
    """A code fence; `closed` is False where the text ends inside it."""

    number: int
    info: str
    body: str
    closed: bool


def scan(markdown: str) -> tuple[list[Line], list[Fence]]:
    """The lines of a text, told apart into prose and code, and its code fences."""
    lines: list[Line] = []
    fences: list[Fence] = []
    opened: tuple[int, str, str] | None = None
    body: list[str] = []
    for number, text in enumerate(markdown.split("\n"), 1):
        if opened is None:
            opening = FENCE.match(text)
            if opening:
                opened = (number, opening["fence"], opening["info"].strip())
                body = []
            lines.append(Line(number, text, opening is not None))
            continue
        lines.append(Line(number, text, True))
        if text.rstrip() == opened[1]:
            fences.append(Fence(opened[0], opened[2], "\n".join(body), True))
            opened = None
        else:
            body.append(text)
    if opened is not None:
        fences.append(Fence(opened[0], opened[2], "\n".join(body), False))
    return lines, fences


def headings_of(lang: str, depth: str) -> dict[str, str]:
    return (BRIEF_HEADINGS if depth == Depth.BRIEF else HEADINGS)[lang]


def sections_of(depth: str) -> tuple[str, ...]:
    return BRIEF_SECTIONS if depth == Depth.BRIEF else SECTIONS


def parse_article(text: str, lang: str, depth: str = Depth.FULL) -> dict[str, str]:
    """The sections of an article file, "" for those that a brief record has not.

    Raises ArticleError with all problems.
    """
    lines, _fences = scan(unix_lines(text))
    wanted = headings_of(lang, depth)
    names = {title: name for name, title in wanted.items()}
    problems: list[tuple[str, str]] = []
    order: list[str] = []
    bodies: dict[str, list[str]] = {}
    for line in lines:
        heading = None if line.fenced else HEADING.match(line.text)
        if heading is not None:
            name = names.get(heading[1], "")
            problems += heading_problems(name, heading[1], line.number, bodies, wanted)
            order.append(name)
            bodies.setdefault(name, [])
        elif order:
            bodies[order[-1]].append(line.text)
        elif line.text.strip():
            problems.append((at_line(line.number), _("text before the first heading")))
    problems += order_problems([name for name in order if name], wanted)
    if problems:
        raise ArticleError(problems)
    return {name: "\n".join(bodies.get(name, [])).strip() for name in SECTIONS}


def heading_problems(
    name: str,
    title: str,
    number: int,
    seen: Mapping[str, list[str]],
    wanted: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    if not name:
        headings = ", ".join(f"## {text}" for text in wanted.values())
        text = _("unknown heading “## %(title)s”; the headings are %(wanted)s")
        yield at_line(number), text % {"title": title, "wanted": headings}
    elif name in seen:
        yield at_line(number), _("heading “## %s” stands twice") % title


def order_problems(
    order: list[str], wanted: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    missing = [name for name in wanted if name not in order]
    for name in missing:
        yield name, _("heading “## %s” is missing") % wanted[name]
    first_seen = list(dict.fromkeys(order))
    if first_seen != [name for name in wanted if name not in missing]:
        headings = ", ".join(wanted.values())
        yield "headings", _("wrong order; the order is %s") % headings


def split_workarounds(markdown: str) -> dict[str, str]:
    """The `### name` parts of a workaround section, by name, in order.

    Text before the first of them is under the name "".
    """
    parts: dict[str, list[str]] = {"": []}
    name = ""
    for line in scan(markdown)[0]:
        heading = None if line.fenced else SUBHEADING.match(line.text)
        if heading is None:
            parts[name].append(line.text)
        else:
            name = heading[1]
            parts.setdefault(name, [])
    texts = {name: "\n".join(body).strip() for name, body in parts.items()}
    return {name: text for name, text in texts.items() if name or text}


def log_fences(sections: Mapping[str, str]) -> list[str]:
    """The literal logs of an article, in order."""
    return [
        fence.body
        for name in SECTIONS
        for fence in scan(sections.get(name, ""))[1]
        if fence.info == "log"
    ]


def section_problems(markdown: str) -> Iterator[str]:
    """Problems of one section that do not depend on its language."""
    if not markdown.strip():
        yield _("is empty; write “not established” if nothing is known")
    if len(markdown.encode(errors="replace")) > MAX_SECTION_BYTES:
        yield _("is longer than %d KiB") % (MAX_SECTION_BYTES // 1024)
    if INVISIBLE.search(markdown):
        yield _("holds a control character")
    lines, fences = scan(markdown)
    yield from (
        on_line(fence.number, _("the code fence is never closed"))
        for fence in fences
        if not fence.closed
    )
    before = ""
    for line in lines:
        text = "" if line.fenced else INLINE_CODE.sub("", line.text)
        yield from (on_line(line.number, message) for message in line_problems(text))
        if UNDERLINE.match(text) and before.strip():
            yield on_line(line.number, _("dashes turn the line above into a heading"))
        before = text


def line_problems(text: str) -> Iterator[str]:
    if TOP_HEADING.match(text):
        yield _("only ### headings may stand inside a section")
    if RAW_HTML.search(text):
        yield _("raw HTML; put code in backticks")
    if IMAGE.search(text):
        yield _("images are not shown; link to them instead")


def prose(markdown: str) -> str:
    """A text without its code, which is the same in every language."""
    lines = (line.text for line in scan(markdown)[0] if not line.fenced)
    return INLINE_CODE.sub("", "\n".join(lines))


def translation_problem(texts: Mapping[str, str]) -> str | None:
    """A sign that the Chinese text was never written."""
    if not HAN.search(prose(texts["zh"])):
        return _("the Chinese text holds no Chinese")
    if texts["zh"].strip() == texts["en"].strip():
        return _("the Chinese text equals the English")
    return None


def paragraph_problems(markdown: str) -> Iterator[str]:
    """What a section of a brief record says stands in one paragraph, code apart."""
    prose_lines = ["" if row.fenced else row.text for row in scan(markdown)[0]]
    blocks = re.split(r"\n\s*\n", "\n".join(prose_lines).strip())
    if len(blocks) > 1 or SUBHEADING.match(blocks[0]):
        yield _("is one paragraph in a brief record, with code below it")
    elif len(blocks[0]) > MAX_PARAGRAPH:
        yield _("is longer than %d characters") % MAX_PARAGRAPH


def brief_problems(sections: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in BRIEF_SECTIONS:
        text = sections[name]
        if name == "workaround":
            text = split_workarounds(text).get("", "")
        yield from ((name, message) for message in paragraph_problems(text))
    lines = test_of(sections["symptom"]).count("\n") + 1
    if lines > MAX_TEST_LINES:
        values = {"n": lines, "most": MAX_TEST_LINES}
        yield "symptom", _("its test has %(n)d lines; the limit is %(most)d") % values


def test_of(markdown: str) -> str:
    """The code of "How to tell" that tells yes from no; "" where there is none."""
    fences = (row.body for row in scan(markdown)[1] if row.info == "python")
    return next(fences, "")


def article_problems(
    articles: Mapping[str, Mapping[str, str]],
    workarounds: list[str] | None,
    depth: str = Depth.FULL,
) -> Iterator[tuple[str, str, str]]:
    """(lang, section, message) for the sections of the articles at hand.

    `workarounds` are the names the headings must have; None where unknown.
    """
    for lang, sections in articles.items():
        for name in sections_of(depth):
            for message in section_problems(sections[name]):
                yield lang, name, message
        if depth == Depth.BRIEF:
            for name, message in brief_problems(sections):
                yield lang, name, message
        if workarounds is not None:
            for message in workaround_problems(sections["workaround"], workarounds):
                yield lang, "workaround", message
    if set(articles) == set(LANGS):
        for name, message in comparison_problems(articles):
            yield "zh", name, message


def comparison_problems(
    articles: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[str, str]]:
    for name in SECTIONS:
        both = {lang: articles[lang][name] for lang in LANGS}
        message = translation_problem(both) if all(both.values()) else None
        if message:
            yield name, message
    if log_fences(articles["en"]) != log_fences(articles["zh"]):
        message = _("the ```log fences differ from those of the English article")
        yield "symptom", message


def workaround_problems(markdown: str, names: list[str]) -> Iterator[str]:
    lines = (line.text for line in scan(markdown)[0] if not line.fenced)
    # As they stand, repeated ones too.
    headings = [found[1] for line in lines if (found := SUBHEADING.match(line))]
    if headings != names:
        text = _("needs the headings %(wanted)s in this order, has %(found)s")
        yield text % {"wanted": headings_text(names), "found": headings_text(headings)}
    parts = split_workarounds(markdown)
    without = (name for name in names if parts.get(name) == "")
    yield from (_("“### %s” has no text") % name for name in without)


def headings_text(names: list[str]) -> str:
    return ", ".join(f"“### {name}”" for name in names) or _("none")


def at_line(number: int) -> str:
    return _("line %d") % number


def on_line(number: int, message: str) -> str:
    return _("line %(number)d: %(message)s") % {"number": number, "message": message}


def unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
