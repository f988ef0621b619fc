"""One record as files: reading a folder and checking it. No database."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from kb.choices import LANGS, Fidelity, Publication
from kb.records.articles import (
    ArticleError,
    article_problems,
    parse_article,
    split_workarounds,
)
from kb.records.build_slugs import known_builds, slug_problems
from kb.records.curves import curve_files, read_curve
from kb.records.facts import FACTS_FILE, Facts, depth_of, facts_problems, rows
from kb.records.framework_lines import line_problems
from kb.records.open_places import unfinished
from kb.records.rules import proof_problems
from kb.records.snippets import (
    different_snippets,
    fence_problems,
    snippets_of,
    source_problems,
)

ARTICLE_FILES = {lang: f"article.{lang}.md" for lang in LANGS}
# Results, which are no part of what a record says.
BESIDE = {"curve", "evidence", "sweeps", "__pycache__"}
REPRO_FILE = re.compile(r"repro(_[a-z0-9_]{1,54})?\.py")
MAX_FILE_BYTES = 512 * 1024


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one file: "issue.toml: workaround[0].name: …"."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.message) if part)


class RecordError(Exception):
    """Records that cannot be used; `problems` is complete."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True)
class RecordFile:
    """One record's whole content.

    `facts` as in issue.toml, `articles` by language and section, `repros` by
    name (file stem).
    """

    facts: Facts
    articles: dict[str, dict[str, str]]
    repros: dict[str, str]
    # Code of the repros by the function's name (kb.records.snippets).
    snippets: dict[str, str] = field(default_factory=dict, compare=False)
    # What training does with the bug and without (kb.records.curves); {}: not shown.
    curve: Facts = field(default_factory=dict, compare=False)
    # The digest of the bytes that were read; "" when not read from a folder.
    files_digest: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        return str(self.facts["id"])

    @property
    def slug(self) -> str:
        return str(self.facts["slug"])

    @property
    def depth(self) -> str:
        return depth_of(self.facts)


@dataclass(frozen=True)
class ReproFacts:
    """What a repro's source says of itself: parsed header and check names."""

    fidelity: str
    device: str
    header: dict[str, Any]
    checks: list[str]


# --- reading ------------------------------------------------------------------------
def read_record(folder: Path) -> RecordFile:
    """The record in a folder. Raises RecordError with every problem."""
    record, problems = read_folder(folder)
    if problems:
        raise RecordError(problems)
    return record


def read_folder(folder: Path) -> tuple[RecordFile, list[Problem]]:
    """What can be read of the record in a folder, and every problem of it."""
    problems: list[Problem] = []
    files = read_files(folder, problems)
    facts = read_facts(files, problems)
    repros = {name[:-3]: text for name, text in files.items() if name[-3:] == ".py"}
    curve: Facts = {}
    problems += [Problem(*one) for one in read_curve(folder, repros, curve)]
    read = {name: text.encode() for name, text in files.items()}
    record = RecordFile(
        facts=facts or {},
        articles=read_articles(files, depth_of(facts), problems) if facts else {},
        repros=repros,
        snippets=snippets_of(repros),
        curve=curve,
        files_digest=digest_of(read | curve_files(folder)),
    )
    if facts is not None:
        problems += [Problem(FACTS_FILE, *one) for one in facts_problems(facts)]
        if facts.get("slug") not in (None, folder.name):
            message = _("must be the folder's name, %s") % repr(folder.name)
            problems.append(Problem(FACTS_FILE, "slug", message))
    if record.facts.get("publication") == Publication.PUBLISHED:
        problems += [Problem(*problem) for problem in unfinished(files)]
    problems += article_file_problems(record, names_known=facts is not None)
    problems += [*snippet_problems(record), *source_problems_of(record)]
    problems += [Problem(*one) for one in line_problems(record.facts, repros)]
    return record, problems


def read_files(folder: Path, problems: list[Problem]) -> dict[str, str]:
    """The folder's files as text, without what lies `BESIDE` them."""
    files = {}
    for path in sorted(folder.iterdir()):
        if path.name in BESIDE or path.name.startswith("."):
            continue
        if path.name not in {FACTS_FILE, *ARTICLE_FILES.values()} and not (
            REPRO_FILE.fullmatch(path.name)
        ):
            problems.append(Problem(path.name, "", _("does not belong in a record")))
            continue
        try:
            files[path.name] = read_text(path)
        except (OSError, ValueError) as error:
            problems.append(Problem(path.name, "", str(error)))
    problems += [
        Problem(name, "", _("is missing"))
        for name in (FACTS_FILE, *ARTICLE_FILES.values())
        if not (folder / name).exists()
    ]
    return files


