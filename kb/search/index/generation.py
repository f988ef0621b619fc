"""The state of what answers and pages are computed from; for caches as their key."""

from __future__ import annotations

from django.db import connection

# Two version counters: one changes with records (deletions too), the other with
# standings and findings; both are 0 in a new database.
Generation = tuple[int, int]
# Of SearchState and TallyState, which have one row each. As text: every request asks,
# and the ORM takes longer to write the query than a database to answer it.
STATE = (
    "SELECT (SELECT generation FROM kb_searchstate LIMIT 1),"
    " (SELECT COUNT(*) FROM kb_searchdocument),"
    " (SELECT generation FROM kb_tallystate LIMIT 1)"
)


def current_generation() -> Generation:
    """Read it before the data it is the key of: cached data is then never stale."""
    with connection.cursor() as cursor:
        cursor.execute(STATE)
        written, documents, tallies = cursor.fetchone()
    # A record that anybody deletes takes its document along and nothing else.
    return (written or 0) + documents, tallies or 0
