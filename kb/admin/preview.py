"""Prose that is being edited, as the page would show it and with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from kb.choices import LANGS, SECTIONS
from kb.languages import HTML_TAG
from kb.records import rendering
from kb.records.articles import HEADINGS, section_problems, unix_lines

# Processor time for a text that is looked at; when it is saved, it may take longer.
CPU_SECONDS = 1.0
MOST_SLOW = 2


@dataclass(frozen=True)
class Part:
    """One section in one language; `html` is safe, and empty where it cannot be."""

    lang: str
    title: str
    html: str
    problems: list[str]

    @property
    def tag(self) -> str:
        return HTML_TAG[self.lang]


def build(form: Mapping[str, str]) -> list[list[Part]]:
    """Both languages of each section that the change form sent, or of the one asked.

    `form` has the prose as "symptom_en" and so on, and in "section" one of these
    names where only that section is wanted.
    """
    requested = form.get("section", "").rpartition("_")[0]
    sections = [requested] if requested in SECTIONS else list(SECTIONS)
    places = [(section, lang) for section in sections for lang in LANGS]
    texts = [
        unix_lines(form.get(f"{name}_{lang}", "")).strip() for name, lang in places
    ]
    rendered = rendered_singly(texts)
    parts = [
        Part(lang, HEADINGS[lang][name], html, problems(text, failure))
        for (name, lang), text, (html, failure) in zip(
            places, texts, rendered, strict=True
        )
    ]
    return [parts[at : at + len(LANGS)] for at in range(0, len(parts), len(LANGS))]


def problems(text: str, failure: str) -> list[str]:
    return [*section_problems(text), *([failure] if failure else [])]


def rendered_singly(texts: list[str]) -> list[tuple[str, str]]:
    """(HTML, "") of each text, or ("", why) where one cannot be rendered.

    After MOST_SLOW texts that take too long the others are left out: a preview takes
    so many times CPU_SECONDS and no more, whatever is in it.
    """
    results: list[tuple[str, str]] = []
    slow = 0
    while len(results) < len(texts) and slow < MOST_SLOW:
        try:
            found = rendering.render_all(texts[len(results) :], CPU_SECONDS)
            results += [(html, "") for html in found]
        except rendering.RenderError as error:
            results += [*((html, "") for html in error.rendered), ("", str(error))]
            slow += error.too_slow
    left_out = _("is not shown, because texts before it take too long")
    return [*results, *[("", left_out)] * (len(texts) - len(results))]
