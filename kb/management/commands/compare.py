"""What an upgrade of torch brings: `manage.py compare 2.5.1 2.13.0`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils.translation import gettext as _, ngettext

from kb import wording
from kb.choices import DeviceClass
from kb.environments.environment import Environment, parse_environment
from kb.languages import current_lang
from kb.lookup.paste import MAX_BYTES, readable
from kb.releases import sides, words
from kb.releases.comparison import NEW, Comparison, compare
from kb.releases.details import Shown, shown
from kb.releases.installed import Narrowed
from kb.releases.sides import Side
from kb.terminal import in_terminal_language

BRINGS_SOMETHING, USAGE, NOTHING_TO_COMPARE = 1, 2, 125


class Command(BaseCommand):
    help = (
        "Say what two torch builds or releases show of every record. Exit status: 0 "
        "nothing new, 1 the second brings a bug that the first has not, by runs on "
        "both, 125 no record was judged on both, 2 wrong usage."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        side = "a release (2.5.1), a build (2.5.1-cu124) or a version"
        parser.add_argument("before", metavar="FROM", help=side)
        parser.add_argument("after", metavar="TO", help=side)
        parser.add_argument("--device", choices=DeviceClass.values, default="")
        parser.add_argument(
            "--env",
            type=argparse.FileType("rb"),
            metavar="FILE",
            help="only what can concern this pip freeze",
        )
        parser.add_argument("--json", action="store_true", help="print it as data")

    def handle(self, *args: Any, **options: Any) -> None:
        with in_terminal_language():
            try:
                found = self.compared(options)
                rows = shown(found, found.items())
            except DatabaseError as error:
                text = _("Nothing can be read (%s): run migrate and load_records.")
                raise CommandError(text % error, returncode=USAGE) from error
            if options["json"]:
                data = document(found, rows)
                self.stdout.write(json.dumps(data, indent=1, ensure_ascii=False))
            else:
                self.stdout.write("\n".join(report(found, rows)))
        if status := status_of(found):
            sys.exit(status)

    def compared(self, options: dict[str, Any]) -> Comparison:
        first, last = (side_of(options[name]) for name in ("before", "after"))
        env = read_environment(options["env"]) if options["env"] else None
        return compare(first, last, options["device"], env)


def side_of(text: str) -> Side:
    side = sides.find(text)
    if side is None:
        said = _("“%s” is no torch build or release that can be compared.") % text
        raise CommandError(said, returncode=USAGE)
    return side


def read_environment(stream: Any) -> Environment:
    text = stream.read(MAX_BYTES).decode("utf-8-sig", "replace")
    env = parse_environment(readable(text))
    if not env.is_given:
        said = _("No package with a version was found in %s.") % stream.name
        raise CommandError(said, returncode=USAGE)
    return env


def status_of(found: Comparison) -> int:
    if not found.is_tested:
        return NOTHING_TO_COMPARE
    return BRINGS_SOMETHING if found.counts[NEW] else 0


# --- for people ----------------------------------------------------------------------
def report(found: Comparison, rows: list[Shown]) -> Iterator[str]:
    lang = current_lang()
    yield f"torch {found.before.name} → {found.after.name}"
    yield words.summary(found)[lang]
    if not found.is_tested:
        names = {"before": found.before.name, "after": found.after.name}
        yield words.NOTHING_IN_COMMON.filled(**names)[lang]
    if found.narrowed:
        yield from narrowing(found.narrowed)
    for kind, several in groupby(rows, key=lambda row: row.item.kind):
        group = list(several)
        yield f"\n{words.TITLES[kind]} ({len(group)})"
        yield f"  {words.meaning(kind, found)[lang]}"
        for row in group:
            yield f"  {row.record.id}  {row.record.text('title', lang)}"
            yield from (f"    {line}" for line in beside(row))


def beside(row: Shown) -> Iterator[str]:
    if row.workaround:
        yield row.workaround
    for said in row.said:
        before, after = (json.dumps(value, ensure_ascii=False) for value in said[1:])
        yield f"{said.name}: {before} → {after}"


def narrowing(narrowed: Narrowed) -> Iterator[str]:
    """What was left out, and what a list of packages cannot tell."""
    for package, records in narrowed.left_out.items():
        yield ngettext(
            "%(count)d record left out: %(package)s is not in the list.",
            "%(count)d records left out: %(package)s is not in the list.",
            len(records),
        ) % {"count": len(records), "package": package}
    for key, records in narrowed.unsettled.items():
        yield ngettext(
            "Not known from the list: %(what)s; %(count)d record depends on it.",
            "Not known from the list: %(what)s; %(count)d records depend on it.",
            len(records),
        ) % {"what": wording.PRECONDITIONS[key], "count": len(records)}


# --- as data -------------------------------------------------------------------------
def document(found: Comparison, rows: list[Shown]) -> dict[str, Any]:
    narrowed = found.narrowed
    return {
        "from": side_document(found.before),
        "to": side_document(found.after),
        "device": found.device or None,
        "sentence": words.summary(found),
        "counts": found.counts,
        "items": [item_document(row) for row in rows],
        "installed": narrowed
        and {
            "left_out": narrowed.left_out,
            "unsettled": narrowed.unsettled,
            "other_packages": narrowed.other_packages,
            "unparsed_lines": narrowed.env.unparsed_lines,
        },
    }


def side_document(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "raw": side.raw,
        "is_release": side.is_release,
        "builds": list(side.builds),
    }


def item_document(row: Shown) -> dict[str, Any]:
    return {
        "change": row.item.kind,
        "basis": row.basis,
        "record": row.record.id,
        "title": row.record.both("title"),
        "repro": row.item.repro or None,
        "device": row.item.device or None,
        "workaround": row.workaround or None,
        "said": [said._asdict() for said in row.said],
        "evidence": [[run.evidence for run in side.runs] for side in row.sides],
    }
