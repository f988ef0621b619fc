"""The programs inside the files that users take away: repro.py, doctor.py, kit.zip.

Read as text by `takeaway.bundle` and run under the user's Python beside the harness:
standard library, syntax of Python 3.8 (`start.py`: of any Python at all). What
only a kit has may need 3.10.
"""
