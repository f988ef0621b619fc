"""`python doctor.py`: which known bugs does the torch of this Python have?

Exit status: 1 where a bug that is not by design was reproduced, 2 where something ended
without a verdict, 125 where nothing could apply, 130 after Ctrl-C, else 0. Nothing is
sent anywhere.
"""

import concurrent.futures
import contextlib
import functools
import importlib
import signal
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

carried: Any = importlib.import_module("carried")
doctor_options: Any = importlib.import_module("doctor_options")
harness: Any = importlib.import_module("portable.harness")
machine: Any = importlib.import_module("machine")
sarif: Any = importlib.import_module("sarif")

INTERRUPTED = 130  # as a shell calls what SIGINT ended
SCHEMA = "doesitnan.doctor/1"
NO_VERDICT = (None, "error", "inconclusive")
STOPPED = {
    "en": "Interrupted: %d of %d done.",
    "zh": "已中断：%d/%d 已完成。",
}
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
    if any(verdict in NO_VERDICT for verdict in verdicts):
        return 2
    return 125 if {"not_applicable"} >= set(verdicts) else 0


class Examination:
    """All chosen repros under one interpreter, some at a time, up to a time limit."""

    def __init__(
        self, repros: List[Json], options: Any, build: Json, words: Json, execute: Any
    ) -> None:
        """`execute(repro, on_event=…, cancelled=…)` gives the evidence of one repro.

        `words`: the wording of the manifest.
        """
        self.repros = repros
        self.options = options
        self.build = build
        self.words = words
        self.execute = execute
        self.queue: Any = InOrder(repros)
        self.time_left: Any = self.time_left_at_this_pace
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.interrupted = threading.Event()
        self.results: List[Json] = []
        # Of an earlier start and no part of this one: only written again.
        self.kept: List[Json] = []
        self.exit_status: Any = exit_status
        self.extra: Json = {}

    def is_over(self) -> bool:
        limit = self.options.timeout_s
        late = limit is not None and self.elapsed_s() > limit
        return late or self.interrupted.is_set()

    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    def interrupt(self, number: int, frame: Any) -> None:
        """For Ctrl-C: what runs is ended, what ran is told."""
        self.interrupted.set()

    def start(self) -> None:
        """Run to the end, or to a signal; the time limit counts from now."""
        self.began = time.monotonic()
        self.heed_signals()
        self.run()

    def heed_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupt)

    def run(self) -> None:
        jobs = range(self.options.jobs)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            attend([pool.submit(self.work, job) for job in jobs])
        ran = [name_of(result) for result in self.results]
        for repro in self.repros:
            if (repro["record"], repro["name"]) not in ran:
                self.keep(repro, None)

    def work(self, job: int) -> None:
        """One repro after the other, as long as there are some and there is time."""
        repro = None if self.is_over() else self.queue.take()
        while repro is not None:
            evidence = None
            try:
                with contextlib.suppress(harness.Cancelled):  # over time: none
                    evidence = self.evidence_of(repro)
                    self.keep(repro, evidence)
            finally:
                self.queue.give_back(repro, evidence)
            repro = None if self.is_over() else self.queue.take()

    def evidence_of(self, repro: Json) -> Any:
        told = self.progress(repro)
        return self.execute(repro, on_event=told, cancelled=self.is_over)

    def keep(self, repro: Json, evidence: Optional[Json]) -> None:
        with self.lock:
            self.results.append(result_of(repro, evidence))
            # Nothing that ran is lost, and who waits sees it.
            if self.options.json not in (None, "-"):
                carried.write(self.options.json, harness.dumps(self.whole(), indent=2))
            if self.options.json != "-" and not self.interrupted.is_set():
                titles = repro["titles"]
                show(self.words, self.results[-1], titles, self.options.lang)

    def progress(self, repro: Json) -> Any:
        name = "%s %s" % (repro["record"], repro["name"])

        def on_event(phase: str, text: str) -> None:
            if text == "started":
                carried.follow("%s %s · %s" % (self.place(), name, phase))

        if not sys.stderr.isatty():
            carried.tell("%s %s" % (self.place(), name))
        return on_event

    def place(self) -> str:
        """Such as "[3/84, 2 min left]"."""
        done, total = len(self.results), len(self.repros)
        place = "%d/%d" % (min(done + 1, total), total)
        left_s = self.time_left()
        if left_s is not None:
            number, unit = (left_s, "s") if left_s < 90 else (left_s / 60, "min")
            place += TIME_LEFT[self.options.lang, unit] % number
        return "[%s]" % place

    def time_left_at_this_pace(self) -> Optional[float]:
        """Seconds, were the rest to take as long as what ran; None at first."""
        done, total = len(self.results), len(self.repros)
        return self.elapsed_s() / done * (total - done) if done else None

    def status(self) -> int:
        interrupted = self.interrupted.is_set()
        return INTERRUPTED if interrupted else int(self.exit_status(self.results))

    def whole(self) -> Json:
        """Everything so far, in the order of the records."""
        order = {(r["record"], r["name"]): at for at, r in enumerate(self.repros)}
        rows = self.results + self.kept
        return {
            "schema": SCHEMA,
            "build": {key: self.build.get(key) for key in harness.BUILD_KEYS},
            **self.extra,
            "results": sorted(rows, key=lambda row: order.get(name_of(row), len(rows))),
            "complete": len(self.results) == len(self.repros)
            and not self.interrupted.is_set(),
            "duration_s": round(self.elapsed_s(), 3),
            "exit": self.status(),
        }


