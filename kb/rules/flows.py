"""What of a program's values is used later, and whether a gradient could come back.

What is only compared, printed or kept in a file does harm to nobody's training.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Set

from kb.rules.values import Event, Value

# What takes a number and hands it on as no number; as none with a gradient.
ENDS = frozenset("any all isnan isfinite isinf len str print < <= > >= == !=".split())
CUTS = ENDS | frozenset(
    "item tolist numpy detach argmax argmin nonzero sign round floor ceil bincount "
    "one_hot float int bool shape size numel".split()
)
TELLS = re.compile(
    r"(?:.*\.)?(?:print|log|info|debug|warning|save|imsave|savefig|write|add_\w+"
    r"|log_\w+|set_postfix|set_description|imshow|plot)(?:\(\))?"
)
# Where what they get is used by something that is not seen.
SINKS = re.compile(r"\[return\]|\[do\]|=.*|.*\.backward|torch\.autograd\..*")


class Trace(List[Event]):
    """What happens, in its order."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        super().__init__(events)
        self.reached: Dict[bool, Set[int]] = {}

    def is_used(self, value: Optional[Value], is_trained: bool) -> bool:
        """Whether somebody takes it further; with `is_trained`, its gradient back too.
        Of what was not read to its end nobody knows."""
        if value is None or not self or self[-1].name != "[return]":
            return True
        if is_trained not in self.reached:
            given = [x for one in self if SINKS.fullmatch(one.name) for x in one.args]
            self.reached[is_trained] = reached(given, is_trained)
        return id(value.ident) in self.reached[is_trained]


def is_told(value: Value) -> bool:
    """Whether it is what a call gives back that only tells or keeps something."""
    return value.made is not None and bool(TELLS.fullmatch(value.made.name))


def reached(values: List[Value], is_trained: bool) -> Set[int]:
    """The objects that these were made of, up to where they are no numbers."""
    found: Set[int] = set()
    seen: Set[int] = set()
    ends = CUTS if is_trained else ENDS
    pending = list(values)
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        word = value.made.name.rpartition(".")[2] if value.made is not None else ""
        if word in ends or (is_trained and value.is_cut):
            continue
        found.add(id(value.ident))
        pending += value.inputs
    return found
