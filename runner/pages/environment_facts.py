"""What a verdict is about, build and machine, as terms and facts of a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as _

NOTHING = "–"
# A term and what is told of it, to be enumerated.
Fact = tuple[str, list[Any]]


def commit_of(git: str | None) -> str:
    """What torch.version.git_version says; "" where Debian's says "Unknown"."""
    return "" if git in (None, "Unknown") else git


def short(body: dict[str, Any], worker: str = "") -> Iterator[Fact]:
    """Of an evidence body; `worker` executed the run, where that is known."""
    build, repro = body["build"], body["repro"]
    yield "torch", [build.get("raw")]
    yield "git", [commit_of(build.get("git"))[:12] or NOTHING]
    yield "CUDA, cuDNN", toolkit(build)
    yield "Python", [build.get("python"), build.get("platform")]
    yield _("device"), list(device(body["device"]))
    yield _("packages"), installed(build.get("packages") or {}) or [NOTHING]
    digest = repro["digest"].removeprefix("sha256:")[:12]
    yield _("repro"), [repro["name"], f"sha256:{digest}"]
    yield _("start"), list(service(body, worker))


def toolkit(build: dict[str, Any]) -> list[str]:
    if build.get("cuda"):
        return [build["cuda"], build.get("cudnn") or NOTHING]
    return [f"HIP {build['hip']}" if build.get("hip") else _("none")]


def device(found: dict[str, Any]) -> Iterator[str]:
    yield found["class"]
    if found.get("name"):
        yield found["name"]
    if found.get("capability"):
        yield found["capability"]
    if found.get("driver"):
        yield _("driver %(version)s") % {"version": found["driver"]}


def installed(packages: dict[str, str | None]) -> list[str]:
    """ "numpy 2.4.6", …, without those that are not there."""
    return [f"{name} {version}" for name, version in packages.items() if version]


def service(body: dict[str, Any], worker: str) -> Iterator[str]:
    yield (
        _("warm (torch was already loaded)")
        if body.get("served") == "warm"
        else _("cold (torch was loaded anew)")
    )
    if worker:
        yield worker
    yield f"{floatformat(body.get('duration_s'), '1u')} s"


def limits(body: dict[str, Any]) -> Iterator[str]:
    held = body.get("limits") or {}
    yield f"{floatformat(held.get('timeout_s'))} s"
    yield f"{held.get('memory_mib')} MiB"
    if held.get("processes"):
        yield _("%(count)s processes") % {"count": held["processes"]}
