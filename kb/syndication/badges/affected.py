"""Whether a version of torch is affected by a record, by runs and by documents.

What was run decides; what is documented stands beside it, also where the two differ.
"""

from __future__ import annotations

from kb import wording
from kb.choices import Verdict
from kb.environments.environment import Environment
from kb.models import Record
from kb.releases import sides
from kb.syndication.badges.drawing import COLOURS, NEUTRAL, Badge
from kb.syndication.badges.verdict import device_of, sender_of, verdict_of
from kb.versions.affected import Documented, answer_for
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
    verdict = verdict_of(record.id, builds, device)
    runs = JUDGED.get(verdict, UNKNOWN)
    right = wording.AFFECTED_BADGES[runs, documented(record, raw)].line(lang)
    sender = verdict and sender_of(verdict, record.id, builds, device)
    if sender and runs != UNKNOWN:
        right += " · " + wording.CONFIRMED[lang].format(origin=sender)
    left = " · ".join(part for part in (record.id, f"torch {name}", device) if part)
    colour = COLOURS[verdict] if verdict and runs != UNKNOWN else NEUTRAL
    return Badge(left, right, colour)


def names_a_build(text: str) -> bool:
    """Whether it is no release and still says which torch: a nightly, a commit."""
    named = parse_version(text)
    return len(text) <= sides.MAX_TYPED and bool(
        named.version or named.commit or named.nv
    )


def documented(record: Record, raw: str) -> str:
    """What is documented, whatever was run: a doubt that runs raise is none here."""
    facts = Documented(
        affected=record.affected,
        affected_when=record.affected_when,
        preconditions=record.preconditions,
        environment=record.environment,
        fixes=[],
    )
    return answer_for(facts, Environment(torch_raw=raw)).answer
