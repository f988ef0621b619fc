"""Text on its way into the search: words to tokens, logs to lines and masks.

The same reading makes the index and the query, so both change together: whoever
changes what a text becomes raises `ALGORITHM` in `tokens` or `masks`. Pure functions.
"""
