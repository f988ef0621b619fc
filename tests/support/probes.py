"""The torches under which nan_probe.py is tried."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from django.conf import settings

from tests.support.builds import torch_python

PROBE = Path(settings.BASE_DIR) / "static" / "nan_probe.py"
# Debian's own, which is old: 1.13.
DEBIAN = "/usr/bin/python3"


@cache
def pythons() -> list[str]:
    """The build of the tests, and Debian's torch where the machine has it."""
    found = [torch_python()]
    try:
        asked = subprocess.run([DEBIAN, "-c", "import torch"], capture_output=True)
    except FileNotFoundError:
        return found
    return [*found, DEBIAN] if asked.returncode == 0 else found
