"""The tools as a server of the official SDK, whoever carries its messages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.utils import translation
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import ValidationError
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from kb import problems
from runner.agents import outline, tools

NAME = "Does it NaN?"
INSTRUCTIONS = """\
Known training failures of PyTorch (NaN loss, lost or wrong gradients, wrong numbers),
each with a program that reproduces it and that was run on released builds. Start with
look_up and paste what was printed. A verdict comes from runs alone: what nobody ran is
unknown, and no match is no proof that there is no bug. What is pasted is not stored.
"""
NAN_PROMPT = """\
My PyTorch training shows NaN or wrong numbers. Find the cause, and prove it.
1. Call look_up with the log and the environment below, as they are.
2. Read my code for the `test` of each candidate; run it where you can. What no test
   confirms is a guess: call it one.
3. Where no candidate holds, do the `first_checks`; nan_probe.py names the first op.
4. Before you change anything, get_record of the confirmed record; apply a workaround
   that runs verified, and run the training or the test again.
Log:
{log}
Environment: {env}
"""
READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, open_world_hint=False
)
STARTS = ToolAnnotations(
    read_only_hint=False,
    destructive_hint=False,
    idempotent_hint=False,
    open_world_hint=False,
)
READING = (
    *(tools.look_up, tools.get_record, tools.check_environment),
    *(tools.compare_builds, tools.get_run),
)
STARTING = (tools.run_repro,)
MARKDOWN = "text/markdown"

# Gives the request that a call is answered for, on the thread that answers it.
ASKED: ContextVar[Callable[[], Request]] = ContextVar("ASKED")


def build() -> MCPServer[Any]:
    """A server for one connection, or one request of the web server."""
    server: MCPServer[Any] = MCPServer(
        NAME,
        instructions=INSTRUCTIONS,
        version=str(settings.SPECTACULAR_SETTINGS["VERSION"]),
        tools=described(),
        subscriptions=False,
    )
    server.resource(
        "doesitnan://records",
        name="records",
        title="All records",
        description="every record with its title, and the address of its resource",
        mime_type=MARKDOWN,
    )(LISTED)
    server.resource(
        "doesitnan://records/{record}{?lang}",
        name="record",
        title="A record",
        description="one record as Markdown; lang is en or zh",
        mime_type=MARKDOWN,
    )(ONE)
    server.prompt(title="My loss is NaN")(my_loss_is_nan)
    return server


def my_loss_is_nan(log: str, env: str = "") -> str:
    """Find why a training shows NaN: paste its log, and what `pip freeze` prints."""
    return NAN_PROMPT.format(log=log, env=env or "not given: ask for `pip freeze`")


class Spoken(Tool):
    """A tool that refuses arguments in the words of the API."""

    async def run(self, arguments: dict[str, Any], *rest: Any, **more: Any) -> Any:
        try:
            self.fn_metadata.arg_model.model_validate(arguments)
        except ValidationError as error:
            errors = [
                {"pointer": "/" + "/".join(map(str, one["loc"])), "detail": one["msg"]}
                for one in error.errors(include_url=False)
            ]
            title = str(problems.KINDS["invalid"].title)
            said = sentence(problems.Problem("invalid", title, errors=errors))
            raise ToolError(said) from None
        return await super().run(arguments, *rest, **more)


@functools.cache
def described() -> list[Tool]:
    """Once in a process: to read their parameters takes most of the time."""
    return [
        closed(served(tool), kind)
        for some, kind in ((READING, READS), (STARTING, STARTS))
        for tool in some
    ]


def closed(call: Callable[..., Any], kind: ToolAnnotations) -> Tool:
    """A tool that refuses a misspelt argument, and says in its schema that it does."""
    tool = Spoken.from_function(call, annotations=kind, structured_output=False)
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


def served(
    tool: Callable[..., Any], refused: type[Exception] = ToolError
) -> Callable[..., Any]:
    """The tool as a coroutine without its first parameter.

    It runs on the thread that waits for the event loop: that of the web server's
    request, whose database connection is Django's to keep, or the command's own.
    """
    signature = inspect.signature(tool, eval_str=True)
    _request, *parameters = signature.parameters.values()

    def answer(arguments: dict[str, Any]) -> Any:
        with translation.override(tools.django_language(arguments)):
            try:
                text = outline.text_of(tool(ASKED.get()(), **arguments))
                is_whole = arguments.get("detail", "full") == "full"
                return text if is_whole else outline.cut(text)
            except APIException as error:
                raise refused(sentence(problems.as_problem(error))) from error

    @functools.wraps(tool)
    async def call(**arguments: Any) -> Any:
        return await sync_to_async(answer)(arguments)

    call.__doc__ = inspect.getdoc(tool)
    vars(call).update(__signature__=signature.replace(parameters=parameters))
    return call


def sentence(problem: problems.Problem) -> str:
    """A problem as a line that a model can act on."""
    said = f"{problem.code}: {problem.detail}"
    for error in problem.errors:
        said += f" {error['pointer']}: {error['detail']}"
    return said + (f" Retry after {problem.wait} s." if problem.wait else "")


LISTED = served(tools.list_records, ResourceNotFoundError)
ONE = served(tools.whole_record, ResourceNotFoundError)
