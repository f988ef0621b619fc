"""Words for the files that travel alone and import nothing of the site.

In each stands a block between two marks, made of `kb.wording`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from django.conf import settings

from kb import wording
from kb.languages import Text
from kb.wording import Said

FIRST = "# --- words: from kb/wording.py by `manage.py write_words` ---\n"
LAST = "# --- end of the words ---\n"


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
        "also": wording.ALSO_AFFECTING,
        "reproduce": wording.REPRODUCE,
    }
    words = {**wording.CONFIDENCES, **wording.WORKAROUND_STATUSES, **lookup, **answers}
    return table("WORDS", words)


BLOCKS: dict[str, Callable[[], str]] = {
    "runner/harness.py": of_harness,
    "static/doesitnan.py": of_pipe_client,
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
    """The text of the file with its block as it should be."""
    before, first, rest = path_of(name).read_text("utf-8").partition(FIRST)
    _old, last, after = rest.partition(LAST)
    if not (first and last):
        raise ValueError(f"{name} has no block of words")
    return f"{before}{FIRST}{BLOCKS[name]()}\n{LAST}{after}"
