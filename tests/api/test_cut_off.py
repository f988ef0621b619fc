"""A connection that breaks in the middle of a body: a problem document, no 500."""

from __future__ import annotations

from typing import Any

from django.test import TestCase

from tests.support import runs


class Broken:
    """As a server hands on a connection that its client has reset."""

    def read(self, *size: int) -> bytes:
        raise ConnectionResetError

    readline = read


class CutOffTest(TestCase):
    def ask(self, path: str) -> Any:
        broken: dict[str, Any] = {
            "wsgi.input": Broken(),
            "CONTENT_LENGTH": "9",
            "CONTENT_TYPE": "application/json",
        }
        return self.client.generic("POST", path, **broken)

    def test_it_is_told_as_a_problem(self) -> None:
        runs.load_sample()
        answer = self.ask("/api/v1/lookup")
        self.assertEqual(answer.status_code, 400)
        self.assertEqual(answer.json()["code"], "malformed")
        self.assertEqual(self.ask("/osv/v1/query").status_code, 400)
