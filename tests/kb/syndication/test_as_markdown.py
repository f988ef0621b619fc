"""Records as Markdown, and the list of them that programs ask for."""

from __future__ import annotations

import re

from django.test import TestCase, tag

from kb.models import Record
from runner.evidence import store
from tests.support import loaded, runs

LISTED = re.compile(r"(?m)^- \[(NAN-\d{4}) .*?\]\(http://testserver(/\S+)\)")


@tag("any_database")
class ShippedTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def text(self, path: str) -> str:
        response = self.client.get(path)
        self.assertEqual(response.status_code, 200, path)
        self.assertRegex(response["Content-Type"], "^text/(markdown|plain)")
        return response.text

    def test_every_listed_record_is_there_in_both_languages(self) -> None:
        listed = LISTED.findall(self.text("/llms.txt"))
        self.assertEqual(len(listed), Record.objects.visible().count())
        for pk, path in listed:
            for lang in ("en", "zh"):
                text = self.text(path.replace("/en/", f"/{lang}/"))
                record = Record.objects.get(pk=pk)
                title = record.text("title", lang)
                self.assertTrue(text.startswith(f"# {pk} {title}\n"), path)
                self.assertNotRegex(text, r"(?m)^(apply|diagnose)_\w+$", path)
                self.assertEqual(text.count("```") % 2, 0, path)

    def test_it_prints_what_was_run(self) -> None:
        text = self.text("/en/NAN-0015/where-inactive-branch-nan-grad.md")
        record = Record.objects.get(pk="NAN-0015")
        for row in record.workarounds:
            if row["kind"] == "code":
                self.assertIn(row["apply"], text)
        self.assertIn("FAIL · bug reproduced", text)
        self.assertIn("def diagnose_", text)
        self.assertIn("未通过 · 缺陷已复现", self.text("/zh/NAN-0015.md"))


class SampleTest(TestCase):
    def test_neighbouring_builds_with_one_verdict_are_one_line(self) -> None:
        record = runs.load_sample()
        store.add(runs.make_evidence(record.repros.get()), origin="site")
        text = self.client.get("/en/NAN-9001.md").text
        self.assertIn("- torch 9.9.0+cpu, cpu, repro.py: ✖ FAIL", text)

    def test_a_workaround_that_helps_on_some_builds_names_these(self) -> None:
        """Never "does not help" over one that the text below tells to prefer."""
        record = runs.load_sample()
        body = runs.make_evidence(record.repros.get())
        store.add(body, origin="site")
        body = runs.make_evidence(record.repros.get())
        body["build"].update(raw="9.8.0+cpu", slug="9.8.0-cpu")
        for check in body["checks"]:
            if check["name"].startswith("workaround_"):
                useless = {"nonfinite": 1, "grad": 1.0}
                check.update(outcome="bug", observations=useless)
        body["workarounds"] = dict.fromkeys(body["workarounds"], "does_not_help")
        store.add(runs.signed(body), origin="site")
        text = self.client.get("/en/NAN-9001.md").text
        self.assertIn("(helps on 1 of 2 builds: 9.9.0-cpu)\n", text)
        self.assertNotIn("does not help", text)
        said = "在运行过的 2 个构建中，对 1 个有效：9.9.0-cpu"
        self.assertIn(said, self.client.get("/zh/NAN-9001.md").text)

    def test_what_is_no_record_is_not_found(self) -> None:
        for path in ("/en/NAN-7777.md", "/en/NAN-9001/x/y.md", "/en/nan.md"):
            self.assertEqual(self.client.get(path).status_code, 404, path)
