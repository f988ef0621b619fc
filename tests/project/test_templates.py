"""How templates are laid out: lines that fit and differ where something changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

TEMPLATES = Path(settings.BASE_DIR / "templates")
# Each folder with what lies below it, and the files that lie in none.
FOLDERS = ("admin", "kb", "runner")
LONGEST = 120
# Elements that begin a line of their own in what a browser shows.
BLOCKS = (
    "html|head|body|header|main|footer|nav|section|div|p|h1|h2|h3|ul|ol|li|dl|dt|dd|"
    "table|caption|colgroup|thead|tbody|tr|th|td|form|fieldset|figure|figcaption|"
    "details|summary|pre|dialog"
)
# A piece that is given nothing else: `only`. One tag, however many lines it takes and
# whatever stands beside it.
ALONE = re.compile(r'{%\s+include\s+"([^"]+)"((?:(?!%}).)*?)\s+only\s+%}', re.DOTALL)
NAMED = re.compile(r'{%\s+(?:include|extends)\s+"((?!admin/)[^"]+)"')
OPENING = re.compile(rf"<({BLOCKS})(?=[\s>]|$)")
# A link after a sentence: Chinese has no space there, so `{% gap %}` stands between,
# or `{% sentences %}` holds both.
JOINED = re.compile(r"{% sentences %}.*?{% endsentences %}", re.DOTALL)
SPACED = re.compile(
    r"""[.:]\s*(?:{% endblocktranslate %}|" %})\s+"""
    r"""(?:{% if [^%]*%}\s*)?<a (?!class="btn)"""
)
# Text is free: what stands in a <pre> keeps its own indentation.
ODD_STEP = re.compile(r"(?:  )* [<{]|\s*\t")


def given_no_token(text: str, posts: set[str]) -> list[str]:
    """Of these pieces, those which a template includes alone and without its token."""
    return [
        name
        for name, given in ALONE.findall(text)
        if name in posts and "csrf_token=csrf_token" not in given.split()
    ]


def lines() -> Iterator[tuple[str, str]]:
    """("kb/record.html:12", its text) of every line of these templates."""
    paths = [*TEMPLATES.glob("*.html")]
    for folder in FOLDERS:
        paths += (TEMPLATES / folder).rglob("*.html")
    for path in sorted(paths):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.relative_to(TEMPLATES)}:{number}", line


class PiecesTest(SimpleTestCase):
    def test_no_space_parts_a_link_from_the_chinese_sentence_before_it(self) -> None:
        spaced = [
            f"{path.relative_to(TEMPLATES)}: {found[0]!r}"
            for path in sorted(TEMPLATES.rglob("*.html"))
            for found in SPACED.finditer(JOINED.sub("", path.read_text()))
        ]
        self.assertEqual(spaced, [])

    def test_each_piece_that_a_template_names_is_there(self) -> None:
        missing = [
            f"{path.relative_to(TEMPLATES)}: {name}"
            for path in sorted(TEMPLATES.rglob("*.*"))
            for name in NAMED.findall(path.read_text())
            if not (TEMPLATES / name).exists()
        ]
        self.assertEqual(missing, [])

    def test_each_piece_is_named_somewhere(self) -> None:
        code = [
            path
            for room in ("kb", "runner")
            for path in (settings.BASE_DIR / room).rglob("*.py")
        ]
        texts = [path.read_text() for path in (*code, *TEMPLATES.rglob("*.*"))]
        pieces = (
            path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("_*")
        )
        unnamed = [name for name in pieces if not any(name in text for text in texts)]
        self.assertEqual(unnamed, [])


class LayoutTest(SimpleTestCase):
    def test_lines_fit(self) -> None:
        too_long = [place for place, line in lines() if len(line) > LONGEST]
        self.assertEqual(too_long, [])

    def test_a_line_opens_one_block(self) -> None:
        crowded = [place for place, line in lines() if len(OPENING.findall(line)) > 1]
        self.assertEqual(crowded, [])

    def test_tags_are_indented_by_steps_of_two(self) -> None:
        odd = [place for place, line in lines() if ODD_STEP.match(line)]
        self.assertEqual(odd, [])

    def test_a_piece_with_a_form_is_given_its_token(self) -> None:
        posts = {
            str(path.relative_to(TEMPLATES))
            for path in TEMPLATES.rglob("*.html")
            if "{% csrf_token %}" in path.read_text()
        }
        self.assertGreater(len(posts), 5)
        without = [
            str(path.relative_to(TEMPLATES))
            for path in TEMPLATES.rglob("*.html")
            for name in given_no_token(path.read_text(), posts)
        ]
        self.assertEqual(without, [])

    def test_every_include_is_read_however_it_is_laid_out(self) -> None:
        for text in (
            '{% include "form.html" with a=b only %}',
            '{% include "form.html"\n  with a=b\n  c=d\n  only %}',
            '{% include "a.html" only %} {% include "form.html" only %}',
        ):
            self.assertEqual(given_no_token(text, {"form.html"}), ["form.html"], text)
            given = text.replace(" only", " csrf_token=csrf_token only")
            given = given.replace("  only", "  csrf_token=csrf_token\n  only")
            self.assertEqual(given_no_token(given, {"form.html"}), [], given)
        self.assertEqual(given_no_token('{% include "form.html" %}', {"form.html"}), [])
