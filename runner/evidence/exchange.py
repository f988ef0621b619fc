"""Uploaded evidence: validation of untrusted input.

It must be JSON of the evidence schema and nothing else, refer to the current source of
a reviewed repro, and have the verdict that its own observations give. The observations
themselves cannot be verified: so the receiver sets the origin, and uploads never
replace what this site judged itself (runner.evidence.store.rank).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NoReturn

from django.db import transaction
from django.utils import timezone

from kb.choices import OUR_ORIGINS
from kb.models import Record, Repro
from runner import harness, sandbox
from runner.builds import proof
from runner.evidence import telemetry
from runner.evidence.signing import keys
from runner.evidence.store import (
    BUILD_FIELDS,
    MAX_BYTES,
    EvidenceRefused,
    add,
    check_form,
)
from runner.models import Build, Evidence

ORIGIN = re.compile(r"[a-z0-9._-]{1,40}")
# Tolerated clock skew: evidence from the future would outrank all newer evidence.
MAX_CLOCK_SKEW = timedelta(minutes=10)
MAX_CHECKS = 400
Json = dict[str, Any]

NUMBER = (int, float)
OPTIONAL_TEXT = (str, type(None))
# Required keys and their types, by object; any other key is refused.
EVIDENCE = {
    "schema": str,
    "digest": str,
    "origin": str,
    "record": str,
    "state": str,
    "repro": dict,
    "build": dict,
    "device": dict,
    "verdict": str,
    "reason": OPTIONAL_TEXT,
    "is_affected": (bool, type(None)),
    "hits": (int, type(None)),
    "trials": int,
    "checks": list,
    "workarounds": dict,
    "refuted": dict,
    "tier": str,
    "served": str,
    "limits": dict,
    "telemetry": dict,
    "harness": int,
    "started_at": str,
    "duration_s": NUMBER,
    "parameters": dict,
    "variants": dict,
}
VARIANT = {"parameters": dict, "checks": list, "workarounds": dict}
REPRO = {"name": str, "digest": str, "fidelity": str}
BUILD = {
    **dict.fromkeys(harness.BUILD_KEYS, OPTIONAL_TEXT),
    "slug": str,
    "raw": str,
    "packages": dict,
}
DEVICE = {
    "class": str,
    **dict.fromkeys(("name", "capability", "driver", "uuid"), OPTIONAL_TEXT),
    "count": int,
}
LIMITS = {
    "timeout_s": NUMBER,
    "memory_mib": NUMBER,
    "processes": (int, type(None)),
    "file_mib": (int, type(None)),
    "layers": dict,
}
# Absent where the harness ran alone.
LAYERS = {name: layer.kinds for name, layer in sandbox.LAYERS.items()}
CHECK = {
    "name": str,
    "trial": int,
    "outcome": str,
    "reason": OPTIONAL_TEXT,
    "observations": dict,
    "duration_s": NUMBER,
    "cpu_s": NUMBER,
    "peak_mib": NUMBER,
    "exit": (int, type(None)),
    "served": str,
    "log": dict,
    "killed": list,
}
KILLED = {"by": str, "after_s": NUMBER}
LOG = {"text": str, "cut_bytes": int}
NESTED_KEYS: dict[str, Json] = {
    "repro": REPRO,
    "build": BUILD,
    "device": DEVICE,
    "limits": LIMITS,
}
# Keys of later versions, or of some senders only.
OPTIONAL_KEYS = {
    *("origin", "uuid", "served", "file_mib", "layers"),
    *("parameters", "variants", "killed"),
}
MAX_TEXT_CHARS = 1000


def receive_evidence(
    data: bytes, origin: str, sender: str = "", signature: str = ""
) -> Evidence:
    """Validate and store uploaded evidence under the name that it was sent by.

    `sender`: the user behind that name, where there is one. `signature`: of its digest,
    "" where it has none.
    Idempotent: for evidence that is stored already the row has `created` False. Raises
    EvidenceRefused, with nothing stored.
    """
    if not ORIGIN.fullmatch(origin) or origin in OUR_ORIGINS:
        raise ValueError(f"{origin!r} cannot be the origin of what was sent")
    body = validate(data)
    signed = keys.checked(origin, body["digest"], signature)
    is_known = Evidence.objects.filter(digest=body["digest"]).exists()
    with transaction.atomic():
        row = add({**body, "origin": origin}, origin, sender)
        keys.note(row, origin, signed)
    row.created = not is_known
    return row


def validate(data: bytes) -> Json:
    """The evidence in the bytes. Raises EvidenceRefused where anything is wrong."""
    body = read(data)
    check_shape(body)
    check_form(body)
    check_time(body)
    check_against(body, current_repro(body))
    return body


def refuse(text: str, code: str = "not_evidence") -> NoReturn:
    raise EvidenceRefused(text, code)


# --- bytes ----------------------------------------
def read(data: bytes) -> Json:
    """The object in the bytes, parsed as strict JSON. Raises EvidenceRefused."""
    if len(data) > MAX_BYTES:
        refuse(
            f"It has {len(data)} bytes; evidence has at most {MAX_BYTES}. Send the "
            "file that --json wrote, unchanged.",
            "too_large",
        )
    if harness.too_deep(data):
        refuse(
            f"It is nested deeper than {harness.DEEPEST_FRAME} levels, or a bracket in "
            "it has no end.",
            "not_json",
        )
    try:
        body = json.loads(
            data.decode("utf-8"),
            parse_constant=refuse_constant,
            object_pairs_hook=refuse_duplicates,
        )
    except (ValueError, RecursionError) as error:
        raise EvidenceRefused(f"It is not JSON: {error}.", "not_json") from error
    if not isinstance(body, dict):
        refuse("It is not a JSON object.", "not_json")
    return body


def refuse_constant(word: str) -> NoReturn:
    raise ValueError(f'{word} is not JSON; the harness writes {{"$float": "nan"}}')


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return mapping


# --- shape ----------------------------------------
def check_shape(body: Json) -> None:
    """Check keys, types and texts. Raises EvidenceRefused."""
    check_keys(body, EVIDENCE, "")
    for name, schema in NESTED_KEYS.items():
        check_keys(body[name], schema, f"{name}.")
    if "layers" in body["limits"]:
        check_keys(body["limits"]["layers"], LAYERS, "limits.layers.")
    check_checks(body["checks"], "")
    for name, variant in body.get("variants", {}).items():
        check_variant_shape(variant, f"variants.{name[:20]}.")
    require_texts(body["build"]["packages"], "build.packages", optional=True)
    require_texts(body["workarounds"], "workarounds")
    require_texts(body["refuted"], "refuted")
    check_texts(body)
    check_telemetry(body["telemetry"])


def check_variant_shape(variant: Any, where: str) -> None:
    if not isinstance(variant, dict) or not VARIANT.keys() <= variant.keys():
        refuse(f"{where[:-1]}: it has not the keys of a variant.")
    check_keys(variant, VARIANT, where)
    check_checks(variant["checks"], where)
    require_texts(variant["workarounds"], f"{where}workarounds")


def check_checks(checks: list[Any], inside: str) -> None:
    if not 1 <= len(checks) <= MAX_CHECKS:
        refuse(f"{inside}checks: from 1 to {MAX_CHECKS} may stand.")
    for at, check in enumerate(checks):
        where = f"{inside}checks[{at}]."
        if not isinstance(check, dict):
            refuse(f"{where[:-1]}: it is not an object.")
        check_keys(check, CHECK, where)
        check_keys(check["log"], LOG, f"{where}log.")
        for kill in check.get("killed", []):
            check_kill(kill, f"{where}killed.")
        check_observations(check, where)


def check_kill(kill: Any, where: str) -> None:
    if not isinstance(kill, dict):
        refuse(f"{where[:-1]}: it is not a list of objects.")
    check_keys(kill, KILLED, where)
    if kill["by"] not in harness.KILLERS:
        refuse(f"{where}by: nobody is called so.")


def check_telemetry(readings: Json) -> None:
    try:
        telemetry.summary(readings)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise EvidenceRefused(f"telemetry: it cannot be read: {error!r}.") from error


def check_keys(mapping: Json, schema: Json, where: str) -> None:
    for key, kind in schema.items():
        if key not in mapping and key not in OPTIONAL_KEYS:
            refuse(f"{where}{key}: it is missing.")
        value = mapping.get(key)
        # A bool is an int in Python, but not in JSON.
        is_flag = isinstance(value, bool) and kind not in (bool, (bool, type(None)))
        if key in mapping and (is_flag or not isinstance(value, kind)):
            refuse(f"{where}{key}: it has another type.")
    for key in mapping.keys() - schema.keys():
        refuse(f"{where}{key[:80]}: evidence has no such key.")


def require_texts(texts: Json, where: str, *, optional: bool = False) -> None:
    for key, value in texts.items():
        if not (isinstance(value, str) or (optional and value is None)):
            refuse(f"{where}.{key[:80]}: it is not a text.")


def check_observations(check: Json, where: str) -> None:
    problems = harness.observation_problems(harness.decode(check["observations"]))
    # The requirements probe may report more than a check may.
    if problems and check["name"] != "requirements":
        refuse(f"{where}observations: {problems[0]}.")


def check_texts(body: Json) -> None:
    """Refuse invisible characters, overlong texts and integers beyond 64 bits."""
    for value in scalars_in(body):
        if isinstance(value, str) and harness.visible(value) != value:
            escaped = harness.visible(value)[:120]
            refuse(f"It holds characters that cannot be seen: {escaped}.")
        if isinstance(value, int) and abs(value) >= 2**63:
            refuse("It holds a number of more than 64 bits.")
    for value in scalars_in({**body, "checks": [], "variants": {}}):
        if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
            refuse(f"It holds a text of {len(value)} characters outside the checks.")


def scalars_in(value: Any) -> Iterator[Any]:
    """Every scalar in a JSON value, keys included."""
    if isinstance(value, dict):
        yield from chain.from_iterable(map(scalars_in, (*value, *value.values())))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(scalars_in, value))
    else:
        yield value


def check_time(body: Json) -> None:
    if datetime.fromisoformat(body["started_at"]) > timezone.now() + MAX_CLOCK_SKEW:
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
    if not proof.is_torch_version(build["raw"]):
        refuse(f"{build['raw'][:80]} is no version of torch as its builds are named.")
    for name in proof.strange_facts(build):
        refuse(f"build.{name}: no torch reports {build[name][:80]}.")
    own = harness.build_slug(build["raw"], build["cuda"])
    # Debian's name comes from dpkg and is not in the version.
    if build["slug"] != own and not proof.DEBIAN.fullmatch(build["slug"]):
        refuse(f"torch {build['raw'][:80]} is build {own}, not {build['slug'][:61]}.")
    for name in ("raw", *BUILD_FIELDS):
        limit = getattr(Build._meta.get_field(name), "max_length", 0)
        if len(build[name] or "") > limit:
            refuse(f"build.{name}: it has more than {limit} characters.")
