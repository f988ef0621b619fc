"""The pipe client with what it carries: two modules, words and the site's address."""

from __future__ import annotations

import pprint
import re
from pathlib import Path
from types import ModuleType

from kb import wording
from kb.wording import Said
from portable import answer, doesitnan, masking

# In portable/doesitnan.py, what these modules themselves take the place of.
IMPORTED = re.compile(
    r"^from portable\.(\w+) import (?:\(.*?^\)|[^(\n]+)$", re.DOTALL | re.MULTILINE
)
FUTURE = "from __future__ import annotations\n"


def pipe_client(site: str) -> str:
    """The command line that asks about a log, with the site that it asks."""
    bodies = {"answer": body_of(answer), "masking": body_of(masking)}
    text = Path(doesitnan.__file__).read_text("utf-8")
    text = IMPORTED.sub(lambda found: bodies[found[1]], text)
    text = text.replace('SITE = ""', f"SITE = {site!r}", 1)
    return text.replace("WORDS: Dict[str, Tuple[str, str]] = {}", f"WORDS = {words()}")


def body_of(module: ModuleType) -> str:
    text = Path(str(module.__file__)).read_text("utf-8")
    return IMPORTED.sub("", text.partition(FUTURE)[2]).strip()


def words() -> str:
    """Python source of a dictionary of pairs, English and Chinese."""
    answers = {
        "tested": wording.ANSWERS["affected", True],
        "likely": wording.ANSWERS["affected", False],
        "not_tested": wording.ANSWERS["not_affected", True],
        "not_likely": wording.ANSWERS["not_affected", False],
        "unknown": wording.UNKNOWN_ANSWER,
    }
    lookup = {
        "checks": wording.FIRST_CHECKS,
        "ruled_out": wording.RULED_OUT,
        "reproduce": wording.REPRODUCE,
        "name_torch": wording.NAME_TORCH,
    }
    said = {**wording.CONFIDENCES, **wording.WORKAROUND_STATUSES, **lookup, **answers}
    pairs = {
        key: tuple(
            text.line(lang) if isinstance(text, Said) else text[lang]
            for lang in ("en", "zh")
        )
        for key, text in said.items()
    }
    return pprint.pformat(pairs, width=88, sort_dicts=False)
