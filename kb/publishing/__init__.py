"""Records on their way into the database: from files, from the admin, and back.

`saving` is the only door: a record's row, its place in the search index and its
standing change in one transaction. May import all of kb but `pages`, `api` and `admin`.
"""
