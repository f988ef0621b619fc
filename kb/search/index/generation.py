"""Until when what was read of all records may be kept in memory."""

from __future__ import annotations

from kb.models import SearchState, TallyState

# Another one after every change of records (also after one was deleted), of standings
# and of findings.
Generation = tuple[int, int]


def current_generation() -> Generation:
    """To be read before what is kept under it, which then is never older."""
    records = SearchState.objects.values_list("generation", flat=True).first()
    tallies = TallyState.objects.values_list("generation", flat=True).first()
    return records or 0, tallies or 0
