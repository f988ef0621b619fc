"""A check to start, what was observed of it, and what is wrong with that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .fields import NAME, is_number
from .values import decode, dumps, visible


@dataclass(frozen=True)
class CheckSpec:
    """One check to start: what it may use and for how long.

    `env`: what the record asks for; it must be there before torch is imported, so such
    a check always starts cold. `preset`: what the harness itself sets. `parameters`:
    the values that are not the defaults. `device`: on which tensors are made that name
    none, "" for that of torch.
    """

    name: str
    trial: int = 0
    env: Dict[str, str] = field(default_factory=dict)
    timeout_s: float = 60
    memory_mib: int = 2048
    preset: Dict[str, str] = field(default_factory=dict)
    parameters: Dict[str, Any] = field(default_factory=dict)
    device: str = ""

    @property
    def environment(self) -> Dict[str, str]:
        """Both together; the record has the last word."""
        return dict(self.preset, **self.env)


@dataclass
class Report:
    """What the parent saw of one check. `failure`: None or a reason.

    `killed_by`: who killed it from outside (KILLERS), so that it says nothing of the
    check; "" where nobody did, or where that cannot be told.
    """

    messages: List[Dict[str, Any]] = field(default_factory=list)
    hello: Optional[Dict[str, Any]] = None
    failure: Optional[str] = None
    exit: Optional[int] = None
    duration_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: int = 0
    log_text: str = ""
    cut_bytes: int = 0
    served: str = "cold"
    killed_by: str = ""


Start = Callable[[CheckSpec], Report]


class Assessment(NamedTuple):
    """Outcome of one check; `note` says why, for the log."""

    outcome: str
    reason: Optional[str] = None
    note: str = ""


@dataclass(frozen=True)
class Judgement:
    """What the checks of one run show together."""

    verdict: str
    reason: Optional[str]
    is_affected: Optional[bool]
    hits: Optional[int]
    trials: int
    workarounds: Dict[str, str]
    refuted: Dict[str, str]


RESERVED_TEXTS = ("ran", "device", "mode", "not_applicable")


def observation_problems(observations: Any) -> List[str]:
    """Why these (decoded) observations do not keep the contract; [] = they do."""
    if not isinstance(observations, dict):
        return ["a check returns a dict of observations"]
    problems = []
    if len(observations) > 64:
        problems.append("more than 64 observations")
    for key, value in observations.items():
        if not NAME.match(key):
            problems.append("%r is not a name for an observation" % key[:80])
        problem = _value_problem(value)
        if not problem and key in RESERVED_TEXTS and not isinstance(value, str):
            problem = "is reserved for a text"
        if problem:
            problems.append("%s %s" % (key[:80], problem))
    if not problems and len(dumps(observations).encode("utf-8", "replace")) > 65536:
        problems.append("the observations are larger than 64 KiB")
    return problems


def _value_problem(value: Any) -> str:
    if isinstance(value, str):
        return "is longer than 4 kB" if len(value.encode("utf-8")) > 4096 else ""
    if isinstance(value, list):
        if len(value) > 1000:
            return "has more than 1,000 numbers"
        return "is a list of other things than numbers" * (
            not all(map(_is_storable_number, value))
        )
    if isinstance(value, bool) or _is_storable_number(value):
        return ""
    kind = value.get("$type") if isinstance(value, dict) else None
    return "is a %s; return int, float, bool, str or a list of numbers" % (
        kind or type(value).__name__
    )


def _is_storable_number(value: Any) -> bool:
    return is_number(value) and (isinstance(value, float) or abs(value) < 2**63)


def _clean_texts(observations: Any) -> Any:
    if not isinstance(observations, dict):
        return observations
    return {
        key: visible(value) if isinstance(value, str) else value
        for key, value in observations.items()
    }


def reported_observations(report: Report) -> Any:
    """The decoded observations of a report, texts made safe; None if it has none."""
    if report.failure or not report.messages or report.messages[0]["t"] != "result":
        return None
    return _clean_texts(decode(report.messages[0].get("observations")))


class Cancelled(Exception):
    """The run was cancelled; there is no evidence."""
