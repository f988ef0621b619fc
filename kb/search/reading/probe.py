"""What nan_probe.py prints, read for what it names: who made the first NaN or Inf."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from portable.nan_probe.known import UNKNOWN

HEADER = re.compile(
    r"nan_probe \d{1,3}: (?:first non-finite value|nothing (?:found|watched))"
)
# The rows of the report, those of its first version with them.
ROW = re.compile(
    r"(?:^|\s)(step|direction|module|op|cause|line|called at|dtype|shape|device|value"
    r"|inputs|made from|then|reached|other ranks|rerun|compiled|hidden|loss_scale|rank"
    r"|torch|watched|not watched|not finite, without effect|skipped|not read"
    r"|output|before it|repeated|diverges|indices|heals|law|slice|known|of this law"
    r"|class|capture|next|no gradient)"
    r":\s(.{1,1000})"
)
OVERLOAD = re.compile(r"(?<=Backward)\d{1,3}$")
NANS = re.compile(r"nan [1-9]")
OP = re.compile(r"[A-Za-z_][\w:.]{1,120}")
# Who made it, by how the report's cause begins: the facts that tellers ask.
MAKERS = {
    "an input": "input",
    "a weight or buffer that was not finite before the first": "loaded",
    "a weight or buffer": "weight",
    "a constant": "constant",
    "memory of torch.empty": "unwritten",
}
OPTIMIZER = "optimizer"
# Rows that say on what it ran; the words of all others are the probe's own.
STATED = {"line", "called at", "module", "dtype", "device", "value", "compiled"}
STATED |= {"loss_scale", "torch"}
# Of another value in the same report: "nan of PowBackward0 (aten.mul.Tensor), …".
OTHER = re.compile(r"(nan|inf) of ([A-Za-z_][\w:.]{1,120})")
ATEN = re.compile(r"aten\.(\w{1,80})")
# Source that the report quotes: "model.py:12 in forward: y = x.sqrt()".
QUOTED = re.compile(r":\d{1,7} in [\w<>]{1,80}: ([^;]{1,300})")
# A softmax is NaN of -inf where all of a row is -inf.
SHUT_ROW = "fully masked row, softmax attention mask -inf"


@dataclass
class Probe:
    """Facets by the line they stood on, and messages as torch would word them.

    `words`: what it is about, in the words of records; `law` and `slice`: the line
    that names how the value was made, and the name; `maker`: who did, if no op.
    """

    facets: dict[str, int] = field(default_factory=dict)
    messages: list[tuple[int, str]] = field(default_factory=list)
    words: str = ""
    law: tuple[int, str] = (0, "")
    slice: tuple[int, str] = (0, "")
    maker: str = ""

    @property
    def is_explained(self) -> bool:
        """Whether it tells by which law the value was made, or that no op made it."""
        return bool(self.maker) or self.law[1] not in ("", UNKNOWN)


class Inside:
    """Whether a line belongs to a report, asked line by line."""

    def __init__(self) -> None:
        self.goes_on = False

    def __call__(self, text: str) -> bool:
        here = bool(HEADER.search(text) or (self.goes_on and ROW.search(text)))
        self.goes_on = here
        return here


def read_probe(lines: Iterable[tuple[int, str]]) -> Probe:
    """Its lines: facets are nan_in_<Op>Backward, probe_backward, dtype_bfloat16, …"""
    report = Probe()
    fields = fields_of(lines)
    state = "nan" if NANS.match(fields.get("value", (0, ""))[1]) else "inf"
    ops = []
    op = OP.match(fields.get("op", (0, ""))[1])
    if op:
        ops.append((fields["op"][0], state, op[0]))
    number, value = fields.get("made from", (0, ""))
    found = OTHER.findall(value)
    ops += [(number, kind, node) for kind, node in found if "Backward" in node]
    for number, kind, name in ops:
        report.facets.setdefault(f"{kind}_in_{OVERLOAD.sub('', name)}", number)
        if "Backward" in name:
            message = f"Function '{name}' returned {kind} values in its output."
            report.messages.append((number, message))
    for name, (number, value) in fields.items():
        for facet in facets_of(name, value):
            report.facets.setdefault(facet, number)
    report.words = words_of(fields)
    report.law = fields.get("law", report.law)
    report.slice = fields.get("slice", report.slice)
    report.maker = maker_in(fields.get("cause", (0, ""))[1])
    if not report.is_explained:
        report.facets["probe_unexplained"] = fields.get("op", (0, ""))[0]
    return report


def says_only_itself(text: str) -> bool:
    """A row whose words are the probe's own, and say nothing of the training."""
    row = ROW.search(text)
    return row is not None and row[1] not in STATED


def fields_of(lines: Iterable[tuple[int, str]]) -> dict[str, tuple[int, str]]:
    """Row -> the line it stood on first, and what it says there."""
    fields: dict[str, tuple[int, str]] = {}
    for number, text in lines:
        row = ROW.search(text)
        if row:
            fields.setdefault(row[1], (number, row[2].strip()))
    return fields


def facets_of(name: str, value: str) -> list[str]:
    word = value.split()[0].lower().rstrip(",;") if value.split() else ""
    if name == "direction" and word in ("forward", "backward", OPTIMIZER):
        return [f"probe_{word}"]
    if name == "no gradient":
        return ["probe_silent"]
    if name == "cause":
        return [f"probe_{maker_in(value) or 'op' * value.startswith('the op')}"]
    if (name, word) == ("capture", "none:"):
        return ["probe_uncaptured"]
    if name == "dtype":
        return [f"dtype_{word.removeprefix('torch.')}"]
    if name == "rerun" and word in ("same", "rounding", "differs"):
        return [f"rerun_{word}"]
    return ["compiled"] if (name, word) == ("compiled", "yes") else []


def maker_in(cause: str) -> str:
    kinds = (kind for begin, kind in MAKERS.items() if cause.startswith(begin))
    return next(kinds, "")


def words_of(fields: dict[str, tuple[int, str]]) -> str:
    """Ops by their names, modules by their classes, and the lines that are quoted."""
    texts = {name: value for name, (_number, value) in fields.items()}
    told = [texts.get(name, "") for name in ("op", "made from")]
    words = [name.strip("_") for text in told for name in ATEN.findall(text)]
    words.append(texts.get("module", ""))
    if texts.get("direction") == "backward":
        words.append("gradient")
    # An optimizer's line is the one that calls it.
    is_late = texts.get("direction") == OPTIMIZER
    for name in ("made from",) if is_late else ("line", "called at", "made from"):
        words += QUOTED.findall(texts.get(name, ""))
    if "softmax" in told[0] and told[1].startswith("inf"):
        words.append(SHUT_ROW)
    return "\n".join(dict.fromkeys(word for word in words if word))
