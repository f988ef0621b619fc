"""Rows, repros and a stand-in torch for the tests of queue, execution and evidence.

What these tests are about happens around a check, so most run under a package named
torch that only says who it is. Tests of what torch does use `tests.support.builds`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.test import SimpleTestCase
from django.utils import timezone

from kb.models import Record, Repro
from kb.publishing import loading, saving
from portable import harness
from runner.builds import registry
from runner.evidence import repros, store
from runner.models import (
    Build,
    Evidence,
    Installation,
    LogChunk,
    Run,
    Sweep,
    Token,
    Worker,
)
from runner.runs import ledger
from tests.support import loaded
from tests.support.sample_record import write_sample

STAND_IN = "9.9.0+cpu"
SLUG = "9.9.0-cpu"
HEADER = """\
# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# record = "NAN-9001"
# fidelity = "{fidelity}"
# device = "{device}"
# bug = "nonfinite > 0"
# match = {{grad = 1e-6}}
# trials = {trials}
# ///
"""
CHECKS = """
def control():
    print("control speaks")
    return {"nonfinite": 0, "grad": 1.0}


def detector():
    return {"nonfinite": 1}


def trigger():
    return {"nonfinite": 1, "grad": 1.0}


def workaround_off():
    return {"nonfinite": 0, "grad": 1.0}


def refuted_hope():
    return {"nonfinite": 1, "grad": 1.0}
"""


def source(
    body: str = CHECKS,
    *,
    fidelity: str = "upstream_bug",
    device: str = "cpu",
    trials: int = 1,
    **checks: str,
) -> str:
    """A repro's source; `trigger="..."` replaces the body of that check."""
    text = HEADER.format(fidelity=fidelity, device=device, trials=trials) + body
    for name, lines in checks.items():
        text += f"\n\ndef {name}():\n" + textwrap.indent(lines.strip("\n"), "    ")
        text += "\n"
    return without_doubles(text)


def without_doubles(text: str) -> str:
    """Keep the last definition of each check: a second one would be an error."""
    head, *parts = text.split("\n\ndef ")
    last = {part.partition("(")[0]: part for part in parts}
    return "\n\n\ndef ".join(
        [head.rstrip("\n"), *(p.strip("\n") for p in last.values())]
    )


def make_record(pk: str = "NAN-9001") -> Record:
    record = Record.objects.filter(pk=pk).first()
    if record is None:
        record = Record(
            id=pk,
            slug=f"sample-{pk[-4:]}",
            publication="published",
            upstream="open",
            symptom_class="nan_grad",
            holds_on={"devices": ["any"], "why": "shared"},
            title_en="A sample",
            title_zh="样例",
        )
        saving.save(record)
    return record


def load_sample() -> Record:
    """The sample of `tests.support.sample_record`, loaded as files are."""
    loaded.copied("sample", read_sample)
    return Record.objects.get(id="NAN-9001")


def read_sample() -> None:
    """The same from its files, whatever has been loaded before."""
    with tempfile.TemporaryDirectory() as folder:
        write_sample(Path(folder))
        loading.load_records(Path(folder), inspect=repros.inspect)


def make_repro(text: str = "", name: str = "repro", record: str = "NAN-9001") -> Repro:
    text = text or source()
    header, checks = harness.read_repro(text)
    repro, _ = Repro.objects.update_or_create(
        record=make_record(record),
        name=name,
        defaults={
            "source": text,
            "digest": harness.source_digest(text),
            "fidelity": header.fidelity,
            "device": header.device,
            "header": {"trials": header.trials, "any_device": header.any_device},
            "checks": checks,
        },
    )
    return repro


def stand_in_torch(folder: Path, version: str = STAND_IN) -> Path:
    """A Python, made in `folder`, whose torch only knows its own version."""
    package = folder / "lib" / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(
        "from types import SimpleNamespace as N\n"
        f"__version__ = {version!r}\n"
        "version = N(cuda=None, hip=None, git_version='0' * 40)\n"
        "cuda = N(is_available=lambda: False)\n"
        "backends = N(cudnn=N(version=lambda: None))\n"
    )
    python = folder / "python"
    python.write_text(
        f"#!/bin/sh\nPYTHONPATH='{package.parent}' exec '{sys.executable}' \"$@\"\n"
    )
    python.chmod(0o755)
    return python


def make_build(slug: str = SLUG, raw: str = STAND_IN) -> Build:
    return Build.objects.get_or_create(slug=slug, defaults={"raw": raw})[0]


def install(interpreter: Path | str, slug: str = SLUG, **facts: Any) -> Installation:
    """A ready installation on this host, as `builds.register` would write it."""
    return Installation.objects.create(
        build=make_build(slug),
        host=registry.host_name(),
        interpreter=str(interpreter),
        state=Installation.State.READY,
        facts=facts,
        probed_at=timezone.now(),
    )


def install_stand_in(case: SimpleTestCase, slug: str = SLUG) -> Path:
    """The same of a stand-in torch, while a test runs; its folder."""
    folder = Path(case.enterContext(tempfile.TemporaryDirectory()))
    install(stand_in_torch(folder), slug=slug)
    return folder


def token_of(name: str, *scopes: str) -> str:
    """The secret of a token that Ann has until tomorrow."""
    user = User.objects.get_or_create(username="ann")[0]
    end = timezone.now() + timedelta(days=1)
    return Token.issue(name, user, list(scopes), end)[1]


