"""What is compiled once for a build, and the caches that begin with it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from portable import harness
from runner.builds import compile_cache, compile_seed

PYTHON = "/builds/2.13.0/bin/python"


class SeedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.made = 0
        self.works = True

    def make(self, files: str) -> bool:
        """As the sandboxed program leaves it: its own folders, a file, a link."""
        self.made += 1
        headers = Path(files) / "precompiled_headers"
        headers.mkdir(parents=True, mode=0o700)
        (headers / "x.h.gch").write_text("compiled")
        (headers / "away").symlink_to("/etc/passwd")
        return self.works

    def ready(self) -> str:
        return compile_seed.ready(self.root, PYTHON, self.make)

    def test_the_program_keeps_the_contract_and_compiles(self) -> None:
        header, checks = harness.read_repro(compile_seed.PROGRAM)
        self.assertEqual(header.needs, ("compiler",))
        self.assertEqual(checks, ["control", "detector", "trigger"])

    def test_it_is_made_once(self) -> None:
        first = self.ready()
        self.assertEqual(self.ready(), first)
        self.assertEqual(self.made, 1)

    def test_two_that_ask_at_once_make_one(self) -> None:
        asked = [threading.Thread(target=self.ready) for _ in range(4)]
        for thread in asked:
            thread.start()
        for thread in asked:
            thread.join()
        self.assertEqual(self.made, 1)

    def test_nothing_in_it_leads_elsewhere_or_can_be_written_by_others(self) -> None:
        seed = Path(self.ready())
        self.assertEqual(
            sorted(path.name for path in seed.rglob("*")),
            ["precompiled_headers", "x.h.gch"],
        )
        for path in (seed, *seed.rglob("*")):
            self.assertEqual(path.stat().st_uid, os.geteuid())
            self.assertFalse(path.stat().st_mode & 0o022, path)

    def test_a_build_that_cannot_compile_has_none_and_is_tried_later(self) -> None:
        self.works = False
        self.assertEqual(self.ready(), "")
        self.assertEqual(self.ready(), "")
        self.assertEqual(self.made, 1)
        made = self.root / compile_cache.interpreter_key(PYTHON) / "seed" / "made"
        past = time.time() - compile_seed.AGAIN_S - 1
        os.utime(made, (past, past))
        self.works = True
        self.assertNotEqual(self.ready(), "")
        self.assertEqual(self.made, 2)

    def test_one_that_was_cancelled_is_made_again(self) -> None:
        def cancelled(files: str) -> bool:
            self.make(files)
            raise harness.Cancelled

        with self.assertRaises(harness.Cancelled):
            compile_seed.ready(self.root, PYTHON, cancelled)
        self.assertNotEqual(self.ready(), "")
        self.assertEqual(self.made, 2)

    def test_a_new_cache_begins_with_a_copy(self) -> None:
        seed = self.ready()
        with compile_cache.locked_folder(self.root, PYTHON, "source") as files:
            compile_seed.plant(seed, files, None)
            copy = Path(files) / "precompiled_headers" / "x.h.gch"
            copy.write_text("another")
            compile_seed.plant(seed, files, None)
            self.assertEqual(copy.read_text(), "another")
        kept = Path(seed) / "precompiled_headers" / "x.h.gch"
        self.assertEqual(kept.read_text(), "compiled")

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_the_copy_belongs_to_the_runs_that_share_it(self) -> None:
        seed = self.ready()
        with compile_cache.locked_folder(self.root, PYTHON, "source") as files:
            compile_seed.plant(seed, files, (61234, 61235))
            for path in (Path(files), *Path(files).rglob("*")):
                status = path.stat()
                self.assertEqual((status.st_uid, status.st_gid), (61234, 61235))

    def test_without_a_seed_the_cache_is_left_to_the_run(self) -> None:
        with compile_cache.locked_folder(self.root, PYTHON, "source") as files:
            compile_seed.plant("", files, None)
            self.assertFalse(Path(files).exists())


class LockTest(unittest.TestCase):
    def test_what_another_process_removes_meanwhile_is_gone(self) -> None:
        root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        gone = root / "python" / "gone"
        gone.mkdir(parents=True)

        def measured(folder: Path) -> float:
            shutil.rmtree(folder)
            return 1.0

        with mock.patch.object(compile_cache, "size_mib", measured):
            self.assertEqual(compile_cache.prune(root, 0), [])

    def test_a_folder_that_is_removed_as_it_is_locked_is_made_anew(self) -> None:
        root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        flock, removals = fcntl.flock, iter(range(2))

        def removed_first(handle: int, how: int) -> None:
            for _once in removals:
                for folder in root.glob("*/*"):
                    shutil.rmtree(folder)
                break
            flock(handle, how)

        with mock.patch.object(fcntl, "flock", removed_first):
            with compile_cache.locked_folder(root, PYTHON, "source") as files:
                self.assertTrue(Path(files).parent.is_dir())
                self.assertEqual(compile_cache.prune(root, 0), [])
            made = compile_seed.ready(root, PYTHON, lambda files: False)
            self.assertEqual(made, "")
        self.assertEqual(next(removals, None), None)
