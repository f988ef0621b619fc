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
from kb.languages import SHORT
from kb.lookup.answer import look_up_stream
from kb.lookup.paste import MAX_BYTES, EmptyPaste
from kb.search.ranking.log_lines import SURE, Confidence
from kb.terminal import in_terminal_language

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
        "Name the known issues that a log of any size shows. "
        "Exit status: 0 a match, 3 only possible ones, 1 none, 2 wrong usage."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "log",
            nargs="?",
            type=argparse.FileType("rb"),
            default="-",
            metavar="FILE",
            help="the log; standard input where none is named",
        )
        parser.add_argument(
            "--env",
            type=argparse.FileType("rb"),
            metavar="FILE",
            help="what is installed: pip freeze, conda list or torch's collect_env",
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
    """The answer for people, in the terminal's language.

    Beside a match that is sure, what is only possible is a line each.
    """
    lang = SHORT.get(get_language() or "", "en")
    sure = answer["outcome"] in SURE
    lines = [] if answer["matches"] else [str(wording.NO_MATCH)]
    for match in answer["matches"]:
        folded = sure and match["confidence"] not in SURE
        lines += [heading(match, lang)] if folded else paragraph(match, lang)
    for symptom in answer["symptoms"]:
        lines += symptom_lines(symptom, lang)
    if answer["leads"]:
        lines.append(str(wording.LEADS))
    for lead in answer["leads"]:
        lines += lead_lines(lead, lang)[: 1 if sure else None]
    cut = answer["query"]["cut"]
    if cut["lines"]:
        text = _("%(lines)d lines of the middle complain of nothing and were left out.")
        lines.append(text % cut)
    if answer["also_affecting"]:
        ids = ", ".join(answer["also_affecting"])
        lines.append(str(wording.ALSO_AFFECTING) % ids)
    return lines


def symptom_lines(symptom: dict[str, Any], lang: str) -> list[str]:
    lines = [str(wording.SEVERAL_CAUSES), f"  {symptom['title'][lang]}"]
    for cause in symptom["causes"]:
        lines.append(f"  {cause['record']}  {cause['title'][lang]}")
        lines.append(f"    {cause['tells'][lang]}")
    return [*lines, "  " + symptom["urls"]["html"][lang]]


def lead_lines(lead: dict[str, Any], lang: str) -> list[str]:
    lines = [f"  {lead['record']}  {lead['title'][lang]}", f"    {lead['why'][lang]}"]
    for entry in lead["diagnoses"][:1]:
        lines.append(f"    {entry['text'][lang]}")
        lines.append(indent(entry["code"], "      "))
    return [*lines, "    " + lead["urls"]["html"][lang]]


def heading(match: dict[str, Any], lang: str) -> str:
    confidence = wording.CONFIDENCES[match["confidence"]]
    return f"{match['record']}  {match['title'][lang]}  ({confidence})"


def paragraph(match: dict[str, Any], lang: str) -> list[str]:
    affected = match["affected"]
    lines = [heading(match, lang)]
    lines += [f"  {why['line']}: {why['pasted'][:200]}" for why in match["why"]]
    lines.append("  " + answer_words(affected))
    lines += [f"    {reason[lang]}" for reason in affected["reasons"]]
    for entry in match["diagnoses"]:
        lines.append(f"  {entry['text'][lang]}")
        lines.append(indent(entry["code"], "    "))
    for entry in match["workarounds"]:
        status = wording.WORKAROUND_STATUSES[entry["status"]]
        if entry["not_executed"]:
            status = wording.NOT_EXECUTED[entry["not_executed"]]
        lines.append(f"  {entry['name']}  [{status}]  {entry['cost'][lang]}")
        lines.append(indent(entry["apply"], "    "))
    return [*lines, "  " + match["urls"]["html"][lang], ""]


def answer_words(affected: dict[str, Any]) -> str:
    """Only a run on this very build says more than "likely"."""
    tested = affected["basis"] == "tested_build"
    answer = affected["answer"], tested
    return str(wording.ANSWERS.get(answer, wording.UNKNOWN_ANSWER))
