"""The cache key of everything that is computed from all records."""

from __future__ import annotations

from kb.models import SearchState, TallyState

# Two version counters: one changes with records (deletions too), the other with
# standings and findings.
Generation = tuple[int, int]


def current_generation() -> Generation:
    """Read it before the data it is the key of: cached data is then never stale."""
    records = SearchState.objects.values_list("generation", flat=True).first()
    tallies = TallyState.objects.values_list("generation", flat=True).first()
    return records or 0, tallies or 0
