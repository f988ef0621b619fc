"""Torch builds on this host: which there are, and which interpreter serves one.

torch is only ever imported by a throw-away process under the build's own Python.
"""

from __future__ import annotations

import os
import shutil
import socket
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from runner import harness, venvs
from runner.models import Build, Installation
from runner.venvs import Progress

IDENTITY = ("raw", "dist", "git", "cuda", "hip", "cudnn", "python", "platform")


class BuildError(Exception):
    """A build cannot be probed, installed or removed; the text says why."""


@dataclass(frozen=True)
class BuildPin:
    """One table of fixtures/builds.toml; sizes in MiB."""

    slug: str
    torch: str
    packages: list[str]
    download_mib: int
    disk_mib: int


def default_build(table: str = "default") -> BuildPin:
    """The build a new site installs, or with "cuda" what a GPU host may take."""
    return BuildPin(**tomllib.loads(settings.BUILDS_FILE.read_text())[table])


def default_interpreter() -> Path | None:
    """The Python of the default build where it is installed; needs no database."""
    for table in ("default", "cuda"):
        python = venvs.python_of(settings.BUILDS_DIR / default_build(table).slug)
        if python.exists() and not venvs.marker_of(python.parent.parent).exists():
            return python
    return None


def host_name() -> str:
    return socket.gethostname()[:120]


# --- looking at an interpreter ------------------------------------------------------


def probe(interpreter: Path) -> dict[str, Any]:
    """What torch an interpreter has: its identity, devices and facts.

    Raises BuildError when it has none or cannot be started.
    """
    report = harness.probe(str(interpreter))
    if report.failure or not report.hello:
        said = report.log_text.strip().splitlines()[-1:] or ["no output"]
        raise BuildError(f"{report.failure or 'no_report'}: {said[0][:400]}")
    return report.hello


def save_identity(identity: dict[str, Any]) -> Build:
    """The Build row for an identity as the harness reports it."""
    fields = {name: identity.get(name) or "" for name in IDENTITY}
    build, _ = Build.objects.update_or_create(slug=identity["slug"], defaults=fields)
    return build


def register(interpreter: Path, *, managed: bool) -> Installation:
    """Probe an interpreter and write down what it is.

    One that does not work becomes a broken installation with the reason.
    """
    try:
        return save(interpreter, probe(interpreter), managed=managed)
    except BuildError as error:
        gone = not interpreter.exists()
        state = Installation.State.MISSING if gone else Installation.State.BROKEN
        return write(interpreter, managed=managed, state=state, error=str(error))


def save(interpreter: Path, hello: dict[str, Any], *, managed: bool) -> Installation:
    """Write down an interpreter that works, as `probe` described it."""
    return write(
        interpreter,
        managed=managed,
        state=Installation.State.READY,
        error="",
        build=save_identity(hello["identity"]),
        packages=hello["identity"]["packages"],
        facts={**hello["facts"], "devices": hello["devices"]},
        disk_bytes=venvs.disk_bytes(interpreter.parent.parent) if managed else 0,
    )


def write(interpreter: Path, **fields: Any) -> Installation:
    installation, _ = Installation.objects.update_or_create(
        host=host_name(),
        interpreter=str(interpreter),
        defaults={**fields, "probed_at": timezone.now()},
    )
    return installation


def add_python(path: Path) -> Installation:
    """Register a user's own Python, or its environment's folder; never written to.

    Raises BuildError when it has no torch that can be imported.
    """
    path = path.expanduser().absolute()
    interpreter = venvs.python_of(path) if path.is_dir() else path
    if not os.access(interpreter, os.X_OK):
        raise BuildError(f"{interpreter} is not a Python that can be started.")
    return save(interpreter, probe(interpreter), managed=is_managed(interpreter))


# --- what is on this host ------------------------------------------------------


def is_managed(interpreter: Path) -> bool:
    return interpreter.is_relative_to(settings.BUILDS_DIR)


def managed_interpreters() -> list[Path]:
    """Pythons of the builds that were installed here completely."""
    return [
        path
        for path in sorted(settings.BUILDS_DIR.glob("*/bin/python"))
        if not venvs.marker_of(path.parent.parent).exists()
    ]


def found_by_chance() -> Iterator[Path]:
    """Pythons worth a look: the system's, and the one first on the PATH."""
    for name in ("/usr/bin/python3", shutil.which("python3")):
        if name and Path(name).exists():
            yield Path(name).parent.resolve() / Path(name).name


def scan(progress: Progress) -> list[Installation]:
    """Look again at every known, declared and likely interpreter of this host.

    An interpreter nobody named is written down only when it has torch.
    """
    known = Installation.objects.filter(host=host_name())
    named = {Path(row.interpreter) for row in known}
    named |= {path.expanduser().absolute() for path in settings.BUILDS}
    named |= set(managed_interpreters())
    installations = []
    for path in sorted(named):
        installations.append(register(path, managed=is_managed(path)))
        progress(describe(installations[-1]))
    for path in sorted(set(found_by_chance()) - named):
        try:
            installations.append(save(path, probe(path), managed=False))
        except BuildError:
            continue
        progress(describe(installations[-1]))
    return installations


def describe(installation: Installation) -> str:
    """One line for a person: the build, its state and where it is."""
    name = installation.build_id or "unknown build"
    text = f"{name}: {installation.state} ({installation.interpreter})"
    return f"{text}: {installation.error}" if installation.error else text


def installations_here() -> list[Installation]:
    """Working installations of this host whose interpreter is still there."""
    rows = Installation.objects.filter(
        host=host_name(), state=Installation.State.READY, build__isnull=False
    )
    ordered = rows.order_by("build_id", "-managed", "interpreter")
    return [row for row in ordered if Path(row.interpreter).exists()]


def installation_for(build_slug: str) -> Installation | None:
    """The installation on this host that serves a build."""
    for row in installations_here():
        if row.build_id == build_slug:
            return row
    return None


def default_installation() -> Installation | None:
    """What serves a run that names no build: the pinned build, else the first."""
    rows = installations_here()
    pinned = [row for row in rows if row.build_id == default_build().slug]
    return next(iter(pinned + rows), None)


def being_installed() -> list[str]:
    """Names of the builds that a process of this host installs just now."""
    if venvs.owner_of(settings.BUILDS_DIR / venvs.LOCK_NAME) is None:
        return []
    return [path.stem for path in sorted(settings.BUILDS_DIR.glob("*.incomplete"))]


def remove(build_slug: str) -> list[str]:
    """Forget a build on this host; delete its files where we made them.

    Returns one line for each installation. Its results stay. Raises BuildError.
    """
    rows = Installation.objects.filter(host=host_name(), build_id=build_slug)
    if not rows:
        raise BuildError(f"{build_slug} is not installed on this host.")
    done = []
    for row in rows:
        folder = Path(row.interpreter).parent.parent
        mine = row.managed and is_managed(Path(row.interpreter))
        if mine:
            venvs.remove(folder)
        done.append(f"{'deleted' if mine else 'forgot'} {folder}")
        row.delete()
    return done
