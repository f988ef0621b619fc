"""What processes take of the memory, and what is left. Standard library only."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def free_memory_mib() -> int:
    """What the kernel could give away without swapping; 0 where it does not say."""
    with contextlib.suppress(OSError, IndexError):
        text = Path("/proc/meminfo").read_text()
        kib = re.findall(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)[0]
        return int(kib) // 1024
    return 0


def pss_kib(pid: int) -> int:
    """Proportional set size of a process in KiB; its resident size where unknown."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[0])
    except (OSError, IndexError):
        pass
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
