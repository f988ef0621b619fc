"""Both languages everywhere: every text translated, typeset and spoken when asked."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import polib
from django.conf import settings
from django.core.management import call_command
from django.test import SimpleTestCase, TestCase

from kb.records.articles import scan
from tests.support import page_types
from tests.support.sample_record import write_sample

CATALOGUE = settings.BASE_DIR / "config/locale/zh_Hans/LC_MESSAGES/django.po"
MARKS, OPEN, CLOSE = "，。；：？！、", "（", "）"
HAN = r"[\u3400-\u4dbf\u4e00-\u9fff]"
# The words of a verdict, unless what they mean follows at once.
ALONE = re.compile(r"\b(?:PASS|FAIL)\b(?! ·)|未?通过(?! ·)")
# 通过 is also an ordinary word, "by way of"; then something follows it.
BY_WAY_OF = re.compile(r"(?<!未)通过(?=[A-Za-z\u4e00-\u9fff ]*[A-Za-z\u4e00-\u9fff])")


# --- typography ---------------------------------------------------------------------
class TypographyTest(SimpleTestCase):
    """Chinese as mock/NOTES.md asks for it: spaces, full-width marks."""

    rules = {
        "a space between Han and Latin": rf"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}",
        # A point or a formula that stands by itself keeps its own brackets.
        "full-width brackets": rf"{HAN}\(|\([^()]*{HAN}[^()]*\)"
        rf"|{HAN} \((?![^()]*[-+*=,][^()]*\))",
        "full-width marks": rf"{HAN}[,;:?!]|{HAN}\.(?:\s|$)",
        "no space at full-width marks": rf"[{OPEN}{MARKS}] |(?<=\S) [{MARKS}{CLOSE}]",
    }

    def problems(self, text: str) -> list[str]:
        # What a placeholder stands for may be in either script.
        neutral = re.sub(r"%\(\w+\)[sdif]|%[sdif]|\{\w*\}", "_", text)
        for _depth in range(3):  # f(g(x)) is code
            neutral = re.sub(r"[A-Za-z_][\w.]*\([^()]*\)", "x", neutral, flags=re.ASCII)
        return [
            f"{name}: {neutral[max(0, found.start() - 15) : found.end() + 15]!r}"
            for name, rule in self.rules.items()
            for found in re.finditer(rule, neutral)
        ]

    def test_the_rules_find_what_they_name(self) -> None:
        for text in (
            "用torch",
            "3次",
            "运行(k/n)",
            "运行 (k/n)",
            "好,再来",
            "对:",
            "好 。",
            "好， 再",
        ):
            self.assertEqual(len(self.problems(text)), 1, text)
        for text in (
            "用 torch 跑 3 次",
            "运行（k/n）",
            "好，再来：`x`。",
            "点 (0, 0) 处",
            "%(age)s前",
        ):
            self.assertEqual(self.problems(text), [], text)

    def test_the_catalogue(self) -> None:
        for entry in polib.pofile(str(CATALOGUE)):
            for text in (
                [entry.msgstr] if entry.msgstr else entry.msgstr_plural.values()
            ):
                with self.subTest(entry.msgid):
                    self.assertEqual(self.problems(text), [])

    def test_the_records(self) -> None:
        for folder in sorted(settings.ISSUES_DIR.iterdir()):
            article = (folder / "article.zh.md").read_text()
            facts = tomllib.loads((folder / "issue.toml").read_text())
            for text in (without_code(article), *map(without_code, chinese(facts))):
                with self.subTest(folder.name):
                    self.assertEqual(self.problems(text), [])


def without_code(markdown: str) -> str:
    """Prose with a Latin letter in place of code, without the words of cited titles."""
    lines = [line.text for line in scan(markdown)[0] if not line.fenced]
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "x", "\n".join(lines))
    # A title is cited as its author set it.
    text = re.sub(r"《[^》]*》", "《》", text)
    # [text](address): brackets of Markdown, not of the sentence.
    return re.sub(r"\]\([^)]*\)", "]", text)


def chinese(value: Any) -> Iterator[str]:
    """Every text under `zh` in the facts of a record."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "zh":
                yield item
            else:
                yield from chinese(item)
    elif isinstance(value, list):
        for item in value:
            yield from chinese(item)


