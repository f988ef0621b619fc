"""The tools for agents over HTTP, and who comes in at /mcp."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
from django.conf import settings
from django.contrib.auth.models import User
from django.test import (
    LiveServerTestCase,
    SimpleTestCase,
    TestCase,
    override_settings,
    tag,
)
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from runner.agents import INSTALL
from runner.models import Run
from runner.runs import ledger
from tests.runner.agents.asking import (
    MODES,
    PATIENCE_S,
    TOOLS,
    Asking,
    answer_of,
    ask,
    documents,
    everything,
    load_sample,
    refusal_of,
    refusals,
)
from tests.support import runs


class Sampled(SimpleTestCase):
    def load(self) -> None:
        self.repro = load_sample(self)


@tag("any_database")
class HttpTest(Sampled, LiveServerTestCase):
    def setUp(self) -> None:
        self.load()

    def ask(self, asking: Asking, secret: str = "", mode: Any = "auto") -> Any:
        async def connected(stack: AsyncExitStack) -> Client:
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            http = httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S)
            transport = streamable_http_client(
                f"{self.live_server_url}/mcp",
                http_client=await stack.enter_async_context(http),
            )
            client = Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S)
            return await stack.enter_async_context(client)

        return ask(connected, asking)

    def test_what_reads(self) -> None:
        for mode in MODES:
            with self.subTest(mode):
                self.ask(lambda client: everything(self, client), mode=mode)
                self.ask(lambda client: documents(self, client), mode=mode)

    def test_what_is_refused(self) -> None:
        self.ask(lambda client: refusals(self, client))
        self.assertEqual(Run.objects.count(), 0)

    def test_a_run_of_a_token_with_the_scope(self) -> None:
        asked = {"record": "NAN-9001", "build": runs.SLUG, "again": True}
        bare = self.ask(
            lambda client: refusal_of(client, "run_repro", **asked),
            runs.token_of("bare"),
        )
        self.assertIn("forbidden: This token lacks the scope run.", bare)
        secret = runs.token_of("agent", "run")
        first = self.ask(
            lambda client: answer_of(client, "run_repro", **asked), secret, "legacy"
        )
        self.assertIn("state: queued\n", first)
        self.assertIn("joined: false\n", first)
        run = Run.objects.get()
        user = User.objects.get(username="ann")
        self.assertIn(f"id: {run.pk}\n", first)
        self.assertEqual(run.requester, f"user:{user.pk}")
        held = runs.claimed(run.queue, worker="w1")
        ledger.finish(held, runs.make_evidence(self.repro))
        ended = self.ask(lambda client: answer_of(client, "get_run", run=str(run.pk)))
        self.assertIn("state: finished\n", ended)
        self.assertIn("verdict: bug_present\n", ended)
        with override_settings(RUNS_PER_HOUR=1):
            often = self.ask(
                lambda client: refusal_of(client, "run_repro", **asked), secret
            )
        self.assertRegex(often, r"throttled: .* Retry after \d+ s\.")


class DoorTest(Sampled, TestCase):
    """Who comes in at /mcp; what follows happens in the request's own transaction."""

    def setUp(self) -> None:
        self.load()

    def post(self, method: str = "tools/list", **headers: str) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
        return self.client.post(
            "/mcp",
            json.dumps(message),
            content_type="application/json",
            headers={
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2025-06-18",
                **headers,
            },
        )

    def test_an_answer_is_json_that_nobody_keeps(self) -> None:
        response = self.post()
        self.assertEqual(response.status_code, 200, response.content)
        names = [tool["name"] for tool in response.json()["result"]["tools"]]
        self.assertEqual(names, TOOLS)
        self.assertEqual(response["Content-Type"], "application/json")
        self.assertEqual(response["Cache-Control"], "no-store")

    def test_it_reads_on_the_thread_and_connection_of_the_request(self) -> None:
        # What this transaction wrote is seen by no other connection.
        message = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "resources/read",
            "params": {"uri": "doesitnan://records/NAN-9001"},
        }
        response = self.client.post(
            "/mcp",
            json.dumps(message),
            content_type="application/json",
            headers={"Accept": "application/json, text/event-stream"},
        )
        (content,) = response.json()["result"]["contents"]
        self.assertIn("<http://testserver/en/NAN-9001", content["text"])

    def test_pages_of_other_sites_are_refused(self) -> None:
        for origin, status in (
            ("http://testserver", 200),
            ("https://trusted.example", 200),
            ("http://evil.example", 403),
            ("http://testserver.evil.example", 403),
            ("null", 403),
            ("http://[", 403),
        ):
            with (
                self.subTest(origin),
                self.settings(CSRF_TRUSTED_ORIGINS=["https://trusted.example"]),
            ):
                self.assertEqual(self.post(Origin=origin).status_code, status)
        self.assertEqual(self.post(Host="evil.example").status_code, 400)

    def test_there_is_no_stream_and_no_session(self) -> None:
        for method in ("get", "delete", "put", "options"):
            response = getattr(self.client, method)("/mcp")
            self.assertEqual(response.status_code, 405, method)

    def test_a_closed_site_wants_a_token(self) -> None:
        secret = runs.token_of("reader")
        with self.settings(READ_LOGIN=True):
            self.client = self.client_class()
            self.assertEqual(self.post().status_code, 401)
            unknown = self.post(Authorization="Bearer dtn_" + "0" * 43)
            self.assertEqual(unknown.status_code, 401)
            known = self.post(Authorization=f"Bearer {secret}")
            self.assertEqual(known.status_code, 200)

    def test_a_token_that_is_not_valid_reads_nothing(self) -> None:
        response = self.post(Authorization="Bearer dtn_" + "0" * 43)
        self.assertEqual(response.status_code, 401)
        self.assertEqual(response.json()["code"], "unauthenticated")

    def test_bodies_that_are_none(self) -> None:
        big = b" " * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        for body, kind, status in (
            (b"{", "application/json", 400),
            (b"{}", "text/plain", 400),
            (big, "application/json", 413),
        ):
            with self.subTest(body[:2], kind=kind):
                response = self.client.post(
                    "/mcp",
                    body,
                    content_type=kind,
                    headers={"Accept": "application/json, text/event-stream"},
                )
                self.assertEqual(response.status_code, status, response.content[:200])

    def test_a_site_without_the_extra_says_so(self) -> None:
        with mock.patch("runner.agents.views.find_spec", return_value=None):
            response = self.post()
        self.assertEqual(response.status_code, 501)
        self.assertIn(INSTALL, response.text)
        docs = (Path(settings.BASE_DIR) / "docs" / "clients.md").read_text()
        self.assertIn(INSTALL, docs)
