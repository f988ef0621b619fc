"""Laws of arithmetic as files: `fixtures/laws/<slug>/`, each with the run of its repro.

law.toml says what a law is and names its forms, repro.py shows it and runs each form,
`evidence/` has one run. What is said of a form follows from that run, judged anew. No
database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from kb.records import snippets
from kb.records.facts import NAME, SLUG
from kb.records.files import Problem, RecordError, facts_in, read_text
from kb.records.proven import judged
from kb.records.schema import (
    Key,
    both_languages,
    keys_problems,
    list_of,
    one_of,
    schema,
    table,
)
from portable import harness
from portable.nan_probe.known import FORMS

# Beside the folder of the records, and how a problem names a file there.
FOLDER = "laws"
FACTS_FILE, REPRO_FILE = "law.toml", "repro.py"
PROGRAM = "program"
FORM = (Key("name", NAME), Key("text", both_languages(200, one_line=True)))
KEYS = (
    Key("schema", schema),
    Key("slug", SLUG),
    Key("law", one_of(FORMS)),
    Key("title", both_languages(200, one_line=True)),
    Key("summary", both_languages(600, one_line=True)),
    Key("form", list_of(table(FORM), empty=False)),
)
# From the best to the worst.
FINITE = ("helps", "no_gradient", "changed")
OUTCOMES = (*FINITE, "not_in_gradient", "does_not_help")
Found = Iterator[tuple[str, str, str]]
Json = dict[str, Any]


@dataclass(frozen=True)
class LawFile:
    """What the files of one law say. `columns`: what its run showed."""

    facts: Json
    columns: Json


def read_laws(root: Path) -> list[LawFile] | None:
    """Every law beside the records in `root`; None where there is no folder.

    Raises RecordError with every problem.
    """
    folder = root.parent / FOLDER
    if not folder.is_dir():
        return None
    laws: list[LawFile] = []
    problems: list[Problem] = []
    for path in sorted(folder.iterdir()):
        found = list(read_law(path, laws)) if path.is_dir() else []
        where = f"../{FOLDER}/{path.name}"
        problems += [Problem(f"{where}/{file}", *rest) for file, *rest in found]
    if problems:
        raise RecordError(problems)
    return laws


def read_law(folder: Path, laws: list[LawFile]) -> Found:
    """(file, key, message) of each problem; a law without any is added to `laws`."""
    name = FACTS_FILE
    try:
        facts = facts_in(read_text(folder / name))
        name = REPRO_FILE
        source = read_text(folder / name)
    except (OSError, ValueError) as error:
        yield name, "", str(error)
        return
    problems = [(FACTS_FILE, *one) for one in keys_problems(facts, KEYS)]
    problems = problems or list(sense_problems(folder, facts, source, laws))
    if not problems:
        files = sorted((folder / "evidence").glob("*.json"))
        name = f"evidence/{files[0].name}" if len(files) == 1 else "evidence"
        try:
            laws.append(LawFile(facts, columns_of(facts, source, files)))
        except (KeyError, TypeError, AttributeError) as error:
            problems = [(name, "", _("is not evidence of a law: %r") % error)]
        except (OSError, ValueError) as error:
            problems = [(name, "", str(error))]
    yield from problems


def sense_problems(
    folder: Path, facts: Json, source: str, laws: list[LawFile]
) -> Found:
    if facts["slug"] != folder.name:
        yield FACTS_FILE, "slug", _("must be the folder's name, %s") % repr(folder.name)
    if any(law.facts["law"] == facts["law"] for law in laws):
        yield FACTS_FILE, "law", _("%s stands twice") % repr(facts["law"])
    try:
        checks = harness.read_repro(source)[1]
    except harness.ContractError as error:
        yield from ((REPRO_FILE, "", text) for text in error.errors)
        return
    names = [form["name"] for form in facts["form"]]
    for at, name in enumerate(names):
        if f"workaround_{name}" not in checks or name in names[:at]:
            message = _("names no check, or one of another form")
            yield FACTS_FILE, f"form[{at}].name", message
    if PROGRAM not in codes_of(source):
        yield REPRO_FILE, PROGRAM, _("is missing")
    known = {"workarounds": set(names), "diagnoses": set[str]()}
    for function, message in snippets.source_problems(source, **known):
        yield REPRO_FILE, function, message


def codes_of(source: str) -> dict[str, str]:
    """What a reader pastes: the program, and each form as `apply_<name>`."""
    module = snippets.parsed(source)
    every = snippets.functions(module) if module else []
    own = {f.name: snippets.code_of(source, f) for f in every if f.name == PROGRAM}
    return {**own, **snippets.snippets_in(source)}


def columns_of(facts: Json, source: str, files: list[Path]) -> Json:
    """What the run showed of program and forms. Raises ValueError, KeyError, …"""
    if len(files) != 1:
        raise ValueError(_("holds %d files; one run is wanted") % len(files))
    body = json.loads(read_text(files[0]))
    checks = {check["name"]: check for check in body["checks"]}
    status = judged(body, source)
    codes = codes_of(source)
    forms = []
    for form in facts["form"]:
        name, check = form["name"], checks[f"workaround_{form['name']}"]
        outcome, code = outcome_of(status[name], check), codes[f"apply_{name}"]
        forms.append(form | shown_by(check) | {"code": code, "outcome": outcome})
    trigger = checks["trigger"]
    node = trigger["observations"].get("node", "").rstrip("0123456789")
    program = shown_by(trigger, "operands") | {"code": codes[PROGRAM]}
    return {
        "torch": body["build"]["raw"],
        "device": body["device"]["class"],
        "nodes": [node] if node else [],
        "program": program,
        "forms": sorted(forms, key=lambda form: OUTCOMES.index(form["outcome"])),
    }


def outcome_of(status: str, check: Json) -> str:
    """A word of OUTCOMES. Raises ValueError where the form did not run."""
    if status == "does_not_help":
        is_finite = all(map(math.isfinite, numbers_in(check, "value")))
        return "not_in_gradient" if is_finite else status
    if (check["reason"] or "").startswith("changed:"):
        return "changed"
    if status != "verified":
        raise ValueError(_("%s did not run") % check["name"])
    gradient = numbers_in(check, "gradient")
    return "helps" if not gradient or any(gradient) else "no_gradient"


def numbers_in(check: Json, name: str) -> list[float]:
    numbers: list[float] = harness.decode(check["observations"])[name]
    return numbers


def shown_by(check: Json, *more: str) -> dict[str, list[str]]:
    """Numbers as readers see them: four digits, and no sign before 0."""
    return {
        key: [f"{number + 0.0:.4g}" for number in numbers_in(check, key)]
        for key in ("value", "gradient", *more)
    }
