"""The harness at work: values, the channel, the log, and real processes with torch."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import TestCase, addModuleCleanup, mock

from django.test import tag

from portable import harness
from portable.harness import CheckSpec, Report, process
from portable.harness.channel import ChannelReader, LogTail
from tests import ROOT
from tests.support.builds import torch_python
from tests.support.runs import SLUG, source, stand_in_torch
from tests.support.sites import is_alive

HARNESS = ROOT / "portable/harness"
HEALTHY = ROOT / "tests/repros/healthy.py"
FAULTY = ROOT / "tests/repros/faulty.py"


# A Python whose torch only says who it is: for what happens around a check.
STAND_IN = ""


def setUpModule() -> None:
    global STAND_IN
    folder = tempfile.mkdtemp(prefix="doesitnan-test-")
    addModuleCleanup(shutil.rmtree, folder)
    STAND_IN = str(stand_in_torch(Path(folder)))


class ValueTest(TestCase):
    def test_numbers_that_are_not_finite_survive_json(self) -> None:
        value = {"a": [1.5, math.inf, -math.inf], "b": {"c": math.nan}, "d": "nan"}
        text = harness.dumps(value)
        self.assertEqual(
            text,
            '{"a":[1.5,{"$float":"inf"},{"$float":"-inf"}],'
            '"b":{"c":{"$float":"nan"}},"d":"nan"}',
        )
        back = harness.decode(json.loads(text))
        self.assertEqual(back["a"], value["a"])
        self.assertTrue(math.isnan(back["b"]["c"]))
        self.assertEqual(
            harness.encode(harness.decode(json.loads(text))), json.loads(text)
        )

    def test_decode_leaves_other_tables_alone(self) -> None:
        for value in ({"$float": "1"}, {"$float": "nan", "x": 1}, {"$float": None}):
            self.assertEqual(harness.decode(value), value)

    def test_digest_of_evidence_is_stable(self) -> None:
        evidence = {"b": 1, "a": {"x": 0.1, "文": "中"}, "checks": [{"n": math.nan}]}
        canonical = '{"a":{"x":0.1,"文":"中"},"b":1,"checks":[{"n":{"$float":"nan"}}]}'
        known = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
        self.assertEqual(harness.evidence_digest(evidence), known)
        shuffled = dict(reversed(evidence.items()))
        shuffled.update(digest="sha256:x", origin="site")
        self.assertEqual(harness.evidence_digest(shuffled), known)
        self.assertEqual(harness.evidence_digest(harness.encode(evidence)), known)
        self.assertNotEqual(harness.evidence_digest(dict(evidence, b=2)), known)

    def test_digest_survives_numbers_as_a_database_returns_them(self) -> None:
        ours = {"x": [1.0, -0.0, 1e22, 1e23, 2.5e-7, True]}
        jsonb = {"x": [1, 0, 10**22, 10**23, 0.00000025, True]}
        self.assertEqual(harness.evidence_digest(ours), harness.evidence_digest(jsonb))

    def test_source_digest_is_that_of_the_bytes(self) -> None:
        self.assertEqual(
            harness.source_digest("文\n"),
            "sha256:" + hashlib.sha256("文\n".encode()).hexdigest(),
        )

    def test_build_slugs(self) -> None:
        for (raw, cuda, override), slug in {
            ("2.13.0+cpu", None, ""): "2.13.0-cpu",
            ("2.5.1", "12.4", ""): "2.5.1-cu124",
            ("2.5.1+cu124", "12.4", ""): "2.5.1-cu124",
            ("2.9.0", None, ""): "2.9.0-cpu",
            ("2.6.0a0+df5bbc09d1.nv24.12", "12.6", ""): "2.6.0a0-df5bbc09d1.nv24.12",
            ("2.13.0.dev20260901+cu130", "13.0", ""): "2.13.0.dev20260901-cu130",
            ("1.13.0a0", None, "1.13.1-debian"): "1.13.1-debian",
            ("2.0+Odd Local/名" + "x" * 99, None, ""): "2.0-odd-local--" + "x" * 46,
        }.items():
            with self.subTest(raw):
                found = harness.build_slug(raw, cuda, override)
                self.assertEqual(found, slug)
                self.assertRegex(found, r"^[a-z0-9][a-z0-9._-]{0,60}$")

    def test_the_wheel_of_macos_is_another_build(self) -> None:
        found = harness.build_slug("2.13.0", platform="darwin-arm64")
        self.assertEqual(found, "2.13.0-macos")
        self.assertEqual(harness.build_slug("2.13.0", platform="linux-x"), "2.13.0-cpu")

    def test_control_characters_become_visible(self) -> None:
        self.assertEqual(
            harness.visible("a\tb\n\x1b[0m\x00\x9b\u202e\ud800中\u2028"),
            "a\tb\n␛[0m␀<U+009B><U+202E><U+D800>中<U+2028>",
        )


NONCE = "5f" * 16


def line(message: Any, nonce: str = NONCE) -> bytes:
    return json.dumps({**message, "n": nonce}).encode() + b"\n"


HELLO = line({"t": "hello", "identity": {}, "devices": []})
RESULT = line({"t": "result", "check": "trigger", "observations": {"x": 1}})
RAISED = line({"t": "raised", "type": "ValueError", "text": ""})
END = line({"t": "end"})


class ChannelTest(TestCase):
    def read(self, *pieces: bytes) -> ChannelReader:
        reader = ChannelReader(NONCE)
        for piece in pieces:
            reader.feed(piece)
        reader.close()
        return reader

    def test_a_proper_report(self) -> None:
        for told in (RESULT, RAISED):
            reader = self.read(HELLO, told, END)
            self.assertIsNone(harness.process_failure(reader, 0))
            self.assertEqual(reader.messages[0]["t"], json.loads(told)["t"])
            self.assertNotIn("n", reader.messages[0])

    def test_pieces_of_any_size_read_the_same(self) -> None:
        whole = HELLO + RESULT + END
        reader = self.read(*(whole[i : i + 1] for i in range(len(whole))))
        self.assertIsNone(harness.process_failure(reader, 0))

    def test_anything_else_is_a_channel_failure(self) -> None:
        nested = b'{"n": "' + NONCE.encode() + b'", "t": ' + b"[" * 100_000
        for name, pieces in {
            "wrong nonce": [HELLO, line(json.loads(RESULT), "00" * 16), END],
            "no nonce": [HELLO, b'{"t": "result"}\n'],
            "nonce of another type": [b'{"n": 5, "t": "hello"}\n'],
            "garbage": [b"hello world\n"],
            "garbage between": [HELLO, b"\n", RESULT, END],
            "not UTF-8": [b"\xff\xfe\n"],
            "not an object": [b"[1]\n"],
            "NaN token": [HELLO, RESULT.replace(b"1}", b"NaN}"), END],
            "deep nesting": [nested + b"\n"],
            "half a line": [HELLO, RESULT, END[:-1]],
            "a frame after the end": [HELLO, RESULT, END, RESULT],
            "bytes after the end": [HELLO, RESULT, END + b"x"],
            "two results": [HELLO, RESULT, RESULT, END],
            "result before hello": [RESULT, END],
            "end without result": [HELLO, END],
            "two hellos": [HELLO, HELLO],
            "unknown kind": [HELLO, line({"t": "verdict", "verdict": "bug_absent"})],
            "hello without identity": [line({"t": "hello"})],
            "too much": [HELLO, line({"t": "result", "x": "x" * 262_144}), END],
        }.items():
            with self.subTest(name):
                reader = self.read(*pieces)
                self.assertEqual(harness.process_failure(reader, 0), "channel")

    def test_what_begins_no_frame_is_known_before_its_line_ends(self) -> None:
        # A flood of it would else be read to the limit, or to the end of time.
        reader = ChannelReader(NONCE)
        for piece, failure in ((HELLO, None), (RESULT[:9], None), (RESULT[9:], None)):
            reader.feed(piece)
            self.assertEqual(reader.failure, failure)
        reader.feed(b"\0")
        self.assertEqual(reader.failure, "channel")

    def test_a_report_counts_only_with_end_and_status_zero(self) -> None:
        for pieces, status, failure in (
            ([], 0, "no_report"),
            ([HELLO], 0, "no_report"),
            ([HELLO, RESULT], 0, "no_report"),
            ([HELLO, RESULT, END], 3, "no_report"),
            ([HELLO, RESULT, END], -11, "crash:SIGSEGV"),
            ([HELLO, RESULT[:5]], -6, "crash:SIGABRT"),
            ([HELLO], -24, "timeout"),
            ([HELLO], -25, "limit:disk"),
        ):
            with self.subTest(pieces=pieces, status=status):
                reader = self.read(*pieces)
                self.assertEqual(harness.process_failure(reader, status), failure)


class LogTest(TestCase):
    def test_streams_keep_their_names_and_lines_stay_whole(self) -> None:
        told: list[tuple[str, str]] = []
        log = LogTail(lambda stream, text: told.append((stream, text)))
        log.feed("stdout", "中".encode()[:2])
        log.feed("stderr", b"warning\r\n")
        log.feed("stdout", "中".encode()[2:] + b"\nlast")
        log.close()
        self.assertEqual(log.text, "[stderr] warning\n中\nlast\n")
        self.assertEqual(
            told, [("stderr", "warning"), ("stdout", "中"), ("stdout", "last")]
        )
        self.assertEqual(log.cut_bytes, 0)

    def test_a_flood_keeps_head_and_tail_and_counts_the_rest(self) -> None:
        log = LogTail()
        lines = [f"{number:09d}\n" for number in range(100_000)]
        for at in range(0, len(lines), 1000):
            log.feed("stdout", "".join(lines[at : at + 1000]).encode())
        log.close()
        self.assertTrue(log.text.startswith("000000000\n000000001\n"))
        self.assertTrue(log.text.endswith("000099999\n"))
        notice = f"[harness] {log.cut_bytes} bytes cut here\n"
        self.assertIn(notice, log.text)
        kept = len(log.text) - len(notice)
        self.assertEqual(kept + log.cut_bytes, 1_000_000)
        self.assertLessEqual(kept, 2 * harness.LOG_KEEP_BYTES)

    def test_many_short_lines_reach_the_limit_sooner(self) -> None:
        short, long = LogTail(), LogTail()
        short.feed("stdout", b"\n" * 1000)
        long.feed("stdout", b"x" * 999 + b"\n")
        self.assertGreater(short.cost_bytes, 10 * long.cost_bytes)

    def test_a_line_without_end_is_cut_in_pieces(self) -> None:
        log = LogTail()
        log.feed("stdout", b"x" * 10_000)
        log.close()
        self.assertEqual([len(text) for text in log.text.split()], [4096, 4096, 1808])


SPECS = {
    "refuted_eats_memory": CheckSpec("refuted_eats_memory", memory_mib=300),
    "refuted_hangs_with_grandchild": CheckSpec(
        "refuted_hangs_with_grandchild", timeout_s=8
    ),
    "refuted_environment": CheckSpec("refuted_environment", env={"GIVEN": "1"}),
}


def run_all(names: Sequence[str], fork: Any = None) -> dict[str, Report]:
    """Checks of the faulty repro, each in a real process."""
    plain = harness.start_plain(STAND_IN, str(FAULTY), fork=fork)
    real = harness.start_plain(torch_python(), str(FAULTY))

    def start(name: str) -> Report:
        spec = SPECS.get(name, CheckSpec(name))
        return real(spec) if name == "refuted_returns_tensor" else plain(spec)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names, pool.map(start, names), strict=True))


class MemoryTest(TestCase):
    """What processes use, where no control group counts it."""

    def test_one_that_ends_while_it_is_looked_at_uses_nothing(self) -> None:
        big = [sys.executable, "-c", "b = b'x' * (96 << 20); print(); input()"]
        held = subprocess.Popen(
            big, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(held.communicate)
        assert held.stdout
        held.stdout.readline()
        self.assertGreater(harness.private_mib([held.pid]), 90)
        real = process.read_bytes

        def read_bytes(path: str) -> bytes:
            if path.endswith("smaps_rollup"):
                held.kill()
                held.wait()
            return real(path)

        with mock.patch.object(process, "read_bytes", read_bytes):
            self.assertEqual(harness.private_mib([held.pid]), 0)


class AnyStartTest(TestCase):
    """What is the same however checks are started."""

    def test_a_daemon_that_is_only_just_started_is_killed(self) -> None:
        for _ in range(100):
            token = secrets.token_hex(16)
            daemon = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"],
                start_new_session=True,
                env={"DOESITNAN_CHILD": token},
            )
            harness.kill_marked(token)
            self.assertEqual(daemon.wait(timeout=30), -signal.SIGKILL)

    def test_a_full_disk_leaves_no_folder(self) -> None:
        place = self.enterContext(tempfile.TemporaryDirectory())
        full = OSError(errno.ENOSPC, "No space left on device")
        with mock.patch.object(tempfile, "tempdir", place):
            start = harness.start_plain(STAND_IN, str(FAULTY))
            before = list(Path(place).iterdir())  # what its checks share
            makes_none = mock.patch.object(os, "makedirs", side_effect=full)
            with makes_none, self.assertRaises(OSError):
                start(CheckSpec("control"))
            self.assertEqual(list(Path(place).iterdir()), before)

    def test_no_interpreter(self) -> None:
        start = harness.start_plain("/nonexistent/bin/python", str(FAULTY))
        self.assertEqual(start(CheckSpec("control")).failure, "build_missing")
        evidence = harness.drive(FAULTY.read_text(), start)
        self.assertEqual(
            (evidence["verdict"], evidence["reason"]), ("error", "build_missing")
        )
        self.assertIsNone(evidence["build"]["slug"])

    def test_an_interpreter_without_torch(self) -> None:
        # This interpreter is the site's: it has no torch, by design.
        report = harness.probe(sys.executable)
        self.assertEqual(report.failure, "import")


class FaultyTest(TestCase):
    """Each faulty check ends as the reason it deserves, never as a report."""

    reports: dict[str, Report]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        os.environ["SECRET_OF_THE_PARENT"] = "1"
        cls.addClassCleanup(os.environ.pop, "SECRET_OF_THE_PARENT")
        names = re.findall(r"^def (refuted_\w+)", FAULTY.read_text(), re.MULTILINE)
        cls.reports = run_all([*names, "refuted_nothing"], cls.fork())

    @staticmethod
    def fork() -> Any:
        return None

    def assert_ends(self, name: str, reason: str) -> Report:
        report = self.reports[name]
        header, _ = harness.read_repro(FAULTY.read_text())
        outcome = harness.examine(header, report, name)[:2]
        self.assertEqual(outcome, ("error", reason), report.log_text)
        return report

    def test_raise(self) -> None:
        report = self.assert_ends("refuted_raises", "raised")
        self.assertIn("ValueError: on purpose", report.log_text)
        self.assertEqual(report.messages[0]["text"], "on purpose")

    def test_sys_exit_is_no_report(self) -> None:
        self.assert_ends("refuted_exits", "raised")

    def test_exception_with_evil_text(self) -> None:
        report = self.assert_ends("refuted_evil_exception", "raised")
        self.assertEqual(report.messages[0]["type"], "Evil")

    def test_import_error(self) -> None:
        self.assert_ends("refuted_import", "import")

    def test_a_check_that_does_not_exist(self) -> None:
        self.assert_ends("refuted_nothing", "raised")

    def test_early_exit_with_status_zero(self) -> None:
        self.assert_ends("refuted_leaves_early", "no_report")

    def test_signals(self) -> None:
        report = self.assert_ends("refuted_segfault", "crash:SIGSEGV")
        self.assertEqual(report.exit, -11)
        self.assertIn("Segmentation fault", report.log_text)
        self.assert_ends("refuted_aborts", "crash:SIGABRT")

    def test_timeout_kills_grandchildren(self) -> None:
        report = self.assert_ends("refuted_hangs_with_grandchild", "timeout")
        pids = [int(text.split()[1]) for text in report.log_text.splitlines()]
        self.assertEqual(len(pids), 2, report.log_text)
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    def test_nothing_outlives_a_check(self) -> None:
        report = self.reports["refuted_reports_and_leaves_daemon"]
        self.assertIsNone(report.failure, report.log_text)
        self.assertFalse(is_alive(int(report.log_text.split()[1])))

    def test_output_without_end(self) -> None:
        report = self.assert_ends("refuted_floods", "limit:output")
        self.assertGreater(report.cut_bytes, harness.LOG_KEEP_BYTES)
        self.assertLess(len(report.log_text), 3 * harness.LOG_KEEP_BYTES)

    def test_much_output_is_no_failure(self) -> None:
        report = self.reports["refuted_talks_a_lot"]
        self.assertIsNone(report.failure)
        self.assertIn("line 0\nline 1\n", report.log_text)
        self.assertIn("line 39999\n", report.log_text)
        self.assertGreater(report.cut_bytes, 0)

    def test_strange_output_is_made_visible(self) -> None:
        report = self.reports["refuted_strange_output"]
        self.assertIsNone(report.failure)
        self.assertIn("␛[31mred␛[0m \ufffd\ufffd <U+202E>␀ 中\n", report.log_text)
        self.assertIn("[stderr] no end of line\n", report.log_text)

    def test_memory(self) -> None:
        report = self.assert_ends("refuted_eats_memory", "limit:memory")
        self.assertEqual(report.exit, -9)

    def test_forgery(self) -> None:
        self.assert_ends("refuted_forges_on_descriptors", "channel")
        self.assert_ends("refuted_forges_on_stdout", "no_report")
        self.assert_ends("refuted_closes_descriptors", "no_report")

    def test_observations_that_are_no_metric(self) -> None:
        self.assert_ends("refuted_returns_tensor", "contract")
        self.assert_ends("refuted_returns_nothing", "contract")
        self.assert_ends("refuted_nan_metric", "metric")

    def test_texts_of_observations_are_made_visible(self) -> None:
        observations = harness.reported_observations(self.reports["refuted_surrogate"])
        self.assertEqual(observations["ran"], "<U+D800>␀␛")

    def test_the_environment_is_an_allow_list(self) -> None:
        report = self.reports["refuted_environment"]
        names = set(harness.reported_observations(report)["mode"].split())
        self.assertIn("GIVEN", names)
        self.assertNotIn("SECRET_OF_THE_PARENT", names)
        self.assertNotIn("SECRET_KEY", names)


class FaultyForkTest(FaultyTest):
    """The same of checks that are forks of a parent."""

    @staticmethod
    def fork() -> Any:
        return harness.Forks(STAND_IN).start

    def test_only_what_needs_an_interpreter_of_its_own_has_one(self) -> None:
        cold = {name for name, found in self.reports.items() if found.served == "cold"}
        # Of these one sets a variable, and one asks the real torch.
        self.assertEqual(cold, {"refuted_environment", "refuted_returns_tensor"})
        for old, new in (
            ('"cpu"', '"cuda"'),
            ('"cpu"', '"cpu"\n# needs = ["compiler"]'),
        ):
            with edited(FAULTY.read_text().replace(old, new)) as path:
                start = harness.Forks(STAND_IN).start
                self.assertIsNone(start(path, CheckSpec("control"), "/", {}), new)

    def test_a_parent_that_died_is_replaced(self) -> None:
        forks = harness.Forks(STAND_IN)
        start = harness.start_plain(STAND_IN, str(HEALTHY), fork=forks.start)
        header, _ = harness.read_repro(HEALTHY.read_text())
        spec = dataclasses.replace(harness.check_spec(header, "detector"), env={})
        self.assertEqual(start(spec).served, "warm")
        forks.local.parent.process.kill()
        forks.local.parent.process.wait()
        again = start(spec)
        self.assertEqual((again.served, again.failure), ("warm", None), again.log_text)

    def test_without_torch_each_check_says_so_itself(self) -> None:
        fork = harness.Forks(sys.executable).start
        start = harness.start_plain(sys.executable, str(FAULTY), fork=fork)
        report = start(CheckSpec("control"))
        self.assertEqual((report.served, report.messages[0]["t"]), ("cold", "raised"))
        self.assertIn("No module named 'torch'", report.log_text)


STEAL = """\
import os, signal, sys, time
CLEAN = {"nonfinite": 0, "grad": 1.0}
frame = sys._getframe()
while "send" not in frame.f_locals:
    frame = frame.f_back