class InOrder:
    """Gives the repros out one after the other, to several threads."""

    def __init__(self, repros: List[Json]) -> None:
        self.waiting = list(reversed(repros))

    def take(self) -> Optional[Json]:
        # One operation of a list each, so that no lock is needed.
        with contextlib.suppress(IndexError):
            return self.waiting.pop()
        return None

    def give_back(self, repro: Json, evidence: Optional[Json]) -> None:
        """What it had is free again; here a repro holds nothing."""


def attend(working: List[Any]) -> None:
    """Until all is done; raises what one of them raised."""
    # Where another thread is given a signal, this one heeds it once it wakes.
    while concurrent.futures.wait(working, timeout=0.2).not_done:
        pass
    for work in working:
        work.result()


def name_of(result: Json) -> Tuple[str, str]:
    return result["record"], result["repro"]


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


def show(words: Json, result: Json, titles: Json, lang: str) -> None:
    """One row of the table: verdict and title, workarounds."""
    evidence = result["evidence"]
    badge = words["not_run"][lang]
    if evidence:
        badge = dict(zip(carried.LANGS, harness.sentences(evidence)))[lang]
    carried.say("%-22s %s" % ("%s %s" % (result["record"], result["repro"]), badge))
    upstream = {"en": "upstream: ", "zh": "上游："}[lang]
    stands = words["upstream"][result["upstream"]][lang]
    line = "%s · %s%s" % (result["title"][lang], upstream, stands)
    reason = evidence and harness.reason_text(words, evidence["reason"], lang)
    carried.say(" " * 23 + (line + " · " + reason if reason else line))
    if result["verdict"] == "bug_present":
        carried.workaround_lines(words, evidence, lang, titles, " " * 23)
        if result["page"]:
            carried.say(" " * 23 + result["page"])


def main(folder: str, argv: List[str]) -> int:
    harness.speak_utf8()
    manifest = carried.read_manifest(folder)
    options = doctor_options.read_options(manifest, argv)
    if options.list:
        return list_repros(manifest, options)
    if options.machine:
        return int(machine.examine(folder, options))
    try:
        return examine(folder, manifest, options)
    except (OSError, harness.ContractError) as error:
        carried.tell("doctor.py: %s" % error)
    return 2


def list_repros(manifest: Json, options: Any) -> int:
    options.cuda = True
    line = "%(record)-9s %(name)-14s %(device)-4s %(fidelity)-15s %(shown)s"
    for repro in chosen(manifest, options):
        carried.say(line % dict(repro, shown=repro["title"][options.lang]))
    return 0


def examine(folder: str, manifest: Json, options: Any) -> int:
    for path in (options.json, options.sarif):
        if path not in (None, "-"):
            open(path, "a").close()  # Fail before the runs, not after them.

    build = build_of(options)
    if not build:
        return 2
    python = options.python
    forks = harness.Forks(python)
    execute = functools.partial(
        carried.run, folder, python=python, forks=forks, quick=options.quick
    )
    repros = chosen(manifest, options)
    examination = Examination(repros, options, build, manifest["words"], execute)
    examination.start()
    whole = examination.whole()
    if options.json == "-":
        carried.say(harness.dumps(whole, indent=2))
    else:
        conclude(manifest, whole, options.lang, examination.interrupted.is_set())
    if options.json not in (None, "-"):
        carried.write(options.json, harness.dumps(whole, indent=2))
    if options.sarif:
        carried.write(
            options.sarif, sarif.dumps(whole, options.requirements, options.lang)
        )
    return int(whole["exit"])


def build_of(options: Any) -> Json:
    """What torch is there; empty, and said, where there is none."""
    report = harness.probe(options.python)
    if report.failure:
        carried.tell(report.log_text.rstrip())
        said = {
            "en": "%s cannot import torch: nothing was examined.",
            "zh": "%s 无法导入 torch：未做任何检查。",
        }
        carried.tell(said[options.lang] % options.python)
        return {}
    build: Json = (report.hello or {}).get("identity") or {}
    if options.json != "-":
        carried.say("torch %(raw)s · Python %(python)s · %(platform)s" % build)
    return build


def conclude(manifest: Json, whole: Json, lang: str, stopped: bool) -> None:
    results = whole["results"]
    if stopped:
        total, results = len(results), [row for row in results if row["evidence"]]
        carried.say(STOPPED[lang] % (len(results), total))
    verdicts = [(result["device"], result["verdict"]) for result in results]
    numbers = {
        "total": len(results),
        "counted": sum(result["counts"] for result in results),
        "design": sum(
            result["verdict"] == "bug_present" and result["upstream"] == "by_design"
            for result in results
        ),
        "none": sum(found in NO_VERDICT for _device, found in verdicts),
        "left_out": len(manifest["repros"]) - len(results),
        "seconds": whole["duration_s"],
    }
    carried.say(manifest["words"]["conclusion"][lang].format(**numbers))
    for_gpus = whole["build"]["cuda"] or whole["build"]["hip"]
    if for_gpus and ("cpu", "bug_absent") in verdicts:
        carried.say(manifest["words"]["clears_no_gpu"][lang])
