"""`make bench`: figures as JSON on stdout and as a table on stderr.

Each figure is a ratio inside one run, or a time without a target. What was not
measured is null and not ok.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent.parent
LOG = (
    "UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides(), "
    "attempting to materialize a grad_output with matching strides\n"
    + "{'loss': 2.31, 'grad_norm': nan, 'learning_rate': 0.0001}\n" * 40
    + "- PyTorch: 2.6.0a0+df5bbc09d1.nv24.12\n"
)


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median time of a call, after one to warm up."""
    work()
    return statistics.median(timed(work) for _ in range(rounds))


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def figure(
    name: str, value: float | None, unit: str, target: str = "", ok: bool | None = None
) -> dict[str, Any]:
    measured = value is not None
    return {
        "name": name,
        "value": round(value, 4) if value is not None else None,
        "unit": unit,
        "target": target or None,
        "ok": measured and ok if target else None,
    }


def measure_pages() -> list[dict[str, Any]]:
    # Importable only after django.setup().
    from django.test import Client

    from kb.lookup import look_up

    client = Client(SERVER_NAME="localhost")

    def get(path: str) -> Callable[[], None]:
        def work() -> None:
            answer = client.get(path)
            if answer.status_code != 200:
                raise SystemExit(f"{path} answered {answer.status_code}")
            list(answer)

        return work

    health, front = seconds(get("/healthz"), 50), seconds(get("/en/"), 50)
    page = seconds(get("/en/NAN-0002/checkpoint-reentrant-lost-grad/"), 30)
    lookup = seconds(lambda: look_up(LOG), 30)
    return [
        figure("page without content, median", health * 1000, "ms"),
        figure("front page, median", front * 1000, "ms"),
        figure("front page / page without content", front / health, "x"),
        figure("record page, median", page * 1000, "ms"),
        figure("look-up of a pasted log, median", lookup * 1000, "ms"),
    ]


def measure_runs() -> list[dict[str, Any]]:
    from runner import harness
    from tests.builds import torch_python

    repro = ROOT / "fixtures/issues/checkpoint-reentrant-lost-grad/repro.py"
    python = torch_python()
    probe = seconds(lambda: harness.probe(python), 3)
    start = harness.start_plain(python, str(repro))
    evidence = harness.drive(repro.read_text(), start)
    checks = [check["duration_s"] for check in evidence["checks"]]
    return [
        figure("cold start of the default build, median", probe, "s"),
        figure("NAN-0002 cold, all checks", evidence["duration_s"], "s"),
        figure("NAN-0002 cold, one check, median", statistics.median(checks), "s"),
        figure("warm check against the same check cold", None, "x", ">= 50"),
        figure("16 runs at once / one cold start", None, "x", "<= 1"),
    ]


def table(figures: list[dict[str, Any]]) -> str:
    rows = [("figure", "value", "target", "ok")]
    for item in figures:
        value = "not measured" if item["value"] is None else f"{item['value']:g}"
        ok = {True: "yes", False: "no", None: ""}[item["ok"]]
        rows.append((item["name"], f"{value} {item['unit']}", item["target"] or "", ok))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def main() -> None:
    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    call_command("load_records", stdout=sys.stderr)
    figures = measure_pages() + measure_runs()
    print(json.dumps({"figures": figures}, indent=1), flush=True)
    print(table(figures), file=sys.stderr)


if __name__ == "__main__":
    # A database of its own; the builds are the project's.
    data = Path(os.environ.get("DATA_DIR") or ROOT / "var").absolute()
    os.environ.setdefault("BUILDS_DIR", str(data / "builds"))
    folder = tempfile.mkdtemp(prefix="doesitnan-bench-")
    os.environ |= {"DATA_DIR": folder, "DJANGO_SETTINGS_MODULE": "config.settings"}
    os.environ.pop("DATABASE_URL", None)
    os.environ["SECRET_KEY"] = folder
    try:
        django.setup()
        main()
    finally:
        shutil.rmtree(folder)