send = frame.f_locals["send"]
def tell(**words):
    send(dict({"t": "result", "check": "control", "trial": 0, "observations": CLEAN},
              **words))
def channel():
    # As high as any: it has the number that it has in the process that started this.
    for fd in sorted(int(name) for name in os.listdir("/proc/self/fd")):
        try:
            if fd > 2 and os.readlink("/proc/self/fd/%d" % fd).startswith("pipe:"):
                os.write(fd, b"")
                yield fd
        except OSError:
            continue
"""
# What a repro that knows this file could try, and as what it ends. Each would be a
# clean control if any of it were believed.
FORGED = {
    "for fd in channel():\n    os.write(fd, b'x\\n')\nreturn CLEAN": "channel",
    "for fd in channel():\n    os.write(fd, b'half a line')\nreturn CLEAN": "channel",
    'for fd in channel():\n    os.write(fd, b\'{"n": "00", "t": "result"}\\n\')\n'
    "return CLEAN": "channel",
    "tell()\nreturn CLEAN": "channel",
    "tell(t='hello', identity={})\nreturn CLEAN": "channel",
    "send({'t': 'end'})\nreturn CLEAN": "channel",
    "tell(trial=7)\nsend({'t': 'end'})\nos._exit(0)": "channel",
    "tell(check='trigger')\nsend({'t': 'end'})\nos._exit(0)": "channel",
    "deep = []\nfor _ in range(700):\n    deep = [deep]\n"
    "tell(observations={'x': deep})\nsend({'t': 'end'})\nos._exit(0)": "channel",
    "os._exit(0)": "no_report",
    "tell()\nos._exit(0)": "no_report",
    "tell()\nsend({'t': 'end'})\nos._exit(3)": "no_report",
    "tell()\nsend({'t': 'end'})\nos.abort()": "crash:SIGABRT",
    "class Out:\n    def flush(self):\n        os.kill(os.getpid(), signal.SIGSEGV)\n"
    "sys.stdout = Out()\nreturn CLEAN": "crash:SIGSEGV",
    "tell()\nsend({'t': 'end'})\nsignal.pause()": "timeout",
}


def forged_ends(start_of: Callable[[str], harness.Start]) -> dict[str, str | None]:
    """As what each forged control ends. `start_of`: the Start of a source."""

    def end(body: str) -> str | None:
        text = source(control=STEAL + body)
        start, header = start_of(text), harness.read_repro(text)[0]
        spec = CheckSpec("control", timeout_s=5 if "pause" in body else 60)
        return harness.examine(header, start(spec), "control").reason

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(FORGED, pool.map(end, FORGED), strict=True))


class ForgedTest(TestCase):
    maxDiff = None

    def test_nothing_but_one_whole_report_of_a_normal_end_counts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:

            def start_of(text: str) -> harness.Start:
                path = Path(tempfile.mkdtemp(dir=folder), "repro.py")
                path.write_text(text)
                return harness.start_plain(STAND_IN, str(path))

            self.assertEqual(forged_ends(start_of), FORGED)


class HeaderTest(TestCase):
    def test_headers_that_only_wear_the_reader_out(self) -> None:
        for value in ("[" * 3000 + "]" * 3000, "{a = " * 3000, "9" * 5000):
            text = source().replace("trials = 1", f"trials = {value}")
            with self.assertRaises(harness.ContractError):
                harness.read_repro(text)


class KernelProcess:
    """A check that ended by itself in a group of the kernel's that counted `hit`."""

    def __init__(self, hit: str | None, status: int | None, *frames: bytes) -> None:
        self.hit, self.status, self.frames = hit, status, frames
        self.end_fd = -1
        pipes = [os.pipe() for _ in range(3)]
        self.stdout_fd, self.stderr_fd, self.channel_fd = (r for r, _ in pipes)
        self.writers = [w for _, w in pipes]
        self.closed = False

    def write_nonce(self, nonce: str) -> None:
        for frame in self.frames:
            os.write(self.writers[2], line(json.loads(frame), nonce))

    def poll(self) -> harness.Ended:
        return harness.Ended(self.status)

    def kill(self) -> None: ...

    def memory_mib(self) -> float:
        return 0.0

    def limit_hit(self) -> str | None:
        return self.hit

    def killed_by(self) -> str:
        return ""

    def close(self) -> None:
        self.closed = True
        for fd in (self.stdout_fd, self.stderr_fd, self.channel_fd, *self.writers):
            os.close(fd)


