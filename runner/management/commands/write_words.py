"""`manage.py write_words`: give the files that travel alone what they share with it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runner.takeaway import shared


class Command(BaseCommand):
    help = "Write words, masks and names of packages into the files that travel alone."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        for name in shared.BLOCKS:
            path, text = shared.path_of(name), shared.with_words(name)
            if path.read_text("utf-8") == text:
                self.stdout.write(f"{name}: unchanged")
                continue
            path.write_text(text, "utf-8")
            self.stdout.write(f"{name}: written")
