"""HTML of Markdown, made when a record is saved and stored with it."""

from __future__ import annotations

import json
import subprocess
import sys
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
TOO_SLOW = gettext_lazy("takes too long to render; simplify its markup")
PROJECT = Path(__file__).resolve().parents[2]


class RenderError(ValueError):
    """A text that could not be rendered; `position` says which of them."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def render(markdown: str) -> str:
    """Safe HTML of one text. Raises RenderError."""
    return render_all([markdown])[0]


def render_all(texts: list[str]) -> list[str]:
    """Safe HTML of each text, by one bounded process. Raises RenderError.

    A text may have 64 KiB and take 2 s of CPU time.
    """
    for position, text in enumerate(texts):
        if len(text.encode()) > MAX_SECTION_BYTES:
            limit = _("is longer than %d KiB") % (MAX_SECTION_BYTES // 1024)
            raise RenderError(position, limit)
    if not texts:
        return []
    answers, failure = run_child("".join(f"{json.dumps(text)}\n" for text in texts))
    rendered: list[str] = [json.loads(line) for line in answers.splitlines()]
    if len(rendered) < len(texts):
        raise RenderError(len(rendered), failure)
    return rendered


def run_child(lines: str) -> tuple[str, str]:
    """What the process answered, and why it ended if it ended early."""
    command = [sys.executable, "-m", "kb.records.markdown_process"]
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


def sections_html(record: RecordFile) -> dict[str, dict[str, object]]:
    """HTML by language and section; "workarounds" by name.

    "workaround" holds what stands before the first of them. Raises RecordError
    naming the section that cannot be rendered.
    """
    places: list[tuple[str, str, str]] = []
    texts: list[str] = []
    for lang in LANGS:
        for section in SECTIONS:
            body = expanded(record.articles[lang][section], record.snippets)
            parts = {"": body} if section != "workaround" else split_workarounds(body)
            places += [(lang, section, name) for name in parts]
            texts += parts.values()
    try:
        rendered = render_all(texts)
    except RenderError as error:
        lang, section, _name = places[error.position]
        problem = Problem(ARTICLE_FILES[lang], section, str(error))
        raise RecordError([problem]) from error
    return arranged(places, rendered)


def arranged(
    places: list[tuple[str, str, str]], rendered: list[str]
) -> dict[str, dict[str, object]]:
    by_language: dict[str, dict[str, object]] = {}
    for lang in LANGS:
        whole = dict.fromkeys(SECTIONS, "")
        workarounds = {}
        for (place, section, name), html in zip(places, rendered, strict=True):
            if place == lang and name:
                workarounds[name] = html
            elif place == lang:
                whole[section] = html
        by_language[lang] = {**whole, "workarounds": workarounds}
    return by_language
