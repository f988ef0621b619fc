"""Sweeps and bisections for agents: started with a token, followed by their id."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from rest_framework.request import Request

from runner.agents.tools import (
    AnyRepro,
    Json,
    Lang,
    RecordId,
    Wait,
    checked,
    job_shown,
    require_run_token,
)
from runner.api import bisections, sweeps

End = Annotated[
    str,
    Field(
        description="a release (2.4.1) or a build (2.4.1-cu121); without a result, or "
        "an installation on the site, it takes `install`"
    ),
]


def bisect(
    request: Request,
    record: RecordId,
    good: End,
    bad: End,
    repro: AnyRepro = "repro",
    install: Annotated[
        bool,
        Field(
            description="install releases that are not on the site, where the token's "
            "account may; that takes minutes and disk"
        ),
    ] = False,
    wait_s: Wait = 0,
    lang: Lang = "en",
) -> Json:
    """Find out which release of torch began a bug, or ended it; takes a token with the
    scope `run`.

    Known evidence answers first, then the record's reviewed repro is run on as few
    builds as possible. `good` may be the later one: that finds where a bug ended. The
    answer is `sentence`, `before` and `after`, null until `state` is finished: ask
    `get_bisection` with its `id`.
    """
    require_run_token(request)
    body = {"record": record, "repro": repro, "good": good, "bad": bad}
    data = checked(bisections.BisectionRequest, {**body, "install": install})
    row = bisections.submit(request, data)
    return bisection_shown(str(row.pk), wait_s, lang)


def get_bisection(
    request: Request,
    bisection: Annotated[str, Field(description="the `id` that bisect answered")],
    wait_s: Wait = 0,
    lang: Lang = "en",
) -> Json:
    """Read a bisection: its steps so far, then between which builds the bug turns."""
    return bisection_shown(bisection, wait_s, lang)


def sweep(
    request: Request,
    record: RecordId,
    axes: Annotated[dict[str, str], Field(description=sweeps.AXES_HELP)],
    build: Annotated[
        str, Field(description="a build of this site; else its default that can do it")
    ] = "",
    repro: AnyRepro = "repro",
    wait_s: Wait = 0,
    lang: Lang = "en",
) -> Json:
    """Find out at which values of a repro's parameters (dtype, sizes) a bug happens;
    takes a token with the scope `run`.

    The record's reviewed repro is run once for each cell. `sentence` says where it
    happens, of the `cells` that are done: ask `get_sweep` with its `id` until `state`
    is finished.
    """
    require_run_token(request)
    body = {"record": record, "repro": repro, "axes": axes}
    data = checked(sweeps.SweepRequest, body | ({"build": build} if build else {}))
    return sweep_shown(str(sweeps.submit(request, data).pk), wait_s, lang)


def get_sweep(
    request: Request,
    sweep: Annotated[str, Field(description="the `id` that sweep answered")],
    wait_s: Wait = 0,
    lang: Lang = "en",
) -> Json:
    """Read a sweep: the cells that are done, and where the bug happens by those."""
    return sweep_shown(sweep, wait_s, lang)


def bisection_shown(job_id: str, wait_s: int, lang: str) -> Json:
    shape = bisections.BisectionSerializer
    return job_shown(bisections.get_bisection, shape, job_id, wait_s, lang)


def sweep_shown(job_id: str, wait_s: int, lang: str) -> Json:
    return job_shown(sweeps.get_sweep, sweeps.SweepSerializer, job_id, wait_s, lang)
