"""`manage.py lookup`: exit statuses, encodings, logs of any size."""

import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase

from kb.lookup.answer import look_up
from kb.lookup.paste import MAX_BYTES
from kb.search.reading.lines import HEAD_LINES, TAIL_LINES, select_stream_lines
from tests.kb.lookup.test_lookup import LOGS, SEED, WARNING
from tests.support.records import FirstRecords


class CommandTests(FirstRecords):
    def run_command(self, log: str | bytes, *args: str) -> tuple[int, str]:
        data = log if isinstance(log, bytes) else log.encode()
        out = io.StringIO()
        stdin = io.TextIOWrapper(io.BytesIO(data))
        with mock.patch.object(sys, "stdin", stdin):
            try:
                call_command("lookup", *args, stdout=out)
            except SystemExit as stop:
                return int(stop.code or 0), out.getvalue()
            except CommandError as error:
                return error.returncode, str(error)
        return 0, out.getvalue()

    def test_exit_statuses(self) -> None:
        rows = {
            "article-sdpa.log": 0,
            "ranks-sdpa.log": 0,
            "only-numbers.log": 3,
            "near-sqrt-anomaly.log": 1,
        }
        for name, expected in rows.items():
            with self.subTest(name):
                status, _out = self.run_command((LOGS / name).read_bytes())
                self.assertEqual(status, expected)
        self.assertEqual(self.run_command("")[0], 2)

    def test_json_is_the_answer(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".env") as file:
            file.write("torch==2.5.1\n")
            file.flush()
            status, out = self.run_command(SEED, "--json", "--env", file.name)
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out), look_up(SEED, "torch==2.5.1\n"))

    def test_report(self) -> None:
        with mock.patch.dict(os.environ, {"LC_ALL": "C.UTF-8"}):
            _status, out = self.run_command(SEED)
        self.assertIn("NAN-0001", out)
        self.assertIn("  line 4 says “/usr/local/lib/", out)
        self.assertIn("listed in the record as affected", out)
        with mock.patch.dict(os.environ, {"LC_ALL": "zh_CN.UTF-8"}):
            _status, out = self.run_command(SEED)
        self.assertIn("记录中列出", out)

    def test_the_line_of_a_framework_comes_before_the_code(self) -> None:
        log = (LOGS / "lora-lost-grad.log").read_text()
        with mock.patch.dict(os.environ, {"LC_ALL": "C.UTF-8"}):
            _status, out = self.run_command(log)
        line = out.index("with LLaMA-Factory [not run here, as documented].")
        self.assertLess(out.index("use_reentrant_gc: false", line), out.index("apply_"))

    def test_what_is_not_sure_comes_with_first_checks(self) -> None:
        metrics = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}\n"
        status, out = self.run_command(metrics)
        self.assertEqual(status, 3)
        self.assertIn("logging_nan_inf_filter=False", out)
        _status, out = self.run_command(SEED)
        self.assertIn("apply_", out)
        self.assertRegex(out, r"What to do now \[.+\]\. Cost: \w")
        self.assertNotIn("First checks", out)

    def test_a_log_of_any_size_is_read_to_its_end(self) -> None:
        line = "step %d loss 0.31 lr 1e-4 tokens per second 18231.9 memory 41.2GiB\n"
        steps = "".join(line % at for at in range(40_000))
        middle = len(steps) // 2
        log = f"{steps[:middle]}\n{WARNING} a grad_fn\n{steps[middle:]}"
        self.assertGreater(len(log), 2 * MAX_BYTES)
        status, out = self.run_command(log, "--json")
        found = json.loads(out)
        self.assertEqual(status, 0)
        self.assertEqual(found["candidates"][0]["record"], "NAN-0002")
        (number,) = found["candidates"][0]["lines"]
        self.assertEqual(log.split("\n")[number - 1], f"{WARNING} a grad_fn")
        self.assertEqual(found["query"]["cut"]["lines"], 36_001)

    def test_memory_is_bounded(self) -> None:
        repeated = itertools.repeat(b"x" * 1023 + b"\n", 9_000)
        kept = select_stream_lines(Chunks(repeated))
        self.assertLessEqual(len(kept.lines), HEAD_LINES + TAIL_LINES)
        self.assertEqual(kept.cut_lines, 9_000 - HEAD_LINES - TAIL_LINES)
        endless = select_stream_lines(Chunks(itertools.repeat(b"y" * 4096, 2_000)))
        self.assertLess(sum(len(text) for _, text in endless.lines), 20_000)

    def test_a_file_may_be_named(self) -> None:
        status, out = self.run_command("", str(LOGS / "fla-gsa.log"))
        self.assertEqual(status, 0)
        self.assertIn("NAN-0005", out)

    def test_encodings(self) -> None:
        log = f"{WARNING} a grad_fn"
        for data in (
            log.encode("utf-16"),
            log.encode("utf-8-sig"),
            log.encode() + b"\xff",
        ):
            with self.subTest(data[:4]):
                self.assertEqual(self.run_command(data)[0], 0)


class Chunks(io.RawIOBase):
    """A stream that is never in memory as a whole."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = iter(pieces)

    def read(self, size: int = -1) -> bytes:
        return next(self.pieces, b"")


class UsageTests(SimpleTestCase):
    def test_an_unusable_call_exits_2(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            environ = {**os.environ, "DATA_DIR": folder, "SECRET_KEY": "x"}
            environ.pop("DATABASE_URL", None)
            for args in (["--nonsense"], ["--env", f"{folder}/missing"], []):
                with self.subTest(args):
                    done = subprocess.run(
                        [sys.executable, "manage.py", "lookup", *args],
                        cwd=settings.BASE_DIR,
                        env=environ,
                        input="RuntimeError: x",
                        text=True,
                        capture_output=True,
                    )
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertNotIn("Traceback", done.stderr)
