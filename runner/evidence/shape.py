"""The shape of an evidence object: each field with what it may hold, declared once.

Numbers have bounds in the unit that the field's name says (`_s`: seconds, `_mib`: MiB),
words are closed lists, and every other text has a form or a length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn, Protocol

from kb.choices import DeviceClass, Fidelity, Outcome, Verdict
from portable import harness
from runner import sandbox
from runner.evidence import telemetry
from runner.evidence.store import EvidenceRefused

Json = dict[str, Any]

MAX_CHECKS = 400
MAX_PACKAGES = 100
# Five series of 240 samples for each of sixteen GPUs, and what is read once.
MAX_READINGS = 30_000
MAX_TEXT_CHARS = 1000
MAX_LOG_CHARS = 200_000
DAY_S = 86_400
MOST_MIB = 2**24
# Of a whole run, all its threads together, a byte count, and any reading of a GPU.
MOST_RUN_S, MOST_CPU_S, MOST_BYTES, MOST_READING = 7 * DAY_S, 10**8, 2**40, 10**15


class Field(Protocol):
    def problem(self, value: Any) -> str:
        """What is wrong with a value; "" for nothing."""


@dataclass(frozen=True)
class Number:
    low: float
    high: float
    whole: bool = False

    def problem(self, value: Any) -> str:
        kinds = (int,) if self.whole else (int, float)
        # A bool is an int in Python, but not in JSON.
        if isinstance(value, bool) or not isinstance(value, kinds):
            return "it has another type"
        if self.low <= value <= self.high:
            return ""
        kind = "whole number" if self.whole else "number"
        return f"it must be a {kind} from {self.low} to {self.high}"


@dataclass(frozen=True)
class Words:
    allowed: tuple[str, ...]

    def problem(self, value: Any) -> str:
        if not isinstance(value, str):
            return "it has another type"
        known = ", ".join(self.allowed)
        return "" if value in self.allowed else f"it must be one of {known}"


@dataclass(frozen=True)
class Text:
    form: str = ""
    most: int = MAX_TEXT_CHARS

    def problem(self, value: Any) -> str:
        if not isinstance(value, str):
            return "it has another type"
        if len(value) > self.most:
            return f"it has more than {self.most} characters"
        fits = not self.form or re.fullmatch(self.form, value)
        return "" if fits else "it has not the form of such a text"


@dataclass(frozen=True)
class Typed:
    kinds: tuple[type, ...]

    def problem(self, value: Any) -> str:
        flag = isinstance(value, bool) and bool not in self.kinds
        right = isinstance(value, self.kinds) and not flag
        return "" if right else "it has another type"


@dataclass(frozen=True)
class Maybe:
    """The same, or null."""

    field: Field

    def problem(self, value: Any) -> str:
        return "" if value is None else self.field.problem(value)


def whole(low: int, high: int) -> Number:
    return Number(low, high, whole=True)


def words(values: Iterable[str]) -> Words:
    return Words(tuple(values))


TABLE, ROWS, FLAG = Typed((dict,)), Typed((list,)), Typed((bool,))
TEXT = Text()
DIGEST = Text(r"sha256:[0-9a-f]{64}")
MOMENT = Text(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)",
)
COUNT = whole(0, MAX_CHECKS)
SERVED = words(("warm", "cold"))
CHECK_NAME = Text(r"[a-z][a-z0-9_]*", 80)
RAM = Number(0, MOST_MIB)

EVIDENCE: dict[str, Field] = {
    "schema": words((harness.SCHEMA,)),
    "digest": DIGEST,
    "origin": Text(most=40),
    "record": Text(r"NAN-\d{4}"),
    "state": words(("finished",)),
    "repro": TABLE,
    "build": TABLE,
    "device": TABLE,
    "verdict": words(Verdict.values),
    "reason": Maybe(TEXT),
    "is_affected": Maybe(FLAG),
    "hits": Maybe(COUNT),
    "trials": COUNT,
    "checks": ROWS,
    "workarounds": TABLE,
    "refuted": TABLE,
    "tier": words(sandbox.TIERS),
    "served": SERVED,
    "limits": TABLE,
    "telemetry": TABLE,
    "harness": whole(1, 999),
    "started_at": MOMENT,
    "duration_s": Number(0, MOST_RUN_S),
    "parameters": TABLE,
    "variants": TABLE,
}
VARIANT: dict[str, Field] = {"parameters": TABLE, "checks": ROWS, "workarounds": TABLE}
REPRO: dict[str, Field] = {
    "name": CHECK_NAME,
    "digest": DIGEST,
    "fidelity": words(Fidelity.values),
    "parts": TABLE,
}
# What torch says of itself has forms in runner.builds.proof.
BUILD: dict[str, Field] = {
    **dict.fromkeys(harness.BUILD_KEYS, Maybe(TEXT)),
    "slug": TEXT,
    "raw": TEXT,
    "packages": TABLE,
}
DEVICE: dict[str, Field] = {
    "class": words(("cpu", *harness.OTHER_DEVICES)),
    "name": Maybe(Text(most=120)),
    "capability": Maybe(Text(r"\d{1,2}\.\d{1,2}")),
    "driver": Maybe(Text(r"[A-Za-z0-9._-]{1,40}")),
    "uuid": Maybe(Text(r"[A-Za-z0-9/-]{1,80}")),
    "count": whole(0, 64),
}
LIMITS: dict[str, Field] = {
    "timeout_s": Number(0, DAY_S),
    "memory_mib": RAM,
    "processes": Maybe(whole(0, 2**22)),
    "file_mib": Maybe(whole(0, MOST_MIB)),
    "layers": TABLE,
}
CHECK: dict[str, Field] = {
    "name": CHECK_NAME,
    "trial": COUNT,
    "outcome": words(Outcome.values),
    "reason": Maybe(TEXT),
    "observations": TABLE,
    "duration_s": Number(0, DAY_S),
    "cpu_s": Number(0, MOST_CPU_S),
    "peak_mib": RAM,
    # Of a signal it is below zero; Windows has 32 bits.
    "exit": Maybe(whole(-255, 2**32)),
    "served": SERVED,
    "log": TABLE,
    "killed": ROWS,
}
KILLED: dict[str, Field] = {
    "by": words(harness.KILLERS),
    "after_s": Number(0, DAY_S),
}
LOG: dict[str, Field] = {
    "text": Text(most=MAX_LOG_CHARS),
    "cut_bytes": whole(0, MOST_BYTES),
}
# Absent where the harness ran alone.
LAYERS: dict[str, Field] = {
    name: Typed(layer.kinds if isinstance(layer.kinds, tuple) else (layer.kinds,))
    for name, layer in sandbox.LAYERS.items()
}
PACKAGE = Text(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
PACKAGE_VERSION = Maybe(Text(r"[A-Za-z0-9][A-Za-z0-9.+!@_-]{0,99}"))
READING = Number(-MOST_READING, MOST_READING)
NESTED: dict[str, dict[str, Field]] = {
    "repro": REPRO,
    "build": BUILD,
    "device": DEVICE,
    "limits": LIMITS,
}
# Keys of later versions, or of some senders only.
OPTIONAL = {
    *("origin", "uuid", "served", "file_mib", "layers"),
    *("parameters", "variants", "killed", "parts"),
}


def refuse(text: str, code: str = "not_evidence") -> NoReturn:
    raise EvidenceRefused(text, code)


def check_shape(body: Json) -> None:
    """Check each key and what it holds. Raises EvidenceRefused."""
    check_fields(body, EVIDENCE, "")
    for name, fields in NESTED.items():
        check_fields(body[name], fields, f"{name}.")
    if "layers" in body["limits"]:
        check_fields(body["limits"]["layers"], LAYERS, "limits.layers.")
    check_checks(body["checks"], "")
    for name, variant in body.get("variants", {}).items():
        check_variant(variant, f"variants.{name[:20]}.")
    check_packages(body["build"]["packages"])
    check_device(body)
    check_texts_of(body["repro"].get("parts", {}), "repro.parts")
    check_texts_of(body["workarounds"], "workarounds")
    check_texts_of(body["refuted"], "refuted")
    check_texts(body)
    check_telemetry(body["telemetry"])


def check_fields(mapping: Json, fields: Mapping[str, Field], where: str) -> None:
    for key, field in fields.items():
        if key not in mapping:
            if key not in OPTIONAL:
                refuse(f"{where}{key}: it is missing.")
        elif problem := field.problem(mapping[key]):
            refuse(f"{where}{key}: {problem}.")
    for key in mapping.keys() - fields.keys():
        refuse(f"{where}{key[:80]}: evidence has no such key.")


def check_variant(variant: Any, where: str) -> None:
    if not isinstance(variant, dict) or not VARIANT.keys() <= variant.keys():
        refuse(f"{where[:-1]}: it has not the keys of a variant.")
    check_fields(variant, VARIANT, where)
    check_checks(variant["checks"], where)
    check_texts_of(variant["workarounds"], f"{where}workarounds")


def check_checks(checks: list[Any], inside: str) -> None:
    if not 1 <= len(checks) <= MAX_CHECKS:
        refuse(f"{inside}checks: from 1 to {MAX_CHECKS} may stand.")
    for at, check in enumerate(checks):
        where = f"{inside}checks[{at}]."
        if not isinstance(check, dict):
            refuse(f"{where[:-1]}: it is not an object.")
        check_fields(check, CHECK, where)
        check_fields(check["log"], LOG, f"{where}log.")
        check_kills(check.get("killed", []), f"{where}killed.")
        check_observations(check, where)


def check_kills(kills: list[Any], where: str) -> None:
    if len(kills) > harness.MOST_REPEATS + 1:
        refuse(f"{where[:-1]}: nobody starts a check so often.")
    for kill in kills:
        if not isinstance(kill, dict):
            refuse(f"{where[:-1]}: it is not a list of objects.")
        check_fields(kill, KILLED, where)


def check_observations(check: Json, where: str) -> None:
    problems = harness.observation_problems(harness.decode(check["observations"]))
    # The requirements probe may report more than a check may.
    if problems and check["name"] != "requirements":
        refuse(f"{where}observations: {problems[0]}.")


def check_packages(packages: Json) -> None:
    if len(packages) > MAX_PACKAGES:
        refuse(f"build.packages: more than {MAX_PACKAGES}.")
    for name, version in packages.items():
        where = f"build.packages.{name[:80]}"
        if PACKAGE.problem(name):
            refuse(f"{where}: no package is called so.")
        if problem := PACKAGE_VERSION.problem(version):
            refuse(f"{where}: {problem}.")


def check_device(body: Json) -> None:
    """Refuse the GPU of a run on a CPU, and the name of a GPU that was not there."""
    device, platform = body["device"], body["build"]["platform"] or ""
    of_gpu: tuple[str, ...] = ("name", "capability", "uuid")
    if device["class"] == DeviceClass.CPU:
        machine = platform.partition("-")[2]
        if device["name"] not in (None, machine):
            refuse(f"device.name: the CPU of {platform[:40]} is called {machine[:30]}.")
        of_gpu = ("capability", "driver", "uuid")
    elif device["count"]:
        is_cuda = device["class"] == DeviceClass.CUDA
        of_gpu = () if is_cuda else ("capability", "driver", "uuid")
    for key in of_gpu:
        if device.get(key) is not None:
            refuse(f"device.{key}: there is no GPU that it could be of.")


def check_texts_of(texts: Json, where: str) -> None:
    for key, value in texts.items():
        if problem := TEXT.problem(value):
            refuse(f"{where}.{key[:80]}: {problem}.")


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


def check_telemetry(readings: Json) -> None:
    numbers = [value for value in scalars_in(readings) if not isinstance(value, str)]
    if len(numbers) > MAX_READINGS:
        refuse(f"telemetry: it has more than {MAX_READINGS} readings.")
    for value in numbers:
        if isinstance(value, int | float) and READING.problem(float(value)):
            refuse("telemetry: a reading is no number that a device gives.")
    try:
        list(telemetry.lines(readings))
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise EvidenceRefused(f"telemetry: it cannot be read: {error!r}.") from error


def scalars_in(value: Any) -> Iterator[Any]:
    """Every scalar in a JSON value, keys included."""
    if isinstance(value, dict):
        yield from chain.from_iterable(map(scalars_in, (*value, *value.values())))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(scalars_in, value))
    else:
        yield value
