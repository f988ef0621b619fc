"""The builds a page offers, and where they are installed, in one query."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from kb.versions.order import build_order
from runner.models import Build, Installation


@dataclass(frozen=True)
class KnownBuilds:
    """`builds`: newest version first, with slug and raw version only."""

    builds: list[Build]
    installations: dict[str, list[Installation]]

    @property
    def runnable(self) -> list[Build]:
        """Those with a working installation somewhere, or one that is being made."""
        wanted = {Installation.State.READY, Installation.State.INSTALLING}
        return [
            build
            for build in self.builds
            if wanted & {row.state for row in self.installations.get(build.slug, [])}
        ]

    def is_coming(self, slug: str) -> bool:
        """Whether it is being installed and works nowhere yet."""
        states = {row.state for row in self.installations.get(slug, [])}
        coming, ready = Installation.State.INSTALLING, Installation.State.READY
        return coming in states and ready not in states


def load() -> KnownBuilds:
    rows = Build.objects.order_by("slug").values_list(
        "slug",
        "raw",
        "installations__host",
        "installations__state",
        "installations__error",
    )
    raws: dict[str, str] = {}
    installed: defaultdict[str, list[Installation]] = defaultdict(list)
    for slug, raw, host, state, error in rows:
        raws[slug] = raw
        if state:
            row = Installation(build_id=slug, host=host, state=state, error=error)
            installed[slug].append(row)
    ordered = sorted(raws, key=lambda slug: build_order(raws[slug], slug), reverse=True)
    builds = [Build(slug=slug, raw=raws[slug]) for slug in ordered]
    return KnownBuilds(builds, dict(installed))
