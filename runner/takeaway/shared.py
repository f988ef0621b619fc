"""What the files that travel alone share with the site, of which they import nothing.

In each stand blocks between two marks: words of `kb.wording`, in the harness also the
names of `runner.evidence.packages`, and in the pipe client the masks of
`kb.lookup.masking`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from kb import wording
from kb.languages import Text
from kb.lookup import masking
from kb.wording import Said
from runner.evidence import packages

FIRST = "# --- words: from kb/wording.py by `manage.py write_words` ---\n"
LAST = "# --- end of the words ---\n"
MASKS_FIRST = (
    "# --- lines and masks: from kb/lookup/masking.py by `manage.py write_words` ---\n"
)
MASKS_LAST = "# --- end of lines and masks ---\n"
PACKAGES_FIRST = (
    "# --- packages: from runner/evidence/packages.py by `manage.py write_words` ---\n"
)
PACKAGES_LAST = "# --- end of the packages ---\n"
# From here on kb/lookup/masking.py is what both have.
SHARED = "# --- which lines ---"


def of_harness() -> str:
    verdicts = {key: wording.BADGES[key] for key in wording.VERDICTS}
    return "\n".join(
        [
            "# verdict -> words for the bug itself and for a model of it, "
            "English and Chinese",
            table("_WORDS", verdicts),
            table("_MODEL_WORDS", wording.MODEL_BADGES),
            table("_MISBEHAVED", wording.MISBEHAVED),
            f"_EXIT_STATUS = {literal(wording.EXIT_STATUS['en'])}",
        ]
    )


def of_packages() -> str:
    return f"_PACKAGES = ({', '.join(map(literal, packages.RECORDED))})"


def of_pipe_client() -> str:
    answers = {
        "tested": wording.ANSWERS["affected", True],
        "likely": wording.ANSWERS["affected", False],
        "not_tested": wording.ANSWERS["not_affected", True],
        "not_likely": wording.ANSWERS["not_affected", False],
        "unknown": wording.UNKNOWN_ANSWER,
    }
    lookup = {
        "none": wording.NO_MATCH,
        "leads": wording.LEADS,
        "several": wording.SEVERAL_CAUSES,
        "also": wording.ALSO_AFFECTING,
        "reproduce": wording.REPRODUCE,
        "name_torch": wording.NAME_TORCH,
    }
    words = {**wording.CONFIDENCES, **wording.WORKAROUND_STATUSES, **lookup, **answers}
    return table("WORDS", words)


def of_masks() -> str:
    source = Path(masking.__file__).read_text("utf-8")
    return (SHARED + source.partition(SHARED)[2]).rstrip() + "\n\n"


class Block(NamedTuple):
    first: str
    last: str
    text: Callable[[], str]


BLOCKS: dict[str, list[Block]] = {
    "runner/harness.py": [
        Block(PACKAGES_FIRST, PACKAGES_LAST, of_packages),
        Block(FIRST, LAST, of_harness),
    ],
    "static/doesitnan.py": [
        Block(MASKS_FIRST, MASKS_LAST, of_masks),
        Block(FIRST, LAST, of_pipe_client),
    ],
}


def table(name: str, texts: Mapping[str, Text | Said]) -> str:
    """Python source of a dictionary of pairs, English and Chinese."""
    lines = [f"{name} = {{"]
    for key, said in texts.items():
        lines.append(f"    {literal(key)}: (")
        for lang in ("en", "zh"):
            words = said.line(lang) if isinstance(said, Said) else said[lang]
            lines.append(f"        {literal(words)},")
        lines.append("    ),")
    return "\n".join([*lines, "}"])


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def path_of(name: str) -> Path:
    return Path(settings.BASE_DIR, name)


def with_words(name: str) -> str:
    """The text of the file with its blocks as they should be."""
    text = path_of(name).read_text("utf-8")
    for block in BLOCKS[name]:
        before, first, rest = text.partition(block.first)
        _old, last, after = rest.partition(block.last)
        if not (first and last):
            raise ValueError(f"{name} lacks a block: {block.first}")
        text = f"{before}{first}{block.text()}\n{last}{after}"
    return text
