"""The queue as a reader has it: click to start, log latency, and what idling costs.

Real workers over the embedded set-up (kbfs and SQLite); what they execute is the
stand-in of tests.chaos_node, so the figures are the queue's and not torch's.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from runner.worker.supervisor import child_pids
from tests.bench.figures import Figure, figure, share_of
from tests.support import runs
from tests.support.sites import Site, wait_for

CLICKS = 50
CLICK_EVERY_S = 0.2
MATRIX_RUNS = 60
SLOT_S = 0.5
VIEWERS = 30
LOG_S = 12
IDLE_S = 20
SUBMIT = """
repro = runs.make_repro(runs.source() + f"# {number}\\n", f"repro_{number}")
found = submission.submit(repro, runs.make_build(), "cpu", 1, priority=priority)
answer = found.run.pk.hex
"""
STARTED = """
row = Run.objects.get(pk=pk)
answer = row.started_at and (row.started_at - row.created_at).total_seconds()
"""
OPEN = "answer = Run.objects.active().count()"


def figures() -> list[Figure]:
    return [
        *clicks(),
        *click_ahead_of_the_matrix(),
        *cancelling(),
        *log_latency(),
        *idle(),
    ]


@contextmanager
def site(slots: int, run_s: float) -> Iterator[Site]:
    """A site with one worker that is ready."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = Site(Path(folder) / "var")
        made.environ["CHAOS_RUN_S"] = str(run_s)
        made.migrate()
        made.install(Path(sys.executable))
        made.workers.append(made.process("-m", "tests.chaos_node", "bench", str(slots)))
        try:
            # The first run also waits for Celery to import everything.
            submit(made, -1)
            wait_for(lambda: made.python(OPEN) == 0, "the first run")
            yield made
        finally:
            for process in made.workers:
                process.send_signal(signal.SIGTERM)
            made.close()


def submit(made: Site, number: int, priority: int = 0) -> str:
    return str(made.python(SUBMIT, number=number, priority=priority))


def started(made: Site, pk: str) -> float:
    """Seconds from submission to start; waits for it."""
    found: list[Any] = []

    def look() -> bool:
        found[:] = [made.python(STARTED, pk=pk)]
        return found[0] is not None

    wait_for(look, "a run to start")
    return float(found[0])


def clicks() -> list[Figure]:
    with site(slots=2, run_s=0.1) as made:
        keys = []
        for number in range(CLICKS):
            keys.append(submit(made, number))
            time.sleep(CLICK_EVERY_S)
        waits = [started(made, pk) for pk in keys]
    return [
        figure("click to running, p50", share_of(waits, 0.5), "s", "<= 0.2"),
        figure("click to running, p99", share_of(waits, 0.99), "s", "<= 1"),
    ]


def click_ahead_of_the_matrix() -> list[Figure]:
    with site(slots=2, run_s=SLOT_S) as made:
        for number in range(MATRIX_RUNS):
            submit(made, number, priority=2)
        waits = [started(made, submit(made, 1000 + n)) for n in range(3)]
    name = f"click ahead of {MATRIX_RUNS} queued matrix runs / one slot, worst of 3"
    return [figure(name, max(waits) / SLOT_S, "x", "<= 1")]


