"""The phases of a run as ticks of a ruler, under way or finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from kb import badges
from kb.badges import Badge
from kb.languages import LIST_COMMA, current_lang
from runner.models import Run
from runner.pages.observations import group_of
from runner.runs.live_log import Step

GATES = ("requirements", "reference", "control", "detector", "trigger")


@dataclass(frozen=True)
class Phase:
    """One tick of the ruler. `state`: done, on or wait; `took` seconds once done."""

    name: str
    label: str
    state: str
    out: str
    mark: Badge | None = None
    took: float | None = None


def planned(checks: Iterable[str]) -> list[str]:
    """The groups in which the checks of a repro are executed, in order."""
    names = ["requirements", *checks]
    phases = [name for name in GATES if name in names]
    for kind in ("workaround", "refuted", "variant"):
        if any(name.startswith(f"{kind}_") for name in names):
            phases.append(kind)
    return [*phases, "verdict"]


def label_of(phase: str) -> str:
    return {
        "requirements": _("requirements"),
        "reference": _("reference"),
        "control": _("control"),
        "detector": _("detector"),
        "trigger": _("trigger"),
        "workaround": _("workarounds"),
        "refuted": _("refuted"),
        "variant": _("variants"),
        "verdict": _("verdict"),
    }.get(phase, phase)


def detail_of(phase: str) -> str:
    """What of a group is under way: "2/5" of "trigger 2/5", else the check's name."""
    return phase.removeprefix(group_of(phase)).strip("_ ")


def run_phases(
    run: Run, body: dict[str, Any] | None, steps: Sequence[Step] = ()
) -> Iterator[Phase]:
    """Of evidence `body`, or of a run under way: what its steps have shown so far."""
    variants = [] if run.parameters else run.repro.header.get("variants") or {}
    names = planned([*run.repro.checks, *(f"variant_{name}" for name in variants)])
    if body:
        yield from finished_phases(names, body)
        return
    at = group_of(run.phase) if run.phase else ""
    current = names.index(at) if at in names else -1
    started = run.state == Run.State.RUNNING
    for number, name in enumerate(names):
        if started and number == max(current, 0):
            under_way = detail_of(run.phase) or _("running")
            yield Phase(name, label_of(name), "on", under_way)
        elif number < current:
            yield ended_phase(name, steps)
        else:
            yield Phase(name, label_of(name), "wait", _("waiting"))


def ended_phase(name: str, steps: Sequence[Step]) -> Phase:
    """A phase that the run has left; "done" where its log does not say how it went."""
    ended = [step for step in steps if group_of(step.phase) == name and step.outcome]
    if not ended:
        return Phase(name, label_of(name), "done", _("done"))
    checks = [
        {
            "name": step.phase.partition(" ")[0],
            "outcome": step.outcome,
            "duration_s": (step.ended or 0) - step.began,
        }
        for step in ended
    ]
    return finished_phase(name, checks, reached=True)


def finished_phases(names: list[str], body: dict[str, Any]) -> Iterator[Phase]:
    checks = [*body["checks"], *pasted_checks(body)]
    for name in names:
        if name == "verdict":
            duration = body["duration_s"]
            yield Phase(
                name,
                label_of(name),
                "done",
                _("written, %(seconds).1f s") % {"seconds": duration},
            )
            continue
        mine = [item for item in checks if group_of(item["name"]) == name]
        yield finished_phase(name, mine, reached=bool(checks))


def pasted_checks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The workarounds of the variants, under the variant's name."""
    for variant, found in body.get("variants", {}).items():
        for item in found["checks"]:
            if group_of(item["name"]) == "workaround":
                yield {**item, "name": f"variant_{variant} {item['name']}"}


def finished_phase(name: str, checks: list[dict[str, Any]], *, reached: bool) -> Phase:
    if not checks:
        met = name == "requirements" and reached
        out = _("met") if met else _("not reached")
        return Phase(name, label_of(name), "done" if met else "wait", out)
    took = sum(item.get("duration_s") or 0 for item in checks)
    return replace(outcome_phase(name, checks), took=took)


def outcome_phase(name: str, checks: list[dict[str, Any]]) -> Phase:
    lang = current_lang()
    outcomes = {item["outcome"] for item in checks}
    if len(outcomes) > 1:
        counts = LIST_COMMA[lang].join(
            f"{badges.outcome(name, outcome, lang)} "
            f"{sum(item['outcome'] == outcome for item in checks)}/{len(checks)}"
            for outcome in sorted(outcomes)
        )
        return Phase(name, label_of(name), "done", counts)
    (outcome,) = outcomes
    words = badges.outcome(name, outcome, lang)
    if len(checks) > 1 or name in ("workaround", "refuted", "variant"):
        words = f"{words} {len(checks)}/{len(checks)}"
    mark = badges.of_check(name, outcome, lang)
    return Phase(name, label_of(name), "done", words, mark)
