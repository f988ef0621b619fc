"""`manage.py ranges`: what runs would change in documented ranges, as a diff."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from kb.findings.range_proposals import Events, Proposal, is_orderable, propose
from kb.findings.results import cells
from kb.models import Record
from kb.records.toml_writer import literal
from kb.releases import sides
from kb.versions.affected import described

USAGE = 2


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Print, for each record whose documented range of torch is narrowed or "
        "contradicted by runs, a change to its issue.toml. Nothing is edited: review "
        "it, then `git apply`. Exit: 0, with or without a proposal; 2 wrong usage."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("record", metavar="ID", nargs="?", help="only this one")
        parser.add_argument("--json", action="store_true", help="print it as data")

    def handle(self, *args: Any, **options: Any) -> None:
        records = Record.objects.visible().order_by("pk")
        if options["record"]:
            records = records.filter(pk=options["record"].upper())
            if not records:
                raise CommandError(
                    f"There is no record {options['record'].upper()}.", returncode=USAGE
                )
        known = list(sides.releases(sides.tested()))
        found = list(proposals(records.prefetch_related("findings"), known))
        if options["json"]:
            rows = [as_data(record, proposal) for record, proposal in found]
            self.stdout.write(json.dumps(rows, indent=1, ensure_ascii=False))
            return
        for record, proposal in found:
            self.stdout.write("\n".join([*reasons(record, proposal), ""]))
            self.stdout.write(diff(record, proposal))
        self.stderr.write(f"{len(found)} proposals")


def proposals(
    records: Iterable[Record], known: list[str]
) -> Iterator[tuple[Record, Proposal]]:
    for record in records:
        events = range_of(record)
        if not is_orderable(events):
            continue
        proposal = propose(events, cells(record.findings.all()), known)
        if proposal.after != proposal.before:
            yield record, proposal


def range_of(record: Record) -> Events:
    """The events of its one range of torch; none where runs of torch settle nothing.

    That is a bug of another package, several ranges, or one that depends on the GPU.
    """
    ranges = [entry for entry in record.affected if entry.get("events")]
    if len(ranges) != 1 or any(e["package"] != "torch" for e in record.affected):
        return []
    if any(item["key"] == "gpu_arch" for item in record.preconditions):
        return []
    events: Events = ranges[0]["events"]
    return events


def reasons(record: Record, proposal: Proposal) -> Iterator[str]:
    """Comments above the diff, which `git apply` passes over."""
    yield f"# {record.pk} {record.title_en}"
    before, after = described(proposal.before), described(proposal.after)
    yield f"# documented {before}, by runs {after}"
    for bug, words in ((True, "reproduced"), (False, "absent")):
        releases = [name for name, shown in proposal.seen.items() if shown == bug]
        if releases:
            yield f"# against what is documented, {words} on {', '.join(releases)}"


def diff(record: Record, proposal: Proposal) -> str:
    """Unified, of the record's file; "" with a comment where the file is not here."""
    path = settings.ISSUES_DIR / record.slug / "issue.toml"
    shown = f"fixtures/issues/{record.slug}/issue.toml"
    old, new = (
        f"events = {literal(events)}\n" for events in (proposal.before, proposal.after)
    )
    text = path.read_text() if path.is_file() else ""
    if text.count(old) != 1:
        return f"# {shown} is not here or says otherwise; there: {new}"
    lines = difflib.unified_diff(
        text.splitlines(keepends=True),
        text.replace(old, new).splitlines(keepends=True),
        f"a/{shown}",
        f"b/{shown}",
    )
    return "".join(lines)


def as_data(record: Record, proposal: Proposal) -> dict[str, Any]:
    return {
        "record": record.pk,
        "before": proposal.before,
        "after": proposal.after,
        "contradicting": dict(proposal.seen),
        "diff": diff(record, proposal),
    }
