"""Languages: addresses, negotiation, the switch, and complete translations."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import polib
from django.conf import settings
from django.template.loader import get_template
from django.templatetags.i18n import BlockTranslateNode
from django.test import SimpleTestCase, TestCase
from django.utils.translation import override, trim_whitespace

from kb import badges
from kb.choices import Outcome
from kb.models import Record
from kb.publishing import saving
from tests.support import runs

LOCALE = settings.BASE_DIR / "config/locale/zh_Hans/LC_MESSAGES"
PLACEHOLDER = re.compile(r"%\(\w+\)(?:\.\d+)?[sdf]|%[sdr]")
WORD_ALONE = re.compile(r"\b(?:PASS|FAIL)\b(?! ·)|[“>\"']未?通过[”<\"']")


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

    def test_every_text_of_the_templates_is_in_the_catalogue(self) -> None:
        known = {(entry.msgctxt, entry.msgid) for entry in self.entries}
        tag = re.compile(r'\{% translate "([^"]+)"(?: context "([^"]+)")?')
        for path in Path(settings.BASE_DIR / "templates").rglob("*.html"):
            for text, context in tag.findall(path.read_text()):
                self.assertIn((context or None, text), known, path.name)

    def test_every_sentence_of_the_templates_is_in_the_catalogue(self) -> None:
        known = {entry.msgid for entry in self.entries}
        folder = Path(settings.BASE_DIR / "templates")
        for path in folder.rglob("*.html"):
            nodes = get_template(str(path.relative_to(folder))).template.nodelist
            for node in nodes.get_nodes_by_type(BlockTranslateNode):
                text = node.render_token_list(node.singular)[0]
                text = trim_whitespace(text) if node.trimmed else text
                self.assertIn(text, known, path.name)

    def test_pass_and_fail_never_stand_alone(self) -> None:
        for path in Path(settings.BASE_DIR / "templates").rglob("*.html"):
            self.assertNotRegex(path.read_text(), WORD_ALONE, path.name)
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
