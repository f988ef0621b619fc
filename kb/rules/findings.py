"""What rules find in one source, with its places, and what repairs it."""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from kb.rules.entries import OF_FILE, Entries
from kb.rules.patterns import Rule, Undone
from kb.rules.reading import Reader

Json = Dict[str, Any]
SEVERITIES = ("error", "warning", "note")
PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)")
# `# doesitnan: ignore`, `# doesitnan: ignore[NAN-0015, NAN-0002]`.
IGNORED = re.compile(r"#\s*doesitnan:\s*ignore(?:\[([^\]]*)\])?")
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
WORD = re.compile(r"\w+")
# The longest file of PyTorch itself has 1.2 million.
MOST_CHARS = 2_000_000
# An f-string to its end, or the end of its line where that is missing.
F_STRING = re.compile(
    r"""\b(?:[fF][rR]?|[rR][fF])(?:"{3}[\s\S]*?"{3}|'{3}[\s\S]*?'{3}"""
    r"""|"(?:[^"\\\n]|\\[\s\S])*|'(?:[^'\\\n]|\\[\s\S])*)"""
)
# Characters of it, times expressions: tenths of a second.
MOST_OF_F_STRING = 200_000_000
# As deep as a repro calls its own functions.
DEEPEST = 14
# Held while a tree is made; a server with threads needs another (see kb/apps.py).
parsing: Any = contextlib.nullcontext


class Edit(NamedTuple):
    """Text in place of what stands from one place to another; columns from 0."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Finding(NamedTuple):
    """A rule that fires. Lines from 1, columns from 0, in characters."""

    rule: Json
    line: int
    column: int
    end_line: int
    end_column: int
    edit: Optional[Edit] = None

    @property
    def rank(self) -> int:
        """Higher where it is more severe."""
        return -SEVERITIES.index(self.rule["severity"])

    @property
    def record(self) -> str:
        return str(self.rule["record"])


class Unreadable(ValueError):
    """The source is no Python, or too much of it; the text says where."""


def parsed(source: str) -> ast.Module:
    """Raises Unreadable."""
    check_size(source)
    try:
        with parsing(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise Unreadable("line %s: %s" % (error.lineno or 1, error.msg)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(str(error) or type(error).__name__) from None


def check_size(source: str) -> None:
    """Raises Unreadable for what takes minutes or gigabytes to parse."""
    if len(source) > MOST_CHARS:
        raise Unreadable("it has more than %d characters" % MOST_CHARS)
    # CPython before 3.12 reads an f-string again for each expression in it.
    for quoted in F_STRING.finditer(source):
        text = quoted.group()
        if text.count("{") * len(text) > MOST_OF_F_STRING:
            line = source.count("\n", 0, quoted.start()) + 1
            raise Unreadable("line %d: an f-string of too many expressions" % line)


def find(
    source: str,
    rules: Sequence[Rule],
    most_nodes: int = OF_FILE,
    is_alone: bool = True,
) -> List[Finding]:
    """Every finding that no comment of its line sets aside, from top to bottom.

    `most_nodes`: how much is read of it; `is_alone`: it is no module of a package.
    Raises Unreadable.
    """
    written = set(WORD.findall(source))
    wanted = [rule for rule in rules if rule.may_fire(source, written)]
    if not wanted:
        return []
    lines = lines_of(source)
    places = places_of(wanted)
    entries = Entries(parsed(source), lines, places, most_nodes, is_alone)
    found: Dict[Tuple[str, int, int, int], Finding] = {}
    events: Dict[Tuple[str, int, int, int], Set[Undone]] = {}
    # What the making of an object does is harmless if one of its methods makes it so.
    undone: Set[Undone] = set()
    for trace in entries.traces():
        for rule in wanted:
            for event in rule.found_in(trace, undone):
                finding = finding_of(rule, event.node, lines)
                key = (finding.record, finding.line, finding.column, finding.rank)
                if not is_ignored(finding, lines):
                    found.setdefault(key, finding)
                    events.setdefault(key, set()).add((rule, event))
    # Two rules of a record at one place say the same; the more severe one is told.
    kept = {key[:3]: found[key] for key in sorted(found) if not events[key] <= undone}
    return sorted(kept.values(), key=lambda one: (one.line, one.column, one.record))


def lines_of(source: str) -> List[str]:
    """As Python counts them; `str.splitlines` knows more ends of lines."""
    return [line.rstrip("\r\n") for line in LINE.findall(source)]


def places_of(rules: Sequence[Rule]) -> Optional[Set[str]]:
    """Words of which one stands where a rule fires; None where no word need to."""
    if not all(rule.last_words for rule in rules):
        return None
    return {word for rule in rules for word in rule.last_words}


def find_pasted(text: str, rules: Sequence[Rule], most_nodes: int) -> List[Finding]:
    """The same of a part of a program, as it stands in a console or indented.

    Raises Unreadable.
    """
    lines = textwrap.dedent(text).split("\n")
    plain = textwrap.dedent("\n".join(PROMPT.sub("", line) for line in lines))
    return find(plain, rules, most_nodes)


def finding_of(rule: Rule, node: Any, lines: Sequence[str]) -> Finding:
    edit = edit_of(rule.data.get("fix"), node, lines)
    return Finding(rule.data, *place_of(node, lines), edit)


def place_of(node: Any, lines: Sequence[str]) -> Tuple[int, int, int, int]:
    """Line and column of where a node begins and where it ends."""
    end_line = getattr(node, "end_lineno", None) or node.lineno
    end_column = getattr(node, "end_col_offset", None) or node.col_offset
    column = characters(lines, node.lineno, node.col_offset)
    return node.lineno, column, end_line, characters(lines, end_line, end_column)


def characters(lines: Sequence[str], line: int, offset: int) -> int:
    """A column in characters; the tree counts bytes."""
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore"))


def is_ignored(finding: Finding, lines: Sequence[str]) -> bool:
    """By a comment of its first or last line."""
    for number in {finding.line, finding.end_line}:
        found = IGNORED.search(lines[number - 1]) if number <= len(lines) else None
        if found and (found.group(1) is None or finding.record in found.group(1)):
            return True
    return False


def edit_of(fix: Optional[Json], node: Any, lines: Sequence[str]) -> Optional[Edit]:
    """A keyword argument as the rule wants it: replaced, or put behind the last."""
    if fix is None or not isinstance(node, ast.Call):
        return None
    text = "%s=%s" % (fix["argument"], fix["value"])
    for keyword in node.keywords:
        if keyword.arg == fix["argument"]:
            return Edit(*place_of(keyword.value, lines), fix["value"])
        if keyword.arg is None:
            return None
    parts: List[Any] = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not parts:
        return None
    last = max(parts, key=lambda part: (part.end_lineno, part.end_col_offset))
    *_, line, column = place_of(last, lines)
    is_closed = lines[line - 1][column:].lstrip().startswith(")")
    # A generator that stands alone, or an argument in brackets of its own.
    if isinstance(last, ast.GeneratorExp) or is_closed != (node.end_lineno == line):
        return None
    return Edit(line, column, line, column, ", " + text)


def fires(
    rule: Rule, module: ast.Module, function: str, parameters: Mapping[str, Any]
) -> bool:
    """Whether a rule finds something where one function of a repro runs."""
    reader = Reader(OF_FILE, DEEPEST, parameters)
    reader.read_module(module)
    value = reader.scope.find(function)
    if value is None or value.node is None:
        return False
    return any(True for _ in rule.found_in(reader.read_function(value), set()))
