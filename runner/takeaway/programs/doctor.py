"""`python doctor.py`: which known bugs does the torch of this Python have?

Exit status: 1 where a bug that is not by design was reproduced, 2 where something ended
without a verdict, 125 where nothing could apply, else 0. Nothing is sent anywhere.
"""

import argparse
import concurrent.futures
import contextlib
import importlib
import sys
import threading
import time
from typing import Any, Dict, List, Optional

carried: Any = importlib.import_module("carried")
harness: Any = importlib.import_module("harness")

SCHEMA = "doesitnan.doctor/1"
Json = Dict[str, Any]


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="doctor.py",
        description="Run every reviewed repro on the torch of this Python. "
        "Nothing is sent anywhere. / 在当前 Python 的 torch 上运行全部已审核的"
        "复现脚本，不上传任何内容。",
        epilog="Exit status: 1 a bug that is not by design was reproduced, 2 something "
        "ended without a verdict, 125 nothing applies here, 0 else.",
    )
    parser.add_argument(
        "--record",
        action="append",
        metavar="ID",
        help="only this record, e.g. NAN-0002; may stand several times / 只运行该记录",
    )
    parser.add_argument(
        "--cuda", action="store_true", help="also what needs a GPU / 也运行 CUDA 脚本"
    )
    parser.add_argument(
        "--no-models",
        action="store_true",
        help="leave out models, which say nothing of a build / 不运行机理模型",
    )
    parser.add_argument(
        "--timeout-s",
        type=float,
        metavar="S",
        help="end after so many seconds, the rest without a verdict / 总时限",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="repros at a time / 并行数"
    )
    parser.add_argument(
        "--python",
        default="",
        help="interpreter with the torch to test / 要测试的解释器",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the results as JSON, to standard output without FILE / 输出 JSON",
    )
    parser.add_argument(
        "--list", action="store_true", help="only list the repros / 仅列出"
    )
    return parser


def read_options(manifest: Json, argv: List[str]) -> argparse.Namespace:
    parser = parser_of()
    options = parser.parse_args(argv)
    known = {repro["record"] for repro in manifest["repros"]}
    options.record = [name.upper() for name in options.record or ()]
    unknown = sorted(set(options.record) - known)
    if unknown:
        parser.error(
            "no repro of %s here; --list shows what there is" % ", ".join(unknown)
        )
    if options.timeout_s is not None and not options.timeout_s > 0:
        parser.error("--timeout-s must be above 0")
    if not 1 <= options.jobs <= 64:
        parser.error("--jobs must be from 1 to 64")
    return options


def chosen(manifest: Json, options: argparse.Namespace) -> List[Json]:
    return [
        repro
        for repro in manifest["repros"]
        if (not options.record or repro["record"] in options.record)
        and (options.cuda or repro["device"] == "cpu")
        and not (options.no_models and is_model(repro))
    ]


def is_model(repro: Json) -> bool:
    return bool(repro["fidelity"] == "mechanism_model")


def counts(repro: Json, verdict: Optional[str]) -> bool:
    """Whether a result is a fault of this environment: models and design are none."""
    by_design = repro["upstream"] == "by_design"
    return verdict == "bug_present" and not by_design and not is_model(repro)


def exit_status(results: List[Json]) -> int:
    verdicts = [result["verdict"] for result in results]
    if any(result["counts"] for result in results):
        return 1
    if any(verdict in (None, "error", "inconclusive") for verdict in verdicts):
        return 2
    return 125 if {"not_applicable"} >= set(verdicts) else 0


