"""What executions show of a record: claims, contradictions, flips, standings.

`writing` is the only door to the rows of `Finding`. What is computed of them is pure
and read by pages, API and search; nothing here imports `search` or what stands above.
"""
