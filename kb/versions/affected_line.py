"""The versions that a record documents as affected, on one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from kb.models import Record
from kb.versions.affected import EVERY, described
from kb.versions.ranges import AFFECTED

BUILDS_SHOWN = 3
COMMIT_CHARS = 10


@dataclass(frozen=True)
class AffectedPackage:
    """`every`: any version of it, which `ranges` then need not say."""

    package: str
    every: bool
    ranges: str
    builds: list[str]

    def __str__(self) -> str:
        said = _("every version") if self.every else self.ranges
        return f"{self.package} {'; '.join(filter(None, [said, *self.builds]))}"


def of_record(record: Record) -> list[AffectedPackage]:
    """By package, in the order of the record; packages without any are left out."""
    lines = []
    for package in dict.fromkeys(entry["package"] for entry in record.affected):
        entries = [entry for entry in record.affected if entry["package"] == package]
        ranges = [described(entry["events"]) for entry in entries if entry["events"]]
        builds = list(affected_builds(entries))
        every = EVERY in ranges
        if ranges or builds:
            said = "" if every else "; ".join(ranges)
            shown = [] if every else builds[:BUILDS_SHOWN]
            lines.append(AffectedPackage(package, every, said, shown))
    return lines


def affected_builds(entries: Iterable[dict[str, object]]) -> Iterator[str]:
    """Single builds that are affected; of a repository the start of its commit."""
    for entry in entries:
        builds: list[dict[str, str]] = entry.get("builds", [])  # type: ignore[assignment]
        for build in builds:
            if build["state"] == AFFECTED:
                address, _at, commit = build["raw"].rpartition("@")
                yield commit[:COMMIT_CHARS] if address else build["raw"]
