"""The style sheets stay readable: one declaration a line, layers, no dead class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest.mock import patch

from django.conf import settings
from django.contrib import admin
from django.contrib.staticfiles.storage import StaticFilesStorage, staticfiles_storage
from django.template.loader import render_to_string
from django.test import SimpleTestCase

from kb.pages.style_sheets import JOINED, SHEETS

ROOT = Path(settings.BASE_DIR)
STATIC = ROOT / "static"
SITE = sorted((STATIC / "css").glob("*.css"))
# Django's own sheets have no layer and would win over any that has: so has this none.
ADMIN = STATIC / "admin.css"
LAYERS = ["tokens", "base", "components", "pages", "print"]
MAX_COLUMNS = 100
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
QUOTED = re.compile(r'"[^"\n]*"')
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
WORD = re.compile(r"-?[A-Za-z_][\w-]*")
TEMPLATE_TAG = re.compile(r"\{[{%#].*?[}%#]\}", re.DOTALL)
ATTRIBUTE = re.compile(r'\bclass=\\?"([^"]*)"')
LINK = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')


def without_comments(css: str) -> str:
    """The same lines, without what no browser reads."""
    return COMMENT.sub(lambda found: "\n" * found[0].count("\n"), css)


def crowded(css: str) -> Iterator[int]:
    """Numbers of lines with more than one declaration, or a whole rule."""
    for number, line in enumerate(
        QUOTED.sub('""', without_comments(css)).split("\n"), 1
    ):
        text = line.strip()
        marks = len(re.findall(r"[{};]", text))
        if marks > 1 or (marks == 1 and text[-1] not in "{};"):
            yield number


def rules(css: str) -> Iterator[tuple[str, str]]:
    """What stands before each `{`, with the outermost such text it is inside of."""
    outer: list[str] = []
    for before, brace in re.findall(
        r"([^{};]*)([{};])", QUOTED.sub('""', without_comments(css))
    ):
        if brace == "{":
            outer.append(" ".join(before.split()))
            yield outer[-1], outer[0]
        elif brace == "}":
            outer.pop()


def classes(css: str) -> set[str]:
    heads = (head for head, _outer in rules(css) if not head.startswith("@"))
    return {name for head in heads for name in CLASS.findall(head)}


def words_of_template(text: str) -> Iterator[str]:
    """Words of its class attributes; `cell-{{ css }}` gives `cell-`."""
    for value in ATTRIBUTE.findall(TEMPLATE_TAG.sub(" ", text)):
        yield from WORD.findall(value)


def words_of_python(text: str) -> Iterator[str]:
    """Words of class attributes in its strings, and strings that are one word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for value in ATTRIBUTE.findall(node.value):
                yield from WORD.findall(value)
            if WORD.fullmatch(node.value.strip()):
                yield node.value.strip()


def words_of_script(text: str) -> Iterator[str]:
    for value in re.findall(r"""["'`]([^"'`\n]*)["'`]""", text):
        yield from WORD.findall(value)


READERS = {
    ".html": words_of_template,
    ".py": words_of_python,
    ".js": words_of_script,
}


def produced(*places: Path) -> set[str]:
    """Words that can become a class, of every template, module and script."""
    found: set[str] = set()
    for place in places:
        for path in place.rglob("*"):
            if path.suffix in READERS and not path.name.startswith("htmx"):
                found |= set(READERS[path.suffix](path.read_text()))
    return found


def is_produced(name: str, words: set[str]) -> bool:
    """Also where it is put together: `cell-` in one place, `fail` in another."""
    start, _dash, end = name.partition("-")
    return name in words or (f"{start}-" in words and end in words)


class StylesTest(SimpleTestCase):
    def each(self, wrong: Iterable[str]) -> None:
        self.assertEqual(list(wrong), [])

    def test_lines_are_short(self) -> None:
        self.each(
            f"{path.name}:{number} has {len(line)} columns"
            for path in (*SITE, ADMIN)
            for number, line in enumerate(path.read_text().split("\n"), 1)
            if len(line) > MAX_COLUMNS
        )

    def test_a_line_has_one_declaration(self) -> None:
        self.each(
            f"{path.name}:{number}"
            for path in (*SITE, ADMIN)
            for number in crowded(path.read_text())
        )

    def test_every_rule_is_in_a_layer(self) -> None:
        known = {f"@layer {name}" for name in LAYERS}
        self.each(
            f"{path.name}: {head}"
            for path in SITE
            for head, outer in rules(path.read_text())
            if outer not in known
        )

    def test_every_class_is_produced(self) -> None:
        here = produced(ROOT / "templates", ROOT / "kb", ROOT / "runner", STATIC)
        # The cursor of a live log, which a test of reduced motion puts there.
        here = here | {"now"}
        # Whatever Django's admin says may be a class: it is not ours to keep tidy.
        theirs = Path(admin.__file__).parent.rglob("*.html")
        django = {word for path in theirs for word in WORD.findall(path.read_text())}
        self.each(
            f"{path.name}: .{name}"
            for path in (*SITE, ADMIN)
            for name in sorted(classes(path.read_text()))
            if not is_produced(name, here | django if path == ADMIN else here)
        )

    def test_the_sheets_are_linked_in_the_order_of_their_layers(self) -> None:
        for name in ("base.html", "fault.html"):
            page = (ROOT / "templates" / name).read_text()
            self.assertIn('{% include "_styles.html" %}', page)
        self.assertCountEqual(SHEETS, [f"css/{path.name}" for path in SITE])
        heads = [rules((STATIC / sheet).read_text()) for sheet in SHEETS]
        order = [next(found)[1].split()[1] for found in heads]
        self.assertEqual(order, sorted(order, key=LAYERS.index))
        first = without_comments((STATIC / "css/base.css").read_text()).split(";")[0]
        self.assertEqual(first.strip(), f"@layer {', '.join(LAYERS)}")

    def test_pages_link_to_one_sheet_that_holds_all_in_order(self) -> None:
        linked = LINK.findall(render_to_string("_styles.html"))
        self.assertEqual(linked, [staticfiles_storage.stored_name(JOINED)])
        joined = (Path(settings.STATIC_ROOT) / linked[0]).read_text()
        at = [joined.index((STATIC / sheet).read_text()) for sheet in SHEETS]
        self.assertEqual(at, sorted(at))

    def test_where_they_are_worked_on_each_is_linked(self) -> None:
        plain = StaticFilesStorage(base_url="/static/")
        with patch.object(staticfiles_storage, "_wrapped", plain):
            linked = LINK.findall(render_to_string("_styles.html"))
        self.assertEqual(linked, list(SHEETS))
