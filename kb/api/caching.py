"""For how long an answer of the API may be kept, and what its code was."""

from __future__ import annotations

import hashlib
from functools import cache

from django.conf import settings

# Keep it, and ask each time whether it is still so: that costs a 304.
REVALIDATE = "no-cache"
# What an address with a digest in it answers never changes.
IMMUTABLE = "public, max-age=31536000, immutable"
PACKAGES = ("kb", "runner")


@cache
def code_digest() -> str:
    """Of the site's code: the same rows answer otherwise after an upgrade."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((settings.BASE_DIR / package).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]
