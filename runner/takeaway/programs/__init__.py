"""The programs inside the files that users take away: repro.py and doctor.py.

Read as text by `takeaway.bundle` and run under the user's Python beside harness.py:
standard library, syntax of Python 3.8 (`start.py`: of any Python at all).
"""
