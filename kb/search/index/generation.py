"""The cache key of everything that is computed from all records."""

from __future__ import annotations

from django.db import connection

# Two version counters: one changes with records (deletions too), the other with
# standings and findings.
Generation = tuple[int, int]
# Of SearchState and TallyState, which have one row each. As text: every request asks,
# and the ORM takes longer to write the query than a database to answer it.
COUNTERS = (
    "SELECT (SELECT generation FROM kb_searchstate LIMIT 1),"
    " (SELECT generation FROM kb_tallystate LIMIT 1)"
)


def current_generation() -> Generation:
    """Read it before the data it is the key of: cached data is then never stale."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTERS)
        records, tallies = cursor.fetchone()
    return records or 0, tallies or 0
