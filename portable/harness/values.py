"""What all modules share: limits, JSON without NaN, digests, safe text."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import math
import re
from typing import Any, Dict, Mapping, Optional, Sequence

PROTOCOL = 1
SCHEMA = "doesitnan.evidence/1"

VERDICTS = ("bug_present", "bug_absent", "not_applicable", "inconclusive", "error")
EXIT_CODES = {
    "bug_absent": 0,
    "bug_present": 1,
    "error": 2,
    "inconclusive": 2,
    "not_applicable": 125,
}
FIDELITIES = ("upstream_bug", "real_kernel", "mechanism_model")
DEVICES = ("cpu", "cuda")
# Where a repro for any device may run instead; cuda is ROCm's name for its GPUs, too.
OTHER_DEVICES = ("cuda", "mps", "xpu", "npu")
NEEDS = ("compiler", "loader", "loopback")

MIB = 1024 * 1024
CHANNEL_BYTES = 256 * 1024
OUTPUT_BYTES = 16 * MIB
LOG_KEEP_BYTES = 64 * 1024
LOG_LINE_CHARS = 4096
LINE_COST_BYTES = 15
PROBE_TIMEOUT_S = 120.0

_FLOAT_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any) -> Any:
    """The same value with each non-finite number as {"$float": "nan"|"inf"|"-inf"}."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(float(value))}
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, dict):
        if list(value) == ["$float"] and str(value["$float"]) in _FLOAT_WORDS:
            return _FLOAT_WORDS[value["$float"]]
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value


def dumps(value: Any, indent: Optional[int] = None) -> str:
    """Canonical JSON: sorted keys, non-finite numbers encoded, UTF-8 text as it is."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        encode(value),
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        separators=separators,
    )


def source_digest(source: str) -> str:
    """sha256 of the UTF-8 bytes of a repro, or of any other text."""
    return "sha256:" + hashlib.sha256(source.encode("utf-8")).hexdigest()


def _database_form(value: Any) -> Any:
    """Numbers as a jsonb column gives them back: 1.0 and 1e22 are integers, -0.0 is 0.

    A digest must not change by a stay in PostgreSQL.
    """
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(decimal.Decimal(repr(float(value))))
    if isinstance(value, dict):
        return {key: _database_form(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_database_form(item) for item in value]
    return value


def evidence_digest(evidence: Mapping[str, Any]) -> str:
    """Digest of an evidence object: canonical JSON without `digest` and `origin`."""
    kept = {k: v for k, v in evidence.items() if k not in ("digest", "origin")}
    return source_digest(dumps(_database_form(kept)))


# Characters that nobody sees, or that turn the direction of text, by the categories of
# Unicode in every plane: controls but for tab and line feed, formats, separators of
# lines, surrogates, private use; noncharacters; and what is left out when it is drawn.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891"
    "\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    + "".join(chr(0x10000 * at - 2) + chr(0x10000 * at - 1) for at in range(2, 15))
    + "]"
)


def visible(text: str) -> str:
    """Text with its control characters spelled out: ESC as ␛, others as <U+202E>."""

    def spell(found: Any) -> str:
        code = ord(found.group())
        return chr(0x2400 + code) if code < 0x20 else "<U+%04X>" % code

    return INVISIBLE.sub(spell, text)


def build_slug(
    raw: str, cuda: Optional[str] = None, override: str = "", platform: str = ""
) -> str:
    """The name of a build in addresses, queues and evidence.

    The wheel of macOS has neither CUDA nor a mark; `platform` ("darwin-arm64") tells.

    >>> build_slug("2.13.0+cpu"), build_slug("2.5.1", "12.4")
    ('2.13.0-cpu', '2.5.1-cu124')
    """
    if override:
        name = override
    elif "+" in raw:
        name = raw.replace("+", "-")
    else:
        plain = "-macos" if platform.startswith("darwin") else "-cpu"
        name = raw + ("-cu" + cuda.replace(".", "") if cuda else plain)
    return re.sub(r"[^a-z0-9._-]", "-", name.lower()).strip("._-")[:61]


def refuse_constant(word: str) -> None:
    raise ValueError("%s is not JSON" % word)


def said(text: str) -> str:
    """The reason that carries a repro's own words, on one line."""
    return "said:" + visible(" ".join(text.split()))[:180]


def sealed(evidence: Mapping[str, Any]) -> Dict[str, Any]:
    """The object as JSON takes it, with its digest."""
    found = dict(encode(evidence))
    found["digest"] = evidence_digest(found)
    return found


def served_how(checks: Sequence[Mapping[str, Any]]) -> str:
    """`served` of a whole run: warm only where every check was."""
    return "warm" if all(c["served"] == "warm" for c in checks) else "cold"


def utc_now() -> str:
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(check: Mapping[str, Any]) -> str:
    """One line about a recorded check: outcome, reason, observations."""
    words = [str(check["outcome"])]
    if check["reason"]:
        words[0] += ": %s" % check["reason"]
    for key, value in check["observations"].items():
        value = decode(value)
        text = "%d numbers" % len(value) if isinstance(value, list) else dumps(value)
        if isinstance(value, float):
            text = "%.6g" % value
        words.append("%s %s" % (key, text[:80]))
    return "  ".join(words)
