"""Symptoms that name no bug alone: a loss of nan or 0, the backward that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?|nan|inf(?:inity)?)(?![\w.])"
METRIC = re.compile(
    rf"""
    (?<![\w./'-])['"]?+
    ((?:(?:grad(?:ient)?|lm|global|total)[ ])?[A-Za-z][\w./-]{{0,60}}+)['"]?+
    (?:\s{{0,4}}+[:=|]\s{{0,8}}+|\s(?:is|was|became|becomes|of|to)\s
       |\s?(?:变成了?|变为|为|是)\s?)
    (?:[\w.]{{0,16}}\()?({NUMBER})
    """,
    re.VERBOSE | re.IGNORECASE,
)
# "grad_norm nan": without a sign between them only for what is surely a metric.
BARE = re.compile(
    r"(?<![\w./-])(grad(?:ient)?[ _]norm|gnorm|(?:\w{1,20}_)?loss)"
    r"\s{1,8}(nan|[-+]?inf(?:inity)?)(?![\w.])",
    re.IGNORECASE,
)
# What autograd's anomaly mode prints. A suffix digit counts overloads, no more.
ANOMALY = re.compile(r"Function '([A-Za-z_:]\w{0,80}?)\d{0,3}' returned nan values")
NORMS = ("gnorm", "global_norm", "gradient_norm", "total_norm", "grad_norm")
MAX_PAIRS = 100
MAX_FACETS = 20


@dataclass(frozen=True)
class Metrics:
    """The measured values of one line."""

    facets: list[str]
    count: int
    is_mapping: bool

    @property
    def are_the_line(self) -> bool:
        """The line is values rather than words: its facets say all there is in it."""
        return bool(self.count and (self.is_mapping or self.facets or self.count > 2))


def metrics_in(text: str) -> Metrics:
    """Facets: grad_norm_nan, nan_in_MulBackward; eval_loss_nan is loss_nan too."""
    pairs = METRIC.findall(text)
    found = dict.fromkeys(f"nan_in_{name}" for name in ANOMALY.findall(text))
    for name, number in (pairs + BARE.findall(text))[:MAX_PAIRS]:
        state = _state(number)
        for metric in _names(name) if state else ():
            if state != "zero" or metric in ("loss", "grad_norm"):
                found[f"{metric}_{state}"] = None
    return Metrics(list(found)[:MAX_FACETS], len(pairs), text.startswith("{"))


def _state(number: str) -> str:
    number = number.lower().lstrip("+-")
    if number == "nan":
        return "nan"
    if number.startswith("inf"):
        return "inf"
    return "" if float(number) else "zero"


def _names(name: str) -> list[str]:
    """The metric as called, and the family it belongs to."""
    own = re.sub(r"\W+", "_", name.lower().rsplit("/", 1)[-1]).strip("_")
    found = [own]
    if own.endswith("loss") and own != "loss":
        found.append("loss")
    if own.endswith(NORMS) and own != "grad_norm":
        found.append("grad_norm")
    return found
