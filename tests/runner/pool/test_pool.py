"""The pool at work: real parents, real forks, and what is left of them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.test import tag

from portable import harness
from portable.harness import CheckSpec, Report
from portable.harness.process import read_bytes
from runner import sandbox
from runner.pool import (
    boxes,
    client as pool_client,
    keeper as pool_keeper,
    parents,
    start as pool_start,
)
from runner.pool.server import Pool
from runner.pool.stock import IDLE_S
from runner.sandbox.jail import kernel, wire
from tests import ROOT
from tests.runner.harness.test_harness import FORGED, forged_ends
from tests.support import jails
from tests.support.builds import torch_python
from tests.support.runs import source, stand_in_torch
from tests.support.sites import is_alive, wait_for

FAULTY = ROOT / "tests/repros/faulty.py"
LIMIT_S = 60.0  # guards a hang, measures nothing
THREAD = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


class PoolCase(unittest.TestCase):
    """A pool of its own for each class, and a Python whose torch is a stand-in."""

    memory_mib = 2048

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="doesitnan-pool-"))
        self.folder.chmod(0o755)  # a run may be another user
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.socket = str(self.folder / "pool.sock")
        self.python = str(stand_in_torch(self.folder))
        self.pool = self.started()

    def started(self, *options: str) -> subprocess.Popen[bytes]:
        pool = subprocess.Popen(
            pool_keeper.command(self.socket, self.memory_mib, *options), cwd=ROOT
        )
        self.addCleanup(self.stop, pool)
        wait_for(lambda: pool_client.is_there(self.socket), "the pool listens")
        return pool

    def stop(self, pool: subprocess.Popen[bytes]) -> None:
        if pool.returncode is None:
            pool.terminate()
            pool.wait(LIMIT_S)

    def status(self) -> dict[str, Any]:
        found = pool_client.status(self.socket)
        assert found
        return found

    def start(
        self, text: str, python: str = "", **options: Any
    ) -> pool_start.WarmStart:
        path = Path(tempfile.mkdtemp(dir=self.folder)) / "repro.py"
        path.write_text(text)
        options.setdefault("gpus", "")
        cold = sandbox.start_in(python or self.python, str(path), **options)
        return pool_start.WarmStart(self.socket, cold)

    def check(self, lines: str, **spec: Any) -> Report:
        """A control with these lines as its body, started through the pool."""
        return self.start(source(control=lines))(CheckSpec("control", **spec))

    def order_warm(self, key: dict[str, Any]) -> None:
        """As a worker does: again until the pool, which may be busy, has said yes."""
        wait_for(lambda: pool_client.warm(self.socket, key), "the pool takes the order")

    def pids(self) -> set[int]:
        return kernel.descendants(self.pool.pid)

    def zygotes(self) -> list[int]:
        """Parents and everything that was forked by them and executed nothing."""
        return [p for p in self.pids() if is_zygote(p)]

    def assert_nothing_left(self) -> None:
        """Only the parents, what holds them, and their spares live."""

        def settled() -> bool:
            found = self.status()["parents"]
            idle = all(
                p["spares"] == parents.SPARES and not p["running"] for p in found
            )
            # The parent; of a spare its check, its init and who waits for that.
            most = 1 + 3 * parents.SPARES
            return idle and len(self.zygotes()) <= most * len(found)

        wait_for(settled, "all checks have ended")


class WarmTest(PoolCase):
    def test_a_whole_run_is_warm_and_says_so(self) -> None:
        text = source(trials=2)
        evidence = harness.drive(text, self.start(text))
        self.assertEqual(
            (evidence["verdict"], evidence["served"]), ("bug_present", "warm")
        )
        self.assertEqual({c["served"] for c in evidence["checks"]}, {"warm"})
        self.assertEqual(evidence["workarounds"], {"off": "verified"})
        parent = self.status()["parents"][0]
        # Trigger and workaround twice each, and what runs once.
        self.assertEqual((parent["served"], parent["state"]), (8, "ready"))

    def test_what_sets_variables_starts_cold(self) -> None:
        text = source().replace(
            "# trials = 1", '# trials = 1\n# env = {workaround_off = {X = "1"}}'
        )
        evidence = harness.drive(text, self.start(text))
        served = {c["name"]: c["served"] for c in evidence["checks"]}
        self.assertEqual(served.pop("workaround_off"), "cold")
        self.assertEqual(set(served.values()), {"warm"})
        self.assertEqual(evidence["served"], "cold")

    def test_what_may_use_a_gpu_starts_cold(self) -> None:
        start = self.start(source(), gpus=None)
        self.assertEqual(start(CheckSpec("control")).served, "cold")
        self.assertEqual(start.reasons, [pool_start.GPUS])

    def test_a_warm_child_is_like_a_cold_one(self) -> None:
        lines = (
            "import os, random, sys, threading\n"
            "names = ' '.join(sorted(n for n in os.environ if n != 'PWD'))\n"
            "fds = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
            "fds = [os.readlink(p) for p in fds if os.path.exists(p)]\n"
            "fds = ' '.join(sorted(f.split(':')[0] for f in fds))\n"
            "main = sys.modules['__main__']\n"
            "return {'names': names, 'fds': fds, 'cwd': os.getcwd(),\n"
            "  'argv': ' '.join(sys.argv), 'file': __file__,\n"
            "  'seen': open(__file__).read().count('def control'),\n"
            "  'main': os.path.basename(main.__file__), 'home': os.environ['HOME'],\n"
            "  'user': os.getuid(), 'tasks': len(os.listdir('/proc/self/task')),\n"
            "  'ppid': os.getppid(), 'path': ' '.join(sys.path)}"
        )
        start = self.start(source(control=lines))
        spec = CheckSpec("control", preset={"GIVEN": "1"})
        warm, cold = start(spec), start.cold(spec)
        self.assertEqual((warm.served, cold.served), ("warm", "cold"), start.reasons)
        ours, theirs = (r.messages[0]["observations"] for r in (warm, cold))
        if start.cold.layers.namespaces is None:
            for name in ("cwd", "argv", "file", "home", "ppid"):  # a folder for each
                ours.pop(name), theirs.pop(name)
        self.assertLessEqual(abs(ours.pop("user") - theirs.pop("user")), 256)
        self.assertEqual(ours, theirs)
        self.assertIn("GIVEN", ours["names"])
        self.assertNotIn("OMP_NUM_THREADS", ours["names"])

    def test_random_numbers_are_fresh_in_every_child(self) -> None:
        lines = "import random\nreturn {'x': random.random()}"
        seen = [self.check(lines).messages[0]["observations"]["x"] for _ in range(3)]
        self.assertEqual(len(set(seen)), 3)

    def test_nothing_of_a_check_reaches_the_next(self) -> None:
        lines = (
            "import os, sys, tempfile\n"
            "seen = os.path.exists(tempfile.gettempdir() + '/left')\n"
            "open(tempfile.gettempdir() + '/left', 'w').close()\n"
            "seen = seen or hasattr(sys, 'left')\n"
            "sys.left = os.environ['LEFT'] = '1'\n"
            "return {'seen': seen}"
        )
        for _ in range(3):
            report = self.check(lines)
            self.assertEqual(report.served, "warm")
            self.assertFalse(report.messages[0]["observations"]["seen"])

    def test_nothing_forged_is_believed(self) -> None:
        self.assertEqual(forged_ends(self.start), FORGED)
        self.assertGreaterEqual(self.status()["served"], len(FORGED))

    def test_sixteen_at_once(self) -> None:
        text = source(control="import os\nreturn {'pid': os.getpid(), 'n': 16}")
        start = self.start(text)
        with ThreadPoolExecutor(16) as threads:
            reports = list(
                threads.map(lambda _: start(CheckSpec("control")), range(16))
            )
        self.assertEqual([r.failure for r in reports], [None] * 16)
        self.assertEqual({r.served for r in reports}, {"warm"})
        self.assertEqual(len(self.status()["parents"]), 1)

    def test_a_cancelled_check_ends(self) -> None:
        start = self.start(
            source(control="import signal\nsignal.pause()"), cancelled=lambda: True
        )
        self.assertEqual(start(CheckSpec("control")).failure, "lost")

    def test_a_cancelled_run_does_not_wait_for_its_parent(self) -> None:
        torch = self.folder / "lib" / "torch" / "__init__.py"
        torch.write_text("import signal\nsignal.pause()\n")
        start = self.start(source(), cancelled=lambda: True)
        self.assertEqual(start(CheckSpec("control")).failure, "lost")
        self.assertEqual(start.reasons, [])
        self.assertEqual(self.status()["parents"][0]["state"], "starting")


class FaultyTest(PoolCase):
    """The faulty checks end warm as they end cold; nothing of them is left."""

    # What a check did not do itself is seen differently, or takes real torch.
    ELSEWHERE = {"refuted_returns_tensor", "refuted_environment"}
    SPECS = {
        "refuted_eats_memory": CheckSpec("refuted_eats_memory", memory_mib=300),
        "refuted_hangs_with_grandchild": CheckSpec(
            "refuted_hangs_with_grandchild", timeout_s=3
        ),
    }
    REASONS = {
        "refuted_raises": "raised",
        "refuted_exits": "raised",
        "refuted_evil_exception": "raised",
        "refuted_import": "import",
        "refuted_leaves_early": "no_report",
        "refuted_segfault": "crash:SIGSEGV",
        "refuted_aborts": "crash:SIGABRT",
        "refuted_hangs_with_grandchild": "timeout",
        "refuted_reports_and_leaves_daemon": None,
        "refuted_floods": "limit:output",
        "refuted_talks_a_lot": None,
        "refuted_strange_output": None,
        "refuted_eats_memory": "limit:memory",
        "refuted_forges_on_descriptors": "channel",
        "refuted_forges_on_stdout": "no_report",
        "refuted_closes_descriptors": "no_report",
        "refuted_returns_nothing": "contract",
        "refuted_nan_metric": "metric",
        "refuted_surrogate": None,
    }

    def test_each_ends_with_the_reason_it_deserves(self) -> None:
        text = FAULTY.read_text()
        names = set(re.findall(r"^def (refuted_\w+)", text, re.MULTILINE))
        self.assertEqual(names - self.ELSEWHERE, set(self.REASONS))
        header, _ = harness.read_repro(text)
        start = self.start(text)
        for name, reason in self.REASONS.items():
            report = start(self.SPECS.get(name, CheckSpec(name)))
            found = harness.examine(header, report, name).reason
            with self.subTest(name):
                self.assertEqual((report.served, found), ("warm", reason), report)
        self.assert_nothing_left()

    def test_two_hundred_runs_leave_nothing(self) -> None:
        bodies = {
            "control": "return {'nonfinite': 0, 'grad': 1.0}",
            "detector": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
            "trigger": "import os\nos._exit(0)",
            "refuted_hope": (
                "import subprocess, sys\n"
                "code = 'import time; time.sleep(600)'\n"
                "subprocess.Popen([sys.executable, '-S', '-c', code],"
                " start_new_session=True)\n"
                "return {'nonfinite': 1, 'grad': 1.0}"
            ),
            "workaround_off": "import signal\nwhile True: signal.pause()",
        }
        start = self.start(source(**bodies))
        specs = [CheckSpec(name, timeout_s=60) for name in bodies]
        specs[-1] = dataclasses.replace(specs[-1], timeout_s=0.3)
        start(specs[0])
        self.assert_nothing_left()
        before = self.census()
        with ThreadPoolExecutor(4) as threads:
            reports = list(threads.map(start, specs * 40))
        self.assertEqual([r.served for r in reports], ["warm"] * 200, start.reasons[:3])
        wanted = [None, "crash:SIGSEGV", "no_report", None, "timeout"]
        self.assertEqual([r.failure for r in reports], wanted * 40)
        self.assert_nothing_left()
        wait_for(
            lambda: self.has_no_more_than(before), f"{self.census()} is {before} again"
        )

    def has_no_more_than(self, before: dict[str, int]) -> bool:
        """Fewer it may be: a spare was perhaps still being made."""
        return all(count <= before[name] for name, count in self.census().items())

    def census(self) -> dict[str, int]:
        """Processes of the pool, and descriptors of the pool, parent and client."""
        return {
            "processes": len(self.pids()),
            "pool": descriptors(self.pool.pid),
            "parent": max(map(descriptors, self.zygotes())),
            "client": descriptors(os.getpid()),
        }


def is_zygote(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(words) > 1 and words[1].endswith(b"/zygote.py")


def descriptors(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def named_in_the_command(text: str) -> list[int]:
    """Processes of this machine that were started with `text` among their words."""
    every = (path.parent for path in Path("/proc").glob("[0-9]*/cmdline"))
    words = ((int(path.name), read_bytes(f"{path}/cmdline")) for path in every)
    return [pid for pid, line in words if text.encode() in line]


class BoxTest(unittest.TestCase):
    def test_one_that_is_ended_while_it_starts_leaves_nothing(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="doesitnan-"))
        python = str(stand_in_torch(Path(folder)))
        kinds = [kind for kind in jails.NAMESPACES if jails.has(kind)]
        for kind in [None, *kinds]:
            for moment in range(40):
                ours, theirs = wire.pair()
                key, end = boxes.Key(python, namespaces=kind), theirs.fileno()
                with ours, theirs, Path(os.devnull).open("w") as null:
                    started = boxes.start_box(key, end, null.fileno(), bare=True)
                time.sleep(moment / 4000)
                started.end()
            with self.subTest(namespaces=kind):
                wait_for(lambda: not named_in_the_command(folder), "all have ended")


@tag("long")
class UpkeepTest(PoolCase):
    def served_by(self, python: str = "") -> str:
        report = self.start(source(), python)(CheckSpec("control"))
        return report.served

    def test_a_parent_is_replaced_when_its_torch_changes(self) -> None:
        self.assertEqual(self.served_by(), "warm")
        first = self.status()["parents"][0]["pid"]
        init = self.folder / "lib" / "torch" / "__init__.py"
        init.write_text(init.read_text().replace("9.9.0", "9.9.1"))
        start = self.start(source())
        report = start(CheckSpec("control"))
        assert report.hello
        self.assertEqual(report.hello["identity"]["raw"], "9.9.1+cpu")
        self.assertEqual(report.served, "warm")
        wait_for(lambda: not is_alive(first), "the old parent ends")
        self.assertEqual(len(self.status()["parents"]), 1)

    def test_a_worn_parent_serves_until_the_next_one_is_ready(self) -> None:
        pool = Pool(str(self.folder / "other.sock"), self.memory_mib)
        self.addCleanup(pool.stop)
        key = boxes.Key(self.python)

        stock = pool.stock

        def parent_once(true: Callable[[parents.Parent], bool]) -> parents.Parent:
            wait_for(lambda: pool.poll_once() or true(stock.parents[key]), "a parent")
            return stock.parents[key]

        first = stock.parent_for(key)
        parent_once(lambda parent: parent.state == "ready")
        first.served = parents.MAX_CHILDREN
        for _ in range(2):
            self.assertIs(stock.parent_for(key), first)
        self.assertEqual(len(pool.describe()["parents"]), 2)
        second = parent_once(lambda parent: parent is not first)
        self.assertEqual((second.state, stock.successors), ("ready", {}))
        self.assertIs(stock.parent_for(key), second)
        self.assertFalse(is_alive(first.outer.process.pid))

    def test_a_worn_parent_without_a_next_one_serves_twice_as_many(self) -> None:
        pool = Pool(str(self.folder / "other.sock"), self.memory_mib)
        self.addCleanup(pool.stop)
        key = boxes.Key(self.python)
        first = pool.stock.parent_for(key)
        first.served = 2 * parents.MAX_CHILDREN
        self.assertIsNot(pool.stock.parent_for(key), first)

    def test_nobody_waits_for_a_parent_that_has_just_ended(self) -> None:
        pool = Pool(str(self.folder / "other.sock"), self.memory_mib)
        self.addCleanup(pool.stop)
        key = boxes.Key(self.python)
        pool.stock.parent_for(key).end("it died")
        with self.assertRaisesRegex(pool_client.NotWarm, "it died"):
            pool.stock.parent_for(key)

    def test_above_the_budget_the_least_used_goes(self) -> None:
        pool = Pool("/nonexistent/pool.sock", self.memory_mib)
        known: Any = {
            boxes.Key(name): FakeParent(used_at=age, pss_mib=700)
            for name, age in (("b", 2.0), ("a", 1.0), ("c", 3.0), ("d", 4.0))
        }
        known[boxes.Key("a")].waiting = [1]  # is wanted: stays
        pool.stock.parents = known
        pool.stock.keep_within_budget()
        self.assertEqual({key.python for key in pool.stock.parents}, {"a", "d"})

    def test_a_parent_whose_python_is_gone_is_let_go(self) -> None:
        second = self.folder / "second"
        second.mkdir()
        other = str(stand_in_torch(second, "9.9.2+cpu"))
        for python in (other, self.python):
            self.assertEqual(self.served_by(python), "warm")
        shutil.rmtree(second)

        def left() -> bool:
            found = [parent["interpreter"] for parent in self.status()["parents"]]
            return found == [self.python]

        wait_for(left, "only the other one is left")

    def test_a_parent_that_nobody_uses_is_let_go(self) -> None:
        pool = Pool(str(self.folder / "other.sock"), self.memory_mib)
        self.addCleanup(pool.stop)
        keys = [boxes.Key(self.python, hidden=(name,)) for name in "abcd"]
        default, used, recent, _ = keys
        pool.stock.kept = default
        for key in keys:
            pool.stock.parent_for(key).used_at -= 0 if key is recent else IDLE_S + 1
        pool.stock.parents[used].running = 1
        pool.stock.let_go()
        self.assertEqual(set(pool.stock.parents), {default, used, recent})
        (gone,) = pool.stock.retired
        pool.stock.tend()
        self.assertFalse(is_alive(gone.outer.process.pid))

    def test_a_parent_that_compiles_may_take_longer_to_start(self) -> None:
        for compiler, overdue in ((False, True), (True, False)):
            parent = object.__new__(parents.Parent)
            parent.key = boxes.Key("a", compiler=compiler)
            parent.state = "starting"
            parent.began = time.monotonic() - parents.START_S - 1
            self.assertIs(parent.overdue(), overdue)
        self.assertGreater(pool_client.COMPILER_TIMEOUT_S, parents.COMPILER_START_S)
        self.assertGreater(pool_client.TIMEOUT_S, parents.START_S)

    def test_an_evicted_build_is_served_again(self) -> None:
        self.assertEqual(self.served_by(), "warm")
        second = self.folder / "second"
        second.mkdir()
        other = str(stand_in_torch(second, "9.9.2+cpu"))
        self.assertEqual(self.served_by(other), "warm")
        self.assertEqual(len(self.status()["parents"]), 2)
        self.assertEqual(self.served_by(), "warm")

    def test_a_build_may_be_warmed_before_its_first_check(self) -> None:
        start = self.start(source())
        key = pool_start.parent_key(start.cold)
        self.order_warm(key)
        (parent,) = self.status()["parents"]
        wait_for(lambda: self.status()["parents"][0]["spares"], "it is ready")
        # Nobody was given a child of it so far.
        self.assertEqual(self.status()["served"], 0)
        self.assertEqual(self.served_by(), "warm")
        # The same one: what was warmed is what the check asks for.
        self.assertEqual([p["pid"] for p in self.status()["parents"]], [parent["pid"]])
        self.assertFalse(pool_client.warm(self.socket + ".none", key))

    def test_a_build_that_cannot_be_forked_is_served_cold(self) -> None:
        for lines, reason in (
            (THREAD, "2 threads run"),
            (
                "import subprocess\nleft = subprocess.Popen(['sleep', '600'])\n",
                "started another process",
            ),
            ("cuda._is_in_bad_fork = lambda: True\n", "initialised CUDA"),
            ("import os\nos._exit(3)\n", "the warm parent died"),
            ("raise ImportError('no such library')\n", "no such library"),
        ):
            with self.subTest(reason):
                folder = Path(tempfile.mkdtemp(dir=self.folder))
                folder.chmod(0o755)
                python = stand_in_torch(folder)
                torch = folder / "lib" / "torch" / "__init__.py"
                torch.write_text(torch.read_text() + "\n" + lines)
                start = self.start(source(), str(python))
                report = start(CheckSpec("control", timeout_s=30))
                self.assertEqual(report.served, "cold")
                self.assertIn(reason, start.reasons[0])
                self.assertIn(reason, json.dumps(self.status()["unfit"]))
                self.assertIn(reason, self.cold()[str(python)])

    def test_a_build_whose_parent_was_killed_is_warmed_again(self) -> None:
        self.is_warmed_again(())

    def test_so_it_is_in_namespaces_of_our_own_making(self) -> None:
        self.is_warmed_again(("bubblewrap",))

    def test_so_it_is_without_namespaces(self) -> None:
        self.is_warmed_again(("bubblewrap", "namespaces"))

    def test_so_it_is_where_what_holds_the_parent_was_killed(self) -> None:
        self.is_warmed_again(("bubblewrap",), whom=min)

    def is_warmed_again(
        self, without: tuple[str, ...], whom: Callable[[set[int]], int] = max
    ) -> None:
        """After its parent, or its init, was killed while that imported torch."""
        flag = self.folder / "lib" / "go"
        init = self.folder / "lib" / "torch" / "__init__.py"
        waits = f"import os, time\nwhile not os.path.exists({str(flag)!r}):\n"
        init.write_text(f"{waits}    time.sleep(0.01)\n{init.read_text()}")
        start = self.start(source(), without=without)
        key = pool_start.parent_key(start.cold)
        self.order_warm(key)
        (parent,) = self.status()["parents"]
        self.assertEqual(parent["state"], "starting")
        wait_for(self.zygotes, "its process runs")
        os.kill(whom(kernel.descendants(parent["pid"])), signal.SIGKILL)
        self.comes_again(parent["pid"])
        self.assertIn("killed from outside", self.cold()[self.python])
        flag.touch()
        self.assertEqual(start(CheckSpec("control")).served, "warm")
        self.assertEqual(self.cold(), {})

    def test_a_parent_that_was_killed_at_work_comes_again_before_it_is_asked_for(
        self,
    ) -> None:
        self.assertEqual(self.served_by(), "warm")
        (parent,) = self.status()["parents"]
        os.kill(parent["pid"], signal.SIGKILL)
        self.comes_again(parent["pid"])

    def comes_again(self, pid: int) -> None:
        """Wait for another parent than this one, which nobody asks for."""

        def another() -> bool:
            return any(p["pid"] != pid for p in self.status()["parents"])

        wait_for(another, "the parent comes again")

    def cold(self) -> dict[str, str]:
        found = pool_client.cold(self.socket)
        assert found is not None
        return found

    def test_a_thread_of_a_preloaded_module_costs_the_preload(self) -> None:
        package = self.folder / "lib" / "torch"
        package.joinpath("utils").mkdir()
        (package / "utils" / "__init__.py").write_text("")
        (package / "utils" / "data.py").write_text(THREAD)
        with (package / "__init__.py").open("a") as file:
            file.write("compile = None\n")
        self.assertEqual(self.served_by(), "warm")
        self.assertIs(self.status()["parents"][0]["preloaded"], False)

    def test_another_version_of_the_code_is_refused(self) -> None:
        with pool_client.connect(self.socket, 10) as pool:
            wire.send(pool, {"op": "child", "digest": "x", "python": self.python})
            answer = wire.receive(pool)
        assert answer
        self.assertIn("another version", answer[0]["cold"])

    def test_garbage_does_not_hurt_it(self) -> None:
        digest = pool_client.digest()
        wants: list[Any] = [
            {"op": "child", "digest": digest, **want}
            for want in (
                {},
                {"python": ["x"]},
                {"python": "/nonexistent/python"},
                {"python": self.python, "hidden": {"a": 1}},
                {
                    "python": self.python,
                    "cache": "/nonexistent",
                    "namespaces": "unshare",
                },
            )
        ]
        for data in (b"\xff", b"[1]", b"{}", b'{"op": "child"}', b"[" * 5000, *wants):
            with pool_client.connect(self.socket, LIMIT_S) as pool:
                pool.send(
                    data if isinstance(data, bytes) else json.dumps(data).encode()
                )
                self.assertNotIn(b"child", pool.recv(4096))
        self.assertEqual(self.served_by(), "warm")

    def test_only_one_pool_for_a_socket(self) -> None:
        command = pool_keeper.command(self.socket, 100)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"already", done.stderr)
        self.assertEqual(Path(self.socket).stat().st_mode & 0o777, 0o600)

    def test_one_that_waits_takes_over(self) -> None:
        command = pool_keeper.command(self.socket, 100, "--wait")
        second = subprocess.Popen(command, cwd=ROOT)
        self.addCleanup(self.stop, second)
        self.pool.terminate()
        self.pool.wait(LIMIT_S)
        wait_for(lambda: pool_client.is_there(self.socket), "the second listens")
        self.assertEqual(self.status()["pid"], second.pid)

    def test_a_long_path_is_no_obstacle(self) -> None:
        deep = self.folder / ("x" * 120)
        deep.mkdir()
        self.socket = str(deep / "pool.sock")
        self.started()
        self.assertEqual(self.served_by(), "warm")

    def test_the_keeper_starts_one_and_ends_it(self) -> None:
        self.stop(self.pool)
        keeper = pool_keeper.PoolKeeper(self.socket, 512)
        self.addCleanup(keeper.stop)
        keeper.ensure()
        wait_for(lambda: pool_client.is_there(self.socket), "the keeper's pool listens")
        self.assertEqual(self.served_by(), "warm")
        assert keeper.process
        pids = kernel.descendants(keeper.process.pid)
        keeper.stop()
        wait_for(lambda: not any(map(is_alive, pids)), "nothing of the pool is left")
        self.assertFalse(Path(self.socket).exists())

    def test_no_memory_no_pool(self) -> None:
        self.stop(self.pool)
        keeper = pool_keeper.PoolKeeper(self.socket, 0)
        keeper.ensure()
        self.assertIsNone(keeper.process)


class SmallPoolTest(PoolCase):
    """A pool with less memory than a parent may take."""

    memory_mib = 100

    def test_nothing_is_warmed_before_it_is_needed(self) -> None:
        start = self.start(source())
        key = pool_start.parent_key(start.cold)
        self.order_warm(key)
        self.assertEqual(self.status()["parents"], [])
        report = start(CheckSpec("control"))
        self.assertEqual((report.failure, report.served), (None, "warm"))


class FakeParent:
    """A parent of so many MiB that was used at that time."""

    state = "ready"
    running = 0

    def __init__(self, used_at: float, pss_mib: float) -> None:
        self.used_at, self.pss_mib = used_at, pss_mib
        self.waiting: list[int] = []

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def measure(self) -> float:
        return self.pss_mib

    def end(self, reason: str) -> None:
        self.state = "ended"


class DeathTest(PoolCase):
    """Whoever is killed, nothing runs on, and nobody is told what was not seen."""

    WAITS = "import time\nprint('begins', flush=True)\ntime.sleep(600)"

    def begun(
        self, text: str, **options: Any
    ) -> tuple[pool_start.WarmStart, list[str]]:
        lines: list[str] = []
        start = self.start(
            text, on_line=lambda check, stream, line: lines.append(line), **options
        )
        return start, lines

    def test_the_pool_dies_and_the_check_starts_again_cold(self) -> None:
        # Cold it ends by itself: what tells is whether torch is there already.
        text = source(
            control="import sys, time\n"
            "print('begins', flush=True)\n"
            "time.sleep(600 * ('zygote' in open('/proc/self/cmdline').read()))\n"
            "return {'nonfinite': 0, 'grad': 1.0}"
        )
        start, lines = self.begun(text)
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(start, CheckSpec("control", timeout_s=LIMIT_S))
            wait_for(lambda: "begins" in lines, "the check begins")
            pids = self.pids()
            self.pool.kill()
            self.pool.wait()
            report = running.result(LIMIT_S)
        self.assertEqual((report.failure, report.served), (None, "cold"), report)
        self.assertIn(pool_start.AGAIN, lines)
        wait_for(lambda: not any(map(is_alive, pids)), "nothing of the pool is left")

    def test_the_end_of_the_check_may_be_seen_before_that_of_the_pool(self) -> None:
        pool, pool_end = socket.socketpair()
        control, check_end = socket.socketpair()
        request, request_end = socket.socketpair()
        self.addCleanup(request_end.close)
        check = subprocess.Popen(["sleep", "infinity"])
        self.addCleanup(check.wait)
        self.addCleanup(check.kill)
        child = pool_client.Child(pool, control, request, os.pidfd_open(check.pid))
        process = pool_client.WarmProcess(child, {}, None)
        self.addCleanup(process.close)
        check_end.close()
        with ThreadPoolExecutor(1) as thread:
            ending = thread.submit(process.poll)
            wait_for(lambda: process.ended, "the end of the check is seen")
            pool_end.close()
            ended = ending.result(LIMIT_S)
        assert ended
        self.assertEqual((ended.status, process.pool_died), (None, True))

    def test_the_parent_dies_and_the_check_is_lost(self) -> None:
        start, lines = self.begun(source(control=self.WAITS))
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(start, CheckSpec("control", timeout_s=LIMIT_S))
            wait_for(lambda: "begins" in lines, "the check begins")
            pids = self.pids()
            os.kill(self.status()["parents"][0]["pid"], signal.SIGKILL)
            report = running.result(LIMIT_S)
        self.assertIn(report.failure, ("lost", "crash:SIGKILL"))
        # Not by what it did itself: its run starts it again.
        self.assertEqual(report.killed_by, "signal")
        wait_for(lambda: not any(map(is_alive, pids)), "nothing of the parent is left")
        self.assertEqual(self.start(source())(CheckSpec("control")).served, "warm")

    def test_the_client_dies_and_so_does_its_check(self) -> None:
        path = self.folder / "repro.py"
        path.write_text(source(control=self.WAITS))
        code = (
            "from portable import harness\nfrom runner import sandbox\n"
            "from runner.pool import start as pool_start\n"
            f"cold = sandbox.start_in({self.python!r}, {str(path)!r}, gpus='',"
            " on_line=lambda *line: print(*line, flush=True))\n"
            f"start = pool_start.WarmStart({self.socket!r}, cold)\n"
            "start(harness.CheckSpec('control'))\n"
        )
        client = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert client.stdout
        self.assertIn("begins", client.stdout.readline())
        self.assertEqual(self.status()["parents"][0]["running"], 1)
        client.kill()
        client.wait()
        client.stdout.close()

        def gone() -> bool:
            (parent,) = self.status()["parents"]
            return parent["running"] == 0

        wait_for(gone, "the check has ended")
        # The parent, what holds it, and one spare: as many as before any check.
        self.assertEqual(self.start(source())(CheckSpec("control")).served, "warm")
        self.assert_nothing_left()

    def test_no_pool_at_all(self) -> None:
        self.stop(self.pool)
        start = self.start(source())
        self.assertEqual(start(CheckSpec("control")).served, "cold")
        self.assertIn("no pool", start.reasons[0])


class TierTest(PoolCase):
    """Warm checks are held by whatever layers there are, as cold ones are."""

    def test_without_layers(self) -> None:
        for without in (
            {"bubblewrap"},
            {"cgroup"},
            {"bubblewrap", "namespaces"},
            {"bubblewrap", "namespaces", "landlock", "seccomp", "cgroup"},
        ):
            with self.subTest(without=sorted(without)):
                start = self.start(source(), without=frozenset(without))
                report = start(CheckSpec("control"))
                self.assertEqual(report.failure, None, report.log_text)
                self.assertEqual(report.served, "warm", start.reasons)
        kinds = {parent["namespaces"] for parent in self.status()["parents"]}
        self.assertIn(None, kinds)


class CompilerTest(PoolCase):
    def let_compile(self, module: str, text: str) -> None:
        """Give the stand-in torch a compiler, with this module of Inductor's."""
        package = self.folder / "lib" / "torch" / "_inductor"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / module).write_text(text)
        torch = package.parent / "__init__.py"
        torch.write_text(torch.read_text() + "compile = None\n")

    def test_precompiled_headers_are_kept_with_the_rest(self) -> None:
        # Inductor asks where to when it is imported, which the parent does.
        self.let_compile(
            "compile_fx.py",
            "import getpass, tempfile\n"
            "place = f'{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}'\n",
        )
        text = source(
            control="import os\nfrom torch._inductor import compile_fx\n"
            "cache = os.environ['TORCHINDUCTOR_CACHE_DIR']\n"
            "same = os.path.realpath(compile_fx.place) == os.path.realpath(cache)\n"
            "return {'same': same}"
        ).replace("# trials", '# needs = ["compiler"]\n# trials')
        cache = self.folder / "cache"
        start = self.start(text, compile_cache=str(cache))
        report = start(CheckSpec("control"))
        self.assertEqual(report.served, "warm", start.reasons)
        self.assertEqual(report.messages[0]["observations"], {"same": True})

    # Where a hostile program may write, what it sees of others, what it can lift.
    REACHES = """\
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
cache = os.environ["TORCHINDUCTOR_CACHE_DIR"]
found = sorted(os.listdir(cache))
open(os.path.join(cache, "%s"), "w").close()
lifted = [libc.umount2(p, 2) for p in (b"/caches", b"/cache")]
mounted = libc.mount(b"/cache", b"/caches", None, 4096, None)
others = sorted(n for _, _, names in os.walk("/caches") for n in names)
written = []
for place in ("/caches/x", "/caches/seed/files/header", "/seed/header", "/seed/x"):
    try:
        with open(place, "w"):
            written.append(place)
    except OSError:
        continue
seed = open("/seed/header").read() if os.path.exists("/seed/header") else ""
return {"found": " ".join(found), "others": " ".join(others), "seed": seed,
    "lifted": lifted, "mounted": mounted, "written": " ".join(written)}
"""

    def compiling(self, name: str) -> pool_start.WarmStart:
        """A repro that compiles, with a cache of its own among those of the build."""
        torch = self.folder / "lib" / "torch" / "__init__.py"
        if "compile = None" not in torch.read_text():
            torch.write_text(torch.read_text() + "compile = None\n")
        caches = self.folder / "caches"
        seed = caches / "seed" / "files"
        seed.mkdir(parents=True, exist_ok=True)
        (seed / "header").write_text("ours")
        (caches / name).mkdir(exist_ok=True)
        text = source(control=self.REACHES % name).replace(
            "# trials", '# needs = ["compiler"]\n# trials'
        )
        return self.start(
            text,
            compile_cache=str(caches / name / "files"),
            compile_seed=str(seed),
            compile_caches=str(caches),
        )

    @unittest.skipUnless(sandbox.capabilities().layers.namespaces, "no namespaces")
    def test_repros_that_compile_share_a_parent_and_no_cache(self) -> None:
        starts = {name: self.compiling(name) for name in ("first", "second")}
        for _ in range(2):
            for start in starts.values():
                report = start(CheckSpec("control"))
                self.assertEqual(report.served, "warm", start.reasons)
                self.assertEqual(report.failure, None, report.log_text)
        found = report.messages[0]["observations"]
        self.assertEqual(found["found"], "second")
        self.assertEqual((found["others"], found["written"]), ("", ""))
        self.assertEqual((found["lifted"], found["mounted"]), ([-1, -1], -1))
        self.assertEqual(found["seed"], "ours")
        header = self.folder / "caches" / "seed" / "files" / "header"
        self.assertEqual(header.read_text(), "ours")
        compiling = [p for p in self.status()["parents"] if p["compiler"]]
        self.assertEqual([p["served"] for p in compiling], [4])

    def test_another_folder_of_caches_gets_another_parent(self) -> None:
        start = self.compiling("third")
        self.assertEqual(start(CheckSpec("control")).served, "warm", start.reasons)
        shutil.move(self.folder / "caches", self.folder / "moved")
        start = self.compiling("third")
        report = start(CheckSpec("control"))
        self.assertEqual((report.served, report.failure), ("warm", None))

    def test_what_was_compiled_once_is_there_for_the_parent_to_read(self) -> None:
        self.let_compile(
            "cpu_vec_isa.py",
            "import os\nfound = []\n\n\n"
            "def pick_vec_isa():\n"
            "    found.extend(os.listdir(os.environ['TORCHINDUCTOR_CACHE_DIR']))\n",
        )
        seed = self.folder / "seed"
        (seed / "q6").mkdir(parents=True)
        (seed / "precompiled_headers").mkdir()
        text = source(
            control="from torch._inductor import cpu_vec_isa\n"
            "return {'found': ' '.join(cpu_vec_isa.found)}"
        ).replace("# trials", '# needs = ["compiler"]\n# trials')
        start = self.start(
            text, compile_cache=str(self.folder / "cache"), compile_seed=str(seed)
        )
        report = start(CheckSpec("control"))
        self.assertEqual(report.served, "warm", start.reasons)
        self.assertEqual(report.messages[0]["observations"]["found"], "q6")


