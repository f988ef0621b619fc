"""Walks through lists: each row once, while others are added before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from kb.models import Record
from runner.evidence import store
from runner.models import Build, Evidence, Run
from tests.support import runs

MOST_PAGES = 200
START = datetime(2026, 1, 1, tzinfo=UTC)


class WalkTest(TestCase):
    def pages(self, path: str) -> Any:
        """Each page's items, until there is no next; what is added is the caller's."""
        address: str | None = f"/api/v1/{path}"
        for _page in range(MOST_PAGES):
            response = self.client.get(address)
            self.assertEqual(response.status_code, 200, response.content)
            body = response.json()
            yield body["items"]
            address = body["next"]
            if address is None:
                self.assertNotIn("Link", response)
                return
            self.assertEqual(response["Link"], f'<{address}>; rel="next"')
        self.fail(f"{path} goes on after {MOST_PAGES} pages")

    def assert_walk(self, path: str, key: str, add: Any, before: set[str]) -> None:
        """All of `before` once, nothing twice, though each page adds more rows."""
        seen = []
        for items in self.pages(path):
            seen += [item[key] for item in items]
            add()
        self.assertEqual(len(seen), len(set(seen)))
        self.assertLessEqual(before, set(seen))

    def assert_walk_of_records(self, path: str, numbers: range) -> None:
        ids = (f"NAN-{number:04}" for number in numbers)
        before = {runs.make_record(next(ids)).id for _ in range(20)}

        def add() -> None:
            for _ in range(3):
                runs.make_record(next(ids))

        self.assert_walk(path, "id", add, before)

    def test_records(self) -> None:
        self.assert_walk_of_records("records?limit=2", range(9998, 1, -1))

    def test_records_of_a_search(self) -> None:
        self.assert_walk_of_records("records?limit=2&q=sample", range(100, 9999))

    def test_builds(self) -> None:
        slugs = (f"1.0.{number:06}" for number in count(9999, -1))
        before = {runs.make_build(next(slugs), "1.0.0").slug for _ in range(20)}

        def add() -> None:
            for _ in range(3):
                runs.make_build(next(slugs), "1.0.0")

        self.assert_walk("builds?limit=2", "slug", add, before)
        self.assertGreater(Build.objects.count(), 20)

    def test_runs(self) -> None:
        repro = runs.make_repro()
        over = {"state": Run.State.CANCELLED}
        before = {str(runs.make_run(repro, **over).pk) for _ in range(12)}

        def add() -> None:
            for _ in range(3):
                runs.make_run(repro, **over)

        self.assert_walk("runs?limit=2", "id", add, before)
        # Rows of one and the same moment are told apart as well.
        Run.objects.update(created_at=START)
        every = {str(pk) for pk in Run.objects.values_list("pk", flat=True)}
        self.assert_walk("runs?limit=2", "id", bool, every)

    def test_evidence(self) -> None:
        repro = runs.make_repro()
        moments = iter(range(10_000))

        def add(wanted: int = 3) -> set[str]:
            made = set()
            for _ in range(wanted):
                at = START + timedelta(seconds=next(moments))
                body = runs.make_evidence(repro, started_at=at.isoformat())
                made.add(store.add(body, origin="site").digest)
            return made

        self.assert_walk("evidence?limit=2", "digest", add, add(10))
        self.assertGreater(Evidence.objects.count(), 10)

    def test_workers(self) -> None:
        for number in range(5):
            runs.make_worker(f"w{number}")
        names = [
            item["name"] for page in self.pages("workers?limit=2") for item in page
        ]
        self.assertEqual(names, ["w0", "w1", "w2", "w3", "w4"])

    def test_a_cursor_of_a_search_is_none_of_the_list(self) -> None:
        for number in (2, 3):
            runs.make_record(f"NAN-{number:04}")
        for query in ("", "&q=sample"):
            address = f"/api/v1/records?limit=1{query}"
            found = self.client.get(address).json()["next"]
            other = found.replace(query, "") if query else f"{found}&q=sample"
            self.assertEqual(self.client.get(found).status_code, 200)
            self.assertEqual(self.client.get(other).status_code, 404)

    def test_a_cursor_belongs_to_its_list(self) -> None:
        for number in range(3):
            runs.make_build(f"1.0.{number}", "1.0.0")
        (cursor,) = parse_qs(
            urlsplit(self.client.get("/api/v1/builds?limit=1").json()["next"]).query
        )["cursor"]
        for path, sent in [
            ("records", cursor),
            ("builds", cursor[:-1] + ("A" if cursor[-1] != "A" else "B")),
        ]:
            with self.subTest(path, sent=sent):
                response = self.client.get(f"/api/v1/{path}?cursor={sent}")
                self.assertEqual(response.status_code, 404)
                self.assertEqual(response.json()["errors"][0]["pointer"], "/cursor")
        Record.objects.all().delete()


class RevalidationTest(TestCase):
    """A read that has not changed is a 304; one that has, is not."""

    def setUp(self) -> None:
        self.record = runs.load_sample()
        self.repro = self.record.repros.get()
        runs.make_build()

    def tag(self, path: str) -> str:
        response = self.client.get(f"/api/v1/{path}")
        self.assertEqual(response.status_code, 200)
        return str(response["ETag"])

    def status(self, path: str, tag: str) -> int:
        response = self.client.get(
            f"/api/v1/{path}", headers={"If-None-Match": f'"x", W/{tag}'}
        )
        if response.status_code == 304:
            self.assertEqual(response.content, b"")
            self.assertEqual(response["ETag"], tag)
            self.assertIn("Accept-Language", response["Vary"])
        return response.status_code

    def test_every_read(self) -> None:
        body = runs.make_evidence(self.repro)
        store.add(body, origin="site")
        run = runs.make_run(self.repro)
        for path in (
            "records", "records?q=sample", "records/NAN-9001", "builds", "workers",
            "records/NAN-9001/matrix", "records/NAN-9001/repro.py", "runs",
            f"runs/{run.pk}", f"runs/{run.pk}/log", "evidence", "contradictions",
            f"evidence/{body['digest']}", "openapi.json", "doctor.py",
        ):  # fmt: skip
            with self.subTest(path):
                self.assertEqual(self.status(path, self.tag(path)), 304)
                self.assertEqual(self.status(path, '"another"'), 200)

    def test_what_changes_a_record(self) -> None:
        path = "records/NAN-9001"
        steps = [
            lambda: store.add(runs.make_evidence(self.repro), origin="site"),
            lambda: store.add(
                runs.make_evidence(self.repro, started_at="2026-02-02T03:04:05Z"),
                origin="site",
            ),
            lambda: self.record.findings.update(stale=True),
            self.record.save,
        ]
        for step in steps:
            tag = self.tag(path)
            step()
            with self.subTest(step):
                self.assertEqual(self.status(path, tag), 200)
                self.assertEqual(self.status(f"{path}/matrix", tag), 200)

    def test_what_changes_a_run(self) -> None:
        run = runs.make_run(self.repro)
        ahead = {"created_at": START}
        for change in ({"phase": "trigger 1/1"}, {"state": "cancelled"}, ahead):
            tag = self.tag(f"runs/{run.pk}")
            Run.objects.filter(pk=run.pk).update(**change)
            with self.subTest(change):
                self.assertEqual(self.status(f"runs/{run.pk}", tag), 200)

    def test_the_database_is_not_asked_for_each_row(self) -> None:
        paths = ["records", "records?q=sample", "records/NAN-9001", "builds", "workers"]
        paths += ["records/NAN-9001/matrix", "runs", "evidence", "contradictions"]
        self.add_a_row_of_each(1)
        few = {path: self.queries(path) for path in paths}
        for number in (2, 3, 4):
            self.add_a_row_of_each(number)
        for path in paths:
            with self.subTest(path):
                self.assertLessEqual(self.queries(path), few[path])

    def add_a_row_of_each(self, number: int) -> None:
        record = runs.make_record(f"NAN-000{number}")
        repro = runs.make_repro(name=f"r{number}", record=record.id)
        store.add(runs.make_evidence(repro), origin="site")
        moment = f"2026-01-0{number + 3}T03:04:05Z"
        store.add(runs.make_evidence(self.repro, started_at=moment), origin="site")
        runs.make_run(repro, state=Run.State.CANCELLED)
        build = runs.make_build(f"1.0.{number}", "1.0.0")
        runs.install(f"/python{number}", slug=build.slug)
        runs.make_worker(f"w{number}")

    def queries(self, path: str) -> int:
        self.client.get(f"/api/v1/{path}")  # What a process keeps is kept then.
        with CaptureQueriesContext(connection) as found:
            response = self.client.get(f"/api/v1/{path}")
        self.assertEqual(response.status_code, 200)
        return len(found)

    def test_a_304_asks_the_database_less(self) -> None:
        tag = self.tag("records/NAN-9001")
        with self.assertNumQueries(2):
            self.assertEqual(self.status("records/NAN-9001", tag), 304)

    def test_how_long_an_answer_is_kept(self) -> None:
        body = runs.make_evidence(self.repro)
        store.add(body, origin="site")
        for path, kept in [
            ("records", "no-cache"),
            (f"evidence/{body['digest']}", "public, max-age=31536000, immutable"),
            ("records/NAN-7777", "no-store"),
        ]:
            with self.subTest(path):
                response = self.client.get(f"/api/v1/{path}")
                self.assertEqual(response["Cache-Control"], kept)

    def test_other_origins_may_read_and_nothing_more(self) -> None:
        origin = {"Origin": "https://example.org"}
        for method, path, may in [
            ("GET", "records", True),
            ("GET", "records/NAN-7777", True),
            ("POST", "lookup", True),
            ("POST", "runs", False),
            ("POST", "evidence", False),
        ]:
            with self.subTest(path, method=method):
                address = f"/api/v1/{path}"
                response = self.client.generic(method, address, headers=origin)
                self.assertIs("Access-Control-Allow-Origin" in response, may)
                self.assertNotIn("Access-Control-Allow-Credentials", response)
                asked = self.client.options(address, headers=origin)
                self.assertEqual(asked.status_code, 204)
                allowed = asked["Access-Control-Allow-Methods"]
                self.assertIs(method in allowed, may)
                self.assertNotIn("Authorization", asked["Access-Control-Allow-Headers"])
        with self.settings(READ_LOGIN=True):
            refused = self.client.get("/api/v1/records", headers=origin)
            self.assertNotIn("Access-Control-Allow-Origin", refused)
            self.assertIn("Authorization", refused["Vary"])
