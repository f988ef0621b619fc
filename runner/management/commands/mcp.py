"""`manage.py mcp`: the site's tools for a coding agent that starts programs itself."""

import signal
from importlib.util import find_spec
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kb.problems import Problem


class Command(BaseCommand):
    help = (
        "Serve the tools of the site to a coding agent over standard input and output "
        "(Model Context Protocol). DOESITNAN_TOKEN is whom it starts runs for; "
        "without it the agent only reads."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        if find_spec("mcp") is None:
            raise CommandError(
                "The MCP SDK is not installed. It is the extra mcp of pyproject.toml: "
                ".venv/bin/python -m pip install 'mcp~=2.3'"
            )
        # Here, as not every site has the extra.
        from runner.agents import terminal

        # A thread waits for standard input, which Ctrl-C would not end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            terminal.serve()
        except Problem as error:
            raise CommandError(f"DOESITNAN_TOKEN: {error.detail}") from error
