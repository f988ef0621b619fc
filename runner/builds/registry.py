"""Torch builds on this host: their rows, and which interpreter serves which build.

torch is only ever imported by a throw-away process under the build's own Python.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from runner.builds import candidates, proof, venvs
from runner.builds.candidates import interpreter_of, is_there
from runner.builds.pins import default_build, has_nvidia_gpu
from runner.builds.probe import BuildError, Probed, probe, stamp
from runner.builds.venvs import Progress
from runner.models import Build, Installation

IDENTITY = ("raw", "dist", "git", "cuda", "hip", "cudnn", "python", "platform")


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


def save_identity(identity: dict[str, Any]) -> Build:
    """The Build row of an identity that the harness reported; blanks are filled in.

    Raises BuildError where another torch has that slug, by more than somebody's word.
    """
    reported = {name: identity.get(name) or "" for name in IDENTITY}
    build, _ = Build.objects.get_or_create(slug=identity["slug"], defaults=reported)
    name = proof.differs(build, reported)
    if name and not proof.take_name(build, reported):
        raise BuildError(
            f"this torch has {name} {reported[name]}, but {build.slug} is known with "
            f"{getattr(build, name)}: results of the two must not be mixed"
        )
    blanks = [name for name in reported if reported[name] and not getattr(build, name)]
    for name in blanks:
        setattr(build, name, reported[name])
    if blanks:
        build.save(update_fields=blanks)
    return build


def register(interpreter: Path) -> Installation:
    """Probe an interpreter and save it.

    One that fails is saved as broken or missing, with the reason.
    """
    row = known_row(interpreter)
    try:
        probed = probe(interpreter, row.facts if row else None)
        return save(interpreter, probed)
    except BuildError as error:
        gone = not is_there(interpreter)
        state = Installation.State.MISSING if gone else Installation.State.BROKEN
        return write(interpreter, state=state, error=str(error))


def known_row(interpreter: Path) -> Installation | None:
    return Installation.objects.filter(
        host=host_name(), interpreter=str(interpreter)
    ).first()


def save(
    interpreter: Path, probed: Probed, with_: list[str] | None = None
) -> Installation:
    """Save a working interpreter from its probe.

    `with_`: the extra requirements it was installed with; None keeps the saved ones.
    """
    row = known_row(interpreter)
    extras = with_ if with_ is not None else (row.facts.get("with", []) if row else [])
    identity, modules = probed.identity, probed.facts.get("modules", {})
    packages = {**identity["packages"]}
    named = set(map(module_of, extras))
    packages |= {
        name: version
        for name, version in modules.items()
        if name in named or version.startswith("git+")
    }
    folder = interpreter.parent.parent
    return write(
        interpreter,
        state=Installation.State.READY,
        error="",
        build=save_identity(identity),
        packages=packages,
        facts={
            **probed.facts,
            "devices": probed.devices,
            "with": extras,
            "cudnn": identity["cudnn"],
        },
        disk_bytes=venvs.disk_bytes(folder) if is_managed(interpreter) else 0,
    )


def module_of(requirement: str) -> str:
    """The name that a requirement is most likely imported by."""
    name = re.split(r"[\s\[<>=!~;@]", requirement.strip(), maxsplit=1)[0]
    return name.replace("-", "_")


def write(interpreter: Path, **fields: Any) -> Installation:
    fields["managed"] = is_managed(interpreter)
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
    interpreter = interpreter_of(path)
    try:
        interpreter.stat()
    except OSError as error:
        raise BuildError(f"{interpreter}: {error.strerror}.") from error
    if not (interpreter.is_file() and os.access(interpreter, os.X_OK)):
        raise BuildError(f"{interpreter} is not a Python that can be started.")
    if not candidates.has_torch(interpreter):
        raise BuildError(f"{interpreter} is no Python that has a torch.")
    return save(interpreter, probe(interpreter))


# --- what is on this host ------------------------------------------------------


def is_managed(interpreter: Path) -> bool:
    return interpreter.is_relative_to(settings.BUILDS_DIR)


def managed_interpreters() -> list[Path]:
    """Pythons of the builds below BUILDS_DIR whose installation is complete."""
    return [
        path
        for path in sorted(settings.BUILDS_DIR.glob("*/bin/python"))
        if not venvs.marker_of(path.parent.parent).exists()
    ]


def scan(progress: Progress, *, only_changed: bool = False) -> list[Installation]:
    """Probe every known, declared and likely interpreter of this host again.

    An undeclared interpreter is saved only if it has torch. `only_changed` trusts an
    earlier probe while files and host are as they were.
    """
    sweep()
    known = {Path(row.interpreter): row for row in saved_here()}
    why = {candidate.interpreter: candidate.why for candidate in candidates.declared()}
    named = {*known, *why, *managed_interpreters()}
    installations = []
    for path in sorted(named):
        row = known.get(path)
        if not (only_changed and row and is_unchanged(row)):
            row = register(path)
        installations.append(row)
        progress(describe(row, why.get(path, "")))
    for candidate in candidates.new_with_torch(named):
        path = candidate.interpreter
        try:
            installations.append(save(path, probe(path)))
        except BuildError as error:
            reason = str(error).splitlines()[-1][:200]
            progress(f"not used: {path} ({candidate.why}): {reason}")
            continue
        progress(describe(installations[-1], candidate.why))
    return installations


def saved_here() -> QuerySet[Installation]:
    """This host's rows, but for those of an installation that has not ended well."""
    rows = Installation.objects.filter(host=host_name())
    return rows.exclude(state=Installation.State.INSTALLING)


