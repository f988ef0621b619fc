"""The API under made-up requests: no server error, and no undocumented answer.

schemathesis makes them from the served schema, valid and not; the same ones each time.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from typing import Any

from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import TestCase, override_settings, tag

from config import api_schema
from kb.search.index.generation import current_generation
from runner.evidence import store
from runner.models import Capture
from runner.models.token import Token
from runner.takeaway import wheel
from tests.support import captures, parametrized, runs

EXAMPLES = 60
# As large as a body may be, and larger.
HUGE = b'{"log": "' + b"x" * 10_000_000 + b'"}'
BODIES = {
    "nested 100,000 deep": b"[" * 100_000,
    "objects nested": b'{"log":' * 50_000,
    "not a number": b'{"log": NaN}',
    "infinity": b'{"trials": -Infinity}',
    "5,000 digits": b'{"trials": ' + b"9" * 5000 + b"}",
    "a key twice": b'{"log": 1, "log": 2}',
    "10 MB": HUGE,
    "no JSON": b"log=1",
    "no UTF-8": b"\xff\xfe",
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"log"',
    "NUL": b'{"record": "NAN-\\u0000001", "build": "\\u0000"}',
    "half a surrogate": b'{"record": "\\ud800", "build": "\\udfff"}',
    "another type": b'{"record": {}, "build": [], "trials": "many", "again": 7}',
    "deep in a field": b'{"record": ' + b"[" * 500 + b"]" * 500 + b"}",
}  # fmt: skip


class Fixture(TestCase):
    known: dict[str, str]
    bodies: dict[str, Any]

    @classmethod
    def setUpTestData(cls) -> None:
        repro = runs.load_sample().repros.get()
        runs.make_build()
        body = runs.make_evidence(repro)
        store.add(body, origin="site")
        user = User.objects.create_user("ann")
        run = runs.make_run(repro, requester=f"user:{user.pk}")
        swept = parametrized.make_repro("swept")
        sweep = runs.make_sweep(requester=run.requester)
        cls.known = {
            "record_id": repro.record_id,
            "name": "repro.py",
            "digest": body["digest"],
            "run_id": str(run.pk),
            "sweep_id": str(sweep.pk),
            "capture_id": str(Capture.objects.create(text="{}").pk),
            "from": "2.12.0",
            "to": runs.SLUG,
        }
        again = runs.make_evidence(repro, started_at="2026-02-03T04:05:06Z")
        cls.bodies = {
            "SweepRequest": {
                "record": swept.record_id,
                "repro": swept.name,
                "build": runs.SLUG,
                "axes": {"length": "6"},
            },
            "RunRequest": {"record": repro.record_id, "build": runs.SLUG},
            "Evidence": again,
            "SentCapture": captures.capture(),
            "InstalledRequest": {"env": "torch==2.5.1"},
        }
        cls.secret = runs.token_of("ann", *Token.Scope.values)

    def setUp(self) -> None:
        runs.install_stand_in(self)
        self.headers = {"Authorization": f"Bearer {self.secret}"}


class HostileBodyTest(Fixture):
    def test_every_operation_that_takes_a_body(self) -> None:
        for path in (
            "lookup",
            "runs",
            "evidence",
            "runs/x/cancel",
            "sweeps",
            "captures",
            "captures/x/delete",
        ):
            for name, body in BODIES.items():
                with self.subTest(path, body=name):
                    response = self.client.post(
                        f"/api/v1/{path}",
                        body,
                        "application/json",
                        headers=self.headers,
                    )
                    self.assertIn(response.status_code, (400, 404, 413, 422))
                    kind = response["Content-Type"]
                    self.assertEqual(kind, "application/problem+json")
                    self.assertTrue(response.json()["detail"])

    def test_a_body_of_another_kind(self) -> None:
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "x",
            "image/png",
        ):
            for path in ("lookup", "runs"):
                with self.subTest(path, kind=kind):
                    response = self.client.post(
                        f"/api/v1/{path}", b"log=1", kind, headers=self.headers
                    )
                    self.assertEqual(response.status_code, 415)

    def test_methods_that_there_are_not(self) -> None:
        for method in ("PUT", "PATCH", "DELETE", "TRACE"):
            for path in ("records", "records/NAN-9001", "runs", "evidence", "lookup"):
                with self.subTest(path, method=method):
                    response = self.client.generic(method, f"/api/v1/{path}")
                    self.assertEqual(response.status_code, 405)
                    self.assertIn("Allow", response)

    def test_a_name_of_a_file_that_is_another_address(self) -> None:
        response = self.client.get("/api/v1/records/NAN-9001/affected")
        self.assertEqual(response.status_code, 405)
        path = "/api/v1/records/{record_id}/{name}"
        described = api_schema.document()["paths"][path]["get"]["responses"]
        self.assertIn("405", described)


SITE = "http://site.example"


# With the brokers: two minutes.
@tag("servers", "fuzz")
class SchemathesisTest(Fixture):
    def setUp(self) -> None:
        super().setUp()
        # A request that does not come from Django's own test client would close the
        # connection of the test, and with it the test's transaction.
        for signal in (request_started, request_finished):
            signal.disconnect(close_old_connections)
            self.addCleanup(signal.connect, close_old_connections)

    def known_only(self) -> dict[str, Any]:
        """Operations on one thing, asked for one there is: no guess finds an id."""
        document = deepcopy(api_schema.document())
        for path, methods in list(document["paths"].items()):
            held = [self.hold(operation) for operation in methods.values()]
            if not any(held):
                del document["paths"][path]
        return document

    def hold(self, operation: dict[str, Any]) -> bool:
        """Let an operation ask for nothing but what the fixture has; was there any?"""
        schemas = []
        for parameter in operation.get("parameters", []):
            if parameter["name"] in self.known:
                schemas.append((parameter, self.known[parameter["name"]]))
        for sent in operation.get("requestBody", {}).get("content", {}).values():
            name = sent["schema"]["$ref"].rpartition("/")[2]
            if name in self.bodies:
                schemas.append((sent, self.bodies[name]))
        for where, value in schemas:
            where["schema"] = {"enum": [value]}
        return bool(schemas)

    def fuzz(self, document: dict[str, Any], only: str = "") -> Counter[str]:
        """Statuses by operation; every answer checked against the document."""
        # A developer's tool, heavy to import: only where it is used.
        import schemathesis
        from hypothesis import (
            HealthCheck,
            errors,
            given,
            settings as hypothesis_settings,
        )
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi import checks

        schema = schemathesis.openapi.from_dict(json.loads(json.dumps(document)))
        schema.app = WSGIHandler()
        wanted = [
            not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
        ]
        seen: Counter[str] = Counter()
        valid, broken = schemathesis.GenerationMode

        def called(operation: Any, mode: Any) -> None:
            @hypothesis_settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def call(case: Any) -> None:
                # Over WSGI nothing undoes the compression that the client would take.
                headers = {**self.headers, "Accept-Encoding": "identity"}
                response = case.call_and_validate(headers=headers, checks=wanted)
                seen[f"{case.method} {case.path} {response.status_code}"] += 1

            call()

        for found in schema.get_all_operations():
            operation = found.ok()
            if only in ("", operation.label):
                called(operation, valid)
                # Where nothing can be said wrong there is nothing to try.
                with suppress(errors.Unsatisfiable):
                    called(operation, broken)
        return seen

    @override_settings(ALLOWED_HOSTS=["*"], SITE_URL=SITE)
    def test_no_server_error_and_no_undocumented_answer(self) -> None:
        self.known["version"] = wheel.of_site(current_generation(), SITE).version
        seen = self.fuzz(api_schema.document()) + self.fuzz(self.known_only())
        self.assertGreater(seen.total(), 20 * EXAMPLES)
        asked = {key.rpartition(" ")[0] for key in seen}
        answered = {key.rpartition(" ")[0] for key in seen if key[-3] == "2"}
        self.assertEqual(asked - answered, set())

    @override_settings(ALLOWED_HOSTS=["*"])
    def test_an_answer_that_is_not_described_is_found(self) -> None:
        document = deepcopy(api_schema.document())
        path = "/api/v1/records/{record_id}"
        del document["paths"][path]["get"]["responses"]["404"]
        # Heavy to import, as above.
        from schemathesis.core.failures import FailureGroup

        with self.assertRaises(FailureGroup) as caught:
            self.fuzz(document, f"GET {path}")
        self.assertIn("Undocumented", str(caught.exception.exceptions[0]))
