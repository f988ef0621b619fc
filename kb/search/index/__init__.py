"""The search index: what a record is found by, kept in the site's database.

`writer` is called by `kb.publishing.saving`; `store` is what ranking asks, on SQLite
or PostgreSQL. May import `models` and `search.reading`.
"""
