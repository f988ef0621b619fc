"""The cards and devices that a paste speaks of, as facts."""

from __future__ import annotations

from collections.abc import Iterator

from kb.environments import hardware
from kb.environments.cards import cards_told
from kb.environments.environment import Environment
from kb.lookup.paste import FEW_LINES, Paste
from kb.search.reading.parts import Kind, is_sentence

CARD_LINES = 60
ENV_LINE = 0


def cards_in(paste: Paste) -> Iterator[tuple[str, int]]:
    """GPUs that the first lines name; by a number alone, where a person wrote it."""
    few, kinds = len(paste.lines) <= FEW_LINES, paste.kind_of_line
    rows = (
        (number, line, few or kinds.get(number) == Kind.WORDS or is_sentence(line))
        for number, line in paste.lines[:CARD_LINES]
    )
    for card in cards_told(rows):
        yield card.name, card.line


def add_packages(
    values: dict[str, dict[str, int]],
    environment: Environment,
    cards: dict[str, int],
) -> None:
    values["package"] = dict.fromkeys(environment.packages, ENV_LINE)
    values["card"] = dict.fromkeys(environment.gpus, ENV_LINE) or cards
    found = {arch for card in values["card"] if (arch := hardware.architecture(card))}
    values["arch"] = dict.fromkeys(found, ENV_LINE)


def devices(
    values: dict[str, dict[str, int]], environment: Environment
) -> dict[str, int]:
    """A build for AMD or a card of another maker is no CUDA, whatever else is said."""
    found = dict(values["device"])
    platform = hardware.platform_of(values["card"])
    if platform:
        found[platform] = ENV_LINE
    local = (environment.torch_raw or "").partition("+")[2]
    if local.startswith("rocm"):
        found["rocm"] = ENV_LINE
    if local.startswith("cu") or any(a.startswith("sm_") for a in values["arch"]):
        found.setdefault("cuda", ENV_LINE)
    if local == "cpu":
        found.setdefault("cpu", ENV_LINE)
    return found
