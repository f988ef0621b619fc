"""The packages whose versions every piece of evidence records in `build.packages`.

`identity` in `runner/harness.py` collects them, with those that the repro declares
itself. It imports nothing of the site: `manage.py write_words` writes them there.
"""

from __future__ import annotations

RECORDED = ("numpy", "triton")
