"""The output of `builds list`: every known build, its installations and disk usage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import Count

from runner.builds import registry, venvs
from runner.models import Build, Installation

MIB = 1024 * 1024
NOT_INSTALLED = "not installed here"


def rows() -> list[dict[str, Any]]:
    """A row for each installation and each build without one, as plain JSON."""
    installed = Installation.objects.select_related("build")
    ordered = installed.order_by("build_id", "host", "interpreter")
    table = [row_of(row) for row in ordered]
    bare = Build.objects.filter(installations=None)
    for build in bare.annotate(count=Count("evidence")).order_by("slug"):
        count = getattr(build, "count", 0)
        table.append({**identity(build), "state": NOT_INSTALLED, "evidence": count})
    return table


def identity(build: Build | None) -> dict[str, Any]:
    names = ("slug", *registry.IDENTITY)
    return {name: getattr(build, name, "") or None for name in names}


def row_of(row: Installation) -> dict[str, Any]:
    facts = row.facts
    return {
        **identity(row.build),
        "state": row.state,
        "host": row.host,
        "interpreter": row.interpreter,
        "managed": row.managed,
        "with": facts.get("with", []),
        "packages": row.packages,
        "capabilities": capabilities(row),
        "devices": facts.get("devices", []),
        "disk_mib": row.disk_bytes // MIB if row.managed else None,
        "error": row.error or None,
        "probed_at": row.probed_at.isoformat(timespec="seconds"),
    }


def capabilities(row: Installation) -> dict[str, Any]:
    """Features of the build from its probe; {} where they were not probed."""
    facts = row.facts
    if "features" not in facts:
        return {}
    return {
        "cuda": bool(row.build and row.build.cuda),
        "cuda_archs": facts.get("cuda_archs", "").split(),
        "features": sorted(name for name, has in facts["features"].items() if has),
        "compiler": facts.get("cxx") or None,
        "compile_lacks": facts.get("compile_lacks", []),
    }


def choice_line(slug: str) -> str:
    """Which of several installations here runs of a build take; "" for a single one."""
    chosen = registry.installation_for(slug)
    if chosen is None or len(registry.installations_of(slug)) < 2:
        return ""
    return f"Runs on {slug} take {chosen.interpreter}, unless a stack asks for another."


def disk() -> tuple[int, int]:
    """MiB of all managed builds together, and summed one by one.

    Together, a file that several builds share by hard links counts once.
    """
    folders = [path.parent.parent for path in registry.managed_interpreters()]
    return (
        venvs.disk_bytes(*folders) // MIB,
        sum(map(venvs.disk_bytes, folders)) // MIB,
    )


def lines() -> Iterator[str]:
    """The rows as text for a terminal."""
    table = rows()
    for row in table:
        yield from lines_of(row)
    slugs = sorted({row["slug"] for row in table if row["slug"]})
    yield from filter(None, map(choice_line, slugs))
    for name in registry.being_installed():
        yield f"{name}: being installed"
    for name in registry.interrupted():
        yield f"{name}: left by an interrupted installation; `builds scan` removes it"
    together, one_by_one = disk()
    if one_by_one:
        yield f"Together {together} MiB in {settings.BUILDS_DIR}" + (
            f", {one_by_one} MiB counted one by one" * (one_by_one > together)
        )


def lines_of(row: dict[str, Any]) -> Iterator[str]:
    name = row["slug"] or "unknown build"
    if "host" not in row:
        yield f"{name}: {row['state']}, {row['evidence']} pieces of evidence"
        return
    size = f", {row['disk_mib']} MiB" if row["disk_mib"] else ""
    here = "" if row["host"] == registry.host_name() else f" on {row['host']}"
    yield f"{name}: {row['state']} ({row['interpreter']}){here}{size}"
    if row["error"]:
        for line in row["error"].splitlines():
            yield f"    | {line}"
        return
    facts = [
        ("git", (row["git"] or "")[:12]),
        ("CUDA", row["cuda"]),
        ("cuDNN", row["cudnn"]),
        ("Python", row["python"]),
        ("with", ", ".join(row["with"])),
    ]
    yield "    " + ", ".join(f"{what} {value}" for what, value in facts if value)
    yield from ("    " + line for line in capability_lines(row["capabilities"]))


def capability_lines(facts: dict[str, Any]) -> Iterator[str]:
    if not facts:
        return
    archs = facts["cuda_archs"]
    cuda = f"CUDA kernels {archs[0]}-{archs[-1]}; " if archs else ""
    yield f"{cuda}{' '.join(facts['features'])}"
    lacks = facts["compile_lacks"]
    if "compile" in facts["features"]:
        yield (
            f"torch.compile lacks {', '.join(lacks)}"
            if lacks
            else f"compiler: {facts['compiler']}"
        )
