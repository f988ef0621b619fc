"""The file a user runs where the bug is: one reviewed repro with its harness.

`python repro.py`, `uv run URL`, `git bisect run python repro.py --bisect`: standard
library and torch only, the site's own verdict (runner.takeaway.bundle says how).
"""

from __future__ import annotations

from kb.models import Repro
from kb.wording import EXIT_STATUS
from portable import harness
from runner.takeaway.bundle import Bundle


class SingleFile(Bundle):
    """Its requirements are the repro's own (PEP 723)."""

    program = "single"
    modules = ("environments", "releases")
    packages = ("runner/bisecting/search.py",)

    def __init__(self, repro: Repro) -> None:
        super().__init__([repro])
        record, file = repro.record, file_name(repro)
        header = harness.parse_header(repro.source)
        self.python = max(header.requires_python, self.python, key=version)
        self.dependencies = sorted(set(header.dependencies) or {"torch"})
        self.notes = [
            f"{record.id} · {record.title_en}",
            f"{record.id} · {record.title_zh}",
            f"Reviewed source: {repro.digest}, unchanged below / 源码原样在下",
            f"python {file}: run it on the torch of this Python / 运行",
            f"uv run {file}: on the newest torch / 用最新的 torch 运行",
            f"git bisect run python {file} --bisect [--find-fix]",
            f"python {file} --bisect-releases 2.3..2.8: which release / 查找版本",
            f"python {file} --json evidence.json: to keep or to send / 保存证据",
            *dict(EXIT_STATUS).values(),
        ]


def version(bound: str) -> tuple[int, ...]:
    return harness.release(bound.lstrip("> ="))


def single_file(repro: Repro) -> str:
    """The whole text."""
    return SingleFile(repro).text()


def file_name(repro: Repro) -> str:
    return f"{repro.record_id}-{repro.name}.py"
