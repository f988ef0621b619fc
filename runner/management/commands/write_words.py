"""`manage.py write_words`: give the files that travel alone the words of the site."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runner.takeaway import shared


class Command(BaseCommand):
    help = "Write the words of kb/wording.py into the files that import nothing of it."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        for name in shared.BLOCKS:
            path, text = shared.path_of(name), shared.with_words(name)
            if path.read_text("utf-8") == text:
                self.stdout.write(f"{name}: unchanged")
                continue
            path.write_text(text, "utf-8")
            self.stdout.write(f"{name}: written")
