"""Hostile and faulty programs, through the real path: see tests/support/hostile.py.

Here: nearly all of them warm, and some of each kind cold, in the best tier of this
machine. Every tier, warm and cold: `WholeCorpusTest`, or `python -m tests.gauntlet`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import SimpleTestCase, tag

from portable import harness
from tests import gauntlet
from tests.gauntlet import Case, Passage
from tests.support import hostile_sources, surroundings
from tests.support.builds import torch_python
from tests.support.hostile import FOLDERS, NOT_READ, PROGRAMS, REACHED, Program

# Cold starts are dear: these are here for what only a cold start does, and one or two
# of every kind.
COLD = (
    *("resources/fork_bomb", "resources/memory_hog", "resources/flood_one_line"),
    *("resources/deep_folders", "resources/big_file_killed", "resources/stop_itself"),
    *("crashes/segfault", "crashes/leaves_early", "crashes/hang_at_exit"),
    *("processes/daemons_in_a_row", "processes/leaves_a_listener"),
    *("escapes/kill_parent", "escapes/system_calls", "escapes/descriptors"),
    *("escapes/python_settings", "secrets/environment", "secrets/memory"),
    *("secrets/files", "secrets/own_source", "secrets/poison", "network/internet"),
    *("forgery/descriptors", "forgery/second_result", "forgery/deep_frame"),
    *("observations/pickle", "output/escapes", "judge/control_shows_the_bug"),
    *("controls/programs", "controls/spawned_processes", "controls/own_source"),
    *("controls/files", "controls/environment", "controls/limits"),
)
# What only the layers of a tier can stop. The rest is judged outside, by the same code
# in every tier.
HELD = ("escapes", "secrets", "network", "processes")
# And these even warm: a compiler, and 16 million lines.
DEAR = ("controls/compile", "resources/flood_empty_lines")


def setUpModule() -> None:
    surroundings.adopt_orphans()


class TableTest(SimpleTestCase):
    def test_it_names_every_program_once(self) -> None:
        named = sorted(program.name for program in PROGRAMS)
        self.assertEqual(hostile_sources.names(), named, "files, table")
        self.assertEqual({program.folder for program in PROGRAMS}, set(FOLDERS))

    def test_programs_keep_the_contract_or_are_not_read(self) -> None:
        for program in PROGRAMS:
            with self.subTest(program.name):
                try:
                    harness.read_repro(program.source().decode())
                    read = True
                except (harness.ContractError, UnicodeDecodeError):
                    read = False
                self.assertEqual(read, program.ends != {NOT_READ})

    def test_those_that_run_cold_here_are_in_the_table(self) -> None:
        self.assertEqual(set(COLD) - {program.name for program in PROGRAMS}, set())

    def test_programs_do_no_harm_where_nothing_was_planted(self) -> None:
        # Whoever runs one by hand must find it there afterwards.
        for name in ("secrets/own_source", "secrets/symbolic_links", "secrets/poison"):
            with tempfile.TemporaryDirectory() as kept:
                path = Path(kept, "repro.py")
                path.write_bytes(before := hostile_sources.whole(name, {}))
                self.harmless(path, before)

    def harmless(self, path: Path, before: bytes) -> None:
        space: dict[str, Any] = {"__file__": str(path), "__name__": "repro"}
        exec(compile(before, str(path), "exec"), space)
        with tempfile.TemporaryDirectory() as folder:
            scratch = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), folder)
            with mock.patch.dict(os.environ, scratch), inside(folder):
                self.assertIn("reached", space["trigger"]())
        self.assertEqual(path.read_bytes(), before)


def inside(folder: str) -> ExitStack:
    """This folder as the current one, and as the one for temporary files."""
    stack = ExitStack()
    stack.enter_context(mock.patch.object(tempfile, "tempdir", folder))
    stack.callback(os.chdir, Path.cwd())
    os.chdir(folder)
    return stack


class Gauntlet(SimpleTestCase):
    """Programs through one case; each that went wrong is a failed subtest."""

    def go_through(
        self, case: Case, programs: list[Program], python: str = "", hurry: bool = True
    ) -> dict[str, Passage]:
        """Under `python`, else the real torch of the tests."""
        warm = case.served == "warm"
        with surroundings.plant() as here:
            with gauntlet.warm_pool(here) if warm else nullcontext("") as pool:
                done = gauntlet.run_all(
                    programs,
                    case,
                    python or torch_python(),
                    here,
                    hurry=hurry,
                    pool=pool,
                )
                left = here.leftovers()
            left += here.leftovers()  # now of the pool itself
        for passage in done:
            with self.subTest(passage.program.name, case=str(case)):
                self.assertEqual(passage.problems, [], show(passage))
        self.assertEqual(left, [], str(case))
        return {passage.program.name: passage for passage in done}


def show(passage: Passage) -> str:
    """The end of the story, for a test's message."""
    if not passage.evidence:
        return passage.end
    last = passage.evidence["checks"][-1]
    return f"{harness.summary(last)}\n{last['log']['text'][-2000:]}"


def best() -> str:
    return next(gauntlet.cases()).tier


@tag("long")
class ColdTest(Gauntlet):
    def test_some_of_every_kind(self) -> None:
        some = [program for program in PROGRAMS if program.name in COLD]
        with gauntlet.light_build() as python:
            self.go_through(Case(best()), some, python)