class RealTorchTest(PoolCase):
    """What the stand-in cannot show."""

    CHECK = (
        "import torch\n"
        "x = torch.ones(300, 300, requires_grad=True)\n"
        "(x @ x).exp().mul(0).backward(torch.ones(300, 300))\n"
        "o = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)\n"
        "o.step()\n"
        "torch.manual_seed(0)\n"
        "return {'threads': torch.get_num_threads(), 'draw': float(torch.rand(1)),\n"
        "  'nan': int(x.grad.isnan().sum())}"
    )

    def test_threads_and_numbers_are_those_of_a_cold_start(self) -> None:
        start = self.start(source(control=self.CHECK), torch_python())
        warm, cold = start(CheckSpec("control")), start.cold(CheckSpec("control"))
        self.assertEqual((warm.served, cold.served), ("warm", "cold"), start.reasons)
        seen = [r.messages[0]["observations"] for r in (warm, cold)]
        self.assertEqual(*seen)
        assert warm.hello and cold.hello
        self.assertEqual(warm.hello["identity"], cold.hello["identity"])
        self.assertIs(self.status()["parents"][0]["preloaded"], True)

    def test_no_thread_of_it_is_less_confined(self) -> None:
        # Filters hold for the thread that asks for them, and for those it starts.
        body = (
            "import os, torch\n"
            "tasks = '/proc/self/task'\n"
            "texts = [open(f'{tasks}/{t}/status').read() for t in os.listdir(tasks)]\n"
            "open_ones = sum('Seccomp:\\t2' not in text for text in texts)\n"
            "return {'threads': torch.get_num_threads(), 'open': open_ones}"
        )
        start = self.start(source(control=body), torch_python())
        report = start(CheckSpec("control"))
        self.assertEqual(report.served, "warm", start.reasons)
        wanted = {"threads": harness.wanted_threads(), "open": 0}
        self.assertEqual(report.messages[0]["observations"], wanted)

    def test_unseeded_numbers_differ_from_child_to_child(self) -> None:
        names = ("random.random()", "torch.rand(1)", "numpy.random.rand()")
        draws = ", ".join(f"float({name})" for name in names)
        body = f"import numpy, random, torch\nreturn {{'draws': [{draws}]}}"
        start = self.start(source(control=body), torch_python())
        reports = [start(CheckSpec("control")) for _ in range(2)]
        first, second = (r.messages[0]["observations"]["draws"] for r in reports)
        self.assertEqual({r.served for r in reports}, {"warm"})
        self.assertFalse(set(first) & set(second))
