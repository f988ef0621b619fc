"""Verifies, re-judges and stores evidence, and derives findings from it.

The knowledge base learns of runs only here, by `kb.findings.writing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any

from django.db import transaction

from kb import choices
from kb.choices import OUR_ORIGINS, DeviceClass, Verdict
from kb.findings import writing
from kb.models import Finding, Record, Repro
from portable import harness
from runner import parameters
from runner.builds import registry
from runner.builds.probe import BuildError
from runner.evidence import executed
from runner.evidence.findings import findings_of, rank
from runner.models import SLUG, Build, Evidence

SITE = choices.SITE
MAX_BYTES = 4 * 1024 * 1024
JUDGED_FIELDS = ("verdict", "reason", "is_affected", "hits", "trials")


class EvidenceRefused(ValueError):
    """Evidence that fails verification; the text says why.

    `code`: too_large, not_json, not_evidence, digest, verdict, unknown_record,
    unknown_repro, future.
    """

    def __init__(self, text: str, code: str = "not_evidence") -> None:
        super().__init__(text)
        self.code = code


def parsed(data: bytes, **hooks: Any) -> dict[str, Any]:
    """The object in bytes of JSON; `hooks` of the parser. Raises EvidenceRefused."""
    if harness.too_deep(data):
        raise EvidenceRefused(
            f"It is nested deeper than {harness.DEEPEST_FRAME} levels, or a bracket in "
            "it has no end.",
            "not_json",
        )
    try:
        body = json.loads(data.decode("utf-8"), **hooks)
    except (ValueError, RecursionError) as error:
        raise EvidenceRefused(f"It is not JSON: {error}.", "not_json") from error
    if not isinstance(body, dict):
        raise EvidenceRefused("It is not a JSON object.", "not_json")
    return body


@contextmanager
def refusing_faults(said: str, code: str = "not_evidence") -> Iterator[None]:
    """What an object without its keys or types raises in the block, as a refusal."""
    try:
        yield
    except EvidenceRefused:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise EvidenceRefused(f"{said}: {error!r}.", code) from error


# --- one evidence object ----------------------------------------
def add(body: dict[str, Any], origin: str, sender: str = "") -> Evidence:
    """Store an evidence object and update the findings. Raises EvidenceRefused.

    Adding the same object again changes nothing.
    """
    verify(body)
    with transaction.atomic():
        row = row_of(body, record_of(body), origin)
        row.sender = sender
        keep([row])
        return Evidence.objects.get(pk=body["digest"])


def keep(rows: Sequence[Evidence]) -> None:
    """Store verified evidence of one record, with its findings, in one transaction.

    What is ours takes the place of the same object that somebody sent before, and of
    what is sent there are no findings.
    """
    with transaction.atomic():
        ours = [row.digest for row in rows if not row.is_sent]
        sent = Evidence.objects.filter(pk__in=ours).exclude(origin__in=OUR_ORIGINS)
        sent.delete()
        digests = [row.digest for row in rows]
        stored = set(
            Evidence.objects.filter(pk__in=digests).values_list("pk", flat=True)
        )
        new = [row for row in rows if row.digest not in stored]
        # A process beside this one may store the same object meanwhile.
        Evidence.objects.bulk_create(new, ignore_conflicts=True)
        found = [row for row in new if not row.is_sent]
        if found and (record := found[0].record):
            writing.offer(record, chain.from_iterable(map(findings_of, found)), rank)
        elif new:
            writing.show_anew()


def row_of(body: dict[str, Any], record: Record | None, origin: str) -> Evidence:
    """The unsaved row of a verified body. Raises EvidenceRefused.

    Of what is ours the build is known then; what is sent names one, no more.
    """
    ours = origin in OUR_ORIGINS
    return Evidence(
        digest=body["digest"],
        record=record,
        build=known_build(body["build"]) if ours else None,
        build_slug=body["build"]["slug"],
        repro_name=body["repro"]["name"],
        repro_digest=body["repro"]["digest"],
        device_class=device_class(body),
        verdict=body["verdict"],
        origin=origin,
        started_at=moment_of(body),
        parameters=parameters.text_of(body.get("parameters", {})),
        body=body,
    )


def record_of(body: dict[str, Any]) -> Record | None:
    return Record.objects.filter(pk=body["record"]).prefetch_related("repros").first()


def verify(body: dict[str, Any]) -> None:
    """Check form, digest, repro and judgement. Raises EvidenceRefused."""
    check_form(body)
    if repro := reviewed_repro(body):
        judge_again(body, repro)


def check_form(body: dict[str, Any]) -> None:
    """Check schema and digest. Raises EvidenceRefused."""
    with refusing_faults("It is not an evidence object"):
        if body["schema"] != harness.SCHEMA:
            raise EvidenceRefused(f"The schema is not {harness.SCHEMA}.")
        if body["digest"] != harness.evidence_digest(body):
            raise EvidenceRefused("The content does not match its digest.", "digest")
        if body["verdict"] not in Verdict.values or body["state"] != "finished":
            raise EvidenceRefused("The run has no verdict.")
        if not re.fullmatch(SLUG.regex, body["build"]["slug"] or ""):
            raise EvidenceRefused("It names no torch build: torch was not imported.")
        moment_of(body)
        body["record"], body["repro"]["name"], body["build"]["raw"]
        [(row["name"], row["outcome"], row["reason"]) for row in body["checks"]]
        {key: body[key] for key in JUDGED_FIELDS}
        if body.get("parameters", True) == {} or body.get("variants", True) == {}:
            raise EvidenceRefused("parameters and variants are left out where none.")
        if harness.encode(body) != body or holds_nul(body):
            raise EvidenceRefused("It holds a number or a text no database keeps.")


def moment_of(body: dict[str, Any]) -> datetime:
    """When it began, in UTC. Raises EvidenceRefused."""
    began = datetime.fromisoformat(body["started_at"])
    if began.tzinfo is None:
        raise EvidenceRefused("started_at names no time zone.")
    try:
        return began.astimezone(UTC)
    except OverflowError as error:
        raise EvidenceRefused("started_at lies before every year.") from error


def holds_nul(value: Any) -> bool:
    """Whether any text in a JSON value has a NUL, which PostgreSQL refuses."""
    if isinstance(value, dict):
        return any(map(holds_nul, (*value, *value.values())))
    if isinstance(value, list):
        return any(map(holds_nul, value))
    return isinstance(value, str) and "\x00" in value


def reviewed_repro(body: dict[str, Any]) -> Repro | None:
    """The repro that judges it: of its source, or with the same parts in its place.

    None where the site has neither. Raises where the source is another record's.
    """
    name, digest = body["repro"]["name"], body["repro"]["digest"]
    repros = list(Repro.objects.filter(digest=digest))
    own = [row for row in repros if (row.record_id, row.name) == (body["record"], name)]
    if repros and not own:
        raise EvidenceRefused(
            f"That source is {repros[0].record_id} {repros[0].name}, "
            f"not {body['record']} {name}.",
            "unknown_repro",
        )
    if own:
        return own[0]
    now = Repro.objects.filter(record=body["record"], name=name).first()
    return now if executed.holds(body["repro"], now) else None


declared = lru_cache(maxsize=256)(harness.read_repro)


@lru_cache(maxsize=256)
def variant_checks(source: str) -> list[str]:
    return harness.variant_checks(source, declared(source)[1])


def judge_again(body: dict[str, Any], repro: Repro) -> None:
    """Judge the recorded checks again. Raises where the verdict differs."""
    header, names = declared(repro.source)
    check_parameters(body, header)
    parts = executed.parts_in(body["repro"])
    is_current = body["repro"]["digest"] == repro.digest
    if not is_current:
        names = executed.checks_of(parts)
    elif "parts" in body["repro"] and parts != executed.of_source(repro.source):
        raise EvidenceRefused("repro.parts: they are not those of its source.")
    with refusing_faults("Its checks cannot be judged", "verdict"):
        given = body.get("parameters")
        judgement = harness.judge(header, body["checks"], names, given)
        if is_current:
            judge_variants_again(body, header, repro.source)
    for key, value in harness.encode(asdict(judgement)).items():
        if body.get(key) != value:
            raise EvidenceRefused(
                f"Its checks give {key} {value!r}, it says otherwise.", "verdict"
            )


def check_parameters(body: dict[str, Any], header: harness.Header) -> None:
    """Refuse values that the repro does not allow, or that are its defaults."""
    given = harness.decode(body.get("parameters", {}))
    try:
        chosen = harness.choose(header, given)
    except harness.ParameterError as error:
        raise EvidenceRefused(f"parameters: {error.errors[0]}.", "verdict") from error
    if chosen != given:
        raise EvidenceRefused("parameters: one is the default.", "verdict")


def judge_variants_again(
    body: dict[str, Any], header: harness.Header, source: str
) -> None:
    """Judge the checks of each variant again. Raises where one says otherwise."""
    planned = variant_checks(source)
    for name, variant in body.get("variants", {}).items():
        values = header.variants.get(name)
        if values is None or variant["parameters"] != harness.encode(values):
            raise EvidenceRefused(f"The repro has no variant {name} like that.")
        at_values = harness.at_values(header, values)
        given = harness.judge_variant(at_values, variant["checks"], planned)
        if variant["workarounds"] != given:
            raise EvidenceRefused(
                f"The checks of variant {name} give {given}, it says otherwise.",
                "verdict",
            )


def known_build(identity: dict[str, Any]) -> Build:
    """The Build of an identity of ours, created if new. Raises EvidenceRefused."""
    try:
        return registry.save_identity(identity)
    except BuildError as error:
        raise EvidenceRefused(str(error)) from error


def device_class(body: dict[str, Any]) -> str:
    """The device class the run used: a CUDA repro without a device ran on the CPU.

    Torch calls a GPU of ROCm "cuda", too; its build tells.
    """
    device = body["device"]
    if not device["count"]:
        return DeviceClass.CPU
    is_rocm = device["class"] == DeviceClass.CUDA and body["build"]["hip"]
    return DeviceClass.ROCM if is_rocm else DeviceClass(device["class"])


# --- findings ----------------------------------------
def refresh_staleness(record: Record) -> None:
    """Derive all findings of a record again, after its repros changed."""
    writing.replace(record, best_findings(record))


def best_findings(record: Record) -> Iterator[Finding]:
    """The best finding of each key, of all evidence that is ours."""
    best: dict[writing.Key, Finding] = {}
    rows = record.evidence.filter(origin__in=OUR_ORIGINS)
    rows = rows.order_by("started_at", "digest")
    for evidence in rows.iterator(chunk_size=50):
        for finding in findings_of(evidence):
            key = writing.key_of(finding)
            if key not in best or rank(finding) >= rank(best[key]):
                best[key] = finding
    yield from best.values()
