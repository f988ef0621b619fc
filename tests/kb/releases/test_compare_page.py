"""Comparisons as page, over the API and in a shell."""

from __future__ import annotations

import io
import json
import tempfile
from typing import Any

from django.core.management import CommandError, call_command
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
        self.assertContains(page, "1 fixed, 1 new, 0 the same, 3 not tested on both")
        self.assertContains(page, 'id="new"')
        text = page.content.decode()
        self.assertLess(text.index('id="new"'), text.index('id="fixed"'))
        self.assertEqual(text.count("/en/evidence/"), 4)
        self.assertContains(
            self.client.get("/zh/compare/2.5.1...2.6.0/"),
            "1 条已修复，1 条新出现，0 条不变，3 条没有在两边都测试过",
        )

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

    def test_what_is_no_build_is_named(self) -> None:
        page = self.client.get("/en/compare/?from=2.5.1&to=<zebra>")
        self.assertContains(page, "“&lt;zebra&gt;” is no torch build", status_code=404)
        page = self.client.get("/en/compare/zebra...2.6.0/")
        self.assertContains(page, "“zebra” is no torch build", status_code=404)
        self.assertContains(self.client.get("/en/compare/"), 'value="2.6.0"')

    def test_a_release_that_nobody_ran_is_no_clean_one(self) -> None:
        page = self.client.get("/en/compare/2.5.1...2.6.1/")
        self.assertContains(page, "0 fixed, 0 new, 0 the same, 5 not tested on both")
        self.assertContains(page, "Nobody has run anything on torch 2.6.1 here")

    def test_sent_evidence_keeps_its_origin(self) -> None:
        record = self.records[0]
        sent = finding(record, "2.6.0", False, origin="a-laptop")
        self.keep(0, finding(record, "2.5.1", True), sent)
        page = self.client.get("/en/compare/2.5.1...2.6.0/")
        self.assertContains(page, "a-laptop · uploaded by a user, not re-run by us")

    def test_a_pasted_list_narrows_and_is_not_trusted(self) -> None:
        address = "/en/compare/2.5.1...2.6.0/"
        page = self.client.post(address, {"env": "torch==2.7.0\n<b>\n"})
        self.assertContains(page, "Your list has torch 2.7.0")
        self.assertContains(page, "/en/compare/2.7.0...2.6.0/")
        self.assertContains(page, "&lt;b&gt;")
        self.assertNotContains(page, "<b>\n")
        page = self.client.post(address, {"env": "nothing here"})
        self.assertContains(page, "No package with a version was found")
        page = self.client.post(address, {"env": "x" * 2**21})
        self.assertContains(page, "more than 1 MiB")

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
        for path in ("", "matrix/", "builds/"):
            with self.subTest(path):
                page = self.client.get(f"/en/{path}")
                self.assertContains(page, 'action="/en/compare/"')
                self.assertContains(page, 'name="from" list="c-sides" value="2.6.0"')


class CompareApiTest(PageCase):
    def get(self, query: str = "", status: int = 200) -> Any:
        answer = self.client.get(f"{API}?{query}")
        self.assertEqual(answer.status_code, status, answer.content)
        return answer.json()

    def test_the_changes_page_by_page(self) -> None:
        found = self.get("from=2.5.1&to=2.6.0&limit=1&lang=en")
        self.assertEqual(found["counts"]["new"], 1)
        self.assertTrue(found["sentence"].startswith("1 fixed, 1 new"))
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


class CompareCommandTest(PageCase):
    def run_command(self, *args: str) -> tuple[int, str]:
        out = io.StringIO()
        try:
            call_command("compare", *args, stdout=out)
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue()
        except CommandError as error:
            return error.returncode, str(error)
        return 0, out.getvalue()

    def test_exit_statuses(self) -> None:
        rows = {
            ("2.5.1", "2.6.0"): 1,
            ("2.6.0", "2.7.0"): 0,
            ("2.5.1", "2.6.1"): 125,
            ("2.5.1", "zebra"): 2,
        }
        for sides, expected in rows.items():
            with self.subTest(sides):
                self.assertEqual(self.run_command(*sides)[0], expected)

    def test_what_it_prints(self) -> None:
        _status, text = self.run_command("2.5.1", "2.6.0")
        first, second, *_rest = text.splitlines()
        self.assertEqual(first, "torch 2.5.1 → 2.6.0")
        self.assertEqual(second, "1 fixed, 1 new, 0 the same, 3 not tested on both")
        self.assertLess(text.index("NAN-9002"), text.index("NAN-9001"))

    def test_json_and_a_list_of_packages(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("torch==2.5.1\n")
            file.flush()
            _status, text = self.run_command(
                "2.5.1", "2.6.0", "--json", "--env", file.name
            )
        data = json.loads(text)
        changes = [(item["change"], item["record"]) for item in data["items"]]
        self.assertEqual(changes, [("new", "NAN-9002"), ("fixed", "NAN-9001")])
        self.assertEqual(data["installed"]["left_out"], {})
        self.assertEqual(len(data["items"][0]["evidence"][0]), 1)


class InstalledTest(PageCase):
    """The comparison over the API, narrowed by a list of packages."""

    def ask(self, env: str, status: int = 200, query: str = "") -> Any:
        path = f"{API}?from=2.5.1&to=2.6.0{query}"
        answer = self.client.post(path, {"env": env}, content_type="application/json")
        self.assertEqual(answer.status_code, status)
        return answer.json()

    def test_what_is_not_installed_is_left_out(self) -> None:
        record = self.records[0]
        record.affected = [{"package": "deepspeed", "events": [{"introduced": "0"}]}]
        saving.save(record)
        whole = self.client.get(f"{API}?from=2.5.1&to=2.6.0").json()
        self.assertIsNone(whole["installed"])
        self.assertEqual(len(whole["items"]), 2)
        found = self.ask("torch==2.5.1\nnot a package line ( at all\n")
        self.assertEqual([item["record"] for item in found["items"]], ["NAN-9002"])
        self.assertEqual(found["installed"]["left_out"], {"deepspeed": ["NAN-9001"]})
        self.assertEqual(found["installed"]["unparsed_lines"], 1)

    def test_pages_are_walked_with_the_same_list(self) -> None:
        first = self.ask("torch==2.5.1", query="&limit=1")
        body = {"env": "torch==2.5.1"}
        then = self.client.post(first["next"], body, content_type="application/json")
        records = [page["items"][0]["record"] for page in (first, then.json())]
        self.assertEqual(records, ["NAN-9002", "NAN-9001"])
        self.assertIsNone(then.json()["next"])

    def test_a_list_without_versions_is_refused(self) -> None:
        for env in ("", "nothing here", "\x00\x01\x02"):
            self.assertEqual(self.ask(env, 400)["code"], "empty_paste")
