"""What of a paste may be kept for others: the lines that tell, masked, and versions.

Masks are those of the pipe client (`kb.lookup.masking`). It knows the names of its user
and machine; here they are taken from the paste itself, where paths and prompts tell
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kb.lookup import masking
from kb.lookup.paste import readable
from kb.search.reading.cleaning import UNSEEN, without_escapes
from kb.search.reading.lines import size, split_lines
from kb.search.reading.parts import PRINTED, Kind

MOST_LINES = 400
MOST_BYTES = 32 * 1024
MOST_PACKAGES = 60
# A mask may uncover what another one knows.
ROUNDS = 4
HOME = re.compile(
    r"(?:/(?:home|Users|mnt/c/Users)/|[A-Za-z]:[/\\]{1,2}Users[/\\]{1,2})"
    r"([\w.-]{3,40})(?=[/\\])"
)
PROMPT = re.compile(r"(?<![\w.+/-])([\w.-]{3,40})@([\w-]{3,60})(?=:[~/]|\s)")
# What stands in place of a name; and a home may be named after what is looked for.
NO_NAMES = frozenset(
    {
        *("user", "host", "masked"),
        *(*masking.ASKED_PACKAGES, "python", "conda", "pytorch", "cuda", "nan", "inf"),
    }
)


@dataclass(frozen=True)
class Kept:
    """What would be kept, exactly as it stands here."""

    log: str
    env: str

    @property
    def is_empty(self) -> bool:
        return not (self.log.strip() or self.env.strip())

    @property
    def is_too_long(self) -> bool:
        lines = self.log.count("\n") + self.env.count("\n")
        return lines > MOST_LINES or size(self.log) + size(self.env) > MOST_BYTES


def of_answer(log: str, answer: Mapping[str, Any]) -> Kept:
    """What tells of a paste, from the paste and what the look-up answered."""
    lines = list(enumerate(split_lines(readable(log)), start=1))
    picked = masking.within(telling(lines, answer), MOST_BYTES // 2)
    names = names_in(log)
    text = masked("\n".join(line for _number, line in picked[:MOST_LINES]), names)
    return Kept(text, masked("\n".join(versions(answer["query"]["env"])), names))


def of_form(log: str, env: str) -> Kept:
    """What a form sends, masked anew: nobody has looked at it since."""
    names = names_in(log)
    return Kept(masked(readable(log), names), masked(readable(env), names))


def telling(lines: list[masking.Line], answer: Mapping[str, Any]) -> list[masking.Line]:
    """Of what was printed the lines that tell, of what was written all.

    A list of packages is left out: of it the versions are kept that records speak of.
    """
    kind_of = {
        number: Kind(part["kind"])
        for part in answer["query"]["parts"]
        for number in range(part["first"], part["last"] + 1)
    }
    printed = [line for line in lines if kind_of.get(line[0], Kind.LOG) in PRINTED]
    wanted = {number for number, _line in masking.key_lines(printed)}
    wanted |= {line["line"] for line in answer["query"]["key_lines"]}
    wanted |= {why["line"] for match in answer["matches"] for why in match["why"]}
    wanted |= {
        number
        for number, _line in lines
        if kind_of.get(number, Kind.LOG) not in {*PRINTED, Kind.ENVIRONMENT}
    }
    return [line for line in lines if line[0] in wanted]


def versions(env: Mapping[str, Any]) -> list[str]:
    """The environment as the look-up understood it, as lines that it reads again."""
    packages = {name.lower(): version for name, version in env["packages"].items()}
    if env["torch"]:
        packages["torch"] = env["torch"]["raw"]
    known = [name for name in masking.ASKED_PACKAGES if name in packages]
    lines = [f"{name}=={packages[name]}" for name in known[:MOST_PACKAGES]]
    return [*lines, f"GPU 0: {env['gpu']}"] if env["gpu"] else lines


def names_in(log: str) -> set[str]:
    """Names of users and machines that the paste itself gives away."""
    found = set(HOME.findall(log))
    for user, host in PROMPT.findall(log):
        found |= {user, host}
    for line in split_lines(log):
        for pattern in (masking.JOURNAL, masking.RANK_HOST):
            match = pattern.search(line)
            if match:
                found.add(match[0].removeprefix(match[1] if match.re.groups else ""))
    return {name for name in found if name.lower() not in NO_NAMES}


def masked(text: str, names: Iterable[str] = ()) -> str:
    """The text as it may be seen by others; masked again it stays as it is."""
    masks = masking.Masks(names)
    lines = [masked_line(line, masks) for line in split_lines(text)]
    return "\n".join(lines).strip("\n")


def masked_line(line: str, masks: masking.Masks) -> str:
    line = UNSEEN.sub(" ", without_escapes(line)).rstrip()
    for _round in range(ROUNDS):
        shown = masks.apply(line).rstrip()
        if shown == line:
            break
        line = shown
    return line
