"""The search index: what each record is found by, kept beside it and held in memory.

`writer` is called by `kb.publishing.saving`; `inverted` is what ranking asks. May
import `models` and `search.reading`.
"""
