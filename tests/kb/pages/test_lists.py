"""Lists of records, claims, builds and workers, the frame round them, and the feed."""

from __future__ import annotations

import re
from datetime import timedelta
from xml.etree import ElementTree

from django.contrib.auth.models import User
from django.db import connection
from django.test import tag
from django.test.utils import CaptureQueriesContext

from kb.models import Claim, Record
from kb.pages import paging
from kb.pages.browse import PER_PAGE
from kb.publishing import saving
from tests.kb.pages.test_pages import Page, PageTest
from tests.support import runs
from tests.support.records import save_all

ATOM = "{http://www.w3.org/2005/Atom}"
MORE = 2 * PER_PAGE


class ListCase(PageTest):
    def run_on(self, raw: str, *, bug: bool = True) -> None:
        runs.run_on(self.repro, raw, bug=bug)

    def more_records(self) -> None:
        rows = [
            Record(
                id=f"NAN-{number:04d}",
                slug=f"more-{number}",
                publication="published",
                upstream="open",
                symptom_class="lost_grad",
                components=["amp"],
                affected=[{"package": "peft", "events": []}],
                title_en="Another sample",
                title_zh="更多",
            )
            for number in range(1, MORE + 1)
        ]
        save_all(rows)
        for row in rows:
            Claim.objects.create(record=row, cid="c1", position=0, kind="cause")
            saving.save(row)


@tag("any_database")  # counts queries
class SizeTest(ListCase):
    def test_queries_do_not_grow_with_records_claims_builds_and_workers(self) -> None:
        self.run_on("2.4.0")
        self.run_on("2.5.0", bug=False)
        runs.make_worker("one")
        paths = [f"/en/{rest}" for rest in ("", "records/", "claims/", "builds/")]
        paths += [
            "/en/workers/",
            "/en/health/",
            "/en/search/?q=sample",
            "/en/feed.atom",
        ]
        few = {path: self.queries(path) for path in paths}
        self.more_records()
        for number in range(5):
            runs.make_worker(f"w{number}")
            runs.make_build(f"9.{number}.1-cpu", f"9.{number}.1+cpu")
        for path in paths:
            with self.subTest(path):
                self.assertLessEqual(self.queries(path), few[path] + 1)
                self.assertLessEqual(self.queries(path), 12)

    def queries(self, path: str) -> int:
        with CaptureQueriesContext(connection) as found:
            self.page(path)
        return len(found)

    def test_lists_are_paged(self) -> None:
        self.more_records()
        total = MORE + 1
        html = self.page("/en/records/")
        self.assertIn(f"1 to {PER_PAGE} of {total}", html)
        self.assertEqual(html.count("data-row"), PER_PAGE)
        self.assertIn('rel="next" href="?page=2"', html)
        last = self.page("/en/records/?page=99999999999999999999")
        self.assertIn(f"{total} to {total} of {total}", last)
        self.assertIn("NAN-9001", last)
        claims = self.page("/en/claims/?state=documented")
        self.assertIn(f"1 to 12 of {total}", claims)

    def test_windows(self) -> None:
        for asked, found, first, last in [
            ("", 0, 0, 0),
            ("2", 5, 4, 5),
            ("0", 5, 1, 3),
            ("x", 5, 1, 3),
            ("٣", 5, 1, 3),
            ("9", 5, 4, 5),
        ]:
            page = paging.window(asked, found, 3)
            self.assertEqual((page.first, page.last), (first, last), asked)
            self.assertEqual(len(range(found)[page.rows]), last - first + (found > 0))


class BrowseTest(ListCase):
    def groups(self, query: str) -> list[tuple[str, str]]:
        html = self.page(f"/en/records/{query}")
        return re.findall(r'blockhead">([^<]*) <span class="quiet xs">(\d+)<', html)

    def test_groups_hold_all_their_records_on_whatever_page(self) -> None:
        self.more_records()
        both = [("Lost gradient", str(MORE)), ("NaN gradient", "1")]
        self.assertEqual(self.groups(""), both[:1])
        self.assertEqual(self.groups("?page=3"), both[1:])
        by_package = self.groups("?group=package&page=3")
        self.assertEqual(by_package, [("torch", "1")])
        self.assertEqual(
            self.groups("?group=component&component=sdpa"), [("sdpa", "1")]
        )

    def test_a_record_without_the_value_is_in_a_group_of_its_own(self) -> None:
        self.record.affected = []
        saving.save(self.record)
        self.assertEqual(self.groups("?group=package"), [("none named", "1")])

    def test_what_is_kept_between_requests_is_never_old(self) -> None:
        other = runs.make_record("NAN-9002")
        for expected, change in [
            ([("NaN gradient", "2")], lambda: None),
            ([("NaN gradient", "1")], other.delete),
            ([("NaN gradient", "2")], lambda: runs.make_record("NAN-9003")),
        ]:
            change()
            self.assertEqual(self.groups(""), expected)
        self.assertNotIn("✖Bug", Page(self.page("/en/records/")).text)
        self.run_on("2.4.0")
        self.assertEqual(self.groups("?verdict=bug_present"), [("NaN gradient", "1")])
        self.run_on("2.4.0", bug=False)
        self.assertEqual(self.groups("?verdict=bug_present"), [])

    def test_verdict_and_workaround_come_from_runs(self) -> None:
        self.run_on("2.4.0")
        page = Page(self.page("/en/records/?workaround=verified&verdict=bug_present"))
        self.assertIn("1 of 1 match", page.text)
        self.assertIn("✖Bug (1/1)", page.text)
        self.assertIn("On this build? ✖ Bug 1", page.text)
        self.assertIn("Nothing matches", self.page("/en/records/?verdict=bug_absent"))