def cancelling() -> list[Figure]:
    """A real check that sleeps for ever, in the machine's best sandbox."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = Site(Path(folder) / "var")
        for name in ("SANDBOX_WITHOUT", "SANDBOX_MIN_TIER"):
            del made.environ[name]
        made.migrate()
        made.install(runs.stand_in_torch(Path(folder) / "torch"))
        made.start()
        waits = [cancel_one(made, number) for number in range(5)]
        made.close()
    return [figure("cancel of a running run, worst of 5", max(waits), "s", "<= 3")]


def cancel_one(made: Site, number: int) -> float:
    """Seconds until a run that hangs is cancelled, its processes being gone."""
    hangs = f"import signal\nsignal.pause()  # {number}"
    pk = made.submit(runs.source(trigger=hangs), name=f"repro_{number}")
    phase = "SELECT phase FROM runner_run WHERE id = ?"
    wait_for(lambda: made.sql(phase, pk)[0][0].startswith("trigger"), "the trigger")
    time.sleep(0.5)
    begin = time.monotonic()
    made.python("answer = jobs.cancel(Run.objects.get(pk=pk))", pk=pk)
    wait_for(lambda: made.run_row(pk)[0] == "cancelled", "the cancellation")
    return time.monotonic() - begin


# --- the log ----------------------------------------
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def web(made: Site) -> Iterator[int]:
    port = free_port()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "--config", "python:config.gunicorn"),
            *("--bind", f"127.0.0.1:{port}", "--log-level", "error"),
        ],
        cwd=settings.BASE_DIR,
        env=made.environ,
    )
    try:
        wait_for(lambda: answers(port), "the web server")
        yield port
    finally:
        server.terminate()
        server.wait()


def answers(port: int) -> bool:
    try:
        get(http.client.HTTPConnection("127.0.0.1", port, timeout=5), "/healthz")
    except OSError:
        return False
    return True


def get(server: http.client.HTTPConnection, path: str) -> bytes:
    server.request("GET", path)
    return server.getresponse().read()


class Viewer(threading.Thread):
    """Reads a run's log as its page does, twice a second, until it ends."""

    def __init__(self, port: int, pk: str, delay_s: float) -> None:
        super().__init__(daemon=True)
        self.port, self.pk, self.delay_s = port, pk, delay_s
        self.late: list[float] = []
        self.seen: list[int] = []

    def run(self) -> None:
        time.sleep(self.delay_s)
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        after, end = 0, False
        while not end:
            body = json.loads(get(server, f"/api/v1/runs/{self.pk}/log?after={after}"))
            now = time.time()
            for line in body["lines"]:
                self.seen.append(line["seq"])
                if line["stream"] == "stdout":
                    self.late.append(now - float(line["text"]))
            after, end = body["next"], body["end"]
            time.sleep(0.5)


def log_latency() -> list[Figure]:
    with site(slots=1, run_s=LOG_S) as made, web(made) as port:
        made.python("Run.objects.all().delete(); answer = 1")
        pk = submit(made, 1)
        viewers = [Viewer(port, pk, 0.5 * n / VIEWERS) for n in range(VIEWERS)]
        for viewer in viewers:
            viewer.start()
        for viewer in viewers:
            viewer.join()
    late = [value for viewer in viewers for value in viewer.late]
    whole = [viewer.seen == list(range(1, len(viewer.seen) + 1)) for viewer in viewers]
    missing = sum(not ok for ok in whole)
    return [
        figure(f"log latency, {VIEWERS} viewers, p50", share_of(late, 0.5), "s"),
        figure(
            f"log latency, {VIEWERS} viewers, p99", share_of(late, 0.99), "s", "<= 1"
        ),
        figure("viewers with a line lost or doubled", missing, "", "== 0"),
    ]


# --- doing nothing ----------------------------------------
def family(pid: int) -> Iterator[int]:
    yield pid
    for child in child_pids(pid):
        yield from family(child)


def cpu_s(pids: list[int]) -> float:
    """Processor time that these have spent so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def idle() -> list[Figure]:
    """Of web server and worker, as a share of one core."""
    with site(slots=2, run_s=0.1) as made, web(made):
        own = family(os.getpid())
        pids = [pid for pid in own if pid != os.getpid() and pid != shell(made)]
        before, began = cpu_s(pids), time.monotonic()
        time.sleep(IDLE_S)
        spent = (cpu_s(pids) - before) / (time.monotonic() - began)
    return [figure("idle CPU of web and worker", spent * 100, "%", "<= 2")]


def shell(made: Site) -> int:
    """The process that the bench itself talks through."""
    return made.shell.pid if made.shell else 0