def is_unchanged(row: Installation) -> bool:
    """Whether a ready build's files are those of its last probe. GPUs come and go."""
    python = Path(row.interpreter)
    return (
        row.state == Installation.State.READY
        and not row.facts.get("devices")
        and not has_nvidia_gpu()
        and is_there(python)
        and row.facts.get("stamp") == stamp(row.facts, python)
    )


# --- what is on its way -------------------------------------------------------------


def expect(interpreter: Path, slug: str, raw: str) -> None:
    """Say that this build is being installed here: runs may be queued for it."""
    build, _ = Build.objects.get_or_create(slug=slug, defaults={"raw": raw})
    state = Installation.State.INSTALLING
    write(interpreter, state=state, error="", build=build)
    expect_nothing(but=interpreter)


def expect_nothing(but: Path | None = None) -> None:
    """Take back what was said, unless another process is at it.

    Runs that wait for it end as `build_missing`.
    """
    if but is None and is_installing():
        return
    rows = Installation.objects.filter(
        host=host_name(), state=Installation.State.INSTALLING
    )
    stale = rows.exclude(interpreter=str(but or ""))
    # Nothing is written where there is nothing: who loads records holds the database.
    if stale.exists():
        stale.delete()


def sweep() -> None:
    """Remove remains of interrupted installations, unless one is in progress."""
    try:
        with venvs.lock(settings.BUILDS_DIR / venvs.LOCK_NAME):
            venvs.sweep(settings.BUILDS_DIR)
    except venvs.LockHeld:
        return


def describe(installation: Installation, why: str = "") -> str:
    """One line for a terminal: build, state, interpreter, and the error if any.

    `why`: what named the interpreter, or "".
    """
    name = installation.build_id or "unknown build"
    named = f", {why}" if why else ""
    text = f"{name}: {installation.state} ({installation.interpreter}{named})"
    reason = installation.error.strip().splitlines()[-1:]
    return f"{text}: {reason[0][:400]}" if reason else text


def ready_here() -> QuerySet[Installation]:
    """Working installations of this host, also those whose interpreter is gone."""
    ready = Installation.State.READY
    rows = Installation.objects.filter(host=host_name(), state=ready)
    rows = rows.filter(build__isnull=False)
    return rows.order_by("build_id", "-managed", "interpreter")


def installations_here() -> list[Installation]:
    """Working installations of this host whose interpreter is still there."""
    return [row for row in ready_here() if is_there(Path(row.interpreter))]


def installation_for(
    build_slug: str, stack: Mapping[str, str] | None = None
) -> Installation | None:
    """The installation on this host that fits a build and a repro's `stack` best.

    Without a stack, the one with the fewest extra packages.
    """
    rows = installations_of(build_slug)
    return min(rows, key=lambda row: unfitness(row, stack or {}), default=None)


def installations_of(build_slug: str) -> list[Installation]:
    """Working installations of one build on this host."""
    return [row for row in installations_here() if row.build_id == build_slug]


def unfitness(
    row: Installation, stack: Mapping[str, str]
) -> tuple[int, int, int, bool]:
    """Lower fits better: missing modules, other versions, additions, not ours."""
    modules = row.facts.get("modules") or {}
    missing = [name for name in stack if name not in modules]
    others = [
        name
        for name, version in stack.items()
        if name in modules and not is_version(modules[name], version)
    ]
    additions = len(row.facts.get("with") or [])
    return len(missing), len(others), additions, not row.managed


def is_version(installed: str, required: str) -> bool:
    """Whether the installed version is the required one, or of the required revision.

    A revision may be followed by a fragment: `…@b4ff1936#subdirectory=hopper`.
    """
    revision = required.rpartition("@")[2].partition("#")[0]
    if "+" in required and "@" in required:
        return installed.rpartition("@")[2].startswith(revision)
    return installed == required


def vanished(build_slug: str) -> list[Installation]:
    """Installations of this host that are saved as ready but have no interpreter."""
    rows = ready_here().filter(build=build_slug)
    return [row for row in rows if not is_there(Path(row.interpreter))]


def default_installation(
    stack: Mapping[str, str] | None = None,
) -> Installation | None:
    """The installation for a run without a build: of the pinned one, else the first."""
    slugs = [row.build_id for row in installations_here() if row.build_id]
    pinned = [slug for slug in slugs if slug == default_build().slug]
    chosen = next(iter(pinned + slugs), None)
    return installation_for(chosen, stack) if chosen else None


def being_installed() -> list[str]:
    """Names of the builds that a process of this host is installing."""
    return incomplete() if is_installing() else []


def interrupted() -> list[str]:
    """Names of builds left by killed installations; the next one removes them."""
    return [] if is_installing() else incomplete()


def is_installing() -> bool:
    return venvs.owner_of(settings.BUILDS_DIR / venvs.LOCK_NAME) is not None


def incomplete() -> list[str]:
    return [path.stem for path in sorted(settings.BUILDS_DIR.glob("*.incomplete"))]


def remove(build_slug: str, python: Path | None = None) -> list[str]:
    """Forget a build on this host, and delete its files if they are managed.

    `python`: only that installation. Returns a line for each. Results are kept. Raises
    BuildError.
    """
    rows = Installation.objects.filter(host=host_name(), build_id=build_slug)
    if python:
        rows = rows.filter(interpreter=str(interpreter_of(python)))
    if not rows:
        raise BuildError(f"{build_slug} is not installed on this host.")
    done = []
    for row in rows:
        folder = Path(row.interpreter).parent.parent
        is_ours = row.managed and is_managed(Path(row.interpreter))
        if is_ours:
            venvs.remove(folder)
            if folder.exists():
                raise BuildError(f"{folder} cannot be deleted: see whose files it has.")
        done.append(f"{'deleted' if is_ours else 'forgot'} {folder}")
        row.delete()
    return done
