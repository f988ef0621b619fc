"""The command line of the harness."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from typing import Any, Mapping, Optional, Sequence

from .checks import read_repro
from .child import run_child
from .driver import drive
from .fields import ContractError
from .identity import source_text
from .parameters import read_settings
from .parent import run_parent
from .plain import start_plain
from .values import EXIT_CODES, OTHER_DEVICES, dumps
from .words import EXIT_STATUS, last_output, sentences, settings_of


def _print_summary(evidence: Mapping[str, Any]) -> None:
    build, device = evidence["build"], evidence["device"]
    for sentence in sentences(evidence):
        print(sentence)
    raw, where = build["raw"] or "not found", device["name"] or ""
    print("torch %s · %s %s" % (raw, device["class"], where))
    if evidence.get("parameters"):
        print("%s: other values than the reviewed ones" % settings_of(evidence))
    marks = {"verified": "✔", "does_not_help": "✖", "untested": "◌"}
    for name, status in evidence["workarounds"].items():
        print("%s workaround %s: %s" % (marks[status], name, status))
    for name, outcome in evidence["refuted"].items():
        print("· refuted advice %s: %s" % (name, outcome))
    for line in last_output(evidence):
        print(line)
    print(evidence["digest"])


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Run a repro on the torch of this Python and judge it.",
        epilog=EXIT_STATUS[0],
    )
    parser.add_argument("repro", metavar="REPRO.py")
    add_options(parser)
    parser.add_argument(
        "--device",
        default="",
        choices=OTHER_DEVICES,
        help="run a repro with any_device there, not on the CPU",
    )
    return parser.parse_args(argv)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be asked of any run of one repro."""
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the evidence as JSON, to standard output without FILE / 输出 JSON",
    )
    parser.add_argument(
        "--trials",
        type=_trials,
        metavar="N",
        help="how often trigger and workarounds run / 触发与规避的次数",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of a parameter; repeatable / 改变参数值，可多次给出",
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="Python with the torch to test / 要测试的解释器",
    )


def _trials(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 100):
        raise argparse.ArgumentTypeError("must be from 1 to 100")
    return int(text)


def _run_command(options: argparse.Namespace) -> int:
    source = source_text(options.repro)
    header, _ = read_repro(source)
    if options.json not in (None, "-"):
        open(options.json, "a").close()  # Fail before the run, not after it.
    evidence = drive(
        source,
        start_plain(options.python, options.repro),
        name=os.path.splitext(os.path.basename(options.repro))[0],
        record=header.record,
        trials=options.trials,
        parameters=read_settings(header, options.set),
        device=options.device,
        on_event=lambda phase, text: print(phase, "·", text, file=sys.stderr),
    )
    text = dumps(evidence, indent=2)
    if options.json == "-":
        print(text)
    else:
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        _print_summary(evidence)
    return EXIT_CODES[evidence["verdict"]]


def speak_utf8() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The command line; returns the exit status, which is never 1 by accident."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    speak_utf8()
    try:
        if arguments[:1] == ["--child"]:
            run_child(arguments[1:])
        if arguments[:1] == ["--parent"]:
            return run_parent(arguments[1:])
        return _run_command(_arguments(arguments))
    except ContractError as error:
        for problem in error.errors:
            print("harness: %s" % problem, file=sys.stderr)
    except (OSError, UnicodeDecodeError) as error:
        print("harness: %s" % error, file=sys.stderr)
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
    except Exception:
        traceback.print_exc()
    return 2
