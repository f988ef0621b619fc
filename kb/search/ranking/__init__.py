"""Which records answer best: by the words of a query, or by a pasted log.

`find` and `listing` serve words, `logs` serves a log. Scores are computed here and not
in the database, so that both databases answer alike. May import `search.index`.
"""
