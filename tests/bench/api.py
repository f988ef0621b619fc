"""The API over HTTP on the shipped records: the server that `make run` starts.

Reading keeps its connection. Each look-up has one of its own, as from many people: of
a few that are kept, one of the server's two processes may get all. Server and clients
share the machine's cores, so the rate of look-ups is a floor; what the server computes
for one of them is the same figure on a busy machine.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from django.conf import settings

from kb.models import Record
from runner.evidence.folders import load_evidence
from tests.bench.figures import Figure, figure, share_of, timed
from tests.support import log_corpus
from tests.support.loopback import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = 100
CLIENTS, LOOKUPS = 8, 600
# With evidence on several builds.
RECORD = "/api/v1/records/NAN-0002"
WORDS = ["nan gradient", "loss", "梯度", "attention mask", "overflow", "checkpoint"]


def figures() -> list[Figure]:
    chance = random.Random(1)
    load_evidence(settings.ISSUES_DIR)
    ids = list(Record.objects.visible().values_list("id", flat=True))
    each_once = [paste.text for paste in log_corpus.known()]
    logs = (each_once * LOOKUPS)[:LOOKUPS]
    with server() as (port, pid):
        client = Client(port)
        full, unchanged = full_and_unchanged(client)
        gets = times(
            client, [f"/api/v1/records/{chance.choice(ids)}" for _ in range(ROUNDS)]
        )
        queries = times(
            client, [f"/api/v1/records?q={word}" for word in quoted(chance)]
        )
        look_ups_per_second(port, each_once)  # what is kept in memory is read once
        before = processor_seconds(pid)
        rate = look_ups_per_second(port, logs)
        each = (processor_seconds(pid) - before) / len(logs)
    return [
        figure("GET record, median", full * 1000, "ms"),
        figure("  304 / full answer", unchanged / full, "x", "<= 0.333"),
        figure(f"GET record of {len(ids)}, p95", share_of(gets, 0.95) * 1000, "ms",
               "<= 500"),
        figure("query of words, p95", share_of(queries, 0.95) * 1000, "ms", "<= 1000"),
        figure(f"look-ups by {CLIENTS} clients", rate, "requests/s", ">= 100"),
        figure("  the server's processor time for one", each * 1000, "ms"),
    ]  # fmt: skip


class Client:
    """One connection at a time, kept while it reads."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str, tag: str = "") -> http.client.HTTPResponse:
        headers = {"If-None-Match": tag} if tag else {}
        self.connection.request("GET", path, headers=headers)
        return self.answer(304 if tag else 200)

    def look_up(self, log: str) -> None:
        body = json.dumps({"log": log})
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", "/api/v1/lookup", body, headers)
        self.answer(200)
        self.connection.close()  # The next one opens it again.

    def answer(self, status: int) -> http.client.HTTPResponse:
        response = self.connection.getresponse()
        response.read()
        if response.status != status:
            raise SystemExit(f"the API answered {response.status}, not {status}")
        return response


def full_and_unchanged(client: Client) -> tuple[float, float]:
    """Median seconds of a whole record and of its 304, taken in turn."""
    tag = str(client.get(RECORD).getheader("ETag"))
    pairs = [
        (timed(lambda: client.get(RECORD)), timed(lambda: client.get(RECORD, tag)))
        for _ in range(ROUNDS)
    ]
    full, unchanged = zip(*pairs, strict=True)
    return share_of(list(full), 0.5), share_of(list(unchanged), 0.5)


def times(client: Client, paths: list[str]) -> list[float]:
    def get(path: str) -> Callable[[], object]:
        return lambda: client.get(path)

    return [timed(get(path)) for path in paths]


def quoted(chance: random.Random) -> Iterator[str]:
    for _ in range(ROUNDS):
        yield quote(chance.choice(WORDS))


def look_ups_per_second(port: int, logs: list[str]) -> float:
    shares = [logs[at::CLIENTS] for at in range(CLIENTS)]

    def work(share: list[str]) -> None:
        client = Client(port)
        for log in share:
            client.look_up(log)

    with ThreadPoolExecutor(CLIENTS) as pool:
        begin = time.perf_counter()
        list(pool.map(work, shares))
        return len(logs) / (time.perf_counter() - begin)


def processor_seconds(pid: int) -> float:
    """What a process and its children have computed so far."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


@contextmanager
def server() -> Iterator[tuple[int, int]]:
    """Port and process of a web server as `manage.py up` starts it."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "gunicorn", "--config", "python:config.gunicorn"),
        *("--bind", f"127.0.0.1:{port}"),
    ]
    process = subprocess.Popen(command, env={**os.environ}, cwd=ROOT)
    try:
        wait_until_it_answers(process, port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        try:
            Client(port).get("/healthz")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the web server did not start")
