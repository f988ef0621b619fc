"""Fifty readers at once, with a connection each, on the server that `make run` starts.

They go from page to page and ask for each as a whole: none says what it has already.
The same readers then ask for a page without content, which is what Django itself takes
here, so the ratio of the two holds on a machine with other work, too.
"""

from __future__ import annotations

import http.client
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from kb.models import Record
from runner.evidence.folders import load_evidence
from tests.bench.api import Client, server
from tests.bench.figures import Figure, figure, share_of

READERS = 50
SECONDS, SECONDS_FULL = 15.0, 60.0
ROUNDS = 8
EMPTY = "/healthz"
PAGES = ("", "records/", "matrix/", "claims/", "contradictions/", "compare/")


@dataclass
class Reading:
    """What readers met: seconds of each answer, and how long all of it took."""

    took: list[float] = field(default_factory=list)
    whole_s: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.took) / self.whole_s


def figures() -> list[Figure]:
    load_evidence(settings.ISSUES_DIR)
    pages = addresses()
    last_s = SECONDS_FULL if os.environ.get("FULL") else SECONDS
    with server() as (port, pid):
        for path in pages * ROUNDS:
            Client(port).get(path)  # on a new connection, so by any of its processes
        before = memory_mib(pid)
        pages_read = read(port, pages, last_s)
        grown = memory_mib(pid) / before
        empty = read(port, [EMPTY], last_s / 2)
    p99 = share_of(pages_read.took, 0.99)
    return [
        figure(f"pages for {READERS} readers", pages_read.rate, "requests/s", ">= 200"),
        figure("  p99", p99 * 1000, "ms", "<= 500"),
        figure("  page without content", empty.rate, "requests/s"),
        figure("  pages / page without content", pages_read.rate / empty.rate, "x"),
        figure("  memory of the server after / before", grown, "x", "<= 1.1"),
        figure("  memory of the server before", before, "MiB"),
    ]


def addresses() -> list[str]:
    """Lists and records in both languages, a record as often as a list."""
    records = list(Record.objects.visible()[:20])
    paths = [f"/{lang}/{page}" for lang in ("en", "zh") for page in PAGES]
    english = [record.get_absolute_url() for record in records]
    return paths + english + [path.replace("/en/", "/zh/", 1) for path in english]


def read(port: int, paths: list[str], last_s: float) -> Reading:
    """Let every reader go from page to page for so many seconds."""
    begin = time.perf_counter()
    found = Reading()
    with ThreadPoolExecutor(READERS) as pool:
        for took in pool.map(
            lambda seed: list(visits(port, paths, begin + last_s, seed)), range(READERS)
        ):
            found.took += took
    found.whole_s = time.perf_counter() - begin
    return found


def visits(port: int, paths: list[str], until: float, seed: int) -> Iterator[float]:
    """Seconds of each answer to one reader."""
    chance = random.Random(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    cookie = ""
    while time.perf_counter() < until:
        path = chance.choice(paths)
        begin = time.perf_counter()
        headers = {"Accept-Encoding": "gzip", **({"Cookie": cookie} if cookie else {})}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status}")
        cookie = (answer.getheader("Set-Cookie") or cookie).partition(";")[0]
        yield time.perf_counter() - begin
    connection.close()


def memory_mib(pid: int) -> float:
    """Resident memory of the processes that a server started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    texts = [Path(f"/proc/{child}/status").read_text() for child in children]
    lines = [line for text in texts for line in text.splitlines()]
    return (
        sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
    )
