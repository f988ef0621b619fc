"""Comparisons as page and over the API."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from kb.publishing import saving
from tests.kb.releases.test_comparison import ComparisonCase, finding

API = "/api/v1/compare"


class PageCase(ComparisonCase):
    def setUp(self) -> None:
        super().setUp()
        self.verdicts(0, v2_5_1=True, v2_6_0=False, v2_7_0=False)
        self.verdicts(1, v2_5_1=False, v2_6_0=True, v2_7_0=True)


class ComparePageTest(PageCase):
    def test_the_first_line_and_each_change_with_its_evidence(self) -> None:
        page = self.client.get("/en/compare/2.5.1...2.6.0/")
        self.assertContains(
            page,
            "1 new bug, 1 fixed (all from CPU runs). "
            "0 unchanged, 3 more not tested on both. "
            "On CUDA, nothing was run on both.",
        )
        self.assertContains(page, 'id="new"')
        text = page.content.decode()
        self.assertLess(text.index('id="new"'), text.index('id="fixed"'))
        self.assertEqual(text.count("/en/evidence/"), 4)
        self.assertContains(
            self.client.get("/zh/compare/2.5.1...2.6.0/"),
            "1 条新出现，1 条已修复（均依据 CPU 上的运行）。"
            "0 条不变，另有 3 条缺少一侧的测试结果。"
            "CUDA 上没有任何一条在两边都运行过。",
        )

    def test_two_repros_of_a_record_are_told_apart_and_counted_once(self) -> None:
        rows = [
            finding(self.records[2], release, bug, repro=name)
            for release, bug in (("2.5.1", False), ("2.6.0", True))
            for name in ("repro", "repro_fraction")
        ]
        self.keep(2, *rows)
        page = self.client.get("/en/compare/2.5.1...2.6.0/")
        self.assertContains(page, "2 new bugs")
        self.assertContains(page, "· fraction")
        self.assertEqual([row.found for row in page.context["page"].sections], [2, 1])

    def test_pickers_lead_to_a_stable_address(self) -> None:
        rows = {
            "from=2.5.1&to=2.6.0": "/en/compare/2.5.1...2.6.0/",
            "from=2.5&to=2.6.0%2Bcpu": "/en/compare/2.5.1...2.6.0-cpu/",
            "from=2.5.1&to=2.6.0&device=cuda": "/en/compare/2.5.1...2.6.0/?device=cuda",
        }
        for query, address in rows.items():
            with self.subTest(query):
                answer = self.client.get(f"/en/compare/?{query}")
                self.assertRedirects(answer, address)
        other = self.client.get("/en/compare/2.5...2.6/?device=cpu")
        self.assertRedirects(other, "/en/compare/2.5.1...2.6.0/?device=cpu")

    def test_the_front_page_says_what_the_newest_two_change(self) -> None:
        self.verdicts(2, v2_6_0=True, v2_7_0=False)
        page = self.client.get("/en/")
        self.assertContains(page, 'href="/en/compare/2.6.0...2.7.0/"')
        self.assertContains(page, "0 new bugs, 1 fixed (all from CPU runs).")
        # Which records turn at a build of the ruler.
        self.assertContains(page, f'title="{self.records[2].pk} ')

    def test_what_is_no_build_is_named(self) -> None:
        page = self.client.get("/en/compare/?from=2.5.1&to=<zebra>")
        self.assertContains(
            page, "“&lt;zebra&gt;” is not a torch build", status_code=404
        )
        page = self.client.get("/en/compare/zebra...2.6.0/")
        self.assertContains(page, "“zebra” is not a torch build", status_code=404)
        self.assertContains(self.client.get("/en/compare/"), 'value="2.6.0"')

    def test_a_release_that_nobody_ran_is_no_clean_one(self) -> None:
        page = self.client.get("/en/compare/2.5.1...2.6.1/")
        self.assertContains(
            page,
            "0 new bugs, 0 fixed. 0 unchanged, 5 more not tested on both. "
            "Nothing was run on both.",
        )
        self.assertContains(page, "Nobody has run anything on torch 2.6.1 here")

    def test_a_pasted_list_is_not_trusted(self) -> None:
        address = "/en/compare/2.5.1...2.6.0/"
        page = self.client.post(address, {"env": "torch==2.7.0\n<b>\n"})
        self.assertContains(page, "&lt;b&gt;")
        self.assertNotContains(page, "<b>\n")
        page = self.client.post(address, {"env": "nothing here"})
        self.assertContains(page, "No package with a version was found")
        page = self.client.post(address, {"env": "x" * 2**21})
        self.assertContains(page, "more than 1 MiB")
        page = self.client.post(address, {"env": "\x01\x02\x03\x04"})
        self.assertContains(page, "This is not text")

    def test_a_list_says_on_which_device_one_asks(self) -> None:
        address = "/en/compare/2.5.1...2.6.0/"
        for env, told in (("torch==2.5.1+cu124", 0), ("torch==2.5.1+cpu", 2)):
            page = self.client.post(address, {"env": env})
            self.assertEqual(page.content.count(b"/en/evidence/"), 2 * told, env)
        page = self.client.post(address, {"env": "torch==2.5.1+cu124"})
        self.assertContains(page, "0 new bugs, 0 fixed. ")
        self.assertContains(page, "<option selected>cuda</option>")

    def test_the_number_of_queries_does_not_grow(self) -> None:
        def queries() -> int:
            with CaptureQueriesContext(
                connection,
            ) as found:
                self.client.get("/en/compare/2.5.1...2.6.0/")
            return len(found)

        few = queries()
        self.verdicts(2, v2_5_1=True, v2_6_0=False)
        self.verdicts(3, v2_5_1=True, v2_6_0=True)
        self.assertLessEqual(queries(), few + 1)
        # What only documents say is worked out of the records.
        events = [{"introduced": "2.4.0"}, {"fixed": "2.6.0"}]
        documented = []
        for at in (2, 3, 4):
            self.verdicts(at)
            record = self.records[at]
            record.preconditions = []
            record.affected = [{"package": "torch", "events": events, "source": "s-1"}]
            saving.save(record)
            documented.append(queries())
        self.assertEqual(documented[0], documented[-1])

    def test_pages_invite_to_compare(self) -> None:
        front = self.client.get("/en/")
        self.assertContains(front, 'action="/en/compare/"')
        self.assertContains(front, 'name="from" list="c-sides" value="2.6.0"')
        for path in ("matrix/", "builds/"):
            page = self.client.get(f"/en/{path}")
            self.assertContains(page, 'href="/en/compare/"')
            self.assertNotContains(page, 'action="/en/compare/"')


class CompareApiTest(PageCase):
    def get(self, query: str = "", status: int = 200) -> Any:
        answer = self.client.get(f"{API}?{query}")
        self.assertEqual(answer.status_code, status, answer.content)
        return answer.json()

    def test_the_changes_page_by_page(self) -> None:
        found = self.get("from=2.5.1&to=2.6.0&limit=1&lang=en")
        self.assertEqual(found["counts"]["new"], 1)
        self.assertTrue(found["sentence"].startswith("1 new bug, 1 fixed"))
        (item,) = found["items"]
        self.assertEqual((item["change"], item["basis"]), ("new", "run"))
        self.assertEqual(item["before"]["runs"][0]["verdict"], "bug_absent")
        self.assertEqual(item["after"]["runs"][0]["build"], "2.6.0-cpu")
        following = self.client.get(found["next"]).json()
        self.assertEqual([row["record"] for row in following["items"]], ["NAN-9001"])
        self.assertIsNone(following["next"])

    def test_the_newest_two_where_none_is_named(self) -> None:
        found = self.get()
        self.assertEqual(
            (found["from"]["name"], found["to"]["name"]), ("2.6.0", "2.7.0")
        )
        self.assertEqual(self.get("to=2.6.0")["from"]["name"], "2.5.1")

    def test_refusals(self) -> None:
        self.assertEqual(self.get("from=zebra", 404)["code"], "unknown_build")
        self.assertEqual(self.get("to=2.5.1", 404)["code"], "unknown_build")
        self.assertEqual(self.get("form=2.5.1", 400)["code"], "unknown_parameter")
        self.assertEqual(self.get("device=tpu", 400)["code"], "invalid")
