"""`manage.py worker`: take runs from the queue and execute them.

SIGTERM ends a worker at once: what it executes is queued again. `worker --drain` lets
the workers of this host finish what they have first.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portable import harness
from runner.builds import registry
from runner.models import Worker
from runner.pool.memory import free_memory_mib
from runner.runs import fleet, jobs
from runner.worker import tasks
from runner.worker.heartbeat import default_name, full_name, queues_of

LOOK_SECONDS = 1.0
# What a check may take unless its repro asks for more.
RUN_MIB = 2048


def usual_slots() -> int:
    """One more than can be held: backfills leave the last to clicks."""
    held = free_memory_mib() // RUN_MIB
    return max(1, min(harness.usable_cpus(), held)) + 1


def slots(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 256")
    return int(text)


def worker_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} has other than letters, digits, _.-"
        )
    return full_name(text)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Execute queued runs on the torch builds of this host, until stopped."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            *("-c", "--concurrency"),
            type=slots,
            default=usual_slots(),
            help="runs at a time (default: one per core as memory allows, plus one "
            "for runs that people start: %(default)s here)",
        )
        parser.add_argument("--name", type=worker_name, help="default: worker-PID")
        parser.add_argument(
            "--drain",
            action="store_true",
            help="start no worker: let the workers of this host (or the one named) "
            "finish their runs and stop, and wait for them",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["drain"]:
            self.drain(options["name"])
            return
        name = options["name"] or default_name()
        served = jobs.retry(lambda: queues_of(registry.ready_here()), tasks.START)
        queues = ", ".join(served) or "nothing yet"
        self.stdout.write(f"Worker {name} serves {queues}.")
        self.stdout.flush()
        sys.exit(tasks.serve(name, options["concurrency"]))

    def drain(self, name: str | None) -> None:
        """Ask workers to end after their current runs, and wait until they have."""
        rows = Worker.objects.filter(host=registry.host_name())
        rows = rows.filter(name=name) if name else rows
        draining = set(rows.filter(fleet.is_online()).values_list("name", flat=True))
        if name and not draining:
            raise CommandError(f"No worker {name} is online on this host.")
        rows.filter(name__in=draining).update(draining=True)
        reported: set[str] = set()
        while remaining := draining & set(
            fleet.online_workers().filter(draining=True).values_list("name", flat=True)
        ):
            for name_ in sorted(remaining - reported):
                self.stdout.write(f"{name_} executes {fleet.running()[name_]} more.")
            reported |= remaining
            self.stdout.flush()
            time.sleep(LOOK_SECONDS)
        self.stdout.write(f"Workers that have ended: {len(draining)}.")
