"""The state of what answers and pages are computed from; for caches as their key."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection

# Two version counters: one changes with records (deletions too), the other with
# standings and findings.
Generation = tuple[int, int]
# Of SearchState and TallyState, which have one row each. As text: every request asks,
# and the ORM takes longer to write the query than a database to answer it.
STATE = (
    "SELECT documents, length, generation,"
    " (SELECT generation FROM kb_tallystate LIMIT 1) FROM kb_searchstate LIMIT 1"
)


class State(NamedTuple):
    """Totals of the index, and the version counters; all 0 in a new database."""

    documents: int = 0
    length: int = 0
    records: int = 0
    tallies: int = 0

    @property
    def generation(self) -> Generation:
        return self.records, self.tallies


def current_state() -> State:
    """Read it before the data it is the key of: cached data is then never stale."""
    with connection.cursor() as cursor:
        cursor.execute(STATE)
        row = cursor.fetchone()
    return State(*(number or 0 for number in row)) if row else State()


def current_generation() -> Generation:
    return current_state().generation