class WatchTest(TestCase):
    def test_what_the_kernel_enforced_comes_first(self) -> None:
        memory, processes = "limit:memory", "limit:processes"
        whole = (HELLO, RESULT, END)
        for hit, status, frames, failure in (
            (None, 0, whole, None),
            (memory, 0, whole, memory),  # a part of it was killed
            (processes, 0, whole, None),  # it did without
            (memory, -9, (HELLO,), memory),
            (processes, 0, (HELLO, RAISED, END), processes),
            (None, None, whole, "lost"),
            (memory, None, (), memory),
        ):
            with self.subTest(hit=hit, status=status, frames=len(frames)):
                process = KernelProcess(hit, status, *frames)
                report = harness.watch(process, CheckSpec("trigger"))
                self.assertEqual(report.failure, failure)
                self.assertTrue(process.closed)

    def test_what_was_refused_says_why(self) -> None:
        process = KernelProcess(None, None)
        process.poll = lambda: harness.Ended(None, refused="no such user")  # type: ignore[method-assign]
        report = harness.watch(process, CheckSpec("trigger"))
        self.assertEqual(report.failure, "refused")
        self.assertIn("no such user", report.log_text)


@contextlib.contextmanager
def edited(source: str) -> Iterator[str]:
    """A repro with this source, as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "repro.py")
        path.write_text(source)
        yield str(path)


def drive(source: str, python: str = "", **options: Any) -> dict[str, Any]:
    with edited(source) as path:
        start = harness.start_plain(python or torch_python(), path)
        return harness.drive(source, start, **options)


def without_torch(source: str) -> str:
    """The healthy repro with the overflow of float16 done by hand."""
    for old, new in (
        ("import torch\n", ""),
        ("    x = torch.tensor([float(value)], dtype=torch.float16)\n", ""),
        ("y = (x * 2).double()", "y = [2 * value if value < 4e4 else float('inf')]"),
        ("int((~torch.isfinite(y)).sum())", "y.count(float('inf'))"),
    ):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def outcomes(evidence: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in evidence["checks"]}


@tag("long")
class DriveTest(TestCase):
    maxDiff = None
    evidence: dict[str, Any]
    events: list[tuple[str, str]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.events = []
        cls.evidence = drive(
            without_torch(HEALTHY.read_text()),
            STAND_IN,
            record="NAN-9999",
            on_event=lambda phase, text: cls.events.append((phase, text)),
        )

    def test_verdict(self) -> None:
        found = {k: self.evidence[k] for k in ("verdict", "reason", "hits", "trials")}
        self.assertEqual(
            found, {"verdict": "bug_present", "reason": None, "hits": 2, "trials": 2}
        )
        self.assertIs(self.evidence["is_affected"], True)

    def test_checks_run_in_order_and_end_as_they_must(self) -> None:
        self.assertEqual(
            [(c["name"], c["trial"], c["outcome"]) for c in self.evidence["checks"]],
            [
                ("requirements", 0, "clean"),
                ("reference", 0, "clean"),
                ("control", 0, "clean"),
                ("detector", 0, "bug"),
                ("trigger", 0, "bug"),
                ("trigger", 1, "bug"),
                ("workaround_scale", 0, "clean"),
                ("workaround_scale", 1, "clean"),
                ("workaround_other_gradient", 0, "error"),
                ("workaround_other_gradient", 1, "error"),
                ("workaround_emptied", 0, "error"),
                ("workaround_emptied", 1, "error"),
                ("refuted_useless", 0, "bug"),
            ],
        )

    def test_only_the_workaround_that_equals_the_control_is_verified(self) -> None:
        self.assertEqual(
            self.evidence["workarounds"],
            {"scale": "verified", "other_gradient": "untested", "emptied": "untested"},
        )
        self.assertEqual(self.evidence["refuted"], {"useless": "bug"})

    def test_evidence_has_the_shape_of_the_contract(self) -> None:
        self.assertEqual(
            set(self.evidence),
            {
                *("schema", "digest", "record", "state", "repro", "build", "device"),
                *("verdict", "reason", "is_affected", "hits", "trials", "checks"),
                *("workarounds", "refuted", "tier", "served", "limits", "telemetry"),
                *("harness", "started_at", "duration_s", "origin"),
            },
        )
        self.assertEqual(
            set(self.evidence["checks"][0]),
            {
                *("name", "trial", "outcome", "reason", "observations", "duration_s"),
                *("cpu_s", "peak_mib", "exit", "served", "log"),
            },
        )
        self.assertEqual(self.evidence["record"], "NAN-9999")
        self.assertEqual(self.evidence["schema"], harness.SCHEMA)

    def test_evidence_is_json_and_its_digest_holds(self) -> None:
        back = json.loads(harness.dumps(self.evidence))
        self.assertEqual(back["digest"], harness.evidence_digest(back))
        trigger = next(c for c in back["checks"] if c["name"] == "trigger")
        self.assertEqual(trigger["observations"]["loss"], [{"$float": "inf"}])

    def test_build_and_device_are_those_of_the_interpreter(self) -> None:
        code = "import torch; print(torch.__version__, torch.version.git_version)"
        raw, git = subprocess.check_output([torch_python(), "-c", code]).split()
        hello = harness.probe(torch_python()).hello
        assert hello
        build = hello["identity"]
        self.assertEqual((build["raw"], build["git"]), (raw.decode(), git.decode()))
        self.assertRegex(build["slug"], r"^[a-z0-9][a-z0-9._-]{0,60}$")
        hello = harness.probe(STAND_IN).hello
        assert hello
        self.assertLessEqual(self.evidence["build"].items(), hello["identity"].items())
        self.assertEqual(self.evidence["build"]["slug"], SLUG)
        self.assertEqual(self.evidence["device"]["class"], "cpu")

    def test_stored_evidence_can_be_judged_again(self) -> None:
        header, names = harness.read_repro(HEALTHY.read_text())
        back = json.loads(harness.dumps(self.evidence))
        again = harness.judge(header, back["checks"], names)
        for key, value in dataclasses.asdict(again).items():
            self.assertEqual(value, self.evidence[key], key)
        for check in back["checks"]:
            check["observations"].update(nonfinite=0, loss=1.0)
        self.assertEqual(
            harness.judge(header, back["checks"], names).reason, "detector_silent"
        )

    def test_log_and_progress(self) -> None:
        control = self.evidence["checks"][2]
        self.assertEqual(
            control["log"], {"text": "control says hello\n", "cut_bytes": 0}
        )
        phases = [phase for phase, text in self.events if text == "started"]
        self.assertEqual(phases[4:6], ["trigger 1/2", "trigger 2/2"])
        self.assertEqual(phases[7], "workaround_scale 2/2")
        self.assertEqual(phases[-1], "refuted_useless")

    def test_cancelled(self) -> None:
        with self.assertRaises(harness.Cancelled):
            drive(HEALTHY.read_text(), STAND_IN, cancelled=lambda: True)

    def test_a_source_other_than_the_one_driven_is_refused(self) -> None:
        start = harness.start_plain(STAND_IN, str(FAULTY))
        evidence = harness.drive(HEALTHY.read_text(), start)
        self.assertEqual(
            (evidence["verdict"], evidence["reason"]), ("error", "refused")
        )


class MutationTest(TestCase):
    """Break the healthy repro; the verdict must notice."""

    def mutate(self, old: str, new: str) -> dict[str, Any]:
        source, _, _ = HEALTHY.read_text().partition("def workaround_other_gradient")
        source = without_torch(source)
        self.assertEqual(source.count(old), 1)
        return drive(source.replace(old, new), STAND_IN, trials=1)

    def assert_verdict(self, evidence: Any, verdict: str, reason: str | None) -> None:
        found = (evidence["verdict"], evidence["reason"])
        self.assertEqual(found, (verdict, reason), evidence["checks"][-1])

    def test_trigger_that_is_the_control(self) -> None:
        evidence = self.mutate(
            "return _observe(60000)\n\n\ndef w", "return _observe(1)\n\n\ndef w"
        )
        self.assert_verdict(evidence, "bug_absent", None)
        self.assertEqual(set(evidence["workarounds"].values()), {"untested"})

    def test_detector_that_is_the_control(self) -> None:
        evidence = self.mutate(
            'return {"nonfinite": 1, "loss": float("nan")}', "return control()"
        )
        self.assert_verdict(evidence, "inconclusive", "detector_silent")
        self.assertNotIn("trigger", outcomes(evidence))

    def test_control_that_shows_the_bug(self) -> None:
        evidence = self.mutate('print("control says hello")\n', "return trigger()\n")
        self.assert_verdict(evidence, "inconclusive", "control")

    def test_reference_that_is_not_finite(self) -> None:
        evidence = self.mutate('{"loss": 120000.0}', '{"loss": float("inf")}')
        self.assert_verdict(evidence, "inconclusive", "reference")

    def test_requirements_are_asked_before_anything_runs(self) -> None:
        for old, new, reason in (
            ("torch>=1.13", "torch>=99", "api"),
            (
                "# trials = 2",
                '# stack = {nobody_has_this = "1"}',
                "stack:nobody_has_this",
            ),
            (
                "def reference",
                'def requires():\n    return "no\\nFP8"\n\n\ndef reference',
                "said:no FP8",
            ),
        ):
            with self.subTest(reason):
                evidence = self.mutate(old, new)
                self.assert_verdict(evidence, "not_applicable", reason)
                self.assertEqual(outcomes(evidence), {"requirements": "not_applicable"})

    def test_requires_that_raises_is_an_error(self) -> None:
        evidence = self.mutate(
            "def reference", "def requires():\n    return 1\n\n\ndef reference"
        )
        self.assert_verdict(evidence, "error", "raised")

    def test_workers_and_loopback_are_tried(self) -> None:
        old, new = "# trials = 2", '# needs = ["loader", "loopback"]'
        source = HEALTHY.read_text().replace(old, new)
        header, _ = harness.read_repro(source)
        with edited(source) as path:
            start = harness.start_plain(torch_python(), path)
            report = start(harness.check_spec(header, "requirements"))
        seen = harness.reported_observations(report)
        self.assertEqual(
            (seen["loader"], seen["loopback"]), (True, True), report.log_text
        )

    def test_a_cuda_repro_on_a_machine_without_is_not_applicable(self) -> None:
        evidence = drive(
            HEALTHY.read_text()
            .replace('device = "cpu"', 'device = "cuda"')
            .replace("{all = {", '{all = {CUDA_VISIBLE_DEVICES = "", ')
        )
        self.assert_verdict(evidence, "not_applicable", "device")
        self.assertEqual(evidence["device"]["class"], "cuda")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HARNESS), *arguments], capture_output=True, text=True
    )


# The first checks of the faulty repro are a run of their own: bug_absent.
TINY = FAULTY.read_text().partition("def refuted_")[0]


class CommandLineTest(TestCase):
    def test_json_is_all_there_is_on_standard_output(self) -> None:
        with edited(TINY.replace("torch>=1.13", "torch>=99")) as path:
            done = command(path, "--json", "--python", STAND_IN)
        self.assertEqual(done.returncode, 125, done.stderr)
        evidence = json.loads(done.stdout)
        self.assertEqual(evidence["verdict"], "not_applicable")
        self.assertIn("requirements · not_applicable: api", done.stderr)

    def test_summary_in_both_languages_and_json_in_a_file(self) -> None:
        with edited(TINY) as path:
            done = command(path, "--json", path + ".json", "--python", STAND_IN)
            self.assertEqual(done.returncode, 0, done.stderr)
            evidence = json.loads(Path(path + ".json").read_text())
        self.assertIn("✔ PASS · bug not seen (0/1)\n", done.stdout)
        self.assertIn("✔ 通过 · 未见缺陷（0/1）\n", done.stdout)
        self.assertIn(evidence["digest"], done.stdout)

    def test_what_is_no_run_ends_with_status_two(self) -> None:
        with edited("def control(): ...\n") as path:
            for arguments, said in (
                ([], "usage"),
                (["nobody.py"], "nobody.py"),
                ([str(FAULTY), "--trials", "0"], "--trials"),
                ([str(FAULTY), "--json", "/nonexistent/x"], "/nonexistent/x"),
                ([path], "one block"),
            ):
                with self.subTest(arguments):
                    done = command(*arguments)
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(said, done.stderr)

    def test_an_uncaught_error_is_not_read_as_the_bug(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(harness.main([str(ROOT)]), 2)
        self.assertIn("directory", told.getvalue())

    def test_needs_only_the_standard_library_and_syntax_of_38(self) -> None:
        for path in HARNESS.glob("*.py"):
            ast.parse(path.read_text(), feature_version=(3, 8))
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(HARNESS), "--help"], capture_output=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
