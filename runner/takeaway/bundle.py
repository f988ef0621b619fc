"""One Python file that carries several: reviewed sources, the harness, a program.

Every part stands in it unchanged, as a text, under its digest; `programs/start.py` at
the end checks them, lays them into a folder and starts the program. So the same bytes
run here and there, and a harness that runs alone needs no other form.
"""

from __future__ import annotations

import ast
import json
import pprint
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kb import badges, wording
from kb.addresses import absolute
from kb.choices import LANGS, Upstream
from kb.findings.checks import title_of
from kb.languages import Text, in_each_language
from kb.models import Record, Repro
from portable import harness

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
# PEP 723 allows one such block in a file; a second one is read inside texts, too.
BLOCK = re.compile(r"^# /// [a-zA-Z0-9-]+$", re.MULTILINE)
Json = dict[str, Any]


class Carrier:
    """A file to take away. `notes`: what stands on top, one line each.

    `program`: of `programs/`, what is started; `end`: what stands at the end and makes
    something of the parts. `python`, `dependencies`: what it needs (PEP 723).
    """

    program: str
    end = "start.py"
    notes: Sequence[str]
    python = ">=3.8"
    dependencies: Sequence[str] = ("torch",)

    def parts(self) -> dict[str, str]:
        """Path below the folder -> text; what a reader looks for stands first."""
        raise NotImplementedError

    def text(self) -> str:
        parts = self.parts()
        digests = {name: harness.source_digest(text) for name, text in parts.items()}
        lines = [
            "#!/usr/bin/env python3",
            "# -*- coding: utf-8 -*-",
            *(f"# {in_a_line(note)}" for note in self.notes),
            "# /// script",
            f"# requires-python = {json.dumps(self.python)}",
            f"# dependencies = {json.dumps(self.dependencies)}",
            "# ///",
            f"PROGRAM = {self.program!r}",
            f"DIGESTS = {pprint.pformat(digests, width=100)}",
            "PARTS = {}",
            *(f"PARTS[{name!r}] = {literal(text)}" for name, text in parts.items()),
            (PROGRAMS / self.end).read_text("utf-8").rstrip("\n"),
        ]
        return "\n".join(lines) + "\n"


class Bundle(Carrier):
    """Repros with what runs and judges them.

    `modules`: of `programs/`, what the program imports besides `carried`; `packages`:
    of the site, such as "kb/rules/sarif.py".
    """

    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    def __init__(self, repros: Iterable[Repro]) -> None:
        self.repros = list(repros)

    def parts(self) -> dict[str, str]:
        found = {path_of(repro): repro.source for repro in self.repros}
        manifest = json.dumps(self.manifest(), ensure_ascii=False, indent=1)
        found["manifest.json"] = manifest + "\n"
        for name in (self.program, "carried", *self.modules):
            found[f"{name}.py"] = program(name)
        modules = (*modules_of("portable/harness"), *self.packages)
        return found | carried_modules(modules)

    def manifest(self) -> Json:
        return {
            "repros": [self.about(repro) for repro in self.repros],
            "words": words(),
        }

    def about(self, repro: Repro) -> Json:
        """What the program knows of a repro."""
        return about(repro)


def carried_modules(paths: Iterable[str]) -> dict[str, str]:
    """Modules of the site that need nothing of it, with the packages around them."""
    found = {}
    for path in paths:
        for folder in reversed(Path(path).parents[:-1]):
            package = (folder / "__init__.py").as_posix()
            found[package] = (ROOT / package).read_text("utf-8")
        found[path] = (ROOT / path).read_text("utf-8")
    return found


def modules_of(folder: str, but: Sequence[str] = ()) -> list[str]:
    found = (path.name for path in (ROOT / folder).glob("*.py"))
    return [f"{folder}/{name}" for name in sorted(found) if name not in but]


def program(name: str) -> str:
    return (PROGRAMS / f"{name}.py").read_text("utf-8")


def path_of(repro: Repro) -> str:
    return f"{repro.record_id}/{repro.name}.py"


def about(repro: Repro) -> Json:
    record = repro.record
    return {
        "record": record.id,
        "name": repro.name,
        "path": path_of(repro),
        "digest": repro.digest,
        "device": repro.device,
        "fidelity": repro.fidelity,
        "upstream": record.upstream,
        "code": code_of(repro),
        "costs": {row["name"]: dict(row["cost"]) for row in record.workarounds},
        "titles": titles_of(record),
        "title": seen({lang: getattr(record, f"title_{lang}") for lang in LANGS}),
        "page": absolute(f"/{record.id}") if absolute("") else "",
    }


def code_of(repro: Repro) -> dict[str, str]:
    """The code of each workaround that is a function of this source."""
    return {
        entry["name"]: entry["apply"]
        for entry in repro.record.workarounds
        if f"def apply_{entry['name']}(" in repro.source
    }


def titles_of(record: Record) -> Json:
    """What to call each workaround, by its name and by language."""
    return {
        row["name"]: seen(title_of(record, f"workaround_{row['name']}"))
        for row in record.workarounds
    }


def seen(text: Text | Mapping[str, str]) -> dict[str, str]:
    """Each on one line, and nothing in it that a terminal would obey."""
    return {lang: in_a_line(text[lang]) for lang in LANGS}


def in_a_line(text: str) -> str:
    return harness.visible(" ".join(text.split()))


def words() -> Json:
    """The site's wording, so that a file says what the page says."""
    return {
        **each(badges.SENTENCE_WORDS),
        "workarounds": {
            status: (shape, dict(text))
            for status, (shape, text) in wording.WORKAROUNDS.items()
        },
        "upstream": {
            state.value: in_each_language(partial(str, state.label))
            for state in Upstream
        },
        "not_run": {lang: wording.OVER_TIME.line(lang) for lang in LANGS},
        "conclusion": dict(wording.CONCLUSION),
        "clears_no_gpu": dict(wording.CLEARS_NO_GPU),
    }


def each(texts: Mapping[str, Any]) -> Json:
    """A table of texts, or of such tables, as data."""
    return {
        name: dict(text) if isinstance(text, Text) else each(text)
        for name, text in texts.items()
    }


def literal(text: str) -> str:
    """Python source of this very text; as it is, wherever a raw literal can hold it."""
    raw = f"r'''{text}'''"
    if not BLOCK.search(raw) and is_literal(raw, text):
        return raw
    lines = "\n".join(f"    {line!a}" for line in text.splitlines(keepends=True))
    return f"(\n{lines}\n)"


def is_literal(source: str, text: str) -> bool:
    try:
        return bool(ast.literal_eval(source) == text)
    except (SyntaxError, ValueError):
        return False
