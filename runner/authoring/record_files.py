"""The files of one record: read, compared with its neighbours, looked through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kb.choices import Depth
from kb.publishing.loading import inspected
from kb.records.build_slugs import known_builds
from kb.records.facts import FACTS_FILE
from kb.records.files import (
    Problem,
    RecordFile,
    ReproFacts,
    build_problems,
    in_folder,
    read_folder,
    repro_problems,
)
from kb.records.open_places import open_places
from kb.records.places import located
from runner.authoring.parts import Part
from runner.authoring.skeleton import neighbours
from runner.evidence.repros import inspect

REPRO = "repro"


@dataclass(frozen=True)
class Read:
    """A record as far as it could be read; `repros` that keep the contract."""

    file: RecordFile
    repros: dict[str, ReproFacts]
    parts: list[Part]

    @property
    def is_sound(self) -> bool:
        return not any(part.problems for part in self.parts if part.title != OPEN)

    @property
    def is_whole(self) -> bool:
        """Nothing is wrong and nothing is left to write."""
        return not any(part.problems for part in self.parts)


OPEN = "open places"


def read(root: Path, slug: str) -> Read:
    """Read one record with every problem at once."""
    file, problems = read_folder(root / slug)
    # An open place is listed once, as such.
    problems = [row for row in problems if not is_open(root / slug, row)]
    problems = in_folder(slug, problems)
    problems += neighbour_problems(root, slug, file)
    repros, refused = inspected(file, inspect)
    if REPRO not in file.repros and file.depth == Depth.FULL:
        refused.append(Problem(f"{REPRO}.py", "", "is missing"))
    facts_hold = all(isinstance(row, dict) for row in tables(file))
    if not refused and facts_hold:
        refused += repro_problems(file, repros)
    contract = in_folder(slug, refused)
    return Read(
        file,
        repros,
        [
            Part("files", [located(root, problem) for problem in problems]),
            Part(OPEN, open_lines(root / slug)),
            Part("contract", [located(root, problem) for problem in contract]),
        ],
    )


def tables(file: RecordFile) -> list[object]:
    """The rows that are compared with the repros."""
    found: list[object] = []
    for name in ("workaround", "claim"):
        rows = file.facts.get(name, [])
        found += rows if isinstance(rows, list) else [rows]
    return [*found, file.facts] if "id" in file.facts else [None]


def texts(folder: Path) -> dict[str, str]:
    """Everything of the folder that an author writes."""
    paths = sorted([*folder.glob("*.toml"), *folder.glob("*.md"), *folder.glob("*.py")])
    return {path.name: path.read_text("utf-8", errors="replace") for path in paths}


def open_lines(folder: Path) -> list[str]:
    found = open_places(texts(folder))
    return [f"{folder.name}/{name}:{line}: {text}" for name, line, text in found]


def is_open(folder: Path, problem: Problem) -> bool:
    places = open_places(texts(folder))
    return any(
        problem.file == name and problem.key.endswith(f" {line}")
        for name, line, _text in places
    )


def neighbour_problems(root: Path, slug: str, file: RecordFile) -> list[Problem]:
    """Number and names that another folder has, related records that nobody has."""
    where = f"{slug}/{FACTS_FILE}"
    problems: list[Problem] = []
    rows = [row for row in neighbours(root) if row.folder != slug]
    own = file.facts.get("aliases")
    related = file.facts.get("related")
    for row in rows:
        if row.id == file.facts.get("id"):
            message = f"{row.folder} has this number; take the next free one"
            problems.append(Problem(where, "id", message))
        for alias in own if isinstance(own, list) else []:
            if alias in row.aliases:
                message = f"{alias} belongs to {row.id} ({row.folder})"
                problems.append(Problem(where, "aliases", message))
    ids = {row.id for row in rows}
    for other in related if isinstance(related, list) else []:
        if other not in ids:
            problems.append(Problem(where, "related", f"there is no record {other}"))
    if not problems and "slug" in file.facts:
        problems += build_problems([file], known_builds(root))
    return problems
