"""Rules of records about Python source: what a trap looks like on its syntax tree.

Standard library only, in the syntax of Python 3.8, and nothing of Django: the same
modules run on the site, in `manage.py lint` and inside the file that users take away
(`runner.takeaway.lint`). What a rule may say stands in docs/records.md.

`reading` walks a program and notes its calls in their order, with what is known of each
value; `patterns` asks a rule of those notes; `findings` does both for one source.
"""
