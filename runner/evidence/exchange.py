"""Evidence from elsewhere: bytes that somebody sent, to be trusted in nothing.

They must be JSON of the evidence schema and nothing else, about a reviewed repro as it
is now, and say what their own observations say. What they observed cannot be checked
here: the origin, which the receiver sets, stays with them, and they never replace what
this site judged itself (runner.evidence.store.rank).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from django.utils import timezone

from kb.models import Record, Repro
from runner import harness
from runner.evidence import telemetry
from runner.evidence.store import (
    BUILD_FIELDS,
    MAX_BYTES,
    OUR_ORIGINS,
    EvidenceRefused,
    EvidenceReport,
    add,
    check_form,
)
from runner.models import Build, Evidence

ORIGIN = re.compile(r"[a-z0-9._-]{1,40}")
DOCTOR = "doesitnan.doctor/1"
# Clocks differ; evidence from the future would outrank all that comes until then.
AHEAD = timedelta(minutes=10)
MAX_CHECKS = 400
MAX_DOCTOR_BYTES = 64 * 1024 * 1024
Json = dict[str, Any]

NUMBER = (int, float)
OPTIONAL_TEXT = (str, type(None))
# What every object has, by place; anything else beside it is refused.
TOP = {
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
}
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
# What held the run (runner.sandbox.Layers); the harness alone has none.
LAYERS = {
    "namespaces": OPTIONAL_TEXT,
    "landlock": (int, type(None)),
    "seccomp": bool,
    "cgroup": OPTIONAL_TEXT,
    "uid": str,
}
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
}
LOG = {"text": str, "cut_bytes": int}
PLACES: dict[str, Json] = {
    "repro": REPRO,
    "build": BUILD,
    "device": DEVICE,
    "limits": LIMITS,
}
# Fields that came later, or that only some senders know.
MAY_LACK = {"origin", "uuid", "served", "file_mib", "layers"}
LONGEST = 1000


def receive_evidence(data: bytes, origin: str) -> Evidence:
    """Store the evidence object in these bytes under the name of who sent it.

    The same object again is the row that is there (`created` is False then). Raises
    EvidenceRefused; nothing is stored then.
    """
    if not ORIGIN.fullmatch(origin) or origin in OUR_ORIGINS:
        raise ValueError(f"{origin!r} cannot be the origin of what was sent")
    body = read(data)
    check_shape(body)
    check_form(body)
    check_time(body)
    check_against(body, wanted_repro(body))
    known = Evidence.objects.filter(digest=body["digest"]).exists()
    row = add({**body, "origin": origin}, origin)
    row.created = not known
    return row


def refuse(text: str, code: str = "not_evidence") -> NoReturn:
    raise EvidenceRefused(text, code)


# --- bytes ----------------------------------------
def read(data: bytes) -> Json:
    """The JSON object in the bytes, which holds nothing that JSON does not have."""
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
            parse_constant=no_constant,
            object_pairs_hook=no_doubles,
        )
    except (ValueError, RecursionError) as error:
        raise EvidenceRefused(f"It is not JSON: {error}.", "not_json") from error
    if not isinstance(body, dict):
        refuse("It is not a JSON object.", "not_json")
    return body


def no_constant(word: str) -> NoReturn:
    raise ValueError(f'{word} is not JSON; the harness writes {{"$float": "nan"}}')


def no_doubles(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


# --- shape ----------------------------------------
def check_shape(body: Json) -> None:
    """Refuse what has not the keys and types of evidence, or texts unfit to show."""
    keys(body, TOP, "")
    for name, wanted in PLACES.items():
        keys(body[name], wanted, f"{name}.")
    if "layers" in body["limits"]:
        keys(body["limits"]["layers"], LAYERS, "limits.layers.")
    if not 1 <= len(body["checks"]) <= MAX_CHECKS:
        refuse(f"checks: from 1 to {MAX_CHECKS} may stand.")
    for at, check in enumerate(body["checks"]):
        where = f"checks[{at}]."
        if not isinstance(check, dict):
            refuse(f"{where[:-1]}: it is not an object.")
        keys(check, CHECK, where)
        keys(check["log"], LOG, f"{where}log.")
        check_observations(check, where)
    texts_of(body["build"]["packages"], "build.packages", optional=True)
    texts_of(body["workarounds"], "workarounds")
    texts_of(body["refuted"], "refuted")
    check_texts(body)
    check_telemetry(body["telemetry"])


def check_telemetry(found: Json) -> None:
    try:
        telemetry.summary(found)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise EvidenceRefused(f"telemetry: it cannot be read: {error!r}.") from error


def keys(found: Json, wanted: Json, where: str) -> None:
    for key, kind in wanted.items():
        if key not in found and key not in MAY_LACK:
            refuse(f"{where}{key}: it is missing.")
        value = found.get(key)
        # True is an int to Python, and to nobody else.
        is_flag = isinstance(value, bool) and kind not in (bool, (bool, type(None)))
        if key in found and (is_flag or not isinstance(value, kind)):
            refuse(f"{where}{key}: it has another type.")
    for key in found.keys() - wanted.keys():
        refuse(f"{where}{key[:80]}: evidence has no such key.")


def texts_of(found: Json, where: str, *, optional: bool = False) -> None:
    for key, value in found.items():
        if not (isinstance(value, str) or (optional and value is None)):
            refuse(f"{where}.{key[:80]}: it is not a text.")


def check_observations(check: Json, where: str) -> None:
    problems = harness.observation_problems(harness.decode(check["observations"]))
    # A probe of the requirements may tell more than a check.
    if problems and check["name"] != "requirements":
        refuse(f"{where}observations: {problems[0]}.")


def check_texts(body: Json) -> None:
    """No text that deceives or floods, no number that no column and no page takes."""
    for value in scalars_in(body):
        if isinstance(value, str) and harness.visible(value) != value:
            shown = harness.visible(value)[:120]
            refuse(f"It holds characters that cannot be seen: {shown}.")
        if isinstance(value, int) and abs(value) >= 2**63:
            refuse("It holds a number of more than 64 bits.")
    for value in scalars_in({**body, "checks": []}):
        if isinstance(value, str) and len(value) > LONGEST:
            refuse(f"It holds a text of {len(value)} characters outside the checks.")


def scalars_in(value: Any) -> Iterator[Any]:
    """Every text and number in it, keys too."""
    if isinstance(value, dict):
        yield from chain.from_iterable(map(scalars_in, (*value, *value.values())))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(scalars_in, value))
    else:
        yield value


def check_time(body: Json) -> None:
    if datetime.fromisoformat(body["started_at"]) > timezone.now() + AHEAD:
        refuse(
            f"started_at is {body['started_at']}, which is still to come: set the "
            "clock of that machine and run it again.",
            "future",
        )


# --- what it is about ----------------------------------------
def wanted_repro(body: Json) -> Repro:
    """The reviewed repro it says it ran, in the edition that this site has now."""
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
    """Refuse what does not agree with the repro, or with itself."""
    header, names = harness.read_repro(repro.source)
    told = body["repro"]["fidelity"], body["device"]["class"]
    if told != (header.fidelity, header.device):
        refuse(f"The repro is a {header.fidelity} for {header.device}.", "verdict")
    check_plan(body, names)
    for name, outcome in harness.misrecorded(header, body["checks"]):
        refuse(f"The observations of {name} give {outcome}.", "verdict")
    check_build(body["build"])


def check_plan(body: Json, names: list[str]) -> None:
    """The checks are those of the repro, in their order, each once."""
    ran = [(check["name"], check["trial"]) for check in body["checks"]]
    triggers = sum(name == "trigger" for name, _ in ran)
    planned = harness.check_order(names, triggers or 1)
    if ran != planned[: len(ran)]:
        refuse("Its checks are not those of the repro in their order.", "verdict")


def check_build(build: Json) -> None:
    """The slug follows from the version; every text fits its column."""
    own = harness.build_slug(build["raw"], build["cuda"])
    # Debian's name comes from dpkg and is not in the version.
    if build["slug"] != own and not build["slug"].endswith("-debian"):
        refuse(f"torch {build['raw'][:80]} is build {own}, not {build['slug'][:61]}.")
    for name in ("raw", *BUILD_FIELDS):
        limit = getattr(Build._meta.get_field(name), "max_length", 0)
        if len(build[name] or "") > limit:
            refuse(f"build.{name}: it has more than {limit} characters.")


# --- files ----------------------------------------
def receive_file(path: Path, origin: str, report: EvidenceReport) -> None:
    """Take in what the single file, `run_repro --json` or the doctor wrote."""
    if path.stat().st_size > MAX_DOCTOR_BYTES:
        report.refused.append((str(path), "It is larger than any such file."))
        return
    for at, data in enumerate(bodies_in(path), start=1):
        name = f"{path} ({at})" if at > 1 else str(path)
        try:
            row = receive_evidence(data, origin)
        except EvidenceRefused as error:
            report.refused.append((name, str(error)))
        else:
            (report.added if row.created else report.known).append(name)


def bodies_in(path: Path) -> list[bytes]:
    """The evidence in a file: one object, or those of a doctor's results."""
    data = path.read_bytes()
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return [data]
    if not (isinstance(whole, dict) and whole.get("schema") == DOCTOR):
        return [data]
    rows = [row for row in whole.get("results") or [] if isinstance(row, dict)]
    bodies = [row["evidence"] for row in rows if row.get("evidence")]
    return [json.dumps(body).encode() for body in bodies]
