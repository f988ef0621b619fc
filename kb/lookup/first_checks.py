"""First checks, whatever the cause, by the facts and in the words of the trainer."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from kb.choices import FRAMEWORKS
from kb.lookup.facts import Facts
from kb.lookup.hardware import ENV_LINE
from kb.records import tellers

Json = dict[str, Any]
CHECKS: list[Json] = tomllib.loads(
    (Path(__file__).parent / "first_checks.toml").read_text("utf-8")
)["check"]
MOST = 4
# They fit every paste, so they come last and make a list long enough: where something
# is not finite, and where nothing is.
ALWAYS = {True: ("weights", "where", "probe"), False: ("moves", "reference", "probe")}
# Trainers that are built on another and take its settings.
SPEAKS_AS = {
    "trl": "transformers",
    "unsloth": "transformers",
    "ms-swift": "transformers",
    "llamafactory": "transformers",
}


def first_checks(facts: Facts) -> list[Json]:
    fitting = [row for row in CHECKS if fits(row, facts)]
    always = [row for row in fitting if row["name"] in ALWAYS[facts.says_nan]]
    chosen = [*[row for row in fitting if "when" in row][: MOST - 1], *always][:MOST]
    # The probe names what no other check does.
    if always[-1] not in chosen:
        chosen[-1] = always[-1]
    return [document(row, facts) for row in chosen]


def fits(row: Json, facts: Facts) -> bool:
    speaks, never = (
        any(tellers.holds(one, facts) is True for one in row.get(key, ()))
        for key in ("when", "never")
    )
    return (speaks or "when" not in row) and not never


def document(row: Json, facts: Facts) -> Json:
    numbers = {"growth": f"{facts.numbers.get('growth', 0):.4g}"}
    trainer, code = code_for(row["code"], facts)
    return {
        "name": row["name"],
        "title": filled(row["title"], numbers),
        "text": filled(row["text"], numbers),
        "for": trainer,
        "code": code,
    }


def filled(text: Json, numbers: Json) -> dict[str, str]:
    return {lang: said.format(**numbers) for lang, said in text.items()}


def code_for(code: dict[str, str], facts: Facts) -> tuple[str, str]:
    """("transformers", its lines); ("", plain ones) where none is recognised."""
    for trainer in facts.values.get("trainer", {}):
        for name in (trainer, SPEAKS_AS.get(trainer, "")):
            if name in code:
                return name, code[name]
    return "", code["plain"]


def frameworks(facts: Facts) -> list[str]:
    """Those whose lines a reader can use: what the log names before what is only
    installed, and what is built on another before that one.
    """
    trainers = facts.values.get("trainer", {})
    lines = {SPEAKS_AS[name]: at for name, at in trainers.items() if name in SPEAKS_AS}
    lines |= trainers

    def rank(name: str) -> tuple[bool, bool, int]:
        known = list(FRAMEWORKS).index(name)
        return lines[name] == ENV_LINE, name not in SPEAKS_AS, known

    return sorted(lines.keys() & FRAMEWORKS.keys(), key=rank)