def read_text(path: Path) -> str:
    """Exactly the file's text. Raises ValueError where it is not short UTF-8."""
    if not path.is_file():
        raise ValueError(_("is not a file"))
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(_("is longer than %d KiB") % (MAX_FILE_BYTES // 1024))
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        text = _("is not UTF-8: byte %d cannot be read")
        raise ValueError(text % error.start) from None


def read_facts(files: Mapping[str, str], problems: list[Problem]) -> Facts | None:
    if FACTS_FILE not in files:
        return None
    try:
        return facts_in(files[FACTS_FILE])
    except ValueError as error:
        problems.append(Problem(FACTS_FILE, "", str(error)))
        return None


def facts_in(text: str) -> Facts:
    """Raises ValueError, which says what is wrong."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(_("is not TOML: %s") % error) from None


def read_articles(
    files: Mapping[str, str], depth: str, problems: list[Problem]
) -> dict[str, dict[str, str]]:
    """Sections by language; a language whose article cannot be split is left out."""
    articles = {}
    for lang, name in ARTICLE_FILES.items():
        if name not in files:
            continue
        try:
            articles[lang] = parse_article(files[name], lang, depth)
        except ArticleError as error:
            problems += [Problem(name, key, text) for key, text in error.problems]
    return articles


def read_all(root: Path, other_ids: Collection[str] = ()) -> list[RecordFile]:
    """Every record below `root`, by id. Raises RecordError with every problem.

    `other_ids` exist elsewhere and may be named as related.
    """
    if not root.is_dir():
        raise RecordError([Problem(str(root), "", _("is not a folder"))])
    records: list[RecordFile] = []
    problems: list[Problem] = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.startswith((".", "__")):
            continue
        try:
            records.append(read_record(folder))
        except RecordError as error:
            problems += in_folder(folder.name, error.problems)
    # A related record whose own folder is broken is not reported a second time.
    known_ids = None if problems else {*other_ids, *(record.id for record in records)}
    problems += set_problems(records, known_ids)
    problems += build_problems(records, known_builds(root))
    if problems:
        raise RecordError(problems)
    return sorted(records, key=lambda record: record.id)


def in_folder(folder: str, problems: Iterable[Problem]) -> list[Problem]:
    return [
        replace(problem, file=f"{folder}/{problem.file}" if problem.file else folder)
        for problem in problems
    ]


def set_problems(
    records: list[RecordFile], known_ids: Collection[str] | None
) -> Iterator[Problem]:
    """Problems between records: ids and aliases used twice, unknown related ids."""
    ids = Counter(record.id for record in records)
    aliases = Counter(alias for record in records for alias in record.facts["aliases"])
    for record in records:
        file = f"{record.slug}/{FACTS_FILE}"
        if ids[record.id] > 1:
            numbers = {"id": record.id, "n": ids[record.id]}
            yield Problem(file, "id", _("%(id)s is used by %(n)d folders") % numbers)
        for alias in record.facts["aliases"]:
            if aliases[alias] > 1:
                message = _("%s belongs to several records") % alias
                yield Problem(file, "aliases", message)
        for other in record.facts["related"]:
            if other == record.id or (known_ids is not None and other not in known_ids):
                message = _("there is no other record %s") % other
                yield Problem(file, "related", message)


def build_problems(
    records: list[RecordFile], known: Collection[str]
) -> Iterator[Problem]:
    """Claims about builds that cannot exist."""
    for record in records:
        for key, message in slug_problems(record.facts, known):
            yield Problem(f"{record.slug}/{FACTS_FILE}", key, message)


# --- checking -----------------------------------------------------------------------
def article_file_problems(
    record: RecordFile, names_known: bool = True
) -> list[Problem]:
    names = [row["name"] for _path, row in rows(record.facts, "workaround")]
    listed = record.facts.get("workaround", [])
    names_known &= isinstance(listed, list) and len(names) == len(listed)
    wanted = names if names_known else None
    problems = article_problems(record.articles, wanted, record.depth)
    return [
        Problem(ARTICLE_FILES[lang], section, message)
        for lang, section, message in problems
    ]


def snippet_problems(record: RecordFile) -> Iterator[Problem]:
    """Code that is printed otherwise than by the repro's own functions."""
    for path, row in rows(record.facts, "workaround"):
        name = f"apply_{row['name']}"
        if name not in record.snippets and "apply" not in row:
            message = _("is missing; or a repro has the function %s") % name
            yield Problem(FACTS_FILE, f"{path}.apply", message)
        elif name in record.snippets and "apply" in row:
            message = _("leave it out: the repro has it as %s") % name
            yield Problem(FACTS_FILE, f"{path}.apply", message)
        for lang, sections in record.articles.items() if "apply" not in row else ():
            part = split_workarounds(sections["workaround"]).get(row["name"], "")
            for message in fence_problems(part, row["name"]):
                yield Problem(ARTICLE_FILES[lang], f"### {row['name']}", message)
    for path, row in rows(record.facts, "diagnosis"):
        if f"diagnose_{row['name']}" not in record.snippets:
            message = _("no repro has the function %s") % f"diagnose_{row['name']}"
            yield Problem(FACTS_FILE, f"{path}.name", message)


def source_problems_of(record: RecordFile) -> Iterator[Problem]:
    names = {
        table: {row["name"] for _path, row in rows(record.facts, table)}
        for table in ("workaround", "diagnosis")
    }
    for name, stems in different_snippets(record.repros).items():
        message = _("differs from %s.py") % stems[0]
        yield Problem(f"{stems[1]}.py", name, message)
    for stem, source in record.repros.items():
        for function, message in source_problems(
            source, workarounds=names["workaround"], diagnoses=names["diagnosis"]
        ):
            yield Problem(f"{stem}.py", function, message)


def repro_problems(
    record: RecordFile, repros: Mapping[str, ReproFacts]
) -> list[Problem]:
    """Contradictions between a record and the headers and checks of its repros."""
    headers = {stem: facts.header for stem, facts in repros.items()}
    found = proof_problems(dict(rows(record.facts, "rule")), record.repros, headers)
    return [
        *header_problems(record, repros),
        *check_problems(record, repros),
        *(Problem(FACTS_FILE, key, message) for key, message in found),
    ]


def header_problems(
    record: RecordFile, repros: Mapping[str, ReproFacts]
) -> Iterator[Problem]:
    names = {row["name"] for row in record.facts.get("workaround", [])}
    for stem, facts in repros.items():
        if facts.header.get("record") != record.id:
            values = {"wanted": record.id, "value": repr(facts.header.get("record"))}
            message = _("must be %(wanted)s, not %(value)s") % values
            yield Problem(f"{stem}.py", "record", message)
        for check in facts.checks if facts.fidelity == Fidelity.UPSTREAM_BUG else []:
            name = check.removeprefix("workaround_")
            if name != check and name not in names:
                message = _("no [[workaround]] is named %s") % repr(name)
                yield Problem(f"{stem}.py", check, message)


def check_problems(
    record: RecordFile, repros: Mapping[str, ReproFacts]
) -> Iterator[Problem]:
    for position, claim in enumerate(record.facts.get("claim", [])):
        stem, _colon, check = claim.get("check", "").partition(":")
        key = f"claim[{position}].check"
        if stem and stem not in repros:
            yield Problem(FACTS_FILE, key, _("there is no %s") % f"{stem}.py")
        elif stem and check not in repros[stem].checks:
            names = ", ".join(repros[stem].checks)
            values = {"file": f"{stem}.py", "check": check, "known": names}
            message = _("%(file)s has no %(check)s; it has %(known)s") % values
            yield Problem(FACTS_FILE, key, message)
    known = {check for facts in repros.values() for check in facts.checks}
    # A workaround that no repro runs has a title as well.
    known |= {f"workaround_{row['name']}" for row in record.facts.get("workaround", [])}
    for path, row in rows(record.facts, "check"):
        if row["name"] not in known:
            message = _("no repro has the check %s") % row["name"]
            yield Problem(FACTS_FILE, f"{path}.name", message)


def digest_of(files: Mapping[str, bytes]) -> str:
    """One digest for the names and bytes of a record's files."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name} {len(files[name])}\n".encode())
        total.update(files[name])
    return f"sha256:{total.hexdigest()}"
