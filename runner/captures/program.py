"""The program that a child runs for a capture: code of ours, and the capture as a text.

It is made like a repro and started like one, cold and in the sandbox. Of what was sent
nothing becomes source: the probe's own `captures` reads it, as on anybody's machine. A
diagnosis that runs behind the call is a record's, which the site has.
"""

from __future__ import annotations

from dataclasses import astuple
from functools import cache
from pprint import pformat

from portable import harness
from runner.captures.known import Diagnosis
from runner.takeaway.bundle import literal, program
from runner.takeaway.probe import modules

CHECK = "trigger"
HEADER = """\
# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "real_kernel"
# device = "cpu"
# bug = "status == 1"
# timeout_s = 60
# memory_mib = 2048
# ///
"""
END = """

def trigger():
    import contextlib
    import io
    import os
    import tempfile

    path = os.path.join(tempfile.mkdtemp(), "capture.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CAPTURE)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        captures = importlib.import_module(PACKAGE + ".captures")
        status = captures.main([path, "--json"])
    found = {"status": status, "answer": (said.getvalue().splitlines() or [""])[-1]}
    if DIAGNOSIS and status in (0, 1):
        found["is_theirs"] = captures.diagnosed(captures.read(path), *DIAGNOSIS)
    return found
"""


@cache
def code() -> str:
    """Header, the probe's modules as it is served, and the check."""
    parts = modules()
    digests = {name: harness.source_digest(text) for name, text in parts.items()}
    lines = [
        HEADER,
        f"DIGESTS = {pformat(digests)}",
        "PARTS = {}",
        *(f"PARTS[{name!r}] = {literal(text)}" for name, text in parts.items()),
        program("importing").rstrip("\n"),
        END,
    ]
    return "\n".join(lines)


def source_of(capture: str, diagnosis: Diagnosis | None) -> str:
    asked = astuple(diagnosis) if diagnosis else None
    return f"{code()}\nCAPTURE = {capture!a}\nDIAGNOSIS = {asked!a}\n"
