"""`manage.py worker`: take runs from the queue and execute them."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from django.core.management.base import BaseCommand

from runner import tasks
from runner.worker import default_name, full_name, queues_of, ready_installations


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
            "-c", "--concurrency", type=slots, default=1, help="runs at a time"
        )
        parser.add_argument("--name", type=worker_name, help="default: worker-PID")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"] or default_name()
        queues = ", ".join(queues_of(ready_installations())) or "nothing yet"
        self.stdout.write(f"Worker {name} serves {queues}.")
        self.stdout.flush()
        sys.exit(tasks.serve(name, options["concurrency"]))
