"""What an agent pays for each answer, on everything that the repository has."""

from __future__ import annotations

import json
from typing import Any

from django.test import TestCase, tag

from kb.models import Record
from runner.agents import outline
from tests import ROOT
from tests.support import loaded

MOST_TOKENS = 2000
OLD = (
    "torch==2.0.1+cu117\ntransformers==4.30.0\naccelerate==0.20.0\ndeepspeed==0.14.0\n"
)
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}


def tokens(answer: dict[str, Any]) -> int:
    """As clients count: all that stands in it, about four characters each."""
    assert not answer.get("isError"), answer
    assert "structuredContent" not in answer
    return sum(len(block["text"]) for block in answer["content"]) // 4


@tag("any_database")
class SizeTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        asked = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
        response = self.client.post(
            "/mcp", json.dumps(message), "application/json", headers=HEADERS
        )
        return dict(response.json()["result"])

    def assert_short(self, tool: str, **arguments: Any) -> None:
        asked = {name: str(value)[:60] for name, value in arguments.items()}
        with self.subTest(tool, **asked):
            self.assertLessEqual(tokens(self.call(tool, **arguments)), MOST_TOKENS)

    def test_every_log_is_answered_shortly(self) -> None:
        logs = sorted((ROOT / "tests/logs/known").glob("*.log"))
        self.assertGreater(len(logs), 100)
        for path in logs:
            self.assert_short("look_up", log=path.read_text("utf-8"), env=OLD)
        for lang in "en", "zh":
            self.assert_short("look_up", log="loss: nan grad_norm: nan", lang=lang)

    def test_every_record_is_short_and_whole_on_demand(self) -> None:
        for pk in Record.objects.visible().values_list("pk", flat=True):
            for lang in "en", "zh":
                self.assert_short("get_record", record=pk, lang=lang)
        full = self.call("get_record", record="NAN-0001", detail="full")
        self.assertGreater(tokens(full), MOST_TOKENS)

    def test_environments_and_comparisons_are_short(self) -> None:
        for lang in "en", "zh":
            self.assert_short("check_environment", env=OLD, lang=lang)
            for before in "1.13.1", "2.0.1":
                sides = {"before": before, "after": "2.13.0", "limit": 200}
                self.assert_short("compare_builds", **sides, lang=lang)
        whole = self.call("compare_builds", **sides, detail="full")
        self.assertGreater(tokens(whole), MOST_TOKENS)

    def test_what_is_cut_says_so_and_closes_its_code(self) -> None:
        long = "# title\n```python\n" + "x = 1\n" * 2000
        kept = outline.cut(long)
        self.assertLessEqual(len(kept), MOST_TOKENS * 4)
        *_, fence, said = kept.splitlines()
        self.assertEqual(fence, "```")
        self.assertRegex(said, r"^… \d+ more lines: ask with detail=full$")
