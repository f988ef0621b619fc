"""`manage.py mcp`, started by the SDK's own client."""

from __future__ import annotations

import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, tag
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from runner.agents import terminal
from tests.runner.agents.asking import (
    MODES,
    PATIENCE_S,
    Asking,
    ask,
    data_of,
    documents,
    everything,
    refusals,
    token_of,
)
from tests.support import runs
from tests.support.sites import Site


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


@tag("any_database", "long")
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
            "from tests.runner.agents.asking import load_sample\n"
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
            "from tests.runner.agents.asking import token_of\n"
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
