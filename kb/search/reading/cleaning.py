"""A line of a log without what launchers, loggers, terminals and forums put round it.

Each prefix is matched at the start of what is left, so that a line costs no more than
its own length; the expressions are bounded or possessive throughout.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kb.search.reading.symptom_facets import MetricsOfLines

ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,40}+[ -/]?[@-~]"
    r"|\][^\x07\x1b\n]{0,400}+(?:\x07|\x1b\\)?|[()][0-9A-Z]|[=>78cDEHM])"
)
# As threads and web pages show them: "^[[31m", or without the escape.
COLOURS = re.compile(r"(?:\^\[|\u241b)?\[\d{1,3}(?:;\d{1,3}){0,5}m")
SPACES = re.compile("[\xa0\u2000-\u200a\u202f\u205f\u3000]")
ZERO_WIDTH = re.compile("[\u200b\u2060\ufeff]")
DATE = (
    r"(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?(?:[-/.]\d{2,4})?"
    r"|\d{4}年\d\d?月\d\d?日"
    r"|\d\d?[- ](?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[- ]\d{2,4}"
    r"|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\ )?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ {1,2}\d\d?)"
)
CLOCK = r"\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?"
WHEN = (
    rf"(?:{DATE}[T\s_]\s?{CLOCK}|{DATE}(?=\s*[|\]])|{CLOCK})"
    r"(?:\s?(?:Z|UTC|GMT|CST|[AP]M|[+-]\d\d:?\d\d))?(?:\s\d{4})?"
)
LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SUCCESS|TRACE)"
PLACE = r"[\w./\\<>-]{1,120}+"
# Where a line was written: says nothing of whether a new entry begins here.
CARRIERS = r"""
      \[(?i:(?:local[_ ]?)?rank|default|worker|gpu|node|trainer)?[\s_:-]{0,2}
      \d{1,6}\]:?
    | \[\d{1,5},\d{1,5}\](?:<std(?:out|err)>)?:?             # mpirun
    | \[[\w.-]{1,60}:\d{1,7}\]:?(?=\s)                        # [node01:0]
    | \((?:[A-Za-z][\w.:]{0,60}+\ )?(?:pid|rank|ip)=[^()\n]{1,80}+\)  # ray, vLLM
    | \((?:raylet|autoscaler|main|driver)(?:,[^()\n]{0,60}+)?\)
    | \[pod/[\w./-]{1,200}+\]                                  # kubectl --prefix
    | [\w.-]{1,60}[-_]\d{1,4}\s{1,12}\|(?=\s)                  # docker compose
    | std(?:out|err)\ [FP](?=\s)                               # container runtime
    | \d{1,5}:(?=\s)                                           # srun --label
    | (?:node|host|gpu|rank|worker)[\w.-]{0,40}\d:(?=\s)
    | (?:wandb|slurmstepd|srun|torchrun|accelerate|python\.exe\ ):(?=\s)
    | [\w.-]{1,60}\ [\w./@-]{1,60}\[\d{1,9}\]:                 # journald, syslog
    | [|│┃>+•*]{1,8}(?=\s|$)                                   # quotes, boxes, groups
    | E(?=\s{2,8}\S)                                           # pytest
    | [╭╰┌└├┏┗]?[─━═]{2,400}+[╮╯┐┘┓┛]?
"""
# What begins an entry of a log: when, how bad, where in the sources.
ENTRIES = rf"""
      [\[(]?{WHEN}[\])]?(?=[\s:,|\]-]|$)
    | [\[(<](?:{LEVEL}|(?i:debug|info|warning|warn|error|critical))\s{{0,10}}[\])>]
    | {LEVEL}\s{{0,10}}(?=[|:-]|\s{{2}}|\s\[)
    | {LEVEL}(?=\s)
    | \[{LEVEL}\|[^\]\[\n]{{0,120}}+\]
    | \[(?:titan|NeMo|deepspeed|trainer|main|train|swift)
      (?:\ [A-Z]\ [^\]\n]{{0,120}}+)?\]
    | \[[\w./\\-]{{1,120}}\.(?:py|cpp|cc|cu|h):\d{{1,6}}(?::[\w<>.]{{1,80}}+)?\]
    | \[?[DIWEFV]\d{{4}}\ {CLOCK}\ [^\]\n]{{1,200}}+\]             # glog, torch's C++
    | \[[DIWEF]\ [\w./-]{{1,120}}\.(?:cpp|cc|cu|h|py):\d{{1,6}}\]
    | \[\d{{1,4}}/\d{{1,4}}(?:_\d{{1,3}})?\](?=\s)        # Dynamo's frames
    | \[__\w{{1,40}}\]
    | ::(?:error|warning|notice)(?:\ [^:\n]{{0,200}}+)?::|\#\#\[\w{{1,20}}\]
    | [\w.]{{1,80}}:{PLACE}:\d{{1,6}}(?=\s)                        # loguru: where
    | [\w.]{{1,80}}:\d{{1,6}}(?=\s(?:>>|-))
    | (?:root|__main__|[a-z_]\w{{0,40}}(?:\.\w{{1,40}}){{1,6}})(?=\s-\s)
