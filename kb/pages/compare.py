"""The page that compares two builds or releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple
from urllib.parse import urlencode

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from kb.choices import DeviceClass
from kb.environments.environment import Environment, parse_environment
from kb.languages import Text
from kb.lookup.paste import EmptyPaste, PasteTooLarge, check_size, readable
from kb.models import Record, TestedBuild
from kb.releases import sides, words
from kb.releases.comparison import (
    BAD_ON_BOTH,
    GOOD_ON_BOTH,
    NOT_TESTED,
    Comparison,
    compare,
)
from kb.releases.details import Shown, shown
from kb.releases.sides import Side
from kb.releases.turns import Turns, of_releases
from kb.versions.order import tested_builds

SHOWN = 30


@dataclass(frozen=True)
class Section:
    kind: str
    title: Text
    meaning: dict[str, str]
    found: int
    rows: list[Shown]


@dataclass(frozen=True)
class Rest:
    """Records of which nothing changed, or nothing is known: `found`, the first few."""

    kind: str
    found: int
    records: list[Record]


@dataclass(frozen=True)
class ComparePage:
    """`typed`: what the pickers hold. Without a comparison `error` may say why."""

    choices: list[str]
    typed: tuple[str, str]
    device: str
    status: int = 200
    error: str = ""
    comparison: Comparison | None = None
    sentence: dict[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    pasted: str = ""
    paste_error: str = ""

    @property
    def missing(self) -> list[str]:
        """Packages whose records are left out, as the pasted list has none of them."""
        left_out = self.comparison.left_out if self.comparison else {}
        return sorted({name for names in left_out.values() for name in names})

    @property
    def releases(self) -> list[Turns]:
        """What arrives with each and what leaves, the newest first."""
        return of_releases()[::-1]

    @property
    def turned_round(self) -> str:
        return address(self.typed[1], self.typed[0], self.device)


class Change(NamedTuple):
    """What changes from one release to another, in a sentence of both languages."""

    name: str
    address: str
    sentence: dict[str, str]


def address(before: str, after: str, device: str = "") -> str:
    path = reverse("compare", args=[before, after])
    return f"{path}?{urlencode({'device': device})}" if device else path


def choices(builds: list[TestedBuild] | None = None) -> list[str]:
    """What the pickers offer: releases and builds that were run, the newest first."""
    builds = tested_builds() if builds is None else builds
    slugs = [row.slug for row in builds]
    return list(dict.fromkeys([*reversed(sides.releases(builds)), *reversed(slugs)]))


def device_of(request: HttpRequest) -> str:
    device = request.GET.get("device", "")
    return device if device in DeviceClass.values else ""


def start(request: HttpRequest) -> ComparePage | str:
    """The pickers; the address of the comparison where they name two sides."""
    typed = request.GET.get("from", "").strip(), request.GET.get("to", "").strip()
    device = device_of(request)
    offered = choices()
    if not any(typed):
        return ComparePage(offered, newest_two(offered), device)
    found = [sides.find(text) for text in typed]
    if found[0] and found[1]:
        return address(found[0].name, found[1].name, device)
    return unknown(offered, typed, device, found)


def newest_two(offered: list[str]) -> tuple[str, str]:
    newest = [*offered, "", ""]
    return newest[1], newest[0]


def newest_change(offered: list[str]) -> Change | None:
    """Between the newest two that were run."""
    before, after = map(sides.find, newest_two(offered))
    if not before or not after:
        return None
    names = before.name, after.name
    said = words.summary(compare(before, after))
    return Change(" → ".join(names), address(*names), said)


def unknown(
    offered: list[str], typed: tuple[str, str], device: str, found: list[Side | None]
) -> ComparePage:
    missing = next(text for text, side in zip(typed, found, strict=True) if not side)
    said = (
        _("“%s” is not a torch build or release that we can compare.") % missing[:80]
        if missing
        else _("Choose two builds or releases.")
    )
    return ComparePage(offered, typed, device, status=404, error=said)


def build(request: HttpRequest, before: str, after: str) -> ComparePage | str:
    """The page; where the address is not the one of these two, that one."""
    builds, device = tested_builds(), device_of(request)
    offered = choices(builds)
    first, last = sides.find(before, builds), sides.find(after, builds)
    if not first or not last:
        return unknown(offered, (before, after), device, [first, last])
    if (first.name, last.name) != (before, after):
        return address(first.name, last.name, device)
    pasted, installed, problem = read_list(request)
    found = compare(first, last, device, installed)
    return ComparePage(
        choices=offered,
        typed=(first.name, last.name),
        device=found.device,
        comparison=found,
        sentence=words.summary(found),
        sections=sections(found),
        rests=rests(found),
        pasted=pasted,
        paste_error=problem,
    )


def read_list(request: HttpRequest) -> tuple[str, Environment | None, str]:
    """What was pasted as installed, what it says, and why it says nothing."""
    try:
        text = request.POST.get("env", "")
        check_size("", text)
    except (PasteTooLarge, RequestDataTooBig):
        return "", None, _("That is more than 1 MiB; a list of packages is shorter.")
    if not text.strip():
        return "", None, ""
    try:
        env = parse_environment(readable(text))
    except EmptyPaste as error:
        return "", None, str(error)
    if not env.is_given:
        return text, None, _("No package with a version was found in what you pasted.")
    return text, env, ""


def sections(found: Comparison) -> list[Section]:
    """Each kind of change with its first rows."""
    first = [item for items in found.changed.values() for item in items[:SHOWN]]
    rows = groupby(shown(found, first), key=lambda row: row.item.kind)
    by_kind = {kind: list(several) for kind, several in rows}
    return [
        Section(
            kind=kind,
            title=words.TITLES[kind],
            meaning=words.meaning(kind, found),
            found=len({(item.record, item.check) for item in items}),
            rows=by_kind.get(kind, []),
        )
        for kind, items in found.changed.items()
    ]


def rests(found: Comparison) -> list[Rest]:
    groups = {
        kind: found.standing(kind) for kind in (BAD_ON_BOTH, GOOD_ON_BOTH, NOT_TESTED)
    }
    listed = [key for keys in groups.values() for key in keys[:SHOWN]]
    records = Record.objects.only("slug", "title_en", "title_zh").in_bulk(listed)
    return [
        Rest(kind, len(keys), [records[key] for key in keys[:SHOWN] if key in records])
        for kind, keys in groups.items()
        if keys
    ]
