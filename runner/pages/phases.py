"""The phases of a run as ticks of a ruler, under way or finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from kb.choices import Outcome
from kb.languages import current_lang
from runner.models import Run
from runner.pages.observations import group_of, marks
from runner.wording import verdicts

GATES = ("requirements", "reference", "control", "detector", "trigger")


@dataclass(frozen=True)
class Phase:
    """One tick of the ruler. `state`: done, on or wait."""

    name: str
    label: str
    state: str
    out: str
    css: str = ""
    shape: str = ""
    shape_css: str = ""


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


def run_phases(run: Run, body: dict[str, Any] | None) -> Iterator[Phase]:
    variants = [] if run.parameters else run.repro.header.get("variants") or {}
    names = planned([*run.repro.checks, *(f"variant_{name}" for name in variants)])
    if body:
        yield from finished_phases(names, body)
        return
    at = group_of(run.phase) if run.phase else ""
    current = names.index(at) if at in names else -1
    started = run.state == Run.State.RUNNING
    for number, name in enumerate(names):
        state = "done" if number < current else "wait"
        if started and number == max(current, 0):
            state = "on"
        under_way = detail_of(run.phase) or _("running")
        out = {"done": _("done"), "on": under_way}
        yield Phase(name, label_of(name), state, out.get(state, _("waiting")))


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
    lang = current_lang()
    if not checks:
        met = name == "requirements" and reached
        out = _("met") if met else _("not reached")
        return Phase(name, label_of(name), "done" if met else "wait", out)
    outcomes = {item["outcome"] for item in checks}
    if len(outcomes) > 1:
        counts = ("、" if lang == "zh" else ", ").join(
            f"{verdicts.outcome(name, outcome, lang)} "
            f"{sum(item['outcome'] == outcome for item in checks)}/{len(checks)}"
            for outcome in sorted(outcomes)
        )
        return Phase(name, label_of(name), "done", counts)
    (outcome,) = outcomes
    words = verdicts.outcome(name, outcome, lang)
    if name == "requirements" and outcome == Outcome.CLEAN:
        words = _("met")
    if len(checks) > 1 or name in ("workaround", "refuted", "variant"):
        words = f"{words} {len(checks)}/{len(checks)}"
    css, shape, shape_css = marks(name, outcome)
    return Phase(name, label_of(name), "done", words, css, shape, shape_css)
