"""The API under made-up requests: no server error, and no undocumented answer.

schemathesis makes them from the served schema, valid and not; the same ones each time.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.test import TestCase, override_settings, tag
from django.utils import timezone

from config import api_schema
from runner import evidence
from runner.api_models import Token
from tests import runs

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
    @classmethod
    def setUpTestData(cls) -> None:
        repro = runs.load_sample().repros.get()
        runs.make_build()
        evidence.add(runs.make_evidence(repro), origin="site")
        runs.make_run(repro, state="cancelled")
        user = User.objects.create_user("ann")
        later = timezone.now() + timedelta(days=1)
        scopes = list(Token.Scope.values)
        _token, cls.secret = Token.issue("ann", user, scopes, later)

    def setUp(self) -> None:
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        runs.install(runs.stand_in_torch(folder))
        self.headers = {"Authorization": f"Bearer {self.secret}"}


class HostileBodyTest(Fixture):
    def test_every_operation_that_takes_a_body(self) -> None:
        for path in ("lookup", "runs", "evidence", "runs/x/cancel"):
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


# With the browser and the brokers: some minutes on two cores.
@tag("gauntlet")
class SchemathesisTest(Fixture):
    def fuzz(self, document: dict[str, Any], only: str = "") -> Counter[str]:
        """Statuses by operation; every answer checked against the document."""
        # A developer's tool, heavy to import: only where it is used.
        import schemathesis
        from hypothesis import HealthCheck, errors, given
        from hypothesis import settings as hypothesis_settings
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
                response = case.call_and_validate(headers=self.headers, checks=wanted)
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

    @override_settings(ALLOWED_HOSTS=["*"])
    def test_no_server_error_and_no_undocumented_answer(self) -> None:
        seen = self.fuzz(api_schema.document())
        self.assertGreater(seen.total(), 20 * EXAMPLES)

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