class FrameTest(ListCase):
    def test_who_is_logged_in_stands_there_and_may_leave(self) -> None:
        self.assertIn("Log in", self.page("/en/"))
        self.client.force_login(User.objects.create_user("noether"))
        html = self.page("/en/records/")
        self.assertIn("noether", html)
        self.assertNotIn(">Log in<", html)
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', html)
        assert token
        response = self.client.post(
            "/en/logout/", {"csrfmiddlewaretoken": token[1]}, follow=True
        )
        self.assertIn("Log in", response.content.decode())

    def test_what_a_verdict_means_is_said_in_both_languages_on_every_page(self) -> None:
        for path in ("/en/", "/zh/matrix/", "/en/records/?q=", "/zh/nothing/"):
            html = self.client.get(path).content.decode()
            popover = re.search(
                r'<div id="pass-means"[^>]*popover.*?</div>', html, re.S
            )
            assert popover, path
            self.assertIn("PASS · bug not seen:", popover[0])
            self.assertIn("通过 · 未见缺陷：", popover[0])
            self.assertIn('popovertarget="pass-means"', html)

    def test_a_worker_that_is_gone_is_greyed_and_says_since_when(self) -> None:
        runs.make_worker("here")
        runs.make_worker("away", seen=timedelta(hours=3))
        html = self.page("/en/workers/")
        gone = re.findall(r'<tr class="gone">.*?</tr>', html, re.S)
        self.assertEqual(len(gone), 1)
        self.assertIn("away", gone[0])
        self.assertIn("offline, last seen 3 hours ago", gone[0].replace("\xa0", " "))


class FeedTest(ListCase):
    def entries(self, lang: str) -> list[ElementTree.Element]:
        response = self.client.get(f"/{lang}/feed.atom")
        self.assertTrue(response["Content-Type"].startswith("application/atom+xml"))
        root = ElementTree.fromstring(response.content)
        self.assertEqual(
            root.get("{http://www.w3.org/XML/1998/namespace}lang"),
            {"en": "en", "zh": "zh-Hans"}[lang],
        )
        return root.findall(f"{ATOM}entry")

    def test_new_records_and_flips_in_the_readers_language(self) -> None:
        self.run_on("2.4.0")
        self.assertEqual(len(self.entries("en")), 1)
        self.run_on("2.5.0", bug=False)
        titles = [entry.findtext(f"{ATOM}title") for entry in self.entries("en")]
        self.assertIn("NAN-9001 A sample", titles)
        flip = "NAN-9001: bug gone in 2.5.0-cpu, seen in 2.4.0-cpu. A sample"
        self.assertIn(flip, titles)
        chinese = self.entries("zh")
        self.assertIn("一个样例", "".join(chinese[0].itertext()))
        links = [entry.find(f"{ATOM}link") for entry in chinese]
        for link in links:
            assert link is not None
            self.assertIn("/zh/NAN-9001/sample/", link.get("href", ""))
        ids = {entry.findtext(f"{ATOM}id") for entry in chinese}
        self.assertEqual(len(ids), 2)

    def test_drafts_are_not_in_it(self) -> None:
        self.record.publication = "draft"
        saving.save(self.record)
        self.assertEqual(self.entries("en"), [])

    def test_it_is_linked_and_not_sent_twice(self) -> None:
        self.assertIn('type="application/atom+xml"', self.page("/zh/"))
        first = self.client.get("/en/feed.atom")
        again = self.client.get(
            "/en/feed.atom", headers={"If-None-Match": first["ETag"]}
        )
        self.assertEqual((again.status_code, again.content), (304, b""))
