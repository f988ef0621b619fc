"""`python doctor.py`: which known bugs does the torch of this Python have?

Exit status: 1 where a bug that is not by design was reproduced, 2 where something ended
without a verdict, 125 where nothing could apply, 130 after Ctrl-C, else 0. Nothing is
sent anywhere.
"""

import concurrent.futures
import contextlib
import importlib
import os
import signal
import sys
import threading
import time
from typing import Any, Dict, List, Optional

carried: Any = importlib.import_module("carried")
compared: Any = importlib.import_module("compared")
doctor_options: Any = importlib.import_module("doctor_options")
harness: Any = importlib.import_module("harness")
sarif: Any = importlib.import_module("sarif")

INTERRUPTED = 130  # as a shell calls what SIGINT ended
SCHEMA = "doesitnan.doctor/1"
TIME_LEFT = {
    ("en", "s"): ", %.0f s left",
    ("en", "min"): ", %.0f min left",
    ("zh", "s"): "，约剩 %.0f 秒",
    ("zh", "min"): "，约剩 %.0f 分钟",
}
Json = Dict[str, Any]


def chosen(manifest: Json, options: Any) -> List[Json]:
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

    def __init__(
        self, folder: str, manifest: Json, options: Any, python: str, build: Json
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.options = options
        self.python = python
        self.build = build
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.interrupted = threading.Event()
        self.repros = chosen(manifest, options)
        self.results: List[Json] = []

    def is_over(self) -> bool:
        limit = self.options.timeout_s
        late = limit is not None and time.monotonic() - self.began > limit
        return late or self.interrupted.is_set()

    def interrupt(self, number: int, frame: Any) -> None:
        """For Ctrl-C: what runs is ended, what ran is told."""
        self.interrupted.set()

    def run(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for _ in pool.map(self.examine, self.repros):
                pass

    def examine(self, repro: Json) -> None:
        evidence = None
        if not self.is_over():
            # Over time there is no evidence.
            with contextlib.suppress(harness.Cancelled):
                evidence = carried.run(
                    self.folder,
                    repro,
                    self.python,
                    on_event=self.progress(repro),
                    cancelled=self.is_over,
                )
        with self.lock:
            self.results.append(result_of(repro, evidence))
            self.keep()

    def keep(self) -> None:
        """Nothing that ran is lost, and who waits sees it."""
        if self.options.json not in (None, "-"):
            write(self.options.json, harness.dumps(self.document(), indent=2))
        is_told = not self.options.compare and self.options.json != "-"
        if is_told and not self.interrupted.is_set():
            show(self.manifest["words"], self.results[-1], self.options.lang)

    def document(self) -> Json:
        whole = self.whole()
        if not self.options.compare:
            return whole
        found: Json = compared.whole(whole, None, 0)
        return found

    def progress(self, repro: Json) -> Any:
        def on_event(phase: str, text: str) -> None:
            if text == "started":
                name = "%s %s" % (repro["record"], repro["name"])
                carried.tell("%s %s · %s" % (self.place(), name, phase))

        return on_event

    def place(self) -> str:
        """Such as "[3/84, 2 min left]"; the time is that of what ran so far."""
        done, total = len(self.results), len(self.repros)
        place = "%d/%d" % (min(done + 1, total), total)
        if done:
            left_s = (time.monotonic() - self.began) / done * (total - done)
            number, unit = (left_s, "s") if left_s < 90 else (left_s / 60, "min")
            place += TIME_LEFT[self.options.lang, unit] % number
        return "[%s]" % place

    def status(self) -> int:
        interrupted = self.interrupted.is_set()
        return INTERRUPTED if interrupted else exit_status(self.results)

    def whole(self) -> Json:
        """Everything so far, in the order of the records."""
        order = {(r["record"], r["name"]): at for at, r in enumerate(self.repros)}
        return {
            "schema": SCHEMA,
            "build": {key: self.build.get(key) for key in harness.BUILD_KEYS},
            "results": sorted(
                self.results, key=lambda row: order[row["record"], row["repro"]]
            ),
            "complete": len(self.results) == len(self.repros)
            and not self.interrupted.is_set(),
            "duration_s": round(time.monotonic() - self.began, 3),
            "exit": self.status(),
        }


def result_of(repro: Json, evidence: Optional[Json]) -> Json:
    verdict = evidence["verdict"] if evidence else None
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
    return found


def write(path: str, text: str) -> None:
    """Whole or not at all, also for who reads it meanwhile."""
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(part, path)


def show(words: Json, result: Json, lang: str) -> None:
    """One row of the table: verdict and title, workarounds."""
    evidence = result["evidence"]
    badge = words["not_run"][lang]
    if evidence:
        badge = dict(zip(carried.LANGS, harness.sentences(evidence)))[lang]
    carried.say("%-22s %s" % ("%s %s" % (result["record"], result["repro"]), badge))
    upstream = {"en": "upstream: ", "zh": "上游："}[lang]
    line = "%s · %s%s" % (
        result["title"][lang],
        upstream,
        words["upstream"][result["upstream"]][lang],
    )
    reason = evidence and carried.reason_text(words, evidence["reason"], lang)
    carried.say(" " * 23 + (line + " · " + reason if reason else line))
    if result["verdict"] == "bug_present":
        carried.workaround_lines(words, evidence, " " * 23, langs=[lang])
        if result["page"]:
            carried.say(" " * 23 + result["page"])


def main(folder: str, argv: List[str]) -> int:
    carried.speak_utf8()
    manifest = carried.read_manifest(folder)
    options = doctor_options.read_options(manifest, argv)
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
            "%-9s %-14s %-4s %-15s %s"
            % (
                repro["record"],
                repro["name"],
                repro["device"],
                repro["fidelity"],
                repro["title"][options.lang],
            )
        )
    return 0


def examine(folder: str, manifest: Json, options: Any) -> int:
    for path in (options.json, options.sarif):
        if path not in (None, "-"):
            open(path, "a").close()  # Fail before the runs, not after them.
    python = options.python or sys.executable
    build = build_of(python, options)
    other = build_of(options.compare, options) if options.compare and build else None
    if not build or (options.compare and not other):
        return 2
    examination = started(Examination(folder, manifest, options, python, build))
    if other:
        second = Second(folder, manifest, options, options.compare, other)
        second.first = examination.whole()
        if not examination.interrupted.is_set():
            started(second)
        return tell_both(second, options)
    whole = examination.whole()
    if options.json == "-":
        carried.say(harness.dumps(whole, indent=2))
    else:
        conclude(manifest, whole, options.lang)
    if options.json not in (None, "-"):
        write(options.json, harness.dumps(whole, indent=2))
    if options.sarif:
        write(options.sarif, sarif.dumps(whole, options.requirements, options.lang))
    return int(whole["exit"])


def build_of(python: str, options: Any) -> Json:
    """What torch is there; empty, and said, where there is none."""
    report = harness.probe(python)
    if report.failure:
        carried.tell(report.log_text.rstrip())
        said = {
            "en": "%s cannot import torch: nothing was examined.",
            "zh": "%s 无法导入 torch：未做任何检查。",
        }
        carried.tell(said[options.lang] % python)
        return {}
    build: Json = (report.hello or {}).get("identity") or {}
    if options.json != "-":
        carried.say("torch %(raw)s · Python %(python)s · %(platform)s" % build)
    return build


def started(examination: Examination) -> Examination:
    """Run to its end, or to a signal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, examination.interrupt)
    examination.run()
    return examination


class Second(Examination):
    """That of the other environment; what it writes holds the `first` one, too."""

    first: Json = {}

    def document(self) -> Json:
        whole = self.whole()
        ended = INTERRUPTED if INTERRUPTED in (self.first["exit"], whole["exit"]) else 0
        found: Json = compared.whole(self.first, whole, ended)
        return found


def tell_both(second: Second, options: Any) -> int:
    found = second.document()
    text = harness.dumps(found, indent=2)
    if options.json == "-":
        carried.say(text)
    else:
        compared.show(found, options.lang)
    if options.json not in (None, "-"):
        write(options.json, text)
    return int(found["exit"])


def conclude(manifest: Json, whole: Json, lang: str) -> None:
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
        "left_out": len(manifest["repros"]) - len(results),
        "seconds": whole["duration_s"],
    }
    carried.say(manifest["words"]["conclusion"][lang].format(**numbers))
