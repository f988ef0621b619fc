"""Search in both languages, and the matching of logs: no page, no address.

`reading` (text to tokens) is below `index` (what is stored), and that below `ranking`
(which records answer best).
"""
