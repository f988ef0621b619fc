"""One look at the indexes, and every step from a new release to its flips.

Each step is written down when it is done and may be repeated: after a kill the next
look goes on with the step that was under way.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone
from packaging.version import Version

from kb.models import Flip
from kb.syndication.feeds import flip_entry
from runner.builds import index, install, registry, venvs
from runner.builds.index import TORCH
from runner.builds.probe import BuildError
from runner.builds.venvs import InstallError, Progress
from runner.models import Installation, Run, WatchedRelease
from runner.releases import offered, sizes

FOUND, INSTALLED, FAILED, RAN, REMOVED, NOTED = WatchedRelease.State
# A release that did not install is tried again, for its index may have been mended.
TRY_AGAIN_AFTER = timedelta(days=1)
SHOWN_LINES = 12


@dataclass(frozen=True)
class Watcher:
    """`fill` runs what is missing on a build, and returns once that is over.

    `index`: asked in place of those that pip is configured with. `keep`: of the
    releases that were installed here by watching, so many stay.
    """

    say: Progress
    fill: Callable[[str], None]
    index: str = ""
    pre: bool = False
    keep: int = 1

    def look(self) -> None:
        """All of it, once. What the index or a release lacks is said, not raised."""
        self.find()
        for row in self.waiting():
            self.install(row)
            self.run(row)
            self.remove_older()

    # --- what is new --------------------------------------------------------------

    def news(self) -> list[Version]:
        versions = index.offered(TORCH, self.index, pre=self.pre)
        new = offered.new_among(versions, offered.known_versions())
        names = "new here: " + ", ".join(map(str, new)) if new else "nothing new"
        has = counted(len(versions), "release")
        self.say(f"The index has {has} of torch; {names}.")
        return new

    def find(self) -> None:
        """Write down what this site does not know."""
        try:
            for version in self.news():
                WatchedRelease.objects.get_or_create(package=TORCH, version=version)
        except BuildError as error:
            self.say(f"torch: {error}")
        for package, version in self.packages():
            row, new = WatchedRelease.objects.get_or_create(
                package=package, version=version, defaults={"state": NOTED}
            )
            if new:
                self.say(f"{row} is new. It is not installed: results are of a torch.")

    def packages(self) -> list[tuple[str, Version]]:
        """The newest release of each package that records name, if it is not known."""
        found = []
        for package, known in sorted(offered.named_packages().items()):
            try:
                newest = offered.new_among(index.offered(package), {max(known)})[-1:]
            except BuildError as error:
                self.say(f"{package}: {error}")
                continue
            found += [(package, version) for version in newest]
        return found

    def price_list(self) -> None:
        """What `look` would download, without writing anything down."""
        try:
            new = self.news()
        except BuildError as error:
            self.say(f"torch: {error}")
            new = []
        rows = [WatchedRelease(package=TORCH, version=str(version)) for version in new]
        for row in [*self.waiting(), *rows]:
            if row.state in (FOUND, FAILED):
                self.price(row)
            else:
                self.say(f"{row}: {row.get_state_display()}.")
        for package, version in self.packages():
            self.say(f"{package} {version} is new; it would not be installed.")

    def waiting(self) -> list[WatchedRelease]:
        """What is to be gone on with, oldest release first."""
        rows = WatchedRelease.objects.filter(package=TORCH)
        again = rows.filter(
            state=FAILED, changed_at__lt=timezone.now() - TRY_AGAIN_AFTER
        )
        here = rows.filter(state=INSTALLED, host=registry.host_name())
        due = rows.filter(state=FOUND) | again | here
        return sorted(due, key=lambda row: Version(row.version))

    # --- its steps ----------------------------------------------------------------

    def price(self, row: WatchedRelease) -> sizes.Priced | None:
        """Say what it takes; None, and why is kept, where it cannot be had."""
        try:
            priced = sizes.priced(row.version, self.index)
        except (BuildError, InstallError) as error:
            self.say(f"{row} does not install: {str(error).splitlines()[-1]}")
            self.note(row, FAILED, error=last_lines(error))
            return None
        settings.BUILDS_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(settings.BUILDS_DIR).free // install.MIB
        self.say(f"{row}: {priced.said}; {free} MiB are free.")
        return priced

    def install(self, row: WatchedRelease) -> None:
        if row.state == INSTALLED:
            return
        priced = self.price(row)
        if priced is None:
            return
        attempt = priced.attempt
        try:
            install.require_space(attempt.download_mib + attempt.disk_mib)
            installation = install.add([attempt], self.say, [])
        except InstallError as error:
            self.wait(row, error)
            return
        except BuildError as error:
            if isinstance(error.__cause__, venvs.LockHeld):
                self.wait(row, error)
                return
            self.say(f"{row} does not install:\n{last_lines(error)}")
            forget(settings.BUILDS_DIR / attempt.name)
            self.note(row, FAILED, error=last_lines(error))
            return
        row.build, row.host = installation.build, installation.host
        row.interpreter = installation.interpreter
        self.note(row, INSTALLED)

    def wait(self, row: WatchedRelease, error: Exception) -> None:
        """Until the next look: nothing is wrong with the release."""
        self.say(f"{row} waits: {error}")
        self.note(row, FOUND, error=str(error))

    def run(self, row: WatchedRelease) -> None:
        """Run what applies, behind all clicks, and keep what turned."""
        if row.state != INSTALLED or not row.build_id:
            return
        self.fill(row.build_id)
        flips = Flip.objects.filter(build=row.build_id).select_related("record")
        entries = [flip_entry(flip) for flip in flips.defer("record__html")]
        row.flips = [entry.title for entry in entries]
        self.note(row, RAN)
        turned = counted(len(row.flips), "verdict")
        self.say(f"{row} as {row.build_id}: {turned} turned.")
        for line in row.flips:
            self.say(f"  {line}")

    def remove_older(self) -> None:
        """Of what was installed by watching, keep the newest."""
        rows = WatchedRelease.objects.filter(state=RAN, host=registry.host_name())
        ordered = sorted(rows, key=lambda row: Version(row.version), reverse=True)
        for row in ordered[self.keep :]:
            if reason := why_kept(row):
                self.say(f"{row} stays: {reason}.")
                continue
            self.remove(row)

    def remove(self, row: WatchedRelease) -> None:
        python = Path(row.interpreter)
        if registry.known_row(python) and row.build_id:
            for line in registry.remove(row.build_id, python):
                self.say(line)
        self.note(row, REMOVED)

    def note(self, row: WatchedRelease, state: str, error: str = "") -> None:
        """Write a step down; a row that only a price list made is none."""
        row.state, row.error = WatchedRelease.State(state), error
        if row.pk:
            row.save()


def why_kept(row: WatchedRelease) -> str:
    """Why a release may not be removed now, or ""."""
    default = registry.default_installation()
    if default and default.interpreter == row.interpreter:
        return "runs without a choice use it"
    if row.build_id and Run.objects.active().filter(build=row.build_id).exists():
        return "runs wait for it"
    return ""


def forget(folder: Path) -> None:
    """Remove an environment that was installed but may not be registered."""
    python = venvs.python_of(folder)
    if python.exists() and not Installation.objects.filter(
        host=registry.host_name(), interpreter=str(python)
    ):
        venvs.remove(folder)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def last_lines(error: Exception) -> str:
    return "\n".join(str(error).splitlines()[-SHOWN_LINES:])