class Examination:
    """All chosen repros under one interpreter, some at a time, up to a time limit."""

    def __init__(self, folder: str, manifest: Json, options: Any) -> None:
        self.folder = folder
        self.manifest = manifest
        self.options = options
        self.began = time.monotonic()
        self.lock = threading.Lock()

    def is_over_time(self) -> bool:
        limit = self.options.timeout_s
        return limit is not None and time.monotonic() - self.began > limit

    def run(self) -> List[Json]:
        repros = chosen(self.manifest, self.options)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            return list(pool.map(self.result, repros))

    def result(self, repro: Json) -> Json:
        evidence = None
        if not self.is_over_time():
            # Over time there is no evidence.
            with contextlib.suppress(harness.Cancelled):
                evidence = carried.run(
                    self.folder,
                    repro,
                    self.options.python,
                    on_event=self.progress(repro),
                    cancelled=self.is_over_time,
                )
        verdict = evidence and evidence["verdict"]
        found = {
            key: repro[key] for key in ("record", "title", "upstream", "page", "device")
        }
        found.update(
            repro=repro["name"],
            state="finished" if evidence else "cancelled",
            verdict=verdict,
            counts=counts(repro, verdict),
            evidence=evidence,
        )
        with self.lock:
            if self.options.json != "-":
                show(self.manifest["words"], found)
        return found

    def progress(self, repro: Json) -> Any:
        def on_event(phase: str, text: str) -> None:
            if text == "started":
                carried.tell("%s %s · %s" % (repro["record"], repro["name"], phase))

        return on_event


def show(words: Json, result: Json) -> None:
    """One row of the table: verdict and title in both languages, workarounds."""
    evidence = result["evidence"]
    name = "%s %s" % (result["record"], result["repro"])
    badges = words["not_run"]["en"], words["not_run"]["zh"]
    if evidence:
        badges = harness.sentences(evidence)
    upstream = {"en": "upstream: ", "zh": "上游："}
    for lang, state in words["upstream"][result["upstream"]].items():
        upstream[lang] += state
    for lang, badge in zip(carried.LANGS, badges):
        carried.say("%-22s %s" % (name, badge))
        line = "%s · %s" % (result["title"][lang], upstream[lang])
        reason = evidence and carried.reason_text(words, evidence["reason"], lang)
        carried.say(" " * 23 + (line + " · " + reason if reason else line))
        name = ""
    if result["verdict"] == "bug_present":
        carried.workaround_lines(words, evidence, " " * 23)
        if result["page"]:
            carried.say(" " * 23 + result["page"])


def main(folder: str, argv: List[str]) -> int:
    carried.speak_utf8()
    manifest = carried.read_manifest(folder)
    options = read_options(manifest, argv)
    if options.list:
        return list_repros(manifest, options)
    try:
        return examine(folder, manifest, options)
    except OSError as error:
        carried.tell("doctor.py: %s" % error)
    return 2


def list_repros(manifest: Json, options: Any) -> int:
    options.cuda = True
    for repro in chosen(manifest, options):
        carried.say(
            "%-9s %-14s %-4s %-15s %s / %s"
            % (
                repro["record"],
                repro["name"],
                repro["device"],
                repro["fidelity"],
                repro["title"]["en"],
                repro["title"]["zh"],
            )
        )
    return 0


def examine(folder: str, manifest: Json, options: Any) -> int:
    if options.json not in (None, "-"):
        open(options.json, "a").close()  # Fail before the runs, not after them.
    python = options.python or sys.executable
    report = harness.probe(python)
    build = (report.hello or {}).get("identity") or {}
    if report.failure:
        carried.tell(report.log_text.rstrip())
        carried.tell("%s cannot import torch: nothing was examined." % python)
        carried.tell("%s 无法导入 torch：未做任何检查。" % python)
        return 2
    if options.json != "-":
        carried.say("torch %(raw)s · Python %(python)s · %(platform)s" % build)
    examination = Examination(folder, manifest, options)
    results = examination.run()
    status = exit_status(results)
    whole = {
        "schema": SCHEMA,
        "build": {key: build.get(key) for key in harness.BUILD_KEYS},
        "results": results,
        "duration_s": round(time.monotonic() - examination.began, 3),
        "exit": status,
    }
    text = harness.dumps(whole, indent=2)
    if options.json == "-":
        carried.say(text)
        return status
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    conclude(manifest["words"], whole, len(manifest["repros"]) - len(results))
    return status


def conclude(words: Json, whole: Json, left_out: int) -> None:
    results = whole["results"]
    numbers = {
        "total": len(results),
        "counted": sum(result["counts"] for result in results),
        "design": sum(
            result["verdict"] == "bug_present" and result["upstream"] == "by_design"
            for result in results
        ),
        "none": sum(
            result["verdict"] in (None, "error", "inconclusive") for result in results
        ),
        "left_out": left_out,
        "seconds": whole["duration_s"],
    }
    for lang in carried.LANGS:
        carried.say(words["conclusion"][lang].format(**numbers))