@tag("long")
class WarmTest(Gauntlet):
    def test_all(self) -> None:
        programs = [p for p in PROGRAMS if p.name not in DEAR]
        done = self.go_through(Case(best(), served="warm"), programs)
        first, second = done["controls/chance"].evidence["checks"][-2:]
        # Forks of one parent, and yet as different as fresh processes are.
        for key in ("python", "torch", "digest"):
            drawn = [check["observations"][key] for check in (first, second)]
            self.assertNotEqual(*drawn, key)


def is_held(program: Program, case: Case) -> bool:
    """Whether this case's layers have a part in how the program ends."""
    only_counted = case.without == {"cgroup"}  # all other layers are as they were
    held = ("processes",) if only_counted else HELD
    some = ("resources", "controls") if only_counted else ("controls",)
    chosen = program.folder in some and program.name in COLD
    return not program.needs_torch and (program.folder in held or chosen)


@tag("servers", "corpus")
class EveryTierTest(Gauntlet):
    """What layers must hold, in every tier that this machine offers.

    Without torch, through the same jail, thirty times faster. Every program in every
    tier is eleven minutes of processor time: `WholeCorpusTest`.
    """

    def test_cold(self) -> None:
        with gauntlet.light_build() as python:
            for case in gauntlet.cases():
                done = COLD if case == Case(best()) else ()  # by ColdTest
                some = [p for p in PROGRAMS if is_held(p, case) and p.name not in done]
                self.go_through(case, some, python)


@tag("gauntlet")
class WholeCorpusTest(Gauntlet):
    """Every program under the real torch, in every tier; half an hour."""

    def test_cold_without_torch(self) -> None:
        light = [program for program in PROGRAMS if not program.needs_torch]
        with gauntlet.light_build() as python:
            for case in gauntlet.cases():
                self.go_through(case, light, python)

    def test_warm(self) -> None:
        for case in gauntlet.cases("warm"):
            self.go_through(case, [p for p in PROGRAMS if not p.needs_compiler])

    def test_cold(self) -> None:
        real = [p for p in PROGRAMS if p.needs_torch and not p.needs_compiler]
        for case in gauntlet.cases():
            self.go_through(case, real, hurry=False)

    def test_the_compiler(self) -> None:
        dear = [program for program in PROGRAMS if program.needs_compiler]
        for served in ("warm", "cold"):
            self.go_through(Case(best(), served=served), dear, hurry=False)

    def test_torch_is_set_up_the_same_warm_and_cold(self) -> None:
        chance = [program for program in PROGRAMS if program.name == "controls/chance"]
        found = []
        for served in ("warm", "cold"):
            done = self.go_through(Case(best(), served=served), chance, hurry=False)
            seen = done["controls/chance"].evidence["checks"][-1]["observations"]
            found.append({k: seen[k] for k in ("threads", "workers", "type")})
        self.assertEqual(*map(json.dumps, found))


class GauntletTest(SimpleTestCase):
    """The tests above can fail: damage is seen, and so is an escape."""

    def test_an_escape_is_an_end_of_its_own(self) -> None:
        weakest = Case(
            "A", frozenset({"bubblewrap", "namespaces", "landlock", "seccomp"})
        )
        names = ("secrets/files", "network/internet", "secrets/own_source")
        with gauntlet.light_build() as python, surroundings.plant() as here:
            for name in names[:2]:
                program = next(p for p in PROGRAMS if p.name == name)
                found = gauntlet.send(program, weakest, python, here)
                self.assertEqual(found.end, REACHED, show(found))
                self.assertIn("ended as", " ".join(found.problems))
            self.assertIn("servers were called", " ".join(here.damage()))

    def test_damage_is_noticed_once(self) -> None:
        with surroundings.plant() as here:
            self.assertEqual((here.damage(), here.leftovers()), ([], []))
            Path(here.targets["outside"], "new").touch()
            Path(here.targets["own_files"][0]).chmod(0o600)
            here.victim.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, here.victim.pid, os.WSTOPPED | os.WNOWAIT)
            (here.temporary / "doesitnan-run-x").mkdir()
            listener = socket.create_server(("", here.targets["free_port"]))
            with listener, mock.patch.object(os, "umask", lambda mask: 0):
                found = " ".join(here.damage())
                self.assertIn("listens", " ".join(here.leftovers()))
            words = ("outside/new", "readable", "state T", "listens", "own process")
            for each in words:
                self.assertIn(each, found)
            here.victim.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, here.victim.pid, os.WCONTINUED)
            here.damage()
            self.assertEqual(here.damage(), [])
            self.assertIn("doesitnan-run-x", " ".join(here.leftovers()))

    def test_a_process_that_is_left_is_found_and_ended(self) -> None:
        code = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(60)"
        with surroundings.plant() as here:
            subprocess.run([sys.executable, "-S", "-c", code], check=True)
            self.assertIn("import os, time", " ".join(here.leftovers()))
            self.assertEqual(here.leftovers(), [])

    def test_secrets_and_controls_in_evidence_are_noticed(self) -> None:
        texts = {"a": ["fine"], "b": {"c\x1b": "x", "d": "\u202ex"}}
        self.assertEqual(list(surroundings.unsafe_texts(texts)), ["c\x1b", "\u202ex"])
