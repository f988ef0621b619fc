"""Runs under random SIGKILLs: is any lost, doubled or stuck?

    DATA_DIR=... python -m tests.chaos --runs 60 --kills 6 --seed 1

Works on the site that the environment describes, whose database is migrated and
empty, and prints a report as JSON. `test_chaos` says what must be in it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import django

KINDS = ("group", "main", "child")
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
KILL_EVERY_S = (0.5, 1.5)
NODE_READY_S = 60
LOOK_S = 0.1


class Node:
    """A worker process group that is started again whenever it died."""

    def __init__(self, name: str, slots: int, log: Path) -> None:
        self.name, self.slots, self.log = name, slots, log
        self.start()

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos_node", self.name, str(self.slots)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        if self.process.poll() is not None:
            self.start()

    def kill(self, kind: str) -> bool:
        """SIGKILL the group, the worker alone, or one check that it started.

        False where there was nothing to kill.
        """
        pid = self.process.pid
        if kind == "group":
            os.killpg(pid, signal.SIGKILL)
            return True
        victims = [pid] if kind == "main" else checks_of(pid)
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(random.choice(victims), signal.SIGKILL)
            return True
        return False

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def checks_of(pid: int) -> list[int]:
    """The stand-in checks among a worker's children."""
    from runner.worker.supervisor import child_pids

    return [child for child in child_pids(pid) if is_check(child)]


def is_check(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"print(time.time()" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


class Chaos:
    def __init__(self, options: argparse.Namespace) -> None:
        from django.conf import settings

        self.options = options
        self.random = random.Random(options.seed)
        self.log = Path(settings.DATA_DIR) / "nodes.log"
        self.kills: Counter[str] = Counter()
        self.interrupted = 0
        self.kinds = self.order_of_kinds()

    def order_of_kinds(self) -> list[str]:
        """At random, but every kind as often as the others."""
        if self.options.cut_database:
            return ["database"] * self.options.kills
        kinds = [KINDS[n % len(KINDS)] for n in range(self.options.kills)]
        self.random.shuffle(kinds)
        return kinds

    def prepare(self) -> None:
        """One repro per run, so that none joins another; one build everywhere."""
        from tests.support import runs

        runs.install(sys.executable)
        self.repros = [
            runs.make_repro(runs.source() + f"# {number}\n", f"repro_{number}")
            for number in range(self.options.runs)
        ]

    def run(self) -> dict[str, Any]:
        self.prepare()
        began = time.monotonic()
        slots = self.options.slots
        self.nodes = [
            Node(f"node{n}", slots, self.log) for n in range(self.options.nodes)
        ]
        try:
            self.wait_until_ready()
            self.act()
        finally:
            for node in self.nodes:
                node.stop()
            for node in self.nodes:
                node.process.wait(NODE_READY_S)
        return self.report(time.monotonic() - began)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + NODE_READY_S
        while len(self.ready()) < len(self.nodes):
            if time.monotonic() > deadline:
                raise SystemExit(f"nodes do not start: {self.log.read_text()[-3000:]}")
            time.sleep(LOOK_S)

    def ready(self) -> list[Node]:
        """Nodes that live and have said so since they were started."""
        from runner.models import Worker

        seen = set(Worker.objects.values_list("name", "started_at"))
        names = {name.partition("@")[0] for name, _ in seen}
        return [n for n in self.nodes if n.process.poll() is None and n.name in names]

    def act(self) -> None:
        """Submit, kill and restart until all is over or the patience is."""
        began = time.monotonic()
        left = list(reversed(self.repros))
        submit_at, kill_at = began, began + 0.5
        while time.monotonic() - began < self.options.patience:
            now = time.monotonic()
            if left and now >= submit_at:
                self.submit(left.pop())
                submit_at = now + self.options.pace
            if self.kinds and now >= kill_at and self.strike():
                kill_at = now + self.random.uniform(*KILL_EVERY_S)
            for node in self.nodes:
                node.keep_alive()
            if not left and not self.kinds and self.is_over():
                return
            time.sleep(LOOK_S)

    def submit(self, repro: Any) -> None:
        from runner.runs import submission
        from tests.support import runs

        submission.submit(repro, runs.make_build(), "cpu", 1)

    def strike(self) -> bool:
        """Do the next kill; False where nobody was there to be killed."""
        from django.db import connection

        from runner.models import Run

        running = Run.objects.filter(state=Run.State.RUNNING)
        names = {
            name.partition("@")[0] for name in running.values_list("worker", flat=True)
        }
        # One that is at work where there is one: an idle worker has little to lose.
        ready = self.ready()
        ready = [node for node in ready if node.name in names] or ready
        if not ready:
            return False
        kind = self.kinds[-1]
        node = self.random.choice(ready)
        if kind == "database":
            at_work = running.exists()
            with connection.cursor() as cursor:
                cursor.execute(CUT)
        else:
            at_work = running.filter(worker__startswith=f"{node.name}@").exists()
            if not node.kill(kind):
                return False  # its check has just ended; the next look tries again
        self.kinds.pop()
        self.kills[kind] += 1
        self.interrupted += at_work
        return True

    def is_over(self) -> bool:
        from runner.models import Run

        return not Run.objects.active().exists()

    def report(self, seconds: float) -> dict[str, Any]:
        from runner.models import Evidence, Run

        rows = list(Run.objects.all())
        evidence = Counter(Evidence.objects.values_list("repro_digest", flat=True))
        again = [row for row in rows if row.attempt > 1 and row.started_at]
        waits = [(row.started_at - row.created_at).total_seconds() for row in again]
        log = self.log.read_text(errors="replace")
        return {
            "submitted": len(rows),
            "states": Counter(row.state for row in rows),
            "verdicts": sum(row.verdict is not None for row in rows),
            "with_evidence": sum(row.evidence_id is not None for row in rows),
            "doubles": sum(count > 1 for count in evidence.values()),
            "reasons": Counter(row.reason for row in rows if row.reason),
            "attempts": Counter(row.attempt for row in rows),
            "kills": self.kills,
            "interrupted": self.interrupted,
            "locked_errors": log.count("database is locked"),
            "tracebacks": log.count("Traceback (most recent call last)"),
            "submit_to_last_start_s": {
                "median": statistics.median(waits) if waits else None,
                "max": max(waits, default=None),
            },
            "seconds": round(seconds, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--pace", type=float, default=0.15, help="s between submits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--cut-database",
        action="store_true",
        help="instead of killing, end every connection to PostgreSQL but one's own",
    )
    parser.add_argument("--patience", type=float, default=150, help="s, then give up")
    options = parser.parse_args()
    django.setup()
    sys.stdout.write(json.dumps(Chaos(options).run()) + "\n")


if __name__ == "__main__":
    main()
