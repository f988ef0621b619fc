"""What also runs without a site: standard library only, in the syntax of Python 3.8."""
