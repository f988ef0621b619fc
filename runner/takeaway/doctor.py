"""The doctor: every published repro in one file, for the user's own environment."""

from __future__ import annotations

from kb.choices import Publication
from kb.models import Repro
from runner.takeaway.bundle import Bundle


class Doctor(Bundle):
    program = "doctor"
    notes = (
        "Which known training failures of PyTorch does this environment have?",
        "这个环境会遇到哪些已知的 PyTorch 训练故障？",
        "python doctor.py [--cuda] [--record ID] [--timeout-s S] [--json FILE] "
        "[--sarif FILE] [--lang zh] [--machine]",
        "Runs reviewed repros under your own Python; nothing is uploaded.",
        "用你自己的 Python 运行审核过的复现脚本，不上传任何内容。",
        "Exit: 1 a bug that is not by design was reproduced, 2 something ended",
        "without a verdict, 125 nothing applies here, 130 interrupted, 0 else.",
    )
    modules = ("doctor_options", "machine", "sarif")
    packages = ("kb/rules/sarif.py", "portable/known_answers.py")


def doctor() -> str:
    """The whole text; it runs under the Python that starts it and sends nothing."""
    return Doctor(published_repros()).text()


def published_repros() -> list[Repro]:
    rows = Repro.objects.filter(record__publication=Publication.PUBLISHED)
    return list(rows.select_related("record").order_by("record_id", "name"))
