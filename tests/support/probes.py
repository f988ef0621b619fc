"""The torches under which nan_probe.py is tried."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from django.conf import settings

from tests.support.builds import torch_python

PORTABLE = Path(settings.BASE_DIR) / "portable"
# Debian's own, which is old: 1.13.
DEBIAN = "/usr/bin/python3"

# Of each cause, the op and what its line holds.
HERE = "# made here"
MADE = {
    "log_of_zero": ("aten.log", HERE),
    "own_norm": ("aten.div", HERE),
    "shut_softmax": ("aten._softmax", HERE),
    "infinite_rate": ("aten.mul_", "optimizer.step("),
    "bad_label": ("nll_loss", "F.cross_entropy("),
    "nan_input": ("read by aten.addmm", "self.embed(x)"),
    "root_of_zero": ("SqrtBackward0", HERE),
    "half_overflow": ("aten.mul", HERE),
    "nan_weight": ("read by aten.addmm", "self.mix("),
    "own_optimizer": ("aten.div", HERE),
    "in_place": ("aten.div_", HERE),
    "only_one_rank": ("aten.log", HERE),
}


@cache
def pythons() -> list[str]:
    """The build of the tests, and Debian's torch where the machine has it."""
    found = [torch_python()]
    try:
        asked = subprocess.run([DEBIAN, "-c", "import torch"], capture_output=True)
    except FileNotFoundError:
        return found
    return [*found, DEBIAN] if asked.returncode == 0 else found
