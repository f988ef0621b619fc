"""Tests, in the folders of what they test; their helpers in `support`, data beside.

Programs, started by `python -m`, are `tests.gauntlet`, `tests.chaos`, `tests.bench`
and `tests.newcomer`.
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
