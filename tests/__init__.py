"""Tests, in the folders of what they test; their helpers in `support`, data beside.

`python -m tests.gauntlet`, `tests.chaos` and `tests.bench` are programs.
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
