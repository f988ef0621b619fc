"""Symptoms that name no bug alone: a loss of nan or 0, the backward that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

NUMBER = (
    r"[-+]?(?:\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?"
    r"|(?:nan|inf(?:inity)?)(?:\.0)?)(?![A-Za-z0-9_]|\.[A-Za-z0-9_])"
)
# A word of ours ends where Chinese begins, without a space: "训练loss nan了".
BESIDE_HAN = re.IGNORECASE | re.ASCII
METRIC = re.compile(
    rf"""
    (?<![A-Za-z0-9_./'-])['"]?+
    ((?:(?:grad(?:ient)?|lm|global|total|ctc|val(?:\.|id(?:ation)?)?|eval|test)[ ])?
     [A-Za-z][A-Za-z0-9_./-]{{0,60}}+)
    ['"`*]{{0,2}}+
    (?:\s{{0,4}}+[:=|：]\s{{0,8}}+|\s(?:is|was|became|becomes|gets?|got|of|to)\s
       |\s?(?:一直|始终|总|都|均|全|突然|直接|就){{0,2}}(?:变成了?|变为|为|是)\s?)
    ['"`*]{{0,2}}+(?:[\w.]{{0,16}}\()?({NUMBER})
    """,
    re.VERBOSE | re.IGNORECASE,
)
# "grad_norm nan": without a sign between them only for what is surely a metric.
SURE = (
    r"(?<![\w./-])(?:[\w.-]{1,60}[./])?"
    r"(grad(?:ient)?[ _]norm|gnorm"
    r"|(?:val(?:id(?:ation)?)?[ ]|eval[ ]|test[ ]|train(?:ing)?[ ])?"
    r"(?:\w{1,20}_)?loss|running_\w{3,4}%s)\s{1,8}"
)
BARE = re.compile(
    SURE % "" + r"(?:tensor\()?(nan|[-+]?inf(?:inity)?)(?!\w|\.\w)", BESIDE_HAN
)
# "step 12 loss 0.0 grad_norm nan": a number is a value only in a row of such pairs.
IN_ROW = re.compile(
    SURE % r"|lr|learning_rate|steps?|epochs?|iter(?:ation)?s?"
    + rf"[\[(]?({NUMBER})(?:/\d++)?[\])]?",
    BESIDE_HAN,
)
# "iter 12: loss 4.18" is such a row too.
BETWEEN = re.compile(r"[\s,:;|，；]*")
# "NaN loss", "nan gradients": the value before what it is a value of.
REVERSED = re.compile(
    r"(?<![\w.:=-])(nan|inf(?:inite)?|non-?finite)\s(?:training\s|validation\s)?"
    r"(loss|grad(?:ient)?[ _]norm|grad(?=s?\b)|gradient(?=s?\b))(?!s?['\"]?\s?[:=\d])",
    BESIDE_HAN,
)
CHINESE = re.compile(
    r"(损失|梯度范数|梯度)[^\s，。；,;]{0,6}?\s?(?<![A-Za-z])(nan|inf)(?![A-Za-z])",
    re.IGNORECASE,
)
CHINESE_NAMES = {"损失": "loss", "梯度范数": "grad_norm", "梯度": "grad"}
ZERO = re.compile(r"0(?<![\d.]0)(?:\.0+)?(?![\d.eE]\d)")
# What autograd's anomaly mode prints. A suffix digit counts overloads, no more.
ANOMALY = re.compile(r"Function '([A-Za-z_:]\w{0,80}?)\d{0,3}' returned nan values")
# A norm that is exactly such a root counts groups of parameters instead of measuring:
# each has the norm 1 that stands for one that cannot be used (DeepSpeed's -1, squared).
TELLING = {"1.41421": "sqrt2", "1.73205": "sqrt3"}
NORMS = ("gnorm", "global_norm", "gradient_norm", "total_norm", "grad_norm")
# The metrics for which a number tells; nan and inf tell for all.
EXACT = {
    "zero": ("loss", "grad_norm"),
    **dict.fromkeys(TELLING.values(), ("grad_norm",)),
}
# "invalid values" are what torch.distributions calls them; Megatron counts NaN steps.
NOT_FINITE = re.compile(
    r"(?<![a-z_])(?:nans?(?! iterations:\s{1,4}0\b)|inf|not finite|non-?finite"
    r"|invalid values?)(?![a-z_])"
)
MAX_PAIRS = 100
MAX_FACETS = 20
MAX_WORDS = 8
CACHED_NAMES = 1000


@dataclass(frozen=True)
class Metrics:
    """The measured values of one line."""

    facets: list[str]
    count: int
    is_mapping: bool
    # Words besides the metrics' names and values.
    words: int

    @property
    def are_the_line(self) -> bool:
        """The line is values rather than words: its facets say all there is in it."""
        if self.words > MAX_WORDS and not self.is_mapping:
            return False
        return bool(self.count and (self.is_mapping or self.facets or self.count > 2))


NO_METRICS = Metrics([], 0, False, 0)


def says_nan(low: str) -> bool:
    """Whether anything is not finite there. `low`: the text in small letters."""
    return bool(NOT_FINITE.search(low))


def metrics_in(text: str) -> Metrics:
    """Facets: grad_norm_nan, nan_in_MulBackward; eval_loss_nan is loss_nan too.

    grad_norm_sqrt2 and grad_norm_sqrt3 are norms that measure nothing (`TELLING`).
    """
    pairs = METRIC.findall(text)
    low = text.lower()
    telling = may_have_facet(text)
    if telling:
        pairs += row_of(text)
    count = len(pairs)
    facets: dict[str, None] = {}
    # Most lines have numbers only, which the other forms never match.
    if "nan" in low or "inf" in low or "finite" in low:
        facets = dict.fromkeys(f"nan_in_{name}" for name in ANOMALY.findall(text))
        pairs += other_forms(text)
        telling = True
    for name, number in pairs[:MAX_PAIRS] if telling else ():
        state = _state(number)
        for metric in _names(name) if state else ():
            if metric in EXACT.get(state, (metric,)):
                facets[f"{metric}_{state}"] = None
    words = text.count(" ") + 1 - 2 * count
    return Metrics(list(facets)[:MAX_FACETS], count, text.startswith("{"), words)


class MetricsOfLines(dict[str, Metrics]):
    """Metrics of one paste's lines, each read once, when asked for."""

    def __missing__(self, text: str) -> Metrics:
        self[text] = metrics = metrics_in(text)
        return metrics


def may_have_facet(text: str) -> bool:
    """Whether a line can hold a facet: a cheap test, as most lines hold none."""
    low = text.lower()
    if "nan" in low or "inf" in low:
        return True
    if "norm" in low and any(number in low for number in TELLING):
        return True
    return ("loss" in low or "norm" in low) and ZERO.search(low) is not None


def row_of(text: str) -> list[tuple[str, str]]:
    """(metric, value) of the names that stand in a row with nothing but values."""
    pairs: list[tuple[str, str]] = []
    row: list[tuple[str, str]] = []
    end = -1
    for match in IN_ROW.finditer(text):
        if not BETWEEN.fullmatch(text, max(end, 0), match.start()) or end < 0:
            pairs += row if len(row) > 1 else []
            row = []
        row.append((match[1], match[2]))
        end = match.end()
    return pairs + (row if len(row) > 1 else [])


def other_forms(text: str) -> list[tuple[str, str]]:
    """(metric, value) where no sign stands between them."""
    pairs = BARE.findall(text)
    pairs += [(name, value) for value, name in REVERSED.findall(text)]
    pairs += [(CHINESE_NAMES[name], value) for name, value in CHINESE.findall(text)]
    return pairs


def _state(number: str) -> str:
    number = number.lower().lstrip("+-")
    if number.startswith(("nan", "non")):
        return "nan"
    if number.startswith("inf"):
        return "inf"
    return TELLING.get(number[:7], "") if float(number) else "zero"


@lru_cache(maxsize=CACHED_NAMES)
def _names(name: str) -> tuple[str, ...]:
    """The metric as called, and the family it belongs to."""
    own = re.sub(r"\W+", "_", name.lower().rsplit("/", 1)[-1]).strip("_")
    names = [own]
    if own.endswith("loss") and own != "loss":
        names.append("loss")
    if own.endswith(NORMS) and own != "grad_norm":
        names.append("grad_norm")
    return tuple(names)
