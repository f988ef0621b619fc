"""Look a log up from the terminal: `manage.py lookup --env freeze.txt < train.log`.

The log is read as a stream, whatever its size: its first and last lines, and of what
lies between them the lines that complain.
"""

from __future__ import annotations

import argparse
import json
import sys
from textwrap import indent
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils.translation import get_language, gettext as _

from kb import wording
from kb.choices import FRAMEWORKS
from kb.languages import SHORT, in_terminal_language
from kb.lookup.answer import look_up_stream
from kb.lookup.paste import MAX_BYTES, EmptyPaste
from kb.search.ranking.log_lines import Confidence

EXIT = {
    Confidence.EXACT: 0,
    Confidence.MATCH: 0,
    Confidence.NONE: 1,
    Confidence.POSSIBLE: 3,
}
USAGE = 2
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Command(BaseCommand):
    help = (
        "Name the known issues in a log of any size. Exit status: 0 a match, 3 "
        "only possible matches, 1 none, 2 wrong usage."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "log",
            nargs="?",
            type=argparse.FileType("rb"),
            default="-",
            metavar="FILE",
            help="the log; default: standard input",
        )
        parser.add_argument(
            "--env",
            type=argparse.FileType("rb"),
            metavar="FILE",
            help="file with the output of pip freeze, conda list or torch's "
            "collect_env",
        )
        parser.add_argument(
            "--json", action="store_true", help="print the API's answer"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with in_terminal_language():
            env = text_of(options["env"]) if options["env"] else ""
            answer = self.answer(options["log"], env)
            if options["json"]:
                self.stdout.write(json.dumps(answer, indent=1, ensure_ascii=False))
            else:
                self.stdout.write("\n".join(report(answer)))
        status = EXIT[Confidence(answer["outcome"])]
        if status:
            sys.exit(status)

    def answer(self, log: BinaryIO, env: str) -> dict[str, Any]:
        try:
            return look_up_stream(log, env)
        except EmptyPaste as error:
            raise CommandError(str(error), returncode=USAGE) from error
        except DatabaseError as error:
            text = _("No records can be read (%s): run migrate and load_records first.")
            raise CommandError(text % error, returncode=USAGE) from error


def text_of(stream: BinaryIO) -> str:
    """The first MiB of the stream as text, whatever its encoding."""
    data = stream.read(MAX_BYTES)
    if data.startswith(BYTE_ORDER_MARKS):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def report(answer: dict[str, Any]) -> list[str]:
    """The answer for people, in the terminal's language."""
    lang = SHORT.get(get_language() or "", "en")
    lines = [answer["decision"][lang], ""]
    for law in answer["laws"]:
        lines += [law["summary"][lang], law["urls"]["html"][lang], ""]
    for candidate in answer["candidates"]:
        lines += [*paragraph(candidate, lang), ""]
    if answer["first_checks"]:
        lines.append(str(wording.FIRST_CHECKS))
    for check in answer["first_checks"]:
        lines += [f"  {check['title'][lang]}", f"    {check['text'][lang]}"]
        lines.append(indent(check["code"], "      "))
    for group in answer["affecting"]:
        lines.append(f"{group['title'][lang]}: {len(group['records'])}")
        for row in group["records"]:
            fixed = ", ".join(row["fixed_by"])
            lines.append(f"  {row['record']}  {row['title'][lang]}  {fixed}".rstrip())
    for row in answer["ruled_out"]:
        lines.append(f"{row['title'][lang]}: {', '.join(row['slugs'])}")
    cut = answer["query"]["cut"]
    if cut["lines"]:
        text = _(
            "%(lines)d lines in the middle hold no warning or error and were left out."
        )
        lines.append(text % cut)
    return lines


def paragraph(candidate: dict[str, Any], lang: str) -> list[str]:
    confidence = wording.CONFIDENCES[candidate["confidence"]]
    name = candidate["record"] or candidate["slug"]
    lines = [f"{name}  {candidate['title'][lang]}  ({confidence})"]
    lines += [f"  {reason[lang]}" for reason in candidate["because"]]
    affected = candidate["affected"]
    if affected:
        lines.append("  " + answer_words(affected))
        lines += [f"    {reason[lang]}" for reason in affected["reasons"]]
    test = candidate["test"]
    lines.append(f"  {test['question'][lang]}")
    if test["code"]:
        lines.append(indent(test["code"], "    "))
    entry = candidate["workaround"]
    if entry:
        status = wording.WORKAROUND_STATUSES[entry["status"]]
        if entry["not_executed"]:
            status = wording.NOT_EXECUTED[entry["not_executed"]]
        lead = _("What to do now")
        if line := entry["line"]:
            lead = _("In a training loop of your own")
            lines += framework_lines(line)
        cost = _("Cost: %(cost)s") % {"cost": entry["cost"][lang]}
        lines.append(f"  {lead} [{status}]. {cost}")
        lines.append(indent(entry["apply"], "    "))
    if candidate["urls"]:
        lines.append("  " + candidate["urls"]["html"][lang])
    return lines


def framework_lines(line: dict[str, Any]) -> list[str]:
    """What to do with the framework that the log names, and whether it was run."""
    ran = wording.WORKAROUND_STATUSES[line["status"]]
    said = ran if line["evidence"] else wording.LINE_NOT_RUN
    name = {"framework": FRAMEWORKS[line["framework"]]}
    lead = _("What to do now with %(framework)s") % name
    return [f"  {lead} [{said}].", indent(line["apply"], "    ")]


def answer_words(affected: dict[str, Any]) -> str:
    """Only a run on this very build says more than "likely"."""
    tested = affected["basis"] == "tested_build"
    answer = affected["answer"], tested
    return str(wording.ANSWERS.get(answer, wording.UNKNOWN_ANSWER))
