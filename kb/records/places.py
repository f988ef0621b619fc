"""Where a problem stands: the line of a key, a section or a check in its file."""

from __future__ import annotations

import re
from pathlib import Path

from kb.records.articles import BRIEF_HEADINGS, HEADINGS, at_line, scan
from kb.records.files import ARTICLE_FILES, Problem, read_text

TABLE = re.compile(r"\s*\[\[\s*(\w+)\s*\]\]")
KEY = re.compile(r"\s*(\w+)\s*=")
LONG_STRING = re.compile(r'"""|\'\'\'')
NUMBER = re.compile(r"\d+")
# How a message begins that names its line itself, of a repro or of a section.
OWN_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)


def located(root: Path, problem: Problem) -> str:
    """ "folder/issue.toml:53: claim[0].builds: …", with the line where one is known."""
    try:
        text = read_text(root / problem.file)
    except (OSError, ValueError):
        return str(problem)
    name = Path(problem.file).name
    key, message = problem.key, problem.message
    line, own = line_of(name, text, problem), OWN_LINE.fullmatch(message)
    if key and key == at_line(number_in(key)):
        line, key = number_in(key), ""
    elif own and not name.endswith(".toml"):
        # Of a section it counts from what stands first below the heading.
        line = int(own[1]) + (first_below(text, line) - 1 if line else 0)
        message = own[2]
    where = f"{problem.file}:{line}" if line else problem.file
    return ": ".join(part for part in (where, key, message) if part)


def number_in(key: str) -> int:
    found = NUMBER.search(key)
    return int(found[0]) if found else 0


def line_of(name: str, text: str, problem: Problem) -> int:
    """The line of a problem's key; 0 where that is not known."""
    if name.endswith(".toml"):
        return line_of_key(text, problem.key)
    for lang, article in ARTICLE_FILES.items():
        if name == article:
            return line_in_article(text, problem.key, lang)
    return line_in_repro(text, problem)


def line_of_key(toml: str, key: str) -> int:
    """The line of "claim[2].builds[0]", else of what it stands in; 0 for none."""
    lines = key_lines(toml)
    while key and key not in lines:
        key = re.sub(r"(?:\[\d+\]|\.?[^.\[\]]*)$", "", key)
    return lines.get(key, 0)


def key_lines(toml: str) -> dict[str, int]:
    """ "schema" and "claim[2].builds" and "claim[2]" of a TOML text, to their lines."""
    found: dict[str, int] = {}
    table, counts, inside = "", dict[str, int](), False
    for number, line in enumerate(toml.split("\n"), 1):
        was_inside = inside
        inside ^= len(LONG_STRING.findall(line)) % 2 == 1
        if was_inside:
            continue
        if header := TABLE.match(line):
            at = counts[header[1]] = counts.get(header[1], -1) + 1
            table = f"{header[1]}[{at}]"
            found[table] = number
        elif key := KEY.match(line):
            found.setdefault(f"{table}.{key[1]}" if table else key[1], number)
    return found


def line_in_article(text: str, key: str, lang: str) -> int:
    """The line of a section's heading."""
    rows = scan(text)[0]
    titles = (HEADINGS[lang].get(key), BRIEF_HEADINGS[lang].get(key))
    wanted = [f"## {title}" for title in titles]
    found = (
        row.number for row in rows if not row.fenced and row.text.strip() in wanted
    )
    return next(found, 0)


def first_below(text: str, line: int) -> int:
    """The first line below this one that is not blank."""
    lines = text.split("\n")
    below = range(line, len(lines))
    return next((at + 1 for at in below if lines[at].strip()), line)


def line_in_repro(text: str, problem: Problem) -> int:
    """The line of a key in the header, or of the check that is the key."""
    name = problem.key or problem.message.partition(":")[0].rpartition(".")[2]
    wanted = re.compile(rf"(?:#\s*{re.escape(name)}\s*=|def {re.escape(name)}\()")
    lines = enumerate(text.split("\n"), 1)
    return next((number for number, line in lines if wanted.match(line)), 0)
