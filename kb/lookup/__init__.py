"""The look-up: a pasted log and environment in, known records with reasons out.

`answer.look_up` is the door of the page, the API and `manage.py lookup`. May import
`search`, `environments`, `versions`, `findings` and `releases`.
"""
