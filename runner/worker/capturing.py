"""Executes captures: each in a fresh process of the sandbox, never in a warm one."""

from __future__ import annotations

import logging
from pathlib import Path

from portable import harness
from runner import sandbox
from runner.builds import registry
from runner.captures import known, program, queue
from runner.captures.outcome import Shown, shown_by
from runner.models import Capture, CaptureRun
from runner.runs import jobs
from runner.runs.retries import DEADLINE_SLACK_S
from runner.sandbox.tiers import letter, reaches
from runner.worker.lease import LeaseKeeper

log = logging.getLogger(__name__)
HEADER = harness.parse_header(program.HEADER)


def execute(run: CaptureRun) -> bool:
    """Execute a claimed run and end it. False when its lease was lost meanwhile."""
    found = registry.installation_for(run.build_id)
    if found is None:
        return queue.finish(run, queue.ERROR, "build_missing")
    if run.capture is None:
        return False  # deleted in between
    with LeaseKeeper(run, HEADER.timeout_s * 3 + DEADLINE_SLACK_S) as keeper:
        try:
            shown = shown_here(run.capture, run.build_id, found.interpreter, keeper)
        except OSError as error:  # as a full disk has it
            log.error("Capture run %s: %s", run.pk, error)
            shown = Shown(queue.ERROR, "refused")
    if keeper.lost:
        log.warning("Capture run %s: lease lost, nothing written", run.pk)
        return False
    if keeper.should_stop():
        return jobs.give_back(run)
    return queue.finish(run, shown.outcome, shown.reason, **shown.found)


def shown_here(
    capture: Capture, build: str, interpreter: str, keeper: LeaseKeeper
) -> Shown:
    """What the call shows under this interpreter."""
    with sandbox.scratch_folder() as scratch:
        path = Path(scratch) / "capture.py"
        asked = known.diagnosis_of(known.record_of(capture), capture)
        path.write_text(program.source_of(capture.text, asked), "utf-8")
        start = sandbox.start_in(
            interpreter, str(path), gpus="", cancelled=keeper.should_stop
        )
        # By the layers of this very build, which may be fewer than the machine's.
        if not reaches(letter(start.layers), queue.WEAKEST):
            return Shown(queue.ERROR, "refused")
        for _attempt in range(1 + harness.MOST_REPEATS):
            report = start(harness.check_spec(HEADER, program.CHECK))
            if not report.killed_by:
                break
    slug = ((report.hello or {}).get("identity") or {}).get("slug")
    if slug not in (build, None):
        return Shown(queue.ERROR, "build_missing")
    return shown_by(HEADER, report)
