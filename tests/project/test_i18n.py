"""Languages: addresses, negotiation, the switch, and complete translations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import polib
from django.conf import settings
from django.test import SimpleTestCase, TestCase
from django.utils.translation import override
from django.utils.translation.template import templatize

from config.api_page import operations
from kb import badges
from kb.choices import Outcome
from kb.models import Record
from kb.publishing import saving
from tests.support import runs

LOCALE = settings.BASE_DIR / "config/locale/zh_Hans/LC_MESSAGES"
PLACEHOLDER = re.compile(r"%\(\w+\)(?:\.\d+)?[sdf]|%[sdr]")
WORD_ALONE = re.compile(r"\b(?:PASS|FAIL)\b(?! ·)|[“>\"']未?通过[”<\"']")
CALLS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"}
CONTEXT_CALLS = {"pgettext", "pgettext_lazy", "npgettext"}


def called(tree: ast.AST) -> Iterator[tuple[str | None, str]]:
    """(context, text) of each gettext call."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in CALLS | CONTEXT_CALLS:
            continue
        texts = [
            argument.value
            for argument in node.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if name in CONTEXT_CALLS and len(texts) > 1:
            yield texts[0], texts[1]
        elif texts:
            yield None, texts[0]


def in_template(text: str) -> Iterator[tuple[str | None, str]]:
    """The same of a template, which Django turns into calls."""
    for call in re.findall(
        r"\b(?:_|n?gettext|n?pgettext)\((?:u?'(?:[^'\\]|\\.)*'|u?\"(?:[^\"\\]|\\.)*\"|"
        r"[\s,\w])*\)",
        templatize(text),
    ):
        yield from called(ast.parse(call.strip()))


def every_text() -> Iterator[tuple[Path, str | None, str]]:
    """(file, context, text) of all that the sources ask gettext for."""
    root = settings.BASE_DIR
    for path in sorted((root / "templates").rglob("*.html")):
        for context, text in in_template(path.read_text()):
            yield path.relative_to(root), context, text
    for folder in ("config", "kb", "runner"):
        for path in sorted((root / folder).rglob("*.py")):
            for context, text in called(ast.parse(path.read_text())):
                yield path.relative_to(root), context, text


class LanguageAddressTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        record = runs.make_record("NAN-9001")
        record.html = {"en": {}, "zh": {}}
        saving.save(record)
        runs.make_build()

    def target(self, path: str, languages: str = "", **cookies: str) -> str:
        self.client.cookies.load(cookies)
        response = self.client.get(path, headers={"Accept-Language": languages})
        self.assertIn(response.status_code, (301, 302), path)
        self.assertIn("Accept-Language", response["Vary"])
        self.assertIn("Cookie", response["Vary"])
        return str(response["Location"])

    def test_the_readers_language_is_chosen(self) -> None:
        for languages, prefix in [
            ("", "/en/"),
            ("zh-CN,zh;q=0.9", "/zh/"),
            ("zh-TW,en;q=0.5", "/zh/"),
            ("zh-HK", "/zh/"),
            ("zh-Hant-TW", "/zh/"),
            ("fr, zh;q=0.5, en;q=0.4", "/zh/"),
            ("fr,de", "/en/"),
            ("en-GB,zh;q=0.9", "/en/"),
            ("*", "/en/"),
            (";;q=,\x00", "/en/"),
        ]:
            self.assertEqual(self.target("/", languages), prefix, languages)

    def test_a_stored_choice_wins(self) -> None:
        self.assertEqual(self.target("/", "en", django_language="zh-hans"), "/zh/")

    def test_pages_without_prefix_keep_path_and_query(self) -> None:
        self.assertEqual(self.target("/records/?a=1", "zh"), "/zh/records/?a=1")
        self.assertEqual(self.target("/records?a=1", "zh"), "/zh/records/?a=1")

    def test_neutral_permalinks_vary_by_language(self) -> None:
        run = runs.make_run()
        for path, end in [
            ("/NAN-9001", "NAN-9001/sample-9001/"),
            (f"/runs/{run.id}", f"runs/{run.id}/"),
        ]:
            for languages, prefix in [("en", "/en/"), ("zh-TW", "/zh/")]:
                response = self.client.get(path, headers={"Accept-Language": languages})
                self.assertRedirects(response, prefix + end)
                self.assertIn("Accept-Language", response["Vary"])
                self.assertIn("Cookie", response["Vary"])

    def test_other_spellings_have_one_address(self) -> None:
        for spelling in ("zh-hans", "zh-cn", "zh-CN", "zh-tw", "zh-hant"):
            response = self.client.get(f"/{spelling}/records/?group=component")
            self.assertRedirects(response, "/zh/records/?group=component", 301)
        self.assertRedirects(self.client.get("/en-us/"), "/en/", 301)

    def test_no_redirect_leaves_the_site(self) -> None:
        for path in (
            "/zh-cn//evil.example/",
            "/zh-cn//evil.example",
            "//evil.example/",
        ):
            response = self.client.get(path)
            location = response.headers.get("Location", "/")
            self.assertRegex(location, r"^/(?!/)", path)

    def test_pages_name_their_language_and_the_other(self) -> None:
        for lang, tag, other in [("en", "en", "zh"), ("zh", "zh-Hans", "en")]:
            response = self.client.get(f"/{lang}/records/?component=a%26b")
            html = response.content.decode()
            self.assertEqual(response["Content-Language"], tag)
            self.assertIn(f'<html lang="{tag}">', html)
            for code, prefix in [("en", "/en"), ("zh-Hans", "/zh"), ("x-default", "")]:
                link = f'hreflang="{code}" href="http://testserver{prefix}/records/?'
                self.assertIn(link, html)
            switch = f'<a href="/{other}/records/?component=a%26b"'
            self.assertIn(switch, html)

    def test_the_switch_of_a_lookup_sends_the_paste_again(self) -> None:
        response = self.client.post("/en/lookup/", {"log": 'loss "nan" <b>'})
        html = response.content.decode()
        self.assertIn('method="post" action="/zh/lookup/">', html)
        self.assertIn('name="log" value="loss &quot;nan&quot; &lt;b&gt;"', html)

    def test_a_missing_page_speaks_the_readers_language(self) -> None:
        response = self.client.get("/zh/no-such-page/")
        self.assertContains(response, "没有这个页面", status_code=404)

    def test_addresses_of_a_record_in_both_languages(self) -> None:
        record = Record.objects.get()
        self.assertEqual(
            record.urls(),
            {"en": "/en/NAN-9001/sample-9001/", "zh": "/zh/NAN-9001/sample-9001/"},
        )


class TranslationTest(SimpleTestCase):
    def setUp(self) -> None:
        self.entries = polib.pofile(str(LOCALE / "django.po"))

    def test_everything_is_translated_and_compiled(self) -> None:
        compiled = {
            (entry.msgctxt, entry.msgid): entry.msgstr or entry.msgstr_plural
            for entry in polib.mofile(str(LOCALE / "django.mo"))
        }
        for entry in self.entries:
            with self.subTest(entry.msgid):
                self.assertFalse(entry.fuzzy)
                self.assertTrue(entry.translated())
                text = entry.msgstr or entry.msgstr_plural
                self.assertEqual(compiled.get((entry.msgctxt, entry.msgid)), text)
        # Nor is anything compiled that the catalogue no longer has: it is made anew by
        # `msgfmt --check -o django.mo django.po`.
        known = {(entry.msgctxt, entry.msgid) for entry in self.entries}
        self.assertEqual(set(compiled), known)

    def test_placeholders_survive_translation(self) -> None:
        for entry in self.entries:
            source = entry.msgid_plural or entry.msgid
            text = entry.msgstr or entry.msgstr_plural[0]
            wanted = sorted(PLACEHOLDER.findall(unescape(source)))
            self.assertEqual(sorted(PLACEHOLDER.findall(text)), wanted, source)

    def test_every_text_of_the_sources_has_its_chinese(self) -> None:
        known = {
            (entry.msgctxt, entry.msgid)
            for entry in self.entries
            if entry.translated() and not entry.obsolete
        }
        found = list(every_text())
        self.assertGreater(len(found), 500)
        missing = [
            f"{path}: {text!r}"
            for path, context, text in found
            if (context, text) not in known
        ]
        self.assertEqual(missing, [])

    def test_the_catalogue_has_no_text_that_nobody_asks_for(self) -> None:
        asked = {(context, text) for _path, context, text in every_text()}
        for one in operations():
            asked |= {(None, one.summary), (None, one.subject)}
        known = {(entry.msgctxt, entry.msgid) for entry in self.entries}
        self.assertEqual(known - asked, set())

    def test_the_search_for_texts_finds_each_form(self) -> None:
        template = (
            '{% load i18n %}{% translate "a" %}{% translate "b" context "c" %}'
            "{% blocktranslate %}d {{ n }}{% endblocktranslate %}"
            "{% blocktranslate count n=n %}one{% plural %}many{% endblocktranslate %}"
        )
        wanted = [(None, "a"), ("c", "b"), (None, "d %(n)s"), (None, "one")]
        self.assertEqual(list(in_template(template)), wanted)
        source = "_('a'); gettext('b'); x.pgettext('c', 'd'); ngettext('e', 'f', n)"
        calls = [(None, "a"), (None, "b"), ("c", "d"), (None, "e")]
        self.assertEqual(list(called(ast.parse(source))), calls)

    def test_pass_and_fail_never_stand_alone(self) -> None:
        for entry in self.entries:
            self.assertNotRegex(entry.msgid, WORD_ALONE)
            self.assertNotRegex(entry.msgstr, WORD_ALONE)

    def test_choices_and_the_table_of_verdicts_use_the_same_words(self) -> None:
        for code, lang in [("en", "en"), ("zh-hans", "zh")]:
            with override(code):
                for outcome in Outcome:
                    self.assertEqual(
                        outcome.label, badges.outcome("trigger", outcome, lang)
                    )
