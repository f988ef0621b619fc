"""`python kit.zip`: reviewed repros on a node that has a GPU and no network.

It is the doctor with a schedule: the most telling repros first, as many as the time
allows, each with the wheels that it came with, on GPUs that are locked and watched.
What time is left then goes to sweeps. The evidence file is written anew after each
repro and each cell of a sweep, and a later start goes on from it.

Exit status: 0 all repros that can run here have run, 1 some are left for another start,
2 wrong usage or trouble, 125 there is nothing to run here, 130 after Ctrl-C.
"""

import argparse
import importlib
import json
import os
import shlex
import sys
import time
from typing import Any, Dict, List, Tuple

carried: Any = importlib.import_module("carried")
doctor: Any = importlib.import_module("doctor")
doctor_options: Any = importlib.import_module("doctor_options")
harness: Any = importlib.import_module("portable.harness")
kit_words: Any = importlib.import_module("kit_words")
schedule: Any = importlib.import_module("schedule")

LEFT = 1
TROUBLE = 2
NOTHING = 125
OLDEST_PYTHON = (3, 10)
# Facts of a build that must be equal for a start to go on from another one's results.
SAME = ("raw", "git", "cuda", "hip", "cudnn", "python", "platform")
Json = Dict[str, Any]
# Of a repro: record and name.
Name = Tuple[str, str]


class Refused(Exception):
    """It cannot start like this; the text is in the reader's language."""


# --- command line ---------------------------------
def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kit.zip",
        description="Run reviewed repros on the torch of this Python and keep the "
        "evidence in one file. Nothing is sent anywhere. / 在当前 Python 的 torch 上"
        "运行已审核的复现脚本，证据存入一个文件，不上传任何内容。",
        epilog="Exit status: 0 all repros have run, 1 some are left (--resume), 2 "
        "trouble, 125 nothing to run here, 130 interrupted.",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="where the evidence is kept / 证据文件"
    )
    parser.add_argument(
        "--resume",
        metavar="FILE",
        help="continue this evidence file; made if missing / "
        "从该证据文件继续；不存在时新建",
    )
    parser.add_argument(
        "--sweeps",
        choices=("after", "no", "only"),
        help="sweep parameters after the repros, not at all, or do nothing else; "
        "without this, after them if --budget-s leaves time / 何时做参数扫描；"
        "默认仅在 --budget-s 有剩余时间时进行",
    )
    parser.add_argument(
        "--only-cuda",
        action="store_true",
        help="only repros that need a GPU / 只运行需要 GPU 的脚本",
    )
    parser.add_argument(
        "--device",
        default="",
        choices=harness.OTHER_DEVICES,
        help="only repros for any device, and on this one instead of the CPU (cuda is "
        "ROCm's, too) / 只运行可用于任何设备的脚本，改在该设备上运行（cuda 也指 ROCm）",
    )
    doctor_options.add_common(parser, "--budget-s")
    return parser


def read_options(manifest: Json, argv: List[str]) -> argparse.Namespace:
    parser = parser_of()
    options = parser.parse_args(argv)
    doctor_options.check_common(parser, options, manifest, "--budget-s")
    options.json = options.json or options.resume
    if options.device:
        options.sweeps = "no"
    if not options.json and not options.list:
        parser.error("name a file for the evidence: --json evidence.json")
    return options


# --- what is to be run ----------------------------
def chosen(manifest: Json, options: Any, gpus: int) -> List[Json]:
    """In the order in which they tell most."""
    if options.device:
        manifest = {"repros": elsewhere(manifest["repros"], options.device, gpus)}
    return sorted(
        (
            repro
            for repro in manifest["repros"]
            if (not options.record or repro["record"] in options.record)
            and (gpus or repro["device"] == "cpu")
            and not (options.only_cuda and repro["device"] == "cpu")
        ),
        key=schedule.order,
    )


def elsewhere(repros: List[Json], device: str, count: int) -> List[Json]:
    """Those for any device, as they run on this one; none where torch sees none."""
    moved = {"device": device, "gpus": int(device == "cuda")}
    return [dict(repro, **moved) for repro in repros if repro["any_device"] and count]


