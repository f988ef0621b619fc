"""A record as `new_record` makes it, and the same with every open place filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from django.core.management import call_command

from kb.records import translation
from kb.records.files import read_folder

SLUG = "root-of-negative-nan"
LINE = "RuntimeError: Function 'SqrtBackward0' met a negative radicand in block 3"
PASTED = f"""\
[rank2]: Traceback (most recent call last):
[rank2]:   File "/data/run7/train.py", line 88, in <module>
[rank2]: {LINE.replace("3", "11")}
"""
# For tests in which torch only says who it is.
PLAIN = """\
def measure(values):
    return {"nonfinite": sum(v != v for v in values), "norm": sum(map(abs, values))}


def compute(is_triggered):
    print("computing")
    return [1.0, float("nan")] if is_triggered else [1.0, 2.0]


def control():
    return measure(compute(False))


def detector():
    return measure([float("nan")])


def trigger():
    return measure(compute(True))


def apply_take_abs(values):
    '''`values` without what is not a number.'''
    return [2.0 if value != value else value for value in values]


def workaround_take_abs():
    return measure(apply_take_abs(compute(True)))
"""


def prepare(folder: Path) -> None:
    """Folders for records and pasted logs, with the answers of two others."""
    (folder / "issues").mkdir(exist_ok=True)
    (folder / "logs" / "known").mkdir(parents=True, exist_ok=True)
    answers = folder / "logs" / "known.toml"
    if not answers.exists():
        answers.write_text('[known]\na-first = "NAN-0050"\nzebra = "NAN-0051"\n')


def make(folder: Path, *options: str) -> Path:
    """A new record below `folder`/issues with its stub below `folder`/logs."""
    prepare(folder)
    call_command("new_record", SLUG, *places(folder), *options, stdout=StringIO())
    return folder / "issues" / SLUG


def places(folder: Path) -> Iterable[str]:
    return str(folder / "issues"), "--logs", str(folder / "logs")


def fill_in(folder: Path, plain: bool = True) -> Path:
    """Write what is open. `plain`: a repro that needs no torch."""
    record = folder / "issues" / SLUG
    for path in [*record.glob("*.*"), folder / "logs" / "known" / f"{SLUG}.log"]:
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"  # TODO.*", "", text).replace("todo_name", "take_abs")
        text = text.replace("todo_topic", "sqrt").replace(FENCE, LINE)
        text = text.replace("https://TODO", "https://example.org/1")
        text = text.replace('TODO: title"', 'The root of a negative number is NaN"')
        text = text.replace("TODO：标题", "负数的平方根为 NaN")
        text = re.sub(r'text = "TODO: one literal.*"', f'text = "{LINE}"', text)
        path.write_text(re.sub(r"TODO(?:: |：)", "", text), encoding="utf-8")
    (folder / "logs" / "known" / f"{SLUG}.log").write_text(PASTED)
    if plain:
        repro = record / "repro.py"
        head, mark, _rest = repro.read_text().partition('# ///\n"""')
        repro.write_text(f'{head}# ///\n"""A root."""\n\n\n{PLAIN}')
        assert mark
    say_in_step(record)
    return record


def say_in_step(record: Path) -> None:
    """Name the English text that the Chinese was made from, as an author does last."""
    file, _problems = read_folder(record)
    named = f'translated_from = {{en = "{translation.digest(file, "en")}"}}\n'
    path = record / "issue.toml"
    head, mark, rest = path.read_text().partition("environment = ")
    path.write_text(f"{head}{named}{mark}{rest}")


FENCE = "TODO: literal lines of a real log, the same in both articles"