# Who the test client is to the site: an address, as nobody logged in.
CLIENT = "address:127.0.0.1"


def make_sweep(**fields: Any) -> Sweep:
    """A row of two cells, queued unless `fields` say otherwise."""
    values = {
        "record": fields.pop("record", None) or make_record(),
        "repro_name": "repro",
        "build": fields.pop("build", None) or make_build(),
        "device": "cpu",
        "axes": {"size": {"values": [1, 2]}},
        "names": ["size"],
        "trials": 1,
        "protocol": harness.PROTOCOL,
        "origin": "site",
    }
    return Sweep.objects.create(**{**values, **fields})


def make_run(repro: Repro | None = None, **fields: Any) -> Run:
    repro = repro or make_repro()
    defaults: dict[str, Any] = {
        "repro_digest": repro.digest,
        "build": make_build(),
        "device": "cpu",
        "trials": 1,
        "protocol": harness.PROTOCOL,
    }
    if fields.get("state") == Run.State.RUNNING:
        defaults["lease_until"] = timezone.now() + timedelta(minutes=1)
    return Run.objects.create(repro=repro, **{**defaults, **fields})


def make_worker(
    name: str = "w1", *, seen: timedelta = timedelta(), **fields: Any
) -> Worker:
    """A worker of the build here, last seen so long ago."""
    moment = timezone.now() - seen
    defaults: dict[str, Any] = {"host": "h", "queues": [f"{SLUG}.cpu"]}
    defaults |= {"started_at": moment, "last_seen": moment}
    return Worker.objects.create(name=name, **{**defaults, **fields})


def claimed(*queues: str, worker: str = "w") -> Run:
    """The next run, as a worker has it that serves these queues."""
    run = ledger.claim(queues or [f"{SLUG}.cpu"], worker)
    assert run, "none waits"
    return run


def observed(name: str, observations: dict[str, Any], trial: int = 0) -> dict[str, Any]:
    """One recorded check, before it is judged."""
    return {
        "name": name,
        "trial": trial,
        "outcome": "clean",
        "reason": None,
        "observations": observations,
        "duration_s": 0.1,
        "cpu_s": 0.1,
        "peak_mib": 10,
        "exit": 0,
        "log": {"text": "", "cut_bytes": 0},
    }


def make_evidence(
    repro: Repro,
    *,
    bug: bool = True,
    failure: str = "",
    started_at: str = "2026-01-02T03:04:05Z",
    diagnosed: tuple[bool, bool] | None = None,
    values: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Evidence of `repro` as the harness itself gives it, from made-up reports.

    `failure`: the reason why the control did not report. `diagnosed`: what
    `diagnose_it` returned in control and trigger. `values` of parameters.
    """
    shown = {"nonfinite": int(bug), "grad": 1.0}
    said = {"detector": {"nonfinite": 1}, "trigger": shown, "refuted_hope": shown}
    if diagnosed:
        said["control"] = {"nonfinite": 0, "grad": 1.0, "diagnose_it": diagnosed[0]}
        said["trigger"] = {**shown, "diagnose_it": diagnosed[1]}

    def start(spec: harness.CheckSpec) -> harness.Report:
        said_first = {**hello(repro.digest), "parameters": spec.parameters}
        if failure and spec.name == "control":
            return harness.Report(hello=said_first, failure=failure)
        result = said.get(spec.name, {"nonfinite": 0, "grad": 1.0})
        observations = {} if spec.name == "requirements" else result
        return harness.Report(
            hello=said_first,
            messages=[
                {
                    "t": "result",
                    "check": spec.name,
                    "trial": spec.trial,
                    "observations": observations,
                }
            ],
            exit=0,
        )

    body = harness.drive(
        repro.source,
        start,
        name=repro.name,
        record=repro.record_id,
        tier="D",
        parameters=values,
    )
    body["started_at"] = started_at
    return signed(body)


def hello(digest: str) -> dict[str, Any]:
    identity = {
        "slug": SLUG,
        "raw": STAND_IN,
        "dist": None,
        "git": "0" * 40,
        "cuda": None,
        "hip": None,
        "cudnn": None,
        "python": "3.11",
        "platform": "linux-x86_64",
        "machine": "x86_64",
        "packages": {},
    }
    facts = {"python": "3.11.7", "torch": STAND_IN, "missing": [], "packages": {}}
    return {"repro": digest, "identity": identity, "devices": [], "facts": facts}


def run_on(repro: Repro, raw: str, **options: Any) -> Evidence:
    """Evidence of this site on a build by its version; 2.4.0 is of the CPU."""
    raw = raw if "+" in raw else f"{raw}+cpu"
    body = make_evidence(repro, **options)
    body["build"].update(raw=raw, slug=raw.replace("+", "-"))
    return store.add(signed(body), origin="site")


def write_log(run: Run, *texts: str, first: int = 1) -> None:
    """Lines of its trigger."""
    LogChunk.objects.bulk_create(
        LogChunk(
            run=run,
            seq=seq,
            attempt=1,
            check_name="trigger",
            stream="stdout",
            text=text,
            at=0.1 * seq,
        )
        for seq, text in enumerate(texts, first)
    )


def signed(body: dict[str, Any]) -> dict[str, Any]:
    """The evidence under the digest of what it says now."""
    body = json.loads(json.dumps(body))
    body["digest"] = harness.evidence_digest(body)
    return body
