"""Everything that is missing in one record, asked in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kb.records import translation
from kb.records.facts import FACTS_FILE
from kb.records.files import (
    RecordError,
    RecordFile,
    in_folder,
    read_record,
    read_text,
)
from kb.records.open_places import OPEN_PLACE
from kb.records.places import located
from runner.authoring import findability, quotes, record_files
from runner.authoring.parts import Part
from runner.authoring.record_runs import Bench, run_parts
from runner.authoring.scratch import publish, scratch_database
from runner.authoring.skeleton import shown
from runner.evidence.repros import inspect
from runner.worker import execution
from runner.worker.execution import Job

NOT_SOUND = "the files have to be sound first"
IS_OPEN = "it has open places"


@dataclass(frozen=True)
class Question:
    """A record folder and what it is checked with. `job_of`: a repro's file to its run.

    `logs`: the folder of pasted logs, None where records have none.
    """

    root: Path
    slug: str
    logs: Path | None
    bench: Bench
    job_of: Callable[[Path], Job]

    @property
    def folder(self) -> Path:
        return self.root / self.slug


def check(question: Question) -> Iterator[Part]:
    """Each part as soon as it is known."""
    read = record_files.read(question.root, question.slug)
    yield from read.parts
    if read.is_whole:
        behind = in_folder(question.slug, translation.problems(read.file))
        yield Part("translation", [located(question.root, row) for row in behind])
    with execution.pool():
        for name in sorted(read.repros):
            yield from runs_of(question, name)
    if not read.is_sound:
        yield from (Part(title, skipped=NOT_SOUND) for title in LATER)
        return
    yield from found_parts(question, read.file)
    yield evidence_part(question, read.file.id)


LATER = ("signatures", "search", "page")


def runs_of(question: Question, name: str) -> Iterator[Part]:
    path = question.folder / f"{name}.py"
    if OPEN_PLACE.search(read_text(path)):
        yield Part(f"run of {path.name}", skipped=IS_OPEN)
        return
    yield from run_parts(path, question.job_of(path), question.bench)


def found_parts(question: Question, file: RecordFile) -> Iterator[Part]:
    """Signatures, search and page, among the records of the folder."""
    pasted = findability.pasted_logs(file.id, question.logs)
    toml = read_text(question.folder / FACTS_FILE)
    printed = [*quotes.printed_in(question.folder), *question.bench.printed]
    yield findability.signature_part(file, toml, pasted, printed)
    with scratch_database():
        publish(question.root, [file, *sound_neighbours(question)], file.id)
        title = str(file.facts["title"])
        if OPEN_PLACE.search(title) or any(map(OPEN_PLACE.search, pasted.values())):
            yield Part("search", skipped="title or pasted log are still to be written")
        else:
            yield findability.search_part(file, pasted)
        yield findability.page_part(file)


def sound_neighbours(question: Question) -> Iterator[RecordFile]:
    """The other records that could be loaded; what is wrong with them is theirs."""
    for path in sorted(question.root.glob(f"*/{FACTS_FILE}")):
        if path.parent.name == question.slug:
            continue
        try:
            file = read_record(path.parent)
            for source in file.repros.values():
                inspect(source)
        except (RecordError, ValueError):
            continue
        yield file


def evidence_part(question: Question, record: str) -> Part:
    part = Part("evidence")
    kept = question.folder / "evidence"
    if not list(kept.glob("*.json")):
        part.notes.append(
            "none is kept yet. Where the verdict means something, after load_records: "
            f"manage.py run_repro {record} --build SLUG --json "
            f"> {shown(kept)}/repro-SLUG.json"
        )
    return part
