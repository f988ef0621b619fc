"""What a reader types to run a repro on a machine of their own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from kb.addresses import base_address
from kb.models import Repro
from kb.versions.ranges import parse_version
from runner.models import Build


@dataclass(frozen=True)
class LocalCommands:
    uv: str
    curl: str
    checkout: str


def of_repro(
    repro: Repro,
    request: HttpRequest,
    build: Build | None = None,
    settings: Sequence[str] = (),
) -> LocalCommands:
    """The same repro by uv, by any Python, and by run_repro; on `build` if given.

    `settings`: values other than the reviewed ones, as `length=704`.

    uv fetches the release that the build is of, for this machine: a build from
    source or of a vendor has none, and the newest torch is what it then takes.
    """
    path = reverse("api-record-repro", args=[repro.record_id, f"{repro.name}.py"])
    url = shlex.quote(base_address(request) + path)
    release = release_of(build) if build else ""
    with_torch = f"--with torch=={release} " if release else ""
    on_build = f" --build {build.slug}" if build else ""
    name = "" if repro.name == "repro" else f" --repro {repro.name}"
    values = "".join(f" --set {shlex.quote(setting)}" for setting in settings)
    return LocalCommands(
        uv=f"uv run {with_torch}{url}{values}",
        curl=f"curl -fsS {url} | python -{values}",
        checkout=".venv/bin/python manage.py run_repro "
        f"{repro.record_id}{name}{on_build}{values}",
    )


def release_of(build: Build) -> str:
    """2.6.0 of 2.6.0+cu124; "" for what no index has under that number."""
    parsed = parse_version(build.raw)
    if parsed.public is None or not parsed.is_orderable or parsed.public.is_prerelease:
        return ""
    return str(parsed.public)
