"""Cells of a sweep: whether the bug appears at other values."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .checks import cell_checks, check_order
from .driver import Follower, Run
from .fields import Header
from .judge import gate_of, judge
from .parameters import at_values, choose, shown_settings
from .spec import Start
from .values import encode


class Cells:
    """A repro at many values, one after the other: what a sweep is made of.

    The requirements are checked once, and in each cell only what gives a verdict:
    reference, control, detector and trigger. `unmet`: verdict and reason where the
    requirements end it all, else None. Raises ContractError and Cancelled.
    """

    def __init__(
        self,
        source: str,
        start: Start,
        *,
        trials: Optional[int] = None,
        on_event: Optional[Callable[[str, str], None]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> None:
        self._each = Follower(on_event, cancelled)
        self._run = Run(source, start)
        self._trials = trials or self._run.header.trials
        self._header = self._run.header
        self._names = cell_checks(self._run.names)
        first = self._each(self._run, "requirements", 0, "requirements")
        self.unmet = gate_of("requirements", first["outcome"], first["reason"])

    def at(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        """The cell of these values: verdict, reason, hits, trials and its checks."""
        run = copy.copy(self._run)
        run.checks, run.parameters = [], choose(self._header, values)
        run.header = at_values(self._header, run.parameters)
        where = shown_settings(values)
        run.in_turn(
            check_order(self._names, self._trials)[1:],
            lambda name, trial: self._each(run, name, trial, where),
        )
        return judged_cell(self._header, self._names, values, run.checks)

    def evidence(self, name: str) -> Dict[str, Any]:
        """What is the same in all cells: repro, build, device."""
        found = self._run.evidence(name)
        same = ("repro", "build", "device", "harness")
        return {key: encode(found[key]) for key in same}


CELL_FIELDS = ("name", "trial", "outcome", "reason", "observations")


def judged_cell(
    header: Header,
    names: Sequence[str],
    values: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
) -> Dict[str, Any]:
    """A cell as sweeps keep it; pure, so that a stored one can be judged again."""
    found = judge(header, checks, names, choose(header, values))
    cell = {
        "at": dict(values),
        "verdict": found.verdict,
        "reason": found.reason,
        "hits": found.hits,
        "trials": found.trials,
        "checks": [{key: check[key] for key in CELL_FIELDS} for check in checks],
    }
    return dict(encode(cell))