"""
CARRIER = re.compile(CARRIERS, re.VERBOSE)
ENTRY = re.compile(ENTRIES, re.VERBOSE)
COMPLAINT = re.compile(r"(?i:warn|error)|CRITICAL|FATAL|^\[?[WEF](?:\d{4}| )")
LOGGER = re.compile(rf"{LEVEL}:[\w.]{{1,80}}+:")
BAR = re.compile(
    r"(?:(?:Epoch|Training|Evaluating|Validation|Sanity Checking|Map)"
    r"[\w\s/:]{0,40}:?\s*)?"
    r"\d{1,3}%\|[^|\n]{0,200}+\|\s?\d{0,9}/?\d{0,9}\s?(?:\[[^\]\n]{0,300}+\])?"
    r"|[━╸╺╍▏▎▍▌▋▊▉█░▒]{4,200}+(?:\s{0,4}\d{1,9}/\d{1,9})?(?:\s{0,4}\d{1,3}%)?"
)
LEADING = " \t|>-:•*+│┃❱"
TRAILING = " \t│┃|"
# Rich's log handler ends a line with the place that logged it.
LOGGED_AT = re.compile(r"(?<!\s)\s{3,}+[\w-]{1,60}\.py:\d{1,6}$")
MAX_PREFIXES = 16


def plain_text(text: str) -> str:
    """Without colours, cursor movements and links of a terminal; any space as one."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    if "[0m" in text:
        text = COLOURS.sub("", text)
    if text.isascii():
        return text
    return ZERO_WIDTH.sub("", SPACES.sub(" ", text))


class CleanLine(NamedTuple):
    """A line without what surrounds it; whether a log entry begins, as a complaint."""

    text: str
    begins_entry: bool
    complains: bool


def clean(line: str) -> str:
    """The line without time stamps, ranks, log levels and bars."""
    return clean_line(line).text


def clean_line(text: str) -> CleanLine:
    if "%|" in text or "━" in text or "█" in text:
        text = BAR.sub("  ", text)
    start, entries = after_prefixes(text)
    text = text[start:]
    if ".py:" in text:
        text = LOGGED_AT.sub("", text)
    text = " ".join(text.split()).rstrip(TRAILING)
    return CleanLine(text, bool(entries), any(map(COMPLAINT.search, entries)))


class CleanLines(dict[str, CleanLine]):
    """Lines of one paste by how they stand there, each cleaned once, when asked for.

    `metrics`: the same for what is measured in a cleaned line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.metrics = MetricsOfLines()

    def __missing__(self, line: str) -> CleanLine:
        self[line] = cleaned = clean_line(line)
        return cleaned


def after_prefixes(text: str) -> tuple[int, list[str]]:
    """Where the text proper begins, and the prefixes that begin an entry."""
    start, entries = skip(text, 0), []
    for _ in range(MAX_PREFIXES):
        entry = LOGGER.match(text, start) or ENTRY.match(text, start)
        prefix = entry or CARRIER.match(text, start)
        if prefix is None or prefix.end() == start:
            break
        if entry:
            entries.append(entry[0])
        start = skip(text, prefix.end())
    return start, entries


def skip(text: str, start: int) -> int:
    """Past spaces and the signs that stand between prefixes."""
    while start < len(text) and text[start] in LEADING:
        start += 1
    return start
