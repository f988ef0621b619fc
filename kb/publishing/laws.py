"""Laws of arithmetic from their files into the database."""

from __future__ import annotations

from collections.abc import Iterable

from kb.models import Law
from kb.publishing.symptoms import bring_in_step, texts_of
from kb.records.laws import LawFile


def store(files: Iterable[LawFile]) -> None:
    """Make the rows what the files say; a row without a file goes."""
    columns = {
        file.facts["slug"]: {
            **texts_of(file.facts),
            "name": file.facts["law"],
            **file.columns,
        }
        for file in files
    }
    bring_in_step(Law, columns)
