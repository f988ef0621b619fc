"""The tools for agents, asked by the SDK's own client over HTTP and a terminal."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import (
    LiveServerTestCase,
    SimpleTestCase,
    TestCase,
    override_settings,
    tag,
)
from django.utils import timezone
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from kb.models import Repro
from runner.agents import terminal
from runner.evidence import store
from runner.models import Run
from runner.models.token import Token
from runner.runs import ledger
from tests.support import runs
from tests.support.sites import Site

TOOLS = [
    *("look_up", "get_record", "check_environment", "compare_builds", "get_run"),
    "run_repro",
]
LOG = 'step 3\nUserWarning: "strides" \\ differ\nloss: nan\n'
PATIENCE_S = 120
# With a handshake, as clients of 2025 ask, and without, as the newest protocol does.
MODES = ("legacy", "auto")

Asking = Callable[[Client], Awaitable[Any]]


def token_of(name: str, *scopes: str) -> str:
    user = User.objects.get_or_create(username="ann")[0]
    end = timezone.now() + timedelta(days=1)
    return Token.issue(name, user, list(scopes), end)[1]


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def data_of(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content == json.loads(text_of(result))
    return dict(result.structured_content)


async def refusal_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def everything(case: SimpleTestCase, client: Client) -> None:
    """What reads, asked of the sample record and evidence of it on 9.9.0."""
    listed = (await client.list_tools()).tools
    case.assertEqual([tool.name for tool in listed], TOOLS)
    case.assertEqual(
        [tool.name for tool in listed if not tool.annotations.read_only_hint],
        ["run_repro"],
    )
    found = await data_of(client, "look_up", log=LOG, env="torch==2.13.0")
    (match,) = found["matches"]
    case.assertEqual((match["record"], match["why"][0]["line"]), ("NAN-9001", 2))
    case.assertEqual(match["affected"]["answer"], "affected")
    case.assertEqual(match["title"], "A sample")
    chinese = await data_of(client, "look_up", log=LOG, lang="zh")
    case.assertEqual(chinese["matches"][0]["title"], "一个样例")
    whole = await data_of(client, "check_environment", env="torch==2.13.0+cpu")
    (affecting,) = whole["affecting"]
    case.assertEqual(
        (affecting["record"], affecting["title"]), ("NAN-9001", "A sample")
    )
    one = await data_of(
        client, "check_environment", env="torch==2.10.0", record="NAN-9001"
    )
    case.assertEqual(one["affected"]["answer"], "not_affected")
    compared = await data_of(client, "compare_builds", before="9.8.0", after="9.9.0")
    case.assertEqual((compared["from"]["name"], compared["total"]), ("9.8.0", 1))
    case.assertEqual([item["change"] for item in compared["items"]], ["new"])


async def documents(case: SimpleTestCase, client: Client) -> None:
    record = text_of(await client.call_tool("get_record", {"record": "nan-9001"}))
    case.assertTrue(record.startswith("# NAN-9001 A sample\n"), record)
    case.assertIn("torch 9.9.0+cpu, cpu, repro.py: ✖ FAIL", record)
    (listed,) = (await client.list_resources()).resources
    (index,) = (await client.read_resource(listed.uri)).contents
    address = "doesitnan://records/NAN-9001"
    case.assertIn(f"- [NAN-9001 A sample]({address})", index.text)
    (content,) = (await client.read_resource(address)).contents
    case.assertEqual((content.mime_type, content.text), ("text/markdown", record))
    (chinese,) = (await client.read_resource(f"{address}?lang=zh")).contents
    case.assertIn("## 规避方法", chinese.text)
    with case.assertRaisesRegex(MCPError, "There is no record NAN-7777"):
        await client.read_resource("doesitnan://records/NAN-7777")


async def refusals(case: SimpleTestCase, client: Client) -> None:
    for tool, arguments, said in (
        ("look_up", {}, "empty_paste: Nothing was pasted"),
        ("look_up", {"log": "x" * 2**20 + "y"}, "too_large: "),
        ("get_record", {"record": "NAN-7777"}, "unknown_record: There is no record"),
        ("check_environment", {"env": " "}, "empty_paste: "),
        ("compare_builds", {"before": "nonsense"}, "unknown_build: "),
        ("get_run", {"run": "x"}, "unknown_run: "),
        ("run_repro", {"record": "NAN-9001"}, "unauthenticated: Send a token with"),
    ):
        with case.subTest(tool=tool):
            case.assertIn(said, await refusal_of(client, tool, **arguments))


def ask(
    connected: Callable[[AsyncExitStack], Awaitable[Client]], asking: Asking
) -> Any:
    """What it gives or fails with, without the groups that clients wrap failures in."""
    failures = []

    async def asked() -> Any:
        async with AsyncExitStack() as stack:
            client = await connected(stack)
            try:
                return await asking(client)
            except AssertionError as error:
                failures.append(error)

    answer = asyncio.run(asked())
    for failure in failures:
        raise failure
    return answer


def load_sample(torch: Path) -> Repro:
    """The sample record: no bug on 9.8.0, the bug on 9.9.0, which is here."""
    repro = runs.load_sample().repros.get()
    without = runs.make_evidence(repro, bug=False)
    without["build"].update(slug="9.8.0-cpu", raw="9.8.0+cpu")
    store.add(runs.signed(without), origin="site")
    store.add(runs.make_evidence(repro), origin="site")
    runs.install(runs.stand_in_torch(torch))
    return repro


class Sampled(SimpleTestCase):
    def load(self) -> None:
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.repro = load_sample(folder)


@tag("own_site")
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
            lambda client: refusal_of(client, "run_repro", **asked), token_of("bare")
        )
        self.assertIn("forbidden: This token has not the scope run.", bare)
        secret = token_of("agent", "run")
        first = self.ask(
            lambda client: data_of(client, "run_repro", **asked), secret, "legacy"
        )
        self.assertEqual((first["state"], first["joined"]), ("queued", False))
        run = Run.objects.get()
        user = User.objects.get(username="ann")
        self.assertEqual((str(run.pk), run.requester), (first["id"], f"user:{user.pk}"))
        held = ledger.claim([run.queue], "w1")
        assert held is not None
        ledger.finish(held, runs.make_evidence(self.repro))
        ended = self.ask(lambda client: data_of(client, "get_run", run=first["id"]))
        self.assertEqual(
            (ended["state"], ended["verdict"]), ("finished", "bug_present")
        )
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
        secret = token_of("reader")
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
        self.assertIn("without the extra mcp", response.text)


class CommandTest(TestCase):
    def test_without_the_extra_it_says_which(self) -> None:
        command = "runner.management.commands.mcp.find_spec"
        with (
            mock.patch(command, return_value=None),
            self.assertRaisesRegex(CommandError, "extra mcp of pyproject.toml"),
        ):
            call_command("mcp")

    def test_a_token_that_is_not_valid_is_refused_at_once(self) -> None:
        with (
            self.settings(DOESITNAN_TOKEN="dtn_wrong"),
            mock.patch("signal.signal"),
            self.assertRaisesRegex(CommandError, "DOESITNAN_TOKEN: The token is"),
        ):
            call_command("mcp")

    def test_it_acts_for_the_user_of_the_token(self) -> None:
        with self.settings(DOESITNAN_TOKEN=token_of("agent", "run")):
            self.assertEqual(terminal.asked().user.get_username(), "ann")
        self.assertFalse(terminal.asked().user.is_authenticated)


@tag("own_site", "long")
class TerminalTest(SimpleTestCase):
    """`manage.py mcp` as a client starts it, on a database of its own."""

    site: Site

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.site = Site(folder / "var")
        cls.addClassCleanup(cls.site.close)
        cls.site.migrate()
        cls.site.python(
            "from tests.runner.agents.test_agents import load_sample\n"
            "answer = load_sample(Path(torch)).name",
            torch=str(folder / "torch"),
        )

    def ask(self, asking: Asking, mode: Any = "auto", **environ: str) -> Any:
        async def connected(stack: AsyncExitStack) -> Client:
            server = StdioServerParameters(
                command=sys.executable,
                args=["manage.py", "mcp"],
                env={**self.site.environ, **environ},
                cwd=settings.BASE_DIR,
            )
            log = stack.enter_context((self.site.folder / "log").open("a"))
            transport = stdio_client(server, errlog=log)
            client = Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S)
            return await stack.enter_async_context(client)

        return ask(connected, asking)

    def test_it_reads_without_a_token(self) -> None:
        async def asking(client: Client) -> None:
            await everything(self, client)
            await documents(self, client)
            await refusals(self, client)

        for mode in MODES:
            with self.subTest(mode):
                self.ask(asking, mode)

    def test_a_token_starts_runs(self) -> None:
        secret = self.site.python(
            "from tests.runner.agents.test_agents import token_of\n"
            "answer = token_of('agent', 'run')"
        )
        asked = {"record": "NAN-9001", "build": runs.SLUG, "again": True}
        run = self.ask(
            lambda client: data_of(client, "run_repro", **asked),
            DOESITNAN_TOKEN=secret,
        )
        self.assertEqual(run["state"], "queued")
        rows = self.site.sql("SELECT state, requester LIKE 'user:%' FROM runner_run")
        self.assertEqual(rows, [("queued", 1)])
