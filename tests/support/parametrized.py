"""A repro with parameters, bounds and variants; its checks need no torch."""

from __future__ import annotations

import json
from dataclasses import asdict

from kb.models import Repro
from portable import harness
from tests.support import runs

DECLARED = """\
# [tool.doesitnan.parameters]
# dtype = ["float32", "bfloat16", "float16"]
# length = {min = 1, max = 4096, default = 6, unit = "tokens"}
# scale = {min = 0.0, max = 10.0, default = 1.0}
# [tool.doesitnan.bounds]
# memory_mib = "100 + length * length / 1024"
# [tool.doesitnan.variants]
# bf16 = {dtype = "bfloat16"}
# long = {length = 7}
# ///
"""
CHECKS = '''
from doesitnan import parameter

DTYPE, LENGTH, SCALE = parameter("dtype"), parameter("length"), parameter("scale")


def seen(bug):
    return {
        "nonfinite": int(bug),
        "grad": 1.0,
        "dtype": DTYPE,
        "length": LENGTH,
        "scale": SCALE,
    }


def control():
    return seen(False)


def detector():
    return seen(True)


def trigger():
    return seen(DTYPE != "float16")


def apply_off(values):
    """Turns it off for `values`."""
    return values


def workaround_off():
    return apply_off({**seen(LENGTH == 7), "grad": 1.0 if LENGTH != 8 else 2.0})


def workaround_elsewhere():
    return seen(False)
'''


def source() -> str:
    return (
        runs.HEADER.format(fidelity="upstream_bug", device="cpu", trials=1)
        .replace("# ///\n", DECLARED)
        .replace("# /// script", "# /// script", 1)
        + CHECKS
    )


def header() -> harness.Header:
    return harness.parse_header(source())


def make_repro(name: str = "repro") -> Repro:
    """Stored with the whole header, as loading does."""
    repro = runs.make_repro(source(), name)
    repro.header = json.loads(harness.dumps(asdict(header())))
    repro.save()
    return repro
