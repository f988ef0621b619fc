"""Whether a version of torch is affected by a record, by runs and by documents.

What was run decides; what is documented stands beside it, also where the two differ.
"""

from __future__ import annotations

from collections.abc import Collection

from kb import wording
from kb.choices import Verdict
from kb.environments.environment import Environment
from kb.models import Finding, Record
from kb.releases import sides
from kb.syndication.badges.drawing import COLOURS, NEUTRAL, Badge
from kb.syndication.badges.verdict import device_of, of_cells, verdict_of
from kb.versions.affected import answer_for
from kb.versions.ranges import UNKNOWN, parse_version

JUDGED: dict[str | None, str] = {
    Verdict.BUG_PRESENT: "affected",
    Verdict.BUG_ABSENT: "not_affected",
}


def make(record: Record, typed: str, device: str, lang: str) -> Badge:
    """`typed`: a version as torch or pip write it; a release stands for its builds."""
    # An address has a "+" as a space, and no version has one.
    text = typed.strip().replace(" ", "+")
    side = sides.find(text)
    if side is None and not names_a_build(text):
        return Badge(record.id, wording.NAME_A_VERSION[lang], is_refusal=True)
    name, raw = (side.name, side.raw) if side else (text, text)
    builds, device = side.builds if side else (), device_of(device)
    device = device or only_device(record.id, builds)
    # Not by runs that had packages of their own.
    alone = Finding.objects.fresh().of_torch_alone()
    verdict = verdict_of(of_cells(alone, record.id, builds, device))
    runs = JUDGED.get(verdict, UNKNOWN)
    right = wording.AFFECTED_BADGES[runs, documented(record, raw, device)].line(lang)
    left = " · ".join(part for part in (record.id, f"torch {name}", device) if part)
    colour = COLOURS[verdict] if verdict and runs != UNKNOWN else NEUTRAL
    return Badge(left, right, colour)


def only_device(record: str, builds: Collection[str]) -> str:
    """The one that was run on, where it is one: the badge then says so."""
    rows = of_cells(Finding.objects.fresh(), record, builds, "").order_by()
    devices = set(rows.values_list("device_class", flat=True))
    return devices.pop() if len(devices) == 1 else ""


def names_a_build(text: str) -> bool:
    """Whether it is no release and still says which torch: a nightly, a commit."""
    named = parse_version(text)
    return len(text) <= sides.MAX_TYPED and bool(
        named.version or named.commit or named.nv
    )


def documented(record: Record, raw: str, device: str) -> str:
    """What is documented, whatever was run."""
    return answer_for(record, Environment(torch_raw=raw, device=device)).answer
