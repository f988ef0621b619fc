"""`python -m runner.sandbox`: runs one repro here, or reports the sandbox tier."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from portable import harness
from runner import exits, sandbox
from runner.gpus import gpu_run
from runner.pool.start import WarmStart


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m runner.sandbox",
        description="Run a repro in the strongest sandbox there is here; judge it.",
    )
    parser.add_argument("repro", metavar="REPRO.py", nargs="?")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="report the sandbox tier of this machine and run nothing",
    )
    parser.add_argument(
        "--without",
        default=os.environ.get("SANDBOX_WITHOUT", ""),
        metavar="LAYERS",
        help="do not use these, separated by commas: "
        f"{', '.join(sandbox.SWITCHES)}; default: $SANDBOX_WITHOUT",
    )
    parser.add_argument(
        "--pool", metavar="SOCKET", help="start checks warm where this pool can"
    )
    options = parser.parse_args(argv)
    if not options.probe and not options.repro:
        parser.error("name a repro, or ask with --probe")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run one repro here; the exit codes are those of the harness."""
    options = arguments(argv)
    try:
        names = map(str.strip, options.without.split(","))
        allowed = os.environ.get("SANDBOX_ALLOW_SHARED_ROOT", "").strip().lower()
        sandbox.configure(
            filter(None, names), allow_shared_root=allowed in {"1", "true", "yes"}
        )
        if options.probe:
            return probe(options.json)
        evidence = drive(options)
    except (OSError, ValueError) as error:
        for problem in getattr(error, "errors", [str(error)]):
            print_progress(f"runner.sandbox: {problem}")
        return 2
    lines = harness.sentences(evidence)
    sys.stdout.write(harness.dumps(evidence, 2) if options.json else "\n".join(lines))
    sys.stdout.write("\n")
    return harness.EXIT_CODES[evidence["verdict"]]


def drive(options: argparse.Namespace) -> dict[str, Any]:
    path = Path(options.repro)
    source = path.read_bytes().decode()
    header, _ = harness.read_repro(source)
    # Where runs on one GPU wait for each other.
    locks = Path(os.environ.get("DATA_DIR") or "var", "locks")

    def start_with(visible: str | None, lock_fds: Sequence[int]) -> harness.Start:
        cold = sandbox.start_in(
            options.python,
            str(path),
            gpus=visible,
            hold_fds=lock_fds,
            on_line=print_own_words,
        )
        if not options.pool:
            return cold
        return WarmStart(options.pool, cold, keeps_cache=False)

    return gpu_run.drive(
        source,
        start_with,
        gpu_run.HostGpus(locks, say=print_progress),
        name=path.stem,
        record=header.record,
        trials=options.trials,
        tier=sandbox.tier().tier,
        limits=sandbox.limits(options.python),
        on_event=lambda phase, text: print_progress(f"{phase} · {text}"),
    )


def print_own_words(check: str, stream: str, text: str) -> None:
    """What is said of a check by what started it, such as why it was refused."""
    if stream == "harness":
        print_progress(f"{check} · {text}")


def probe(as_json: bool) -> int:
    """Print tier, layers, reasons and remedies of this machine."""
    tier, reasons = sandbox.tier(), dict(sandbox.capabilities().reasons)
    lines = [
        f"Tier {tier.tier}: {tier.reason_en}",
        *(tier.remedy_en, tier.reason_zh, tier.remedy_zh),
        *(f"{name}: {value}" for name, value in tier.layers.items()),
        *(f"no {name}: {why}" for name, why in reasons.items()),
    ]
    if as_json:
        report = {**tier._asdict(), "reasons": reasons}
        lines = [json.dumps(report, indent=2, ensure_ascii=False)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def print_progress(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    exits.crash_with_two()
    sys.exit(main())
