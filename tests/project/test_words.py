"""Each thing has one name, in each language: the glossary is words.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import polib
from django.conf import settings
from django.test import SimpleTestCase

ROOT = Path(settings.BASE_DIR)
CATALOGUE = ROOT / "config/locale/zh_Hans/LC_MESSAGES/django.po"
GLOSSARY = tomllib.loads(Path(__file__).with_name("words.toml").read_text())
CHINESE = GLOSSARY["chinese"]
ENGLISH = GLOSSARY["english"]["variants"]
# They read what people paste, who use other words than we do.
READERS = ("kb/search/reading", "kb/releases/asked.py", "kb/environments")


def found(variants: dict[str, str], text: str) -> list[str]:
    return [
        f"{text[max(0, match.start() - 20) : match.end() + 20]!r}: write {better}"
        for pattern, better in variants.items()
        for match in re.finditer(pattern, text)
    ]


def translations() -> Iterator[tuple[str, str]]:
    """(English, Chinese) of the catalogue."""
    for entry in polib.pofile(str(CATALOGUE)):
        for text in [entry.msgstr] if entry.msgstr else entry.msgstr_plural.values():
            yield entry.msgid, text


def programs() -> Iterator[Path]:
    for folder in ("kb", "runner", "portable", "templates"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            reads = str(path.relative_to(ROOT)).startswith(READERS)
            if path.suffix in {".py", ".html", ".txt"} and not reads:
                yield path


class ChineseTest(SimpleTestCase):
    def test_the_search_finds_each_variant(self) -> None:
        for text in (
            "运行复现程序。",
            "这一症状",
            "告知您",
            "报错堆栈",
            "未出现该缺陷",
        ):
            self.assertEqual(len(found(CHINESE["variants"], text)), 1, text)
        for text in ("worker 是 B 级", "等待工作进程：3"):
            self.assertEqual(len(found(CHINESE["page_variants"], text)), 1, text)
        self.assertEqual(found(CHINESE["variants"], "未出现的类别不计入。"), [])

    def test_a_term_is_translated_by_the_glossary(self) -> None:
        known = dict(translations())
        wanted = CHINESE["terms"]
        self.assertEqual({name: known.get(name) for name in wanted}, wanted)

    def test_pages(self) -> None:
        variants = CHINESE["variants"] | CHINESE["page_variants"]
        for english, chinese in translations():
            with self.subTest(english):
                self.assertEqual(found(variants, chinese), [])

    def test_programs_and_the_readme(self) -> None:
        for path in (*programs(), ROOT / "README.zh.md"):
            with self.subTest(path.name):
                self.assertEqual(found(CHINESE["variants"], path.read_text()), [])

    def test_records(self) -> None:
        fixtures = ROOT / "fixtures"
        for pattern in ("issues/*/article.zh.md", "issues/*/issue.toml"):
            for path in sorted(fixtures.glob(pattern)):
                with self.subTest(path.parent.name):
                    self.assertEqual(found(CHINESE["variants"], path.read_text()), [])


class EnglishTest(SimpleTestCase):
    def test_the_search_finds_each_variant(self) -> None:
        for text in (
            "Five records speak of the same.",
            "388 s, of that the tests 300",
            "it is no evidence",
            "For whoever keeps a site",
            "first bad in 2.6.0",
        ):
            self.assertEqual(len(found(ENGLISH, text)), 1, text)

    def test_pages(self) -> None:
        for english, _chinese in translations():
            with self.subTest(english):
                self.assertEqual(found(ENGLISH, english), [])

    def test_docs(self) -> None:
        for path in (*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))):
            if path.name != "CHANGELOG.md":
                with self.subTest(path.name):
                    self.assertEqual(found(ENGLISH, path.read_text()), [])
