"""Records on their way from files into the database.

`saving` is the only door: a record's row, its place in the search index and its
standing change in one transaction. May import all of kb but `pages`, `api` and `admin`.
"""
