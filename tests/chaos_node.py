"""A worker node for chaos: the real worker, whose runs are one short process each.

What a run executes is a stand-in, so that a test can afford many; claim, lease, live
log, evidence and the end of a worker are the real ones. CHAOS_REAP=0 leaves lost
runs alone.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock

import django

RUN_S = (0.2, 0.6)  # CHAOS_RUN_S makes it one fixed time
# Says the time ten times a second, as a check may that goes on for long.
CHECK = """
import sys, time
end = time.time() + float(sys.argv[1])
while time.time() < end:
    print(time.time(), flush=True)
    time.sleep(max(0, min(0.1, end - time.time())))
"""


def stand_in(job: Any, *given: Any, **options: Any) -> dict[str, Any]:
    """In place of `execution.run_now`: evidence of a process that only waits."""
    from portable import harness
    from runner.worker import execution, supervisor
    from tests.support import runs

    values = [*given, *options.values()]
    (listeners,) = (v for v in values if isinstance(v, execution.Listeners))
    fixed = os.environ.get("CHAOS_RUN_S")
    seconds = float(fixed) if fixed else random.uniform(*RUN_S)
    listeners.phase("trigger 1/1", "waits")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CHECK, str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=supervisor.die_with_parent,
    ) as check:
        assert check.stdout
        for line in check.stdout:
            if listeners.line:
                listeners.line("trigger", "stdout", line.strip())
            if listeners.cancelled and listeners.cancelled():
                check.kill()
                raise harness.Cancelled
    repro = SimpleNamespace(
        source=job.source,
        name=job.name,
        record_id=job.record,
        digest=harness.source_digest(job.source),
    )
    failure = "crash:SIGKILL" if check.returncode else ""
    now = datetime.now(UTC).isoformat()
    return runs.make_evidence(repro, failure=failure, started_at=now)  # type: ignore[arg-type]


def main() -> None:
    django.setup()
    from runner.runs import ledger
    from runner.worker import execution, tasks
    from runner.worker.heartbeat import full_name

    mock.patch.object(execution, "run_now", stand_in).start()
    if os.environ.get("CHAOS_REAP") == "0":
        mock.patch.object(ledger, "reap", dict).start()
    sys.exit(tasks.serve(full_name(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
