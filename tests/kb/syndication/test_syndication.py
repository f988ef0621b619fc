"""What pages say to machines: addresses, articles, icons, feeds, badges, reports."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

from django.test import TestCase, override_settings
from django.utils.html import escape

from kb.models import Record
from runner.evidence import store
from tests.support import runs

PATH = "/en/NAN-9001/sample/"


class Loaded(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()
        cls.repro = cls.record.repros.get()
        runs.make_build()

    def text(self, path: str, status: int = 200) -> str:
        response = self.client.get(path)
        self.assertEqual(response.status_code, status, path)
        return response.text


class MetadataTests(Loaded):
    def test_a_page_has_one_address_whatever_its_view(self) -> None:
        html = self.text(f"{PATH}?torch=2.13.0")
        self.assertIn(f'rel="canonical" href="http://testserver{PATH}"', html)
        answer = self.client.post("/en/lookup/", {"log": "Segfault"}).text
        self.assertNotIn('rel="canonical"', answer)

    @override_settings(SITE_URL="https://nan.example")
    def test_where_the_site_has_an_address_it_is_that_one(self) -> None:
        html = self.text(PATH)
        self.assertIn(f'rel="canonical" href="https://nan.example{PATH}"', html)
        self.assertRegex(html, r'og:image" content="https://nan\.example/[^"]+card')

    def test_the_sitemap_has_each_listed_record_in_both_languages(self) -> None:
        runs.make_record("NAN-9002")
        tree = ElementTree.fromstring(self.text("/sitemap.xml"))
        places = [node.text for node in tree.iter() if node.tag.endswith("loc")]
        self.assertIn(f"http://testserver{PATH}", places)
        self.assertIn("http://testserver/zh/NAN-9001/sample/", places)
        draft = [place for place in places if "NAN-9002" in (place or "")]
        listed = hasattr(Record.objects.get(pk="NAN-9002"), "standing")
        self.assertEqual(bool(draft), listed)

    def test_robots_are_told_what_is_no_page(self) -> None:
        text = self.text("/robots.txt")
        self.assertIn("Disallow: /api/", text)
        self.assertIn("Sitemap: http://testserver/sitemap.xml", text)
        with self.settings(READ_LOGIN=True):
            self.assertIn("Disallow: /\n", self.text("/robots.txt"))

    def test_icons_stand_where_browsers_ask(self) -> None:
        for name in ("favicon.ico", "apple-touch-icon.png"):
            place = self.client.get(f"/{name}").headers["Location"]
            self.assertIn(name.partition(".")[0], place)

    def test_reports_go_to_the_repository_or_are_text_to_copy(self) -> None:
        for about, asked in (("mine", "What helped:"), ("error", "What is wrong:")):
            place = f"/en/NAN-9001/report-{about}.txt"
            self.assertIn(f'href="{place}"', self.text(PATH))
            self.assertIn("http://testserver/NAN-9001\n", self.text(place))
            self.assertIn(asked, self.text(place))
        self.assertIn("Send this to", self.text("/en/contribute/"))
        with self.settings(REPOSITORY_URL="https://code.example/nan"):
            html, page = self.text(PATH), self.text("/en/contribute/")
        self.assertIn(
            "https://code.example/nan/issues/new?title=NAN-9001%3A+Was+this+it%3F&amp;"
            "body=http%3A%2F%2Ftestserver%2FNAN-9001",
            html,
        )
        self.assertNotIn("/report-", html)
        self.assertIn('href="https://code.example/nan/issues/new"', page)

    def test_what_a_thread_needs_can_be_copied(self) -> None:
        place = "/en/NAN-9001/github.md"
        self.assertIn("Not run on any release yet.", self.text(place))
        evidence = store.add(runs.make_evidence(self.repro, bug=True), origin="site")
        self.assertIn(f'href="{place}"', self.text(PATH))
        text = self.text(place)
        for part in (
            "](http://testserver/badge/NAN-9001/releases.svg)",
            "| 9.9.0 | CPU | Bug | 9.9.0: [`sha256:",
            f"http://testserver/en/evidence/{evidence.short}/",
            "```sh\ncurl -fsS http://testserver/api/v1/records/NAN-9001/repro.py",
        ):
            self.assertIn(part, text)
        self.assertIn("| 有此缺陷 |", self.text(place.replace("/en/", "/zh/")))
        self.text("/en/NAN-9999/github.md", 404)

    def test_share_names_no_build_that_lacks_the_bug(self) -> None:
        for bug, shared in ((True, f"?torch={runs.SLUG}&amp;device=cpu"), (False, "")):
            store.add(runs.make_evidence(self.repro, bug=bug), origin="site")
            html = self.text(f"{PATH}?torch={runs.SLUG}")
            self.assertIn(f'data-copy-url="/NAN-9001{shared}"', html)


class DescriptionTests(Loaded):
    """Each page names and describes itself to those who link it, in its language."""

    PATHS = ("", "records/", "matrix/", "claims/", "contradictions/", "compare/")
    PATHS += ("builds/", "matrix/?record=NAN-9001", f"builds/{runs.SLUG}/")

    def tag(self, html: str, name: str) -> str:
        found = re.findall(rf'<meta property="og:{name}" content="([^"]*)">', html)
        self.assertEqual(len(found), 1, name)
        return unescape(found[0])

    def describe(self, path: str) -> tuple[str, str]:
        html = self.text(path)
        title, words = self.tag(html, "title"), self.tag(html, "description")
        self.assertIn(f"<title>{escape(title)} · ", html)
        self.assertIn(f'name="description" content="{escape(words)}"', html)
        return title, words

    def test_no_two_pages_say_the_same(self) -> None:
        store.add(runs.make_evidence(self.repro, bug=True), origin="site")
        run = runs.make_run(self.repro)
        more = [f"runs/{run.pk}/", PATH[4:]]
        for lang in ("en", "zh"):
            said = [self.describe(f"/{lang}/{rest}") for rest in (*self.PATHS, *more)]
            self.assertEqual(len({words for _title, words in said}), len(said))
            self.assertEqual(len({title for title, _words in said}), len(said))
            for title, words in said:
                is_chinese = bool(re.search(r"[\u4e00-\u9fff]", title + words))
                self.assertEqual(is_chinese, lang == "zh", (title, words))

    def test_a_record_is_an_article_and_other_pages_are_none(self) -> None:
        self.assertEqual(self.tag(self.text(PATH), "type"), "article")
        self.assertEqual(self.tag(self.text("/en/matrix/"), "type"), "website")

    def test_quotes_and_tags_of_a_title_stay_text(self) -> None:
        Record.objects.filter(pk="NAN-9001").update(title_en='"a" <b> & c')
        html = self.text(PATH)
        self.assertEqual(self.tag(html, "title"), 'NAN-9001 "a" <b> & c')
        self.assertNotIn('content="NAN-9001 "a"', html)


class RecordFeedTests(Loaded):
    def test_a_record_links_its_own_feed_in_head_and_text(self) -> None:
        html = self.text(PATH)
        self.assertEqual(html.count('href="/en/NAN-9001/feed.atom"'), 2)
        self.text("/en/NAN-9001/feed.atom")


class ComponentFeedTests(Loaded):
    def test_a_component_has_a_feed_of_its_own(self) -> None:
        component = self.record.components[0]
        address = f"/en/components/{component}/feed.atom"
        self.assertIn(component, ElementTree.fromstring(self.text(address))[0].text)
        self.assertIn(address, self.text(PATH))
        self.text("/en/components/nothing/feed.atom", 404)
