"""The cache key of everything that is computed from all records."""

from __future__ import annotations

from django.db.models import Subquery

from kb.models import SearchState, TallyState

# Two version counters: one changes with records (deletions too), the other with
# standings and findings.
Generation = tuple[int, int]


def current_generation() -> Generation:
    """Read it before the data it is the key of: cached data is then never stale."""
    tallies = TallyState.objects.values("generation")[:1]
    both = SearchState.objects.values_list("generation", Subquery(tallies)).first()
    records, of_tallies = both or (0, 0)
    return records, of_tallies or 0
