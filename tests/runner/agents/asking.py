"""How the tests ask: by the SDK's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from django.test import SimpleTestCase
from mcp import Client, MCPError

from kb.models import Repro
from runner.evidence import store
from tests.support import runs

TOOLS = [
    *("look_up", "get_record", "check_environment", "compare_builds", "get_run"),
    "run_repro",
]
STARTING = TOOLS[-1:]
LOG = 'step 3\nUserWarning: "strides" \\ differ\nloss: nan\n'
NO_TOKEN = "unauthenticated: Send a token with"
PATIENCE_S = 120
# With a handshake, as clients of 2025 ask, and without, as the newest protocol does.
MODES = ("legacy", "auto")

Asking = Callable[[Client], Awaitable[Any]]


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def answer_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is None, "the same twice"
    return text_of(result)


async def refusal_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def everything(case: SimpleTestCase, client: Client) -> None:
    """What reads, asked of the sample record and evidence of it on 9.9.0."""
    case.assertEqual(client.server_info.version, "1")
    listed = (await client.list_tools()).tools
    case.assertEqual([tool.name for tool in listed], TOOLS)
    case.assertEqual(
        [tool.name for tool in listed if not tool.annotations.read_only_hint],
        STARTING,
    )
    found = await answer_of(client, "look_up", log=LOG, env="torch==2.13.0")
    case.assertRegex(found, r"^decision: .*NAN-9001")
    case.assertEqual(found.count("- record: "), 1)
    case.assertIn("- record: NAN-9001\n", found)
    case.assertIn("    title: A sample\n", found)
    # These versions have it; whether the code meets it, the test tells.
    case.assertIn("    affected: unknown\n", found)
    chinese = await answer_of(client, "look_up", log=LOG, lang="zh")
    case.assertIn("    title: 一个样例\n", chinese)
    whole = {"env": "torch==2.13.0+cpu"}
    affecting = await answer_of(client, "check_environment", **whole)
    case.assertTrue(affecting.endswith("affecting:\n  NAN-9001: A sample"), affecting)
    full = await answer_of(client, "check_environment", **whole, detail="full")
    case.assertIn("  - record: NAN-9001\n    title: A sample\n    url: ", full)
    one = {"env": "torch==2.10.0", "record": "NAN-9001"}
    said = await answer_of(client, "check_environment", **one)
    case.assertIn("affected:\n  answer: not_affected\n", said)
    sides = {"before": "9.8.0", "after": "9.9.0"}
    compared = await answer_of(client, "compare_builds", **sides)
    case.assertIn("from:\n  name: 9.8.0\n", compared)
    case.assertIn("items:\n  - new run cpu NAN-9001: A sample\n", compared)
    case.assertIn("total: 1", compared)
    (prompt,) = (await client.list_prompts()).prompts
    given = {"log": LOG}
    (message,) = (await client.get_prompt(prompt.name, given)).messages
    case.assertIn(LOG, message.content.text)
    case.assertIn("look_up", message.content.text)


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
        ("look_up", {"lang": "de"}, "/lang: Input should be 'en' or 'zh'"),
        ("check_environment", {}, "/env: Field required"),
        ("look_up", {"log": "x", "environment": "y"}, "/environment: Extra inputs"),
        ("look_up", {"log": "x" * 2**20 + "y"}, "too_large: "),
        ("get_record", {"record": "NAN-7777"}, "unknown_record: There is no record"),
        ("check_environment", {"env": " "}, "empty_paste: "),
        ("compare_builds", {"before": "nonsense"}, "unknown_build: "),
        ("get_run", {"run": "x"}, "unknown_run: "),
        ("run_repro", {"record": "NAN-9001"}, NO_TOKEN),
    ):
        with case.subTest(tool=tool):
            refusal = await refusal_of(client, tool, **arguments)
            case.assertIn(said, refusal)
            case.assertNotIn("pydantic", refusal)


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


def load_sample(case: SimpleTestCase) -> Repro:
    """The sample record: no bug on 9.8.0, the bug on 9.9.0, which is here."""
    repro = runs.load_sample().repros.get()
    runs.run_on(repro, "9.8.0", bug=False)
    store.add(runs.make_evidence(repro), origin="site")
    runs.install_stand_in(case)
    return repro
