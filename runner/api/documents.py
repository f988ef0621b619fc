"""Runs, builds, workers and evidence as the API shows them: plain data."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.urls import reverse

from kb.addresses import absolute, page_urls
from kb.choices import Verdict
from kb.findings.results import timestamp
from runner.models import Build, Evidence, LogChunk, Run, Worker
from runner.runs import scheduling
from runner.wording import verdicts

Json = dict[str, Any]
IS_AFFECTED: dict[str, bool] = {Verdict.BUG_PRESENT: True, Verdict.BUG_ABSENT: False}


def moment(value: datetime | None) -> str | None:
    return timestamp(value) if value else None


def run_document(run: Run, *, joined: bool = False, cached: bool = False) -> Json:
    """A run as contract §8 has it; `checks` once its evidence is there."""
    body = run.evidence.body if run.evidence else {}
    place = scheduling.place_in_queue(run)
    repro = run.repro
    return {
        "id": str(run.id),
        "record": repro.record_id,
        "repro": {
            "name": repro.name,
            "digest": run.repro_digest,
            "fidelity": repro.fidelity,
        },
        "build": run.build_id,
        "device": run.device,
        "state": run.state,
        "phase": run.phase,
        "attempt": run.attempt,
        "position": place.position,
        "eta_s": place.eta_s,
        "joined": joined,
        "cached": cached,
        "verdict": run.verdict,
        "reason": run.reason,
        "is_affected": None if repro.is_model else IS_AFFECTED.get(run.verdict or ""),
        "hits": run.hits,
        "trials": run.trials,
        "sentence": verdicts.run_sentence(run),
        "checks": body.get("checks", []),
        "workarounds": body.get("workarounds", {}),
        "refuted": body.get("refuted", {}),
        "tier": body.get("tier"),
        "served": body.get("served"),
        "worker": run.worker or None,
        "created_at": moment(run.created_at),
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "evidence": run.evidence_id,
        "urls": run_urls(run),
    }


def run_urls(run: Run) -> Json:
    return {
        "html": page_urls("run-detail", run.id),
        "run": absolute(reverse("api-run-detail", args=[run.id])),
        "log": absolute(reverse("api-run-log", args=[run.id])),
        "cancel": absolute(reverse("api-run-cancel", args=[run.id])),
    }


def log_line(row: LogChunk) -> Json:
    return {
        "seq": row.seq,
        "check": row.check_name,
        "stream": row.stream,
        "text": row.text,
    }


def build_item(build: Build) -> Json:
    """A build with the state of its installations. Prefetch `installations`."""
    return {
        "slug": build.slug,
        "raw": build.raw,
        "dist": build.dist or None,
        "git": build.git or None,
        "cuda": build.cuda or None,
        "hip": build.hip or None,
        "cudnn": build.cudnn or None,
        "python": build.python or None,
        "platform": build.platform or None,
        "installations": [
            {"host": row.host, "state": row.state, "packages": row.packages}
            for row in build.installations.all()
        ],
        "urls": {"html": page_urls("build-detail", build.slug)},
    }


def worker_item(worker: Worker, online: Collection[str]) -> Json:
    """A worker; `online` are the names of those that answer."""
    return {
        "name": worker.name,
        "host": worker.host,
        "queues": worker.queues,
        "devices": worker.devices,
        "tier": worker.tier or None,
        "slots": worker.slots,
        "online": worker.name in online,
        "last_seen": moment(worker.last_seen),
    }


def evidence_item(evidence: Evidence) -> Json:
    return {
        "digest": evidence.digest,
        "record": evidence.record_id,
        "repro": {"name": evidence.repro_name, "digest": evidence.repro_digest},
        "build": evidence.build_id,
        "device": evidence.device_class,
        "verdict": evidence.verdict,
        "origin": evidence.origin,
        "started_at": moment(evidence.started_at),
        "urls": {
            "html": page_urls("evidence-detail", evidence.short),
            "evidence": absolute(
                reverse("api-evidence-detail", args=[evidence.digest])
            ),
        },
    }
