"""What executions show of a record: claims, contradictions, flips, standings.

`writing` is the only door to the rows of `Finding`. Pure functions over them may be
imported by pages and API; nothing here imports `search`, `publishing` or a page.
"""
