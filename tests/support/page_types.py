"""Every type of page that the site has, with rows that bring it about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from kb.models import Record, Repro
from kb.publishing import saving
from runner.evidence import store
from runner.models import Capture, Device, Run, Sweep
from tests.support import captures, loaded, runs

ABSENT = "00000000-0000-4000-8000-000000000001"
COMPARED = "compare/2.12.0...9.9.0/"
PASTE = """\
step 12 loss 2.31 grad_norm nan
UserWarning: "strides" \\ differ
torch 2.13.0+cpu
"""

SEVERAL = "{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.36}"


@dataclass(frozen=True)
class PageType:
    """A page below its language's prefix; with `fields` it is the form's answer."""

    name: str
    path: str
    status: int = 200
    # Of the form that `path` holds, which sends them to `action`.
    fields: dict[str, str] = field(default_factory=dict)
    action: str = ""


def make() -> list[PageType]:
    """Rows for each type of page, and where each is. The last one asks for a login."""
    loaded.shipped_with_sweeps()
    record = runs.load_sample()
    repro = record.repros.get()
    runs.install("/nowhere/python")
    runs.make_build("2.0.0-cpu", "2.0.0+cpu")
    make_machines()
    withdrawn = runs.make_record("NAN-9002")
    withdrawn.publication, withdrawn.withdrawn_because_en = "withdrawn", "A mistake."
    withdrawn.withdrawn_because_zh = "有误。"
    saving.save(withdrawn)
    Record.objects.filter(pk="NAN-0004").update(outdated="zh")
    found = {bug: add_evidence(repro, bug) for bug in (False, True)}
    return [
        *lists(),
        PageType("record with evidence", "NAN-9001/sample/"),
        PageType("record without evidence", shipped("NAN-0006")),
        PageType("record, model of the mechanism", shipped("NAN-0003")),
        PageType("record, outdated translation", shipped("NAN-0004")),
        PageType("record, withdrawn", "NAN-9002/sample-9002/"),
        PageType("record with a map of a sweep", shipped("NAN-0028")),
        PageType("sweep that waits", f"sweeps/{runs.make_sweep().pk}/"),
        PageType("sweep that is done", f"sweeps/{finished_sweep().pk}/"),
        *(PageType(f"capture {name}", path) for name, path in make_captures()),
        PageType("capture gone", f"captures/{ABSENT}/", 404),
        PageType("evidence", f"evidence/{found[True].short}/"),
        PageType("build", f"builds/{runs.SLUG}/"),
        *(PageType(f"run {name}", f"runs/{pk}/") for name, pk in make_runs(repro)),
        PageType("lookup with a result", "", 200, {"log": PASTE}, "lookup/"),
        PageType("lookup, nothing known", "", 200, {"log": "Segfault"}, "lookup/"),
        PageType("lookup of nothing", "", 422, {"log": " "}, "lookup/"),
        PageType("lookup, several causes", "", 200, {"log": SEVERAL}, "lookup/"),
        PageType("symptom", "symptoms/loss-zero-grad-norm-nan/"),
        PageType("law", "laws/log-of-zero/"),
        PageType("contribute", "contribute/"),
        PageType(
            "run refused",
            "NAN-9001/sample/",
            409,
            {
                "repro": "repro",
                "build": "2.0.0-cpu",
                "device": "cpu",
                "trials": "1",
            },
            "NAN-9001/runs/",
        ),
    ]


def finished_sweep() -> Sweep:
    return Sweep.objects.exclude(digest="")[0]


def make_captures() -> Iterator[tuple[str, str]]:
    """One that waits on a build, and one that differs between two."""
    found = {
        "said": "1 of 1 numbers are not finite",
        "law": "log of a negative number",
        "class": "mathematics",
        "heals": ["torch.log(a.clamp_min(torch.finfo(a.dtype).tiny))"],
        "does_not_heal": ["in torch.float64"],
    }
    shown = {"2.0.0-cpu": {"outcome": "nan", "found": found}}
    shown[runs.SLUG] = {"outcome": "finite"}
    for name, rows in (
        ("that waits", {runs.SLUG: {}}),
        (
            "that ran",
            {build: {"state": "finished", **row} for build, row in shown.items()},
        ),
    ):
        capture = Capture.objects.create(digest=name, text=captures.text())
        for build, fields in rows.items():
            capture.runs.create(build_id=build, device="cpu", protocol=0, **fields)
        yield name, f"captures/{capture.pk}/"


def lists() -> list[PageType]:
    return [
        PageType("front", ""),
        PageType("browse", "records/"),
        PageType("browse by component", "records/?group=component"),
        PageType("search", "search/?q=nan"),
        PageType("search without result", "search/?q=zebra"),
        PageType("matrix", "matrix/"),
        PageType("matrix of a record", "matrix/?record=NAN-9001"),
        PageType("comparison", f"compare/2.12.0...{runs.SLUG}/"),
        PageType("comparison narrowed", COMPARED, 200, {"env": "torch==2.5"}, COMPARED),
        PageType("comparison, nothing chosen", "compare/"),
        PageType("builds", "builds/"),
        PageType("workers", "workers/"),
        PageType("health", "health/"),
        PageType("claims", "claims/"),
        PageType("problem", "problems/busy/"),
        PageType("the API", "api/"),
        PageType("contradictions", "contradictions/"),
        PageType("login", "login/"),
        PageType("send a capture", "captures/"),
        PageType("not found", "nowhere/", 404),
    ]


def shipped(pk: str) -> str:
    return f"{pk}/{Record.objects.get(pk=pk).slug}/"


def add_evidence(repro: Repro, bug: bool) -> store.Evidence:
    day = "2026-01-03" if bug else "2026-01-02"
    body = runs.make_evidence(repro, bug=bug, started_at=f"{day}T03:04:05Z")
    return store.add(body, origin="site")


def make_machines() -> None:
    runs.make_worker(host="a-host", tier="B")
    Device.objects.create(
        host="a-host",
        uuid="GPU-1",
        name="H200",
        state=Device.State.QUARANTINED,
        reason="ECC errors",
        last_seen=timezone.now(),
    )


def make_runs(repro: Repro) -> list[tuple[str, str]]:
    """A run in each state, each on its own build: one may be active for each."""
    made = []
    over = {"started_at": timezone.now(), "finished_at": timezone.now()}
    for number, (name, values) in enumerate(
        {
            "queued": {"state": "queued"},
            "running": {"state": "running", "phase": "trigger 1/1", "attempt": 1},
            "cancelled": {"state": "cancelled", "finished_at": timezone.now()},
            "failed": {"verdict": "error", "reason": "crash:SIGSEGV", **over},
            "not applicable": {
                "verdict": "not_applicable",
                "reason": "capability",
                **over,
            },
        }.items()
    ):
        build = runs.make_build(f"9.{number}.0-cpu", f"9.{number}.0+cpu")
        state = {"state": "finished", **values}
        run = runs.make_run(repro, build=build, **state)
        log(run)
        made.append((name, str(run.pk)))
    for bug in (False, True):
        found = add_evidence(repro, bug)
        run = runs.make_run(
            repro,
            state="finished",
            verdict=found.verdict,
            hits=found.body["hits"],
            evidence=found,
            **over,
        )
        made.append((f"finished, {found.verdict}", str(run.pk)))
    return made


def log(run: Run) -> None:
    runs.write_log(run, *(f"step {seq} loss nan" for seq in (1, 2, 3)))
    run.log.filter(seq=2).update(stream="stderr")


def admin_pages() -> list[str]:
    """Addresses in the admin, for whoever may see all of it."""
    return [
        "/admin/",
        "/admin/kb/record/",
        "/admin/kb/record/NAN-9001/change/",
        "/admin/runner/build/",
        f"/admin/runner/build/{runs.SLUG}/change/",
        "/admin/runner/installation/",
        "/admin/runner/worker/",
        "/admin/runner/device/",
        "/admin/runner/run/",
        f"/admin/runner/run/{Run.objects.first().pk}/change/",
        "/admin/runner/sweep/",
        f"/admin/runner/sweep/{runs.make_sweep().pk}/change/",
        "/admin/runner/evidence/",
        f"/admin/runner/evidence/{store.Evidence.objects.first().pk}/change/",
    ]


def superuser() -> User:
    return User.objects.create_superuser("chief", password="chief-of-all")


def get(client: Client, lang: str, kind: PageType) -> Any:
    """The answer of a page, over its form where it is a form's answer."""
    if kind.action:
        return client.post(f"/{lang}/{kind.action}", kind.fields)
    return client.get(f"/{lang}/{kind.path}")
