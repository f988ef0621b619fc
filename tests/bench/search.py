"""Search and look-up beside others, on 10,000 records; FULL=1 also on 100,000.

Each database is measured in a process of its own (tests.bench.database), on the same
generated corpus. Times are CPU seconds of that process, in which all engines compared
with one another run in turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.bench.figures import Figure, figure
from tests.support.servers import POSTGRES

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDS, FULL_RECORDS = 10_000, 100_000
MB = 1_000_000


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="doesitnan-search-") as folder:
        sqlite = measured(RECORDS, folder, "", "peers")
    with postgres_database() as url:
        postgres = measured(RECORDS, "", url, "alone") if url else {}
    found = [*answers(sqlite, postgres), *speeds(sqlite), *sizes(sqlite, postgres)]
    if os.environ.get("FULL"):
        with tempfile.TemporaryDirectory(prefix="doesitnan-search-") as folder:
            found += growth(sqlite, measured(FULL_RECORDS, folder, "", "growth"))
    return found


def measured(count: int, folder: str, url: str, what: str) -> dict[str, Any]:
    """What tests.bench.database says of one database."""
    command = [sys.executable, "-m", "tests.bench.database", str(count), what]
    with tempfile.TemporaryDirectory(prefix="doesitnan-search-") as other:
        environ = os.environ | {"DATA_DIR": folder or other, "SECRET_KEY": "bench"}
        environ.pop("DATABASE_URL", None)
        if url:
            environ["DATABASE_URL"] = url
        done = subprocess.run(
            command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def postgres_database() -> Iterator[str]:
    """The URL of a new database, dropped afterwards; "" where there is no server."""
    name = f"dnbench{uuid.uuid4().hex[:10]}"
    try:
        server = psycopg.connect(f"{POSTGRES}/postgres", autocommit=True)
    except psycopg.OperationalError:
        yield ""
        return
    with server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{POSTGRES}/{name}"
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def answers(sqlite: dict[str, Any], postgres: dict[str, Any]) -> list[Figure]:
    hit, like = sqlite["hit_real"], sqlite["like_hit"]
    same = None
    if postgres:
        pairs = list(zip(sqlite["first"], postgres["first"], strict=True))
        same = sum(one == other for one, other in pairs) / len(pairs)
    return [
        figure(f"first answer right, {sqlite['real']} logs of tests/logs", hit, "",
               ">= 0.95"),
        figure("  against LIKE of the last line", hit / like, "x", ">= 2.5"),
        figure("  against stock FTS5 of the raw log", hit / sqlite["stock_hit"], "x"),
        figure("first answer right, generated logs", sqlite["hit_generated"], "",
               ">= 0.9"),
        figure("a wrong record called a match", sqlite["wrong"], "", "== 0"),
        figure("unknown errors called a match", sqlite["false_alarms"], "", "<= 0.06"),
        figure("recall of two Chinese characters against LIKE", sqlite["han_recall"],
               "", "== 1"),
        figure("same first answer on SQLite and PostgreSQL", same, "", ">= 0.98"),
    ]  # fmt: skip


def speeds(sqlite: dict[str, Any]) -> list[Figure]:
    ours = sqlite["beside_p50"]
    return [
        figure("pasted log, p50", ours * 1000, "ms"),
        figure("  / stock FTS5 of the raw log", ours / sqlite["stock_p50"], "x",
               "<= 0.1"),
        figure("  / tantivy with the same reading", ours / sqlite["tantivy_p50"], "x",
               "<= 3"),
        figure("  / LIKE of the last line", ours / sqlite["like_p50"], "x"),
        figure("whole look-up of a pasted log, p50", sqlite["lookup_p50"] * 1000, "ms"),
        figure("two Chinese characters, p95", sqlite["han_p95"] * 1000, "ms"),
        figure("  / LIKE scan, p95", sqlite["han_p95"] / sqlite["like_han_p95"], "x",
               "<= 0.5"),
        figure("query of words, p50", sqlite["words_p50"] * 1000, "ms"),
        figure("slowest of 8 hostile pastes of 200 kB", sqlite["hostile_s"], "s",
               "<= 0.5"),
    ]  # fmt: skip


def sizes(sqlite: dict[str, Any], postgres: dict[str, Any]) -> list[Figure]:
    size = sqlite["index_bytes"]
    theirs = postgres.get("index_bytes")
    return [
        figure("text of the records", sqlite["text_bytes"] / MB, "MB"),
        figure("index in SQLite", size / MB, "MB"),
        figure("  / FTS5 trigram", size / sqlite["trigram_bytes"], "x", "<= 0.333"),
        figure("  / text", size / sqlite["text_bytes"], "x", "<= 3.5"),
        figure("index in PostgreSQL", theirs / MB if theirs else None, "MB"),
        figure("storing and indexing a record", sqlite["index_s"] / RECORDS * 1000,
               "ms"),
    ]  # fmt: skip


def growth(small: dict[str, Any], large: dict[str, Any]) -> list[Figure]:
    times = {"pasted log, p50": "log_p50", "two Chinese characters, p95": "han_p95"}
    return [
        figure("first answer right, 100,000 records", large["hit_real"], "", ">= 0.95"),
        *(
            figure(f"{name}, 100,000 / 10,000 records", large[key] / small[key], "x")
            for name, key in times.items()
        ),
        figure("two Chinese characters / LIKE scan, 100,000 records",
               large["han_p95"] / large["like_han_p95"], "x", "<= 0.125"),
        figure("index, 100,000 records", large["index_bytes"] / MB, "MB"),
    ]  # fmt: skip
