"""Source that is made to stop whoever reads it: each is refused with its reason."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

from kb.records import snippets
from kb.rules import command, findings
from kb.rules.findings import MOST_CHARS, Unreadable, find
from portable.harness import checks
from tests.kb.rules.test_findings import rule

RULES = [rule({"event": ["torch.log"]})]
HEAD = "import torch\nx = torch.log(torch.ones(1))\n"
# By what the refusal says: sources that no reader may be stopped by.
HOSTILE = {
    "nested parentheses": "y = " + "(" * 100_000 + ")" * 100_000,
    "recursion": "y = x" + ".a" * 100_000,
    "null bytes": "y = '\0'",
    "limit": "y = " + "9" * 5000,
    "of too many expressions": "y = f'" + "{x}" * 200_000 + "'",
    "line 3: an f-string": 'y = rf"""' + "{x}\n" * 100_000 + '"""',
    "more than": "y = [" + "1, " * MOST_CHARS + "]",
}
DEEP = (
    "y = " + "not " * 100_000 + "x",
    "y = " + "-" * 100_000 + "x",
    "y = " + "lambda: " * 100_000 + "x",
    "if x: pass\n" + "elif x: pass\n" * 50_000,
    "y = " + " + ".join(["x"] * 200_000),
)
HARMLESS = (
    "y = '" + "a" * 1_000_000 + "'",
    "y = " + "'a' " * 100_000,
    "y = " + " and ".join(["x"] * 50_000),
    "".join(f"def f{i}(): return f{i - 1}() + f{i - 1}()\n" for i in range(1, 200)),
    "y = f'{x} {x:>{x}}' f\"{x}\"\n" * 2000,
)
ENCODINGS = ("rot13", "punycode", "zlib_codec", "undefined", "no_such")


class HostileSourceTest(SimpleTestCase):
    def test_it_is_refused_with_the_reason(self) -> None:
        for reason, source in HOSTILE.items():
            with self.subTest(reason), self.assertRaisesMessage(Unreadable, reason):
                find(HEAD + source, RULES)
        for source in DEEP:
            with self.subTest(source[:20]), self.assertRaises(Unreadable):
                find(HEAD + source, RULES)

    def test_what_is_only_large_is_read(self) -> None:
        for source in HARMLESS:
            with self.subTest(source[:20]):
                self.assertTrue(find(HEAD + source, RULES))


class HostileFilesTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def lint(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kb.rules", str(self.folder)],
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
        )

    def test_encodings_that_are_none_of_a_text(self) -> None:
        for name in ENCODINGS:
            text = f"# -*- coding: {name} -*-\n{HEAD}"
            (self.folder / f"{name}.py").write_text(text)
        done = self.lint()
        self.assertEqual(done.returncode, command.WRONG, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for name in ENCODINGS:
            self.assertIn(f"{name}.py: not read: ", done.stderr)

    def test_pipes_devices_and_what_has_no_end(self) -> None:
        os.mkfifo(self.folder / "pipe.py")
        (self.folder / "zero.py").symlink_to("/dev/zero")
        (self.folder / "loop.py").symlink_to("loop.py")
        (self.folder / "long.py").write_text("# " + "x" * 5 * MOST_CHARS)
        (self.folder / "good.py").write_text(HEAD)
        done = self.lint()
        self.assertEqual(done.returncode, command.WRONG, done.stderr)
        self.assertIn("findings: 0, files: 5", done.stderr)


class Parses:
    """Garbage that parses in each collection, as a thread that it lets in may."""

    is_over = False

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("name = 1")
        if not self.is_over:
            Parses()


class ThreadTest(SimpleTestCase):
    def test_no_other_thread_is_let_in_while_a_tree_is_made(self) -> None:
        """Else CPython before 3.11.8 ends both with a SystemError."""
        source = "name = [1]\n" * 500
        readers = (findings.parsed, snippets.parsed, checks.tree_of)
        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        self.addCleanup(setattr, Parses, "is_over", True)
        gc.set_threshold(50)
        Parses()
        for number, reader in enumerate(readers):
            with self.subTest(number):
                self.assertTrue(reader(f"{source}last = {number}"))
                self.assertTrue(gc.isenabled())
