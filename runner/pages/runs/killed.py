"""What a run says of its checks that were killed from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from kb.languages import SEMICOLON, current_lang
from portable import harness
from runner.pages.observations import group_of
from runner.pages.phases import label_of


def kills_of(body: dict[str, Any]) -> Iterator[str]:
    """A sentence for each check that was, in the reader's language."""
    for item in body["checks"]:
        kills = item.get("killed") or []
        if not kills:
            continue
        reasons = dict.fromkeys(reason_of(kill["by"]) for kill in kills)
        said = {
            "check": label_of(group_of(item["name"])),
            "why": SEMICOLON[current_lang()].join(reasons),
        }
        if len(kills) > harness.MOST_REPEATS:
            yield (
                _(
                    "%(check)s was killed from outside each time it started "
                    "(%(why)s). The repro is not at fault."
                )
                % said
            )
        else:
            yield (
                _("%(check)s was killed from outside (%(why)s) and started again.")
                % said
            )


def reason_of(by: str) -> str:
    words = {
        "oom": _("the host had no memory left"),
        "signal": _("it received a signal"),
    }
    return words.get(by, by)
