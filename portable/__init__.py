"""What also travels alone: standard library only, in the syntax of Python 3.8."""
