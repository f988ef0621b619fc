"""The records as an OSV database, for tools that audit installed packages.

`documents` makes a record's entry, `queries` finds the entries of an installed version,
`views` answers as api.osv.dev does. May import what `kb.syndication` may.
"""
