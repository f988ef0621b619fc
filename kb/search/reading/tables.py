"""Figures that a program prints in columns: tables with a heading, and name and value.

YOLO's epochs, results.csv, the table of a notebook, those of RL libraries and wandb.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kb.search.reading.symptom_facets import CHINESE_NAMES, NUMBER

CELL = re.compile(r"[^\s,]+")
# A row begins with its step or epoch, or with a value.
COUNTED = re.compile(rf"\W*\d|{NUMBER}", re.IGNORECASE)
LOSSES = re.compile(r"\b(?:box|cls|dfl|obj|\w*loss)\b.*\b(?:box|cls|dfl|obj|\w*loss)\b")
# A notebook's heading, of which a copy may have lost the tabs.
NOTEBOOK = re.compile(r"^\s*(?:step|epoch)\s+training[ _]loss\b")
LOSS_NAME = re.compile(r"(?:^|[ _/])loss$")
# "wandb: train/loss nan", "|    value_loss    | 1.2   |", "10:02:13: train_loss -0.5"
LISTED = re.compile(
    rf"^\s*+(?:wandb:\s++([\w/.-]{{2,60}})\s++|\|\s*+([\w/. -]{{2,40}}?)\s*+\|\s*+"
    rf"|[\d: .-]*+((?:train|val)_loss)\s)({NUMBER})\s*+\|?\s*+$",
    re.IGNORECASE,
)
# "loss train: 1.23, val: n/a"
LOSS_OF_TRAINING = re.compile(rf"\bloss train: ({NUMBER})", re.IGNORECASE)
CHINESE = re.compile(
    rf"(?<!验证)(?<!测试)(损失|梯度范数)值?\s{{0,2}}[:：=|]?\s{{0,4}}({NUMBER})",
    re.IGNORECASE,
)
SEPARATORS = ("|", "\t")
# A file's heading: short names between commas, which a row may leave empty.
CSV = re.compile(r'"?+[\w./ -]{0,60}+"?+(?>(?:,\s*+"?+[\w./ -]{0,60}+"?+)+)')


class Table(NamedTuple):
    """`separator`: between cells; "" for blanks and commas."""

    separator: str
    names: tuple[str, ...]

    def row(self, line: str) -> list[tuple[str, str]]:
        """(name, value) of a line; what stands behind the columns is a bar's.

        Nothing of a line that begins with a name: YOLO validates each class below.
        """
        found = cells(line, self.separator)
        if not (found and COUNTED.match(found[0])):
            return []
        return list(zip(self.names, found, strict=False))


def heading_of(line: str) -> Table | None:
    """The columns that a line names; None for any other line."""
    low = line.lower().strip()
    if ":" in low or "=" in low:
        return None
    separator = next((sign for sign in SEPARATORS if sign in low), "")
    separator = separator or ("," if CSV.fullmatch(low) else "")
    if NOTEBOOK.match(low) and not separator:
        low = low.replace("g loss", "g_loss").replace("n loss", "n_loss")
    elif not separator and not LOSSES.search(low):
        return None
    names = cells(low, separator)
    if len(names) < 2 or any(is_number(name) for name in names):
        return None
    if separator and not any(LOSS_NAME.search(name) for name in names):
        return None
    return Table(separator, tuple(names))


def cells(line: str, separator: str) -> list[str]:
    if not separator:
        return CELL.findall(line)
    return [c.strip(' \t"') for c in line.strip().strip("|").split(separator)]


def pairs_of(line: str) -> list[tuple[str, str]]:
    """(metric, value) where a program lists them below each other, or in Chinese."""
    listed = LISTED.match(line)
    pairs = []
    if listed:
        *names, value = listed.groups()
        pairs.append((next(filter(None, names)), value))
    pairs += [("train_loss", value) for value in LOSS_OF_TRAINING.findall(line)]
    said = CHINESE.findall(line)
    return pairs + [(CHINESE_NAMES[name], value) for name, value in said]


def is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text, re.IGNORECASE) is not None