def earlier(options: Any, build: Json, gpus: List[str]) -> Json:
    """The file that an earlier start here left, {} where none. Raises Refused."""
    words = kit_words.of(options.lang)
    path = options.resume
    if options.json != path and is_filled(options.json):
        raise Refused(words["filled"].format(file=options.json))
    if not path or not is_filled(path):
        return {}
    whole = read_results(path, words)
    then, now = place_of(whole["build"], whole["gpus"]), place_of(build, gpus)
    if then != now:
        raise Refused(words["elsewhere"].format(file=path, then=then, now=now))
    return whole


def results_of(whole: Json, repros: List[Json]) -> Dict[Name, Json]:
    """What it has of the very sources that this kit has."""
    wanted = {schedule.name_of(r): (r["digest"], r["device"]) for r in repros}
    found = {}
    for row in whole.get("results", []):
        name, evidence = doctor.name_of(row), row["evidence"]
        ran = evidence and (evidence["repro"]["digest"], evidence["device"]["class"])
        if ran and ran == wanted.get(name):
            found[name] = row
    return found


def others_of(whole: Json, done: Dict[Name, Json]) -> List[Json]:
    """What else it has: of repros that are not asked for now, or of other sources."""
    return [
        row
        for row in whole.get("results", [])
        if row["evidence"] and done.get(doctor.name_of(row)) is not row
    ]


