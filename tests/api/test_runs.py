"""POST /runs: sent twice, waited for, and what a client is told to do next."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from django.conf import settings
from django.test import Client, TestCase

from runner.api import prefer as api_waiting
from runner.models import Run
from runner.runs import ledger
from tests.support import runs

PATH = "/api/v1/runs"


class SubmitTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.load_sample().repros.get()
        runs.install_stand_in(self)

    def post(self, headers: dict[str, str] | None = None, **fields: Any) -> Any:
        body = {"record": "NAN-9001", "build": runs.SLUG, **fields}
        return self.client.post(
            PATH, json.dumps(body), content_type="application/json", headers=headers
        )

    def finish(self) -> None:
        """What a worker does with the run that waits."""
        run = Run.objects.get(state=Run.State.QUEUED)
        held = runs.claimed(run.queue, worker="w1")
        ledger.finish(held, runs.make_evidence(self.repro))

    def test_where_to_look_and_when(self) -> None:
        response = self.post()
        self.assertEqual(response.status_code, 202)
        self.assertEqual(response["Location"], f"{PATH}/{response.json()['id']}")
        self.assertEqual(response["Retry-After"], "1")
        self.assertEqual(response["Cache-Control"], "no-store")
        self.finish()
        cached = self.post()
        self.assertEqual((cached.status_code, cached.json()["cached"]), (200, True))
        self.assertEqual(cached["Location"], response["Location"])
        self.assertNotIn("Retry-After", cached)

    # --- Prefer: wait ----------------------------------------
    def waiting(self, steps: list[Any]) -> Any:
        """As time passes: a step for each pause, then the clock runs out."""
        clock = {"now": 0.0}

        def pause(seconds: float) -> None:
            clock["now"] += seconds
            if steps:
                steps.pop(0)()
            else:
                clock["now"] += 1000

        return mock.patch.multiple(api_waiting, pause=pause, now=lambda: clock["now"])

    def test_an_answer_that_waits_for_the_verdict(self) -> None:
        with self.waiting([lambda: None, self.finish]):
            response = self.post({"Prefer": "respond-async, wait=30"})
        self.assertEqual(response.status_code, 200)
        self.assertEqual(response.json()["verdict"], "bug_present")
        self.assertFalse(response.json()["cached"])
        self.assertEqual(response["Preference-Applied"], "wait=30")

    def test_an_answer_that_waited_in_vain(self) -> None:
        with self.waiting([]):
            response = self.post({"Prefer": "wait=3000"})
        self.assertEqual(response.status_code, 202)
        self.assertEqual(response["Preference-Applied"], "wait=30")
        self.assertEqual(response["Retry-After"], "1")

    def test_looking_at_a_run_can_wait_as_well(self) -> None:
        run = self.post().json()["id"]
        with self.waiting([self.finish]):
            response = self.client.get(f"{PATH}/{run}", headers={"Prefer": "wait=9"})
        self.assertEqual(response.json()["state"], "finished")
        self.assertEqual(response["Preference-Applied"], "wait=9")

    def test_a_busy_site_answers_at_once(self) -> None:
        held = 0
        while api_waiting.PLACES.acquire(blocking=False):
            self.addCleanup(api_waiting.PLACES.release)
            held += 1
        self.assertEqual(held, 4)
        with mock.patch.object(api_waiting, "pause", side_effect=AssertionError):
            response = self.post({"Prefer": "wait=30"})
        self.assertEqual(response.status_code, 202)
        self.assertNotIn("Preference-Applied", response)

    def test_a_place_is_given_back(self) -> None:
        for _ in range(6):
            with self.waiting([]):
                self.assertIn("Preference-Applied", self.post({"Prefer": "wait=1"}))

    def test_what_is_no_wait(self) -> None:
        for prefer in ("", "wait", "wait=", "wait=x", "wait=-1", "await=3", "wait=0"):
            with self.subTest(prefer):
                response = self.post({"Prefer": prefer})
                self.assertEqual(response.status_code, 202)
                self.assertNotIn("Preference-Applied", response)


class EvidenceTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.load_sample().repros.get()
        secret = runs.token_of("ann-lab", "evidence")
        self.client = Client(headers={"Authorization": f"Bearer {secret}"})

    def send(self, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post("/api/v1/evidence", data, "application/json")

    def test_evidence_is_received_once_under_the_tokens_name(self) -> None:
        body = runs.make_evidence(self.repro) | {"origin": "site"}
        first = self.send(body)
        self.assertEqual(first.status_code, 201, first.content)
        self.assertEqual(first.json()["origin"], "ann-lab")
        shown = self.client.get(first["Location"])
        self.assertEqual(shown.json()["digest"], body["digest"])
        self.assertEqual(self.send(body).status_code, 200)
        # It is listed under that name, and nothing follows of it.
        matrix = self.client.get("/api/v1/records/NAN-9001/matrix").json()
        self.assertEqual(matrix["cells"], [])
        record = self.client.get("/api/v1/records/NAN-9001").json()
        self.assertEqual(record["results"]["present"], 0)

    def test_evidence_that_lies(self) -> None:
        body = runs.make_evidence(self.repro)
        lie = runs.signed(body | {"verdict": "bug_absent"})
        for sent in (body | {"hits": 7}, lie, {}, {"digest": 7}):
            with self.subTest(sent.get("verdict")):
                response = self.send(sent)
                self.assertEqual(response.status_code, 422, response.content)
                self.assertEqual(response.json()["code"], "evidence_refused")
                self.assertTrue(response.json()["errors"][0]["code"])

    def test_evidence_that_is_none(self) -> None:
        too_much = b" " * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        for sent, status in [
            (b"[" * 100_000, 400),
            (b"{", 400),
            (b"\xff", 400),
            (b"[]", 422),
            (b'{"digest": NaN}', 400),
            (b"9" * 5000, 400),
            (too_much, 413),
        ]:
            with self.subTest(sent[:9]):
                response = self.send(sent)
                self.assertIn(response.status_code, (status, 400, 422))
                kind = response["Content-Type"]
                self.assertEqual(kind, "application/problem+json")
