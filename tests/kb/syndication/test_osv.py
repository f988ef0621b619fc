"""The records as an OSV database: by the official schema, and asked by real clients."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import zipfile
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
from django.test import LiveServerTestCase, TestCase, tag
from django.utils import timezone

from kb.models import Record, Repro
from kb.publishing import saving
from runner.evidence import store
from tests import TESTS
from tests.support import loaded, runs

SCHEMA = TESTS / "support" / "osv" / "osv-schema-1.7.5.json"
CLIENT_S = 120
# One that ends, one that goes on, and one that two packages make together.
RANGE = [{"introduced": "2.0.0a0"}, {"fixed": "2.5.0"}]
BOUNDED = [{"package": "torch", "events": RANGE}]
OPEN = [{"package": "torch", "events": [{"introduced": "2.0.0"}]}]
TOGETHER = [*BOUNDED, {"package": "triton", "events": RANGE}]
LOCK = """
version = 1
requires-python = ">=3.11"

[[package]]
name = "x"
version = "0"
source = {{ virtual = "." }}
dependencies = [{{ name = "torch" }}]

[package.metadata]
requires-dist = [{{ name = "torch" }}]

[[package]]
name = "torch"
version = "{version}"
source = {{ registry = "http://127.0.0.1:9/simple" }}
"""
PROJECT = """
[project]
name = "x"
version = "0"
requires-python = ">=3.11"
dependencies = ["torch"]
"""


def torch(version: str) -> dict[str, Any]:
    return {"package": {"name": "torch", "ecosystem": "PyPI"}, "version": version}


class ShippedTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_every_entry_keeps_the_official_schema(self) -> None:
        response = self.client.get("/osv/PyPI/all.zip")
        packed = zipfile.ZipFile(io.BytesIO(response.content))
        check = jsonschema.Draft202012Validator(
            json.loads(SCHEMA.read_text()), format_checker=jsonschema.FormatChecker()
        )
        names = packed.namelist()
        self.assertGreater(len(names), 10)
        for name in names:
            entry = json.loads(packed.read(name))
            self.assertEqual([str(e) for e in check.iter_errors(entry)], [], name)
            self.assertEqual(f"{entry['id']}.json", name)
            single = self.client.get(f"/osv/v1/vulns/{entry['id']}").json()
            self.assertEqual(single, entry)

    def test_what_never_ends_is_not_exported(self) -> None:
        by_design = Record.objects.filter(upstream="by_design").values_list(
            "pk", flat=True
        )
        self.assertTrue(by_design)
        for record in by_design:
            for entry in Record.objects.get(pk=record).affected:
                if entry.get("events") != [{"introduced": "0"}]:
                    break
            else:
                path = f"/osv/v1/vulns/x_{record}"
                self.assertEqual(self.client.get(path).status_code, 404, record)


class QueryTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()
        runs.make_build()
        cls.document(BOUNDED)

    @classmethod
    def document(cls, affected: list[Any], when: str = "any") -> None:
        record = Record.objects.get(pk="NAN-9001")
        record.affected, record.affected_when, record.fixes = affected, when, []
        saving.save(record)

    def ask(self, query: Any, status: int = 200, path: str = "query") -> Any:
        body = query if isinstance(query, (str, bytes)) else json.dumps(query)
        # pip-audit names no type; neither is this a form.
        response = self.client.post(f"/osv/v1/{path}", body, content_type="")
        self.assertEqual(response.status_code, status, response.content)
        self.assertFalse(response.cookies)
        return response.json()

    def ids(self, query: Any) -> list[str]:
        return [entry["id"] for entry in self.ask(query).get("vulns", [])]

    def test_a_version_in_the_range_has_an_entry_and_another_nothing(self) -> None:
        for version in ("2.4.1", "2.4.1+cpu", "2.0.0"):
            self.assertEqual(self.ids(torch(version)), ["x_NAN-9001"], version)
        for version in ("2.5.0", "2.13.0+cpu", "1.13.1", "no version"):
            self.assertEqual(self.ask(torch(version)), {}, version)

    def test_a_package_is_known_by_any_spelling(self) -> None:
        for package in (
            {"name": "Torch", "ecosystem": "PyPI"},
            {"purl": "pkg:pypi/torch@2.4.1%2Bcpu"},
            {"purl": "pkg:pypi/torch"},
        ):
            self.assertEqual(self.ids({"package": package}), ["x_NAN-9001"])
        anywhere = {"package": {"name": "torch"}, "version": "2.4.1"}
        self.assertEqual(self.ids(anywhere), ["x_NAN-9001"])
        for other in (
            {"package": {"name": "torch", "ecosystem": "npm"}, "version": "2.4.1"},
            {"package": {"purl": "pkg:npm/torch@2.4.1"}},
            {"commit": "6879efc2c1596d11a6a6ad296f80063b558d5e0f"},
        ):
            self.assertEqual(self.ask(other), {})

    def test_a_version_behind_escapes_is_text_like_any_other(self) -> None:
        sent = {"package": {"purl": "pkg:pypi/torch@%00"}}
        answer = self.client.post("/osv/v1/query", sent, "application/json")
        self.assertEqual(answer.status_code, 400)

    def test_a_run_on_that_version_outweighs_the_documents(self) -> None:
        until_99 = [{"introduced": "2.0.0"}, {"fixed": "99"}]
        self.document([{**BOUNDED[0], "events": until_99, "source": "s"}])
        self.assertEqual(self.ids(torch(runs.STAND_IN)), ["x_NAN-9001"])
        repro = Repro.objects.get(record="NAN-9001")
        store.add(runs.make_evidence(repro, bug=False), origin="site")
        self.assertEqual(self.ask(torch(runs.STAND_IN)), {})

    def test_an_open_range_and_two_packages_together_are_left_out(self) -> None:
        for affected, when in ((OPEN, "any"), (TOGETHER, "all"), ([], "any")):
            self.document(affected, when)
            self.assertEqual(self.ask(torch("2.4.1")), {}, affected)
            found = self.client.get("/osv/v1/vulns/x_NAN-9001")
            self.assertEqual(found.status_code, 404)
        self.document(TOGETHER, "any")
        self.assertEqual(self.ids(torch("2.4.1")), ["x_NAN-9001"])

    def test_a_batch_answers_in_order(self) -> None:
        batch = {"queries": [torch("2.5.0"), torch("2.4.1"), {"commit": "0"}]}
        first, second, third = self.ask(batch, path="querybatch")["results"]
        self.assertEqual((first, third), ({}, {}))
        (entry,) = second["vulns"]
        self.assertEqual(entry["id"], "x_NAN-9001")
        whole = self.client.get("/osv/v1/vulns/NAN-9001").json()
        self.assertEqual(entry["modified"], whole["modified"])
        text = self.client.get("/osv/PyPI/modified_id.csv").text
        self.assertEqual(
            list(csv.reader([text.strip()])), [[entry["modified"], entry["id"]]]
        )

    def test_dates_are_those_of_the_files_on_every_site(self) -> None:
        record = Record.objects.get(pk="NAN-9001")
        told = {"kind": "report", "url": "https://a.b", "title": "t", "id": "t"}
        record.sources = [{**told, "date": "2024-02-03"}]
        record.affected = [{**entry, "source": "t"} for entry in record.affected]
        saving.save(record)

        def dates() -> list[str]:
            # As if this site had loaded it today, or years ago.
            Record.objects.update(modified=timezone.now() + timedelta(days=900))
            entry = self.client.get("/osv/v1/vulns/NAN-9001").json()
            feed = self.client.get("/en/feed.atom").text
            self.assertIn(f"<updated>{entry['published'][:10]}", feed)
            return [entry["published"][:10], entry["modified"][:10]]

        self.assertEqual(dates(), ["2024-02-03", "2024-02-03"])
        Record.objects.update(updated="2025-06-07")
        self.assertEqual(dates()[1], "2025-06-07")
        evidence = runs.make_evidence(record.repros.get())
        evidence["started_at"] = "2026-01-02T03:04:05Z"
        store.add(runs.signed(evidence), origin="site")
        self.assertEqual(dates(), ["2026-01-02", "2026-01-02"])

    def test_a_withdrawn_record_says_so_where_it_is_asked_for(self) -> None:
        record = Record.objects.get(pk="NAN-9001")
        record.publication = "withdrawn"
        saving.save(record)
        self.assertEqual(self.ask(torch("2.4.1")), {})
        self.assertIn("withdrawn", self.client.get("/osv/v1/vulns/NAN-9001").json())

    def test_a_site_without_records_says_of_no_package_that_it_is_well(self) -> None:
        Record.objects.all().delete()
        self.assertEqual(self.ask(torch("2.4.1"), 503)["code"], 14)
        self.ask({"queries": [torch("2.4.1")]}, 503, "querybatch")
        self.assertEqual(self.client.get("/osv/PyPI/all.zip").status_code, 503)

    def test_what_is_wrong_with_a_query_is_said(self) -> None:
        for query in (
            *("", "{", b"\xff", "[]", "{}", "null", "[" * 100_000),
            {"package": "torch"},
            {"package": {}},
            {"package": {"name": "torch"}},
            {"package": {"name": 3, "ecosystem": "PyPI"}},
            {"package": {"name": "x" * 101, "ecosystem": "PyPI"}},
            {"package": {"purl": "pkg:pypi/torch@2.4.1"}, "version": "2.4.1"},
            {**torch("2.4.1"), "version": 2.4},
            *(torch("2.4.1\0"), torch("\ud800")),
        ):
            answer = self.ask(query, 400)
            self.assertEqual(set(answer), {"code", "message"})
            self.ask(
                {"queries": [query]} if isinstance(query, dict) else query,
                400,
                "querybatch",
            )
        self.ask({"queries": [torch("2.4.1")] * 1001}, 400, "querybatch")
        self.assertEqual(self.client.get("/osv/v1/query").status_code, 405)
        for name in ("GHSA-0000", "NAN-0001%00"):
            missing = self.client.get(f"/osv/v1/vulns/{name}")
            self.assertEqual((missing.status_code, missing.json()["code"]), (404, 5))


@tag("any_database")
class ClientTest(LiveServerTestCase):
    """pip-audit and uv, as people start them; no index and no network is there."""

    def setUp(self) -> None:
        runs.load_sample()
        QueryTest.document(BOUNDED)
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_client(self, *command: str) -> subprocess.CompletedProcess[str]:
        tool = Path(sys.executable).parent / command[0]
        return subprocess.run(
            [str(tool), *command[1:]],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=CLIENT_S,
            check=False,
        )

    def test_pip_audit(self) -> None:
        for version, status in (("2.4.1", 1), ("2.5.0", 0)):
            (self.folder / "requirements.txt").write_text(f"torch=={version}\n")
            done = self.run_client(
                *("pip-audit", "-s", "osv", "--osv-url"),
                f"{self.live_server_url}/osv/v1/query",
                *("-r", "requirements.txt", "--no-deps", "--disable-pip"),
                *("--format", "json", "--progress-spinner", "off"),
            )
            self.assertEqual(done.returncode, status, done.stderr)
            (package,) = json.loads(done.stdout)["dependencies"]
            found = [(entry["id"], entry["fix_versions"]) for entry in package["vulns"]]
            self.assertEqual(found, [("x_NAN-9001", ["2.5.0"])] * status)

    def test_uv(self) -> None:
        (self.folder / "pyproject.toml").write_text(PROJECT)
        for version, status in (("2.4.1", 1), ("2.5.0", 0)):
            (self.folder / "uv.lock").write_text(LOCK.format(version=version))
            done = self.run_client(
                *("uv", "audit", "--frozen", "--preview-features", "audit-command"),
                *("--service-url", f"{self.live_server_url}/osv/"),
            )
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual("x_NAN-9001" in done.stdout, bool(status), done.stdout)
            if status:
                self.assertIn(f"{self.live_server_url}/en/NAN-9001/", done.stdout)
