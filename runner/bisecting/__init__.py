"""Between which two builds a bug comes or goes: by evidence first, else by runs.

`search` is pure and knows what to ask next; `subject` knows what evidence says of each
build, and `span` which builds lie between two ends.
"""
