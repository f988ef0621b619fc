"""Which builds exist by proof, and how torch names what it reports of itself.

A build is proven by an installation, or by evidence that was made here or came with
the repository. What was sent makes none. One that lost its proof gives its name to the
first proof of another torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.db import transaction

from runner.models import Build

# As PyTorch and those who build it unchanged name their wheels.
LOCAL_PART = (
    r"(?:cpu|cu\d{2,3}|cuda\d{0,3}|rocm\d{1,2}|\d{1,2}|xpu|cxx11|abi|with|pypi|cudnn"
    r"|computecanada|debian|gitunknown|nv\d{2}|(?:git|g)?[0-9a-f]{7,40})"
)
TORCH = re.compile(
    r"\d{1,2}\.\d{1,2}\.\d{1,2}(?:(?:a|b|rc)\d{1,3})?(?:\.post\d{1,3})?"
    rf"(?:\.dev20\d{{6}})?(?:\+{LOCAL_PART}(?:\.{LOCAL_PART})*)?"
)
FACTS = {
    "dist": TORCH,
    "git": re.compile(r"[0-9a-f]{7,40}|Unknown"),
    "cuda": re.compile(r"\d{1,2}\.\d{1,2}(?:\.\d{1,3})?"),
    "hip": re.compile(r"\d{1,2}(?:\.\d{1,6}){1,3}(?:-[0-9a-f]{1,12})?"),
    "cudnn": re.compile(r"\d{1,6}"),
    "python": re.compile(r"\d\.\d{1,2}"),
    "platform": re.compile(r"(?:linux|darwin|win32)-[A-Za-z0-9_]{1,20}"),
}
DEBIAN = re.compile(r"\d{1,2}\.\d{1,2}\.\d{1,2}-debian")


def strange_facts(identity: Mapping[str, str | None]) -> list[str]:
    """Names of the facts that no torch reports so."""
    return [
        name
        for name, form in FACTS.items()
        if identity.get(name) and not form.fullmatch(identity[name] or "")
    ]


def differs(build: Build, identity: Mapping[str, str | None]) -> str:
    """The fact by which this is another torch than the build's: raw, git or ""."""
    for name in ("raw", "git"):
        value, stored = identity.get(name), getattr(build, name)
        if value and stored and value != stored:
            return name
    return ""


def take_name(build: Build, facts: Mapping[str, str]) -> bool:
    """Make an unproven build this torch; whether that was right to do."""
    with transaction.atomic():
        if build.installations.exists() or build.evidence.exists():
            return False
        for name, value in facts.items():
            setattr(build, name, value)
        build.save(update_fields=list(facts))
    return True
