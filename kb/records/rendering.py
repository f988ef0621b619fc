"""HTML of Markdown, made when a record is saved and stored with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation import gettext as _, gettext_lazy

from kb.choices import LANGS, SECTIONS
from kb.records.articles import MAX_SECTION_BYTES, split_workarounds
from kb.records.files import ARTICLE_FILES, Problem, RecordError, RecordFile
from kb.records.snippets import expanded

# Raise it when the pipeline changes: stored HTML of another version is made anew.
VERSION = 2
# The child limits its own CPU time; this ends one that waits for something.
WALL_SECONDS = 60
# Processor time for one text.
CPU_SECONDS = 2.0
TOO_SLOW = gettext_lazy("takes too long to render; simplify its markup")
PROJECT = Path(__file__).resolve().parents[2]


# By language and section, as a record's row keeps it.
Html = dict[str, dict[str, object]]


@dataclass(frozen=True)
class Text:
    """One text of a record: a section, or the workaround `name` of one."""

    slug: str
    lang: str
    section: str
    name: str
    markdown: str


class RenderError(ValueError):
    """A text that could not be rendered; `rendered` are those before it.

    `too_slow`: whether that was for its time.
    """

    def __init__(
        self, rendered: Sequence[str], message: str, *, too_slow: bool = False
    ) -> None:
        super().__init__(message)
        self.rendered = list(rendered)
        self.too_slow = too_slow

    @property
    def position(self) -> int:
        return len(self.rendered)


class SectionError(ValueError):
    """The record `slug` has a section that cannot be rendered: `problem` says which."""

    def __init__(self, text: Text, message: str) -> None:
        super().__init__(message)
        self.slug = text.slug
        self.problem = Problem(ARTICLE_FILES[text.lang], text.section, message)


def render(markdown: str) -> str:
    """Safe HTML of one text. Raises RenderError."""
    return render_all([markdown])[0]


def render_all(texts: list[str], cpu_s: float = CPU_SECONDS) -> list[str]:
    """Safe HTML of each text, by one bounded process. Raises RenderError.

    A text may have 64 KiB and take `cpu_s` of processor time.
    """
    longest = next((at for at, text in enumerate(texts) if is_too_long(text)), None)
    wanted = texts[:longest]
    lines = "".join(f"{json.dumps(text)}\n" for text in wanted)
    answers, failure = run_child(lines, cpu_s) if wanted else ("", "")
    rendered: list[str] = [json.loads(line) for line in answers.splitlines()]
    if len(rendered) < len(wanted):
        raise RenderError(rendered, failure, too_slow=failure == str(TOO_SLOW))
    if longest is not None:
        limit = _("is longer than %d KiB") % (MAX_SECTION_BYTES // 1024)
        raise RenderError(rendered, limit)
    return rendered


def is_too_long(text: str) -> bool:
    return len(text.encode()) > MAX_SECTION_BYTES


def run_child(lines: str, cpu_s: float) -> tuple[str, str]:
    """What the process answered, and why it ended if it ended early."""
    command = [sys.executable, "-m", "kb.records.markdown_process", str(cpu_s)]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=lines.encode(),
            capture_output=True,
            cwd=PROJECT,
            env={},
            timeout=WALL_SECONDS + lines.count("\n"),
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"").decode(), str(TOO_SLOW)
    if done.returncode < 0:
        return done.stdout.decode(), str(TOO_SLOW)
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return done.stdout.decode(), _("cannot be rendered: %s") % last


def sections_html(record: RecordFile) -> Html:
    """HTML by language and section; "workarounds" by name.

    "workaround" holds what stands before the first of them. Raises RecordError
    naming the section that cannot be rendered.
    """
    try:
        return html_of_all([record])[0]
    except SectionError as error:
        raise RecordError([error.problem]) from error


def html_of_all(records: Sequence[RecordFile]) -> list[Html]:
    """As `sections_html` gives, of each record, by one process. Raises SectionError.

    A process takes longer to start than it needs for a whole record.
    """
    texts = [text for record in records for text in texts_of(record)]
    try:
        rendered = iter(render_all([text.markdown for text in texts]))
    except RenderError as error:
        failed = texts[error.position]
        raise SectionError(failed, str(error)) from error
    return [
        arranged([(text, next(rendered)) for text in texts_of(record)])
        for record in records
    ]


def texts_of(record: RecordFile) -> Iterator[Text]:
    for lang in LANGS:
        for section in SECTIONS:
            body = expanded(record.articles[lang][section], record.snippets)
            parts = {"": body} if section != "workaround" else split_workarounds(body)
            for name, markdown in parts.items():
                yield Text(record.slug, lang, section, name, markdown)


def arranged(rendered: list[tuple[Text, str]]) -> Html:
    by_language: Html = {}
    for lang in LANGS:
        own = [(text, html) for text, html in rendered if text.lang == lang]
        sections = {text.section: html for text, html in own if not text.name}
        workarounds = {text.name: html for text, html in own if text.name}
        whole = {**dict.fromkeys(SECTIONS, ""), **sections}
        by_language[lang] = {**whole, "workarounds": workarounds}
    return by_language
