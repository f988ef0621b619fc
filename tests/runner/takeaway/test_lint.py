"""The linter as one file: the same rules, no torch, nothing of the site."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings
from django.test import TestCase

from kb.rules import checkout
from runner.takeaway.lint import lint
from tests.support import loaded
from tests.support.ordinary_user import ordinary

TRAP = "from torch.utils.checkpoint import checkpoint as c\ny = c(f, x)  # frozen_f\n"


class LintTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "lint.py").write_text(lint())
        (self.folder / "train.py").write_text(TRAP)
        # What a project may have beside it is not taken for a part of the program.
        (self.folder / "kb.py").write_text("raise SystemExit(9)\n")

    def run_lint(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # -I: neither the site's folder nor its packages.
        command = [sys.executable, "-I", "lint.py", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def test_it_finds_what_the_checkout_finds(self) -> None:
        done = self.run_lint("train.py", "--format", "json")
        self.assertEqual(done.returncode, 1, done.stderr)
        (found,) = json.loads(done.stdout)["findings"]
        self.assertEqual((found["record"], found["line"]), ("NAN-0002", 2))
        rules = checkout.rules_of(str(settings.BASE_DIR / "fixtures" / "issues"))
        listed = self.run_lint("--list", "--lang", "en").stdout.splitlines()
        self.assertEqual(
            [line.split()[0] for line in listed], [rule["record"] for rule in rules]
        )

    def test_what_a_user_may_not_read_is_told(self) -> None:
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        user = ordinary(str(python))
        for name in ("closed/trap.py", "listed/trap.py", "mine.py"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(TRAP)
        user.own(self.folder)
        (self.folder / "mine.py").chmod(0)
        (self.folder / "closed").chmod(0)
        (self.folder / "listed").chmod(0o444)
        # A namespace of an ordinary user's own has root's right to read what is closed.
        prefix = () if os.geteuid() else user.prefix
        command = [*prefix, python, "-I", "lint.py", ".", "--no-cache"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        for name in ("closed", "listed"):
            (self.folder / name).chmod(0o755)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("./train.py:2:5: warning NAN-0002", done.stdout)
        for name in ("mine.py", "closed", "listed/trap.py"):
            self.assertIn(f"./{name}: not read: Permission denied\n", done.stderr)

    def test_wrong_usage_is_2(self) -> None:
        self.assertEqual(self.run_lint("nowhere.py").returncode, 2)
        self.assertEqual(self.run_lint("--format", "xml", "train.py").returncode, 2)

    def test_a_copy_that_was_changed_refuses(self) -> None:
        path = self.folder / "lint.py"
        path.write_text(path.read_text().replace("NAN-0002", "NAN-9999", 1))
        done = self.run_lint("train.py")
        self.assertEqual(done.returncode, 2)
        self.assertIn("not what was reviewed", done.stderr)

    def test_everything_in_it_is_syntax_of_3_8(self) -> None:
        tree = ast.parse(lint(), feature_version=(3, 8))
        parts = {
            ast.literal_eval(node.targets[0].slice): ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Subscript)
            and isinstance(node.targets[0].slice, ast.Constant)
        }
        self.assertIn("kb/rules/patterns.py", parts)
        for name, text in parts.items():
            if name.endswith(".py"):
                ast.parse(text, feature_version=(3, 8))
                self.assertNotIn("import django", text)

    def test_over_http(self) -> None:
        response = self.client.get("/api/v1/lint.py")
        self.assertEqual(response.status_code, 200)
        self.assertIn('filename="lint.py"', response["Content-Disposition"])
        self.assertEqual(response.content.decode(), lint())
        again = self.client.get(
            "/api/v1/lint.py", headers={"If-None-Match": response["ETag"]}
        )
        self.assertEqual(again.status_code, 304)
