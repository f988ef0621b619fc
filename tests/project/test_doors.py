"""Records and findings are written through one door each, so nothing is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

ROOT = Path(settings.BASE_DIR)
# What writes rows of a model, and the only module that may.
DOORS = {
    r"\brecord\.save\(|\bRecord\.objects\.(?:bulk_)?create\(": (
        "kb/publishing/saving.py"
    ),
    r"\bfinding\.save\(|\bFinding\.objects\.(?:bulk_)?create\(|\.findings\.\w+\(\)"
    r"\.delete\(": "kb/findings/writing.py",
    r"\bwriter\.(?:write|add)\(": "kb/publishing/saving.py",
    r"\bstandings\.(?:lock|refresh|write)\(": (
        "kb/publishing/saving.py kb/findings/writing.py"
    ),
}


class DoorsTest(SimpleTestCase):
    def test_each_row_is_written_behind_its_door(self) -> None:
        files = [
            path for app in ("kb", "runner") for path in (ROOT / app).rglob("*.py")
        ]
        for pattern, doors in DOORS.items():
            users = {
                str(path.relative_to(ROOT))
                for path in files
                if re.search(pattern, path.read_text())
            }
            self.assertEqual(users, set(doors.split()), pattern)
