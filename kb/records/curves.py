"""A curve beside a record: what training does with the bug and without it, as it ran.

`curve/` in the folder of a record holds curve.toml, which names a series over training
steps, and one run on one build: of `curve.py` there, which is no repro of the record,
or of a repro, whose evidence has the series. No database.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from kb.records.proven import judged
from kb.records.schema import Key, both_languages, keys_problems, matching, one_of
from portable import harness

FOLDER = "curve"
FACTS_FILE, PROGRAM_FILE = "curve.toml", "curve.py"
LINEAR, LOG = "linear", "log"
# The checks whose series are drawn.
SIDES = ("trigger", "control")
FEWEST_STEPS, MOST_STEPS = 10, 200
SHORT = both_languages(80, one_line=True)
KEYS = (
    Key("build", matching(r"[a-z0-9][a-z0-9._-]{0,60}", "2.13.0-cpu", 61)),
    # The repro whose evidence has the series; left out: curve.py has it.
    Key("repro", matching(r"repro(_[a-z0-9_]+)?", "repro", 60), optional=True),
    # The observation: one value for each training step, before or after it.
    Key("series", matching(r"[a-z][a-z0-9_]*", "loss", 60)),
    Key("axis", SHORT),
    Key("scale", one_of((LINEAR, LOG))),
    *(Key(side, SHORT) for side in SIDES),
    Key("says", both_languages(200, one_line=True)),
)
Json = dict[str, Any]
Found = Iterator[tuple[str, str, str]]


def curve_files(folder: Path) -> dict[str, bytes]:
    """What a record's folder holds of a curve, by name."""
    place = folder / FOLDER
    paths = sorted(path for path in place.glob("*") if path.is_file())
    return {f"{FOLDER}/{path.name}": path.read_bytes() for path in paths}


def read_curve(folder: Path, repros: Mapping[str, str], curve: Json) -> Found:
    """(file, key, message) of each problem; without any, `curve` gets what is drawn."""
    place = folder / FOLDER
    if not place.is_dir():
        return
    name = f"{FOLDER}/{FACTS_FILE}"
    try:
        facts = tomllib.loads((place / FACTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield name, "", str(error)
        return
    problems = list(keys_problems(facts, KEYS))
    yield from ((name, *one) for one in problems)
    if not problems:
        try:
            curve |= facts | ran(folder, facts, repros)
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield FOLDER, "", str(error)


def ran(folder: Path, facts: Json, repros: Mapping[str, str]) -> Json:
    """What the run showed. Raises ValueError, OSError, KeyError or TypeError."""
    own, source = "", repros.get(facts.get("repro", ""), "")
    path = folder / "evidence" / f"{facts.get('repro')}-{facts['build']}.json"
    if "repro" not in facts:
        path = folder / FOLDER / f"{facts['build']}.json"
        own = source = (folder / FOLDER / PROGRAM_FILE).read_text(encoding="utf-8")
    body = json.loads(path.read_text(encoding="utf-8"))
    judged(body, source)
    checks = {check["name"]: check["observations"] for check in body["checks"]}
    steps = {side: harness.decode(checks[side])[facts["series"]] for side in SIDES}
    series_problem(steps, facts["scale"])
    return {
        # JSON has no NaN: what is no number is kept as it is written.
        "steps": {
            side: [one if math.isfinite(one) else str(one) for one in values]
            for side, values in steps.items()
        },
        "device": body["device"]["class"],
        "digest": body["digest"],
        "program": own,
    }


def series_problem(steps: Mapping[str, list[float]], scale: str) -> None:
    """Raises ValueError where this cannot be drawn as it is meant."""
    counts = sorted({len(values) for values in steps.values()})
    if len(counts) > 1 or not FEWEST_STEPS <= counts[0] <= MOST_STEPS:
        values = {"n": counts, "least": FEWEST_STEPS, "most": MOST_STEPS}
        raise ValueError(
            _("%(n)s steps; as many of both, %(least)d to %(most)d") % values
        )
    if scale == LOG and any(one <= 0 for values in steps.values() for one in values):
        raise ValueError(_("a logarithm needs values above 0"))
