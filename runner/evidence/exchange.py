"""Uploaded evidence: validation of untrusted input.

It must be JSON of the evidence schema and nothing else, refer to the current source of
a reviewed repro, and have the verdict that its own observations give. The observations
themselves cannot be verified: so the receiver sets the origin, and what was sent
decides nothing (runner.evidence.store.keep).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from django.utils import timezone

from kb.choices import OUR_ORIGINS
from kb.models import Record, Repro
from portable import harness
from runner.builds import proof
from runner.builds.registry import IDENTITY
from runner.evidence.shape import check_shape, refuse
from runner.evidence.store import (
    MAX_BYTES,
    add,
    check_form,
    moment_of,
    parsed,
)
from runner.limits import MAX_BUILDS
from runner.models import Build, Evidence

ORIGIN = re.compile(r"[a-z0-9._-]{1,40}")
# Tolerated clock skew: evidence from the future would outrank all newer evidence.
MAX_CLOCK_SKEW = timedelta(minutes=10)
# The form of evidence is younger; a clock that says less was never set.
EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
Json = dict[str, Any]


def receive_evidence(data: bytes, origin: str, sender: str = "") -> Evidence:
    """Validate and store uploaded evidence under the name that it was sent by.

    `sender`: the user behind that name, where there is one.
    Idempotent: for evidence that is stored already the row has `created` False. Raises
    EvidenceRefused, with nothing stored.
    """
    if not ORIGIN.fullmatch(origin) or origin in OUR_ORIGINS:
        raise ValueError(f"{origin!r} cannot be the origin of what was sent")
    body = validate(data)
    is_known = Evidence.objects.filter(digest=body["digest"]).exists()
    if not is_known:
        check_builds(body["build"]["slug"], origin)
    row = add({**body, "origin": origin}, origin, sender)
    row.created = not is_known
    return row


def check_builds(slug: str, origin: str) -> None:
    """Refuse one more build of a sender who named as many as one may."""
    theirs = Evidence.objects.filter(origin=origin).order_by()
    named = set(theirs.values_list("build_slug", flat=True).distinct())
    if slug not in named and len(named) >= MAX_BUILDS:
        refuse(f"{origin} may name no more than {MAX_BUILDS} builds: ask an operator.")


def validate(data: bytes) -> Json:
    """The evidence in the bytes. Raises EvidenceRefused where anything is wrong."""
    body = read(data)
    check_shape(body)
    check_form(body)
    check_time(body)
    check_against(body, current_repro(body))
    return body


# --- bytes ----------------------------------------
def read(data: bytes) -> Json:
    """The object in the bytes, parsed as strict JSON. Raises EvidenceRefused."""
    if len(data) > MAX_BYTES:
        refuse(
            f"It has {len(data)} bytes; evidence has at most {MAX_BYTES}. Send the "
            "file that --json wrote, unchanged.",
            "too_large",
        )
    return parsed(
        data, parse_constant=refuse_constant, object_pairs_hook=refuse_duplicates
    )


def refuse_constant(word: str) -> NoReturn:
    raise ValueError(f'{word} is not JSON; the harness writes {{"$float": "nan"}}')


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return mapping


# --- when ----------------------------------------
def check_time(body: Json) -> None:
    """Refuse what began too early or has not begun. Raises EvidenceRefused."""
    began = moment_of(body)
    if began < EARLIEST:
        refuse(
            f"started_at is {body['started_at']}, long before there was such evidence: "
            "set the clock of that machine and run it again."
        )
    if began > timezone.now() + MAX_CLOCK_SKEW:
        refuse(
            f"started_at is {body['started_at']}, which is still to come: set the "
            "clock of that machine and run it again.",
            "future",
        )


# --- what it is about ----------------------------------------
def current_repro(body: Json) -> Repro:
    """The reviewed repro of the evidence; its source must be the current one."""
    record = Record.objects.addressable().filter(pk=body["record"]).first()
    if record is None:
        refuse(f"There is no record {body['record'][:20]} here.", "unknown_record")
    repro = record.repros.filter(name=body["repro"]["name"]).first()
    if repro is None or repro.digest != body["repro"]["digest"]:
        refuse(
            f"It was not made with the repro that {record.id} has now. Download "
            f"/api/v1/records/{record.id}/{repro.name if repro else 'repro'}.py and "
            "run that.",
            "unknown_repro",
        )
    if body["harness"] > harness.PROTOCOL:
        refuse(
            f"It was made by rules {body['harness']}; this site knows rules up to "
            f"{harness.PROTOCOL}.",
            "future",
        )
    return repro


def check_against(body: Json, repro: Repro) -> None:
    """Check the evidence against its repro and its own observations."""
    header, names = harness.read_repro(repro.source)
    header = on_its_device(header, body["device"])
    recorded = body["repro"]["fidelity"], body["device"]["class"]
    if recorded != (header.fidelity, header.device):
        refuse(f"The repro is a {header.fidelity} for {header.device}.", "verdict")
    check_plan(body, names)
    at_values = harness.at_values(header, body.get("parameters", {}))
    for name, outcome in harness.misrecorded(at_values, body["checks"]):
        refuse(f"The observations of {name} give {outcome}.", "verdict")
    for variant in body.get("variants", {}).values():
        check_variant(variant, header, harness.variant_checks(repro.source, names))
    check_build(body["build"])


def on_its_device(header: harness.Header, device: Json) -> harness.Header:
    """The header as it ran: on the device of the evidence, if it may run on any."""
    moved = header.any_device and device["class"] != header.device
    if moved and not device["count"]:
        refuse(f"There was no {device['class']}, so nothing ran.", "verdict")
    return harness.on_device(header, device["class"]) if moved else header


def check_variant(variant: Json, header: harness.Header, planned: list[str]) -> None:
    """Refuse checks that do not run there, or whose outcomes are others."""
    ran = [check["name"] for check in variant["checks"]]
    once = list(dict.fromkeys(ran))
    often = any(ran.count(n) > harness.times_of(n, header.trials) for n in once)
    if once != planned[: len(once)] or often:
        refuse("The checks of a variant are not those that run in it.", "verdict")
    at_values = harness.at_values(header, variant["parameters"])
    for name, outcome in harness.misrecorded(at_values, variant["checks"]):
        refuse(f"The observations of {name} give {outcome}.", "verdict")


def check_plan(body: Json, names: list[str]) -> None:
    """Refuse checks other than those of the repro in their order."""
    ran = [(check["name"], check["trial"]) for check in body["checks"]]
    triggers = sum(name == "trigger" for name, _ in ran)
    planned = harness.check_order(names, triggers or 1)
    # Files of earlier releases ran a workaround once, however often the trigger.
    earlier = [
        (name, trial) for name, trial in planned if name == "trigger" or not trial
    ]
    if ran not in (planned[: len(ran)], earlier[: len(ran)]):
        refuse("Its checks are not those of the repro in their order.", "verdict")


def check_build(build: Json) -> None:
    """Refuse free texts, and a slug that does not follow from the version."""
    if not proof.TORCH.fullmatch(build["raw"]):
        refuse(f"{build['raw'][:80]} is no version of torch as its builds are named.")
    for name in proof.strange_facts(build):
        refuse(f"build.{name}: no torch reports {build[name][:80]}.")
    where = build["platform"] or ""
    own = harness.build_slug(build["raw"], build["cuda"], platform=where)
    # Debian's name comes from dpkg and is not in the version.
    if build["slug"] != own and not proof.DEBIAN.fullmatch(build["slug"]):
        refuse(f"torch {build['raw'][:80]} is build {own}, not {build['slug'][:61]}.")
    for name in IDENTITY:
        limit = getattr(Build._meta.get_field(name), "max_length", 0)
        if len(build[name] or "") > limit:
            refuse(f"build.{name}: it has more than {limit} characters.")
