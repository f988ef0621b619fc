"""A record as files: `issue.toml`, two articles, repros; read, checked, rendered.

`files` is the door. No database: rows are made of them in `kb.publishing`. May import
`choices`, `languages` and `versions.ranges` only.
"""