def is_filled(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0


def read_results(path: str, words: Json) -> Json:
    try:
        with open(path, "rb") as file:
            whole: Json = json.loads(file.read().decode("utf-8"))
        if whole["schema"] == doctor.SCHEMA and whole["gpus"] is not None:
            return whole
    except (ValueError, KeyError, TypeError):
        pass
    raise Refused(words["no_results"].format(file=path))


def place_of(build: Json, gpus: List[str]) -> str:
    """What results belong to: a torch, its Python, the GPUs."""
    facts = [str(build.get(name)) for name in SAME if build.get(name)]
    return ", ".join(["torch " + facts[0], *facts[1:], *gpus])


# --- one start ------------------------------------
def main(folder: str, argv: List[str]) -> int:
    harness.speak_utf8()
    manifest = carried.read_manifest(folder)
    options = read_options(manifest, argv)
    words = kit_words.of(options.lang)
    if sys.version_info < OLDEST_PYTHON:
        carried.tell(words["python"])
        return TROUBLE
    # What reads GPUs is written for Python 3.10, which is known to be here only now.
    node = importlib.import_module("node")
    kit_sweeps = importlib.import_module("kit_sweeps")
    wheels = node.Wheels(sys.argv[0], folder, manifest["wheels"])
    changed = wheels.changed()
    if changed:
        carried.tell(words["changed"].format(names=", ".join(changed)))
        return TROUBLE
    try:
        with node.own_folder(folder):
            place = node.Node(folder, options.python, wheels)
            return examine(manifest, options, place, kit_sweeps)
    except (OSError, Refused) as error:
        carried.tell("kit.zip: %s" % error)
    return TROUBLE


def examine(manifest: Json, options: Any, place: Any, kit_sweeps: Any) -> int:
    words = kit_words.of(options.lang)
    began = time.monotonic()
    report = harness.probe(options.python, device=options.device)
    hello = report.hello or {}
    build = hello.get("identity") or {}
    if report.failure:
        carried.tell(report.log_text.rstrip())
        carried.tell(words["no_torch"].format(python=options.python))
        return TROUBLE
    gpus = [device["name"] for device in hello["devices"]]
    repros = chosen(manifest, options, len(gpus))
    place.build = build
    introduce(manifest, build, hello["devices"], words, options.device)
    start_s = time.monotonic() - began
    expected = {schedule.name_of(r): schedule.expected_s(r, start_s) for r in repros}
    whole = {} if options.list else earlier(options, build, gpus)
    done = results_of(whole, repros)
    waiting = [repro for repro in repros if schedule.name_of(repro) not in done]
    if options.sweeps == "only":
        waiting = []
    examination = doctor.Examination(
        repros, options, build, manifest["words"], place.execute
    )
    examination.began = began
    examination.results += done.values()
    examination.kept = others_of(whole, done)
    sweeping = kit_sweeps.Sweeping(manifest["repros"], whole, examination, place)
    say_what_stays(examination, words)
    plan(waiting, expected, options, words)
    kit_sweeps.plan(sweeping, start_s)
    if options.list or not repros:
        return 0 if repros else NOTHING
    open(options.json, "a").close()  # Fail before the runs, not after them.
    prepare(examination, waiting, expected, len(gpus))
    examination.extra = {"gpus": gpus, "node": place.snapshot()}
    return do(examination, sweeping, words)


def do(examination: Any, sweeping: Any, words: Dict[str, str]) -> int:
    """The repros, then the sweeps, then what came of it."""
    options = examination.options
    only = options.sweeps == "only"  # Else sweeps are what time is left for.
    examination.exit_status = lambda results: (
        LEFT
        if (only and sweeping.left()) or not all(row["evidence"] for row in results)
        else 0
    )
    examination.heed_signals()
    sweeping.enter()
    if options.sweeps != "only":
        examination.run()
    sweeping.run()
    return conclude(examination, sweeping, words)


def prepare(
    examination: Any, waiting: List[Json], expected: Dict[Name, float], gpus: int
) -> None:
    """Give it the order, the time, and the exit status of a kit."""
    limit_s = examination.options.timeout_s

    def left_s() -> float:
        return float("inf") if limit_s is None else limit_s - examination.elapsed_s()

    queue = schedule.Schedule(waiting, expected, left_s, gpus)
    examination.queue = queue
    examination.time_left = lambda: max(
        0.0, min(left_s(), queue.remaining_s(examination.options.jobs))
    )


# --- what is said ---------------------------------
def introduce(
    manifest: Json,
    build: Json,
    devices: List[Json],
    words: Dict[str, str],
    asked: str,
) -> None:
    carried.say("torch %(raw)s · Python %(python)s · %(platform)s" % build)
    for device in devices:
        nvidia = device["class"] == "cuda" and not build["hip"]
        shown = words["gpu" if nvidia else "device"]
        carried.say(shown.format(cudnn=build["cudnn"], **device))
    if not devices:
        carried.say(words["no_device" if asked else "no_gpu"].format(device=asked))
    made_for = manifest["made_for"]
    here = {"torch": build["raw"], "python": build["python"]}
    if any(made_for[name] and made_for[name] != here[name] for name in here):
        carried.say(words["made_for"].format(**made_for))


def say_what_stays(examination: Any, words: Dict[str, str]) -> None:
    done, kept = len(examination.results), len(examination.kept)
    file = examination.options.resume
    if done:
        carried.say(words["done"].format(done=done, file=file))
    if kept:
        carried.say(words["kept"].format(kept=kept, file=file))


def plan(
    waiting: List[Json],
    expected: Dict[Name, float],
    options: Any,
    words: Dict[str, str],
) -> None:
    """What it will run, in order, and about how long that takes."""
    for repro in waiting:
        name = schedule.name_of(repro)
        reason = "unseen" if repro["unseen"] else "decides" if repro["decides"] else ""
        why = words[reason].format(**repro) if reason else ""
        carried.say(
            "  %-24s %-4s %5.0f s  %s"
            % ("%s %s" % name, repro["device"], expected[name], why)
        )
    total_s = sum(expected[schedule.name_of(r)] for r in waiting) / options.jobs
    counted = {"count": len(waiting), "total": kit_words.period(total_s, options.lang)}
    carried.say(words["plan"].format(**counted) if waiting else words["nothing"])
    limit_s = options.timeout_s
    if waiting and limit_s is not None and total_s > limit_s:
        given = kit_words.period(limit_s, options.lang)
        carried.say(words["too_long"].format(given=given))


def conclude(examination: Any, sweeping: Any, words: Dict[str, str]) -> int:
    options = examination.options
    whole: Json = examination.whole()
    carried.write(options.json, harness.dumps(whole, indent=2))
    carried.say()
    for row in whole["results"]:
        carried.say(table_row(row, examination.words, options.lang))
    for row in sweeping.rows():
        carried.say(row)
    left = sum(not row["evidence"] for row in whole["results"])
    file = shlex.quote(options.json)
    carried.say()
    if left:
        carried.say(words["left"].format(left=left, file=file))
    if sweeping.left():
        carried.say(words["sweeps_left"].format(left=len(sweeping.left()), file=file))
    carried.say(words["load"].format(file=file))
    return int(whole["exit"])


def table_row(row: Json, words: Json, lang: str) -> str:
    evidence = row["evidence"]
    badge, taken = words["not_run"][lang], "      –"
    if evidence:
        badge = dict(zip(carried.LANGS, harness.sentences(evidence)))[lang]
        taken = "%5.0f s" % evidence["duration_s"]
    name = "%s %s" % (row["record"], row["repro"])
    return "%-24s %-4s %s  %s" % (name, row["device"], taken, badge)