# --- what is said -------------------------------------------------------------------
class Words(HTMLParser):
    """The text of a page as somebody reads or hears it, code left out."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style", "pre", "code"}:
            self.inside.append(tag)
        spoken = dict(attrs)
        for name in ("title", "aria-label", "alt", "placeholder"):
            self.words.append(f" {spoken.get(name) or ''} ")

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def alone(text: str) -> list[str]:
    """The verdict words of a text that stand without what they mean."""
    return [
        text[max(0, found.start() - 20) : found.end() + 20]
        for found in ALONE.finditer(text)
        if not BY_WAY_OF.match(text, found.start())
    ]


class WordingTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.pages = page_types.make()

    def test_the_search_finds_a_word_alone(self) -> None:
        for text in ("PASS", "it is FAIL (1/1)", "结果：通过。", "未通过", "（通过）"):
            self.assertEqual(len(alone(text)), 1, text)
        for text in ("✔ PASS · bug not seen", "✖ 未通过 · 缺陷已复现", "通过邮件发送"):
            self.assertEqual(alone(text), [], text)

    def test_no_template_shows_a_verdict_word_alone(self) -> None:
        for path in (settings.BASE_DIR / "templates").rglob("*.html"):
            with self.subTest(path.name):
                self.assertEqual(alone(Words(path.read_text()).text), [])

    def test_each_page_is_there_with_its_words_and_under_the_policy(self) -> None:
        for lang in ("en", "zh"):
            for kind in self.pages:
                with self.subTest(kind.name, lang=lang):
                    answer = page_types.get(self.client, lang, kind)
                    self.assertEqual(answer.status_code, kind.status)
                    self.assertEqual(alone(Words(answer.content.decode()).text), [])
                    policy = answer["Content-Security-Policy"]
                    self.assertIn("default-src 'none'", policy)
                    self.assertNotIn("unsafe", policy)

    def test_problem_documents_speak_the_callers_language(self) -> None:
        for languages, title in [
            ("zh-CN,zh;q=0.9", "没有"),
            ("zh-TW", "没有"),
            ("en", "Not found"),
            ("", "Not found"),
        ]:
            answer = self.client.get(
                "/api/v1/records/NAN-7777", headers={"Accept-Language": languages}
            )
            self.assertEqual(answer.status_code, 404)
            self.assertEqual(answer["Content-Type"], "application/problem+json")
            self.assertIn("Accept-Language", answer["Vary"])
            body = answer.json()
            spoken = body["title"] + body["detail"]
            self.assertEqual(bool(re.search(HAN, spoken)), title == "没有", spoken)


class TerminalTest(TestCase):
    """Commands speak as LANG says, each run as its own command line would."""

    def said(self, lang: str, *arguments: str, **options: Any) -> str:
        out = io.StringIO()
        environ = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": lang}
        with mock.patch.dict(os.environ, environ):
            call_command(*arguments, stdout=out, **options)
        return out.getvalue()

    def test_lookup_and_loading_follow_lang(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_sample(Path(folder))
            loaded = {
                lang: self.said(lang, "load_records", root=Path(folder))
                for lang in ("zh_CN.UTF-8", "en_US.UTF-8")
            }
        self.assertRegex(loaded["zh_CN.UTF-8"], HAN)
        self.assertNotRegex(loaded["en_US.UTF-8"], HAN)


class DeploymentTest(SimpleTestCase):
    def test_preload_is_asked_for(self) -> None:
        code = (
            "from config import settings as s; print(s.SECURE_HSTS_SECONDS > 0, "
            "s.SECURE_HSTS_INCLUDE_SUBDOMAINS, s.SECURE_HSTS_PRELOAD)"
        )
        for address, asked, wanted in (
            ("https://nan.example.org", "", "True False False"),
            ("https://nan.example.org", "1", "True True True"),
            ("http://nan.example.org", "1", "False False False"),
        ):
            environ = {**os.environ, "SITE_URL": address, "HSTS_PRELOAD": asked}
            said = subprocess.check_output(
                [sys.executable, "-c", code], cwd=settings.BASE_DIR, env=environ
            )
            self.assertEqual(said.decode().strip(), wanted)

    def test_check_deploy_finds_nothing_in_production(self) -> None:
        environ = {
            **os.environ,
            "SITE_URL": "https://nan.example.org",
            "ALLOWED_HOSTS": "nan.example.org",
            "SECRET_KEY": "Zq3-" + "".join(chr(97 + n % 26) for n in range(60)) + "_9X",
            "DEBUG": "0",
        }
        command = [sys.executable, "manage.py", "check", "--deploy"]
        done = subprocess.run(
            [*command, "--fail-level", "WARNING"],
            cwd=settings.BASE_DIR,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        # Without https the same command complains: the test can fail.
        environ["SITE_URL"] = ""
        plain = subprocess.run(
            [*command, "--fail-level", "WARNING"],
            cwd=settings.BASE_DIR,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(plain.returncode, 1)
        self.assertIn("security.W", plain.stderr)
