"""Files that are made to stop `load_evidence`: each is refused, and the others load."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.test import TestCase

from runner.evidence.folders import MOST_VALUES
from runner.evidence.sent_files import DOCTOR, MAX_BYTES, MOST_BODIES
from runner.models import Evidence
from runner.sweeps.cells import SCHEMA as SWEEP
from tests.support import runs


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def archive() -> bytes:
    """A thousandfold zip, with another in it, a way out of it and many entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("evidence.json", b"0" * 10_000_000)
        file.writestr("../../evidence.json", "{}")
        for at in range(2000):
            file.writestr(f"{at}.json", "{}")
    return made.getvalue()


class BombTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.body = runs.make_evidence(self.repro)
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def load(self, path: Path, **options: Any) -> str:
        """What the command says of what it refuses, which makes its status 1."""
        told = io.StringIO()
        with self.assertRaises(SystemExit) as caught:
            call_command("load_evidence", path, stderr=told, verbosity=0, **options)
        self.assertEqual(caught.exception.code, 1)
        return told.getvalue()

    def refused(self, data: bytes | str, reason: str) -> None:
        path = self.folder / "evidence.json"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        for options in ({"origin": "node-7"}, {"keep": "h100"}):
            with self.subTest(reason, **options):
                self.assertIn(reason, self.load(path, **options))
        self.assertFalse(Evidence.objects.exists())

    def doctor(self, **facts: Any) -> str:
        return json.dumps({"schema": DOCTOR, "results": [], **facts})

    def test_a_zip_or_a_kit_is_none_of_json(self) -> None:
        self.refused(archive(), "It is a zip")

    def test_what_takes_gigabytes_in_memory(self) -> None:
        self.refused("[" + "{}," * MOST_VALUES + "{}]", "values")
        self.refused("[" + "1," * (MOST_VALUES + 1) + "1]", "values")
        self.refused(b" " * (MAX_BYTES + 1), "larger than")

    def test_what_is_nested_too_deeply(self) -> None:
        for depth in (100, 900, 100_000):
            self.refused(f'{{"schema": "{DOCTOR}", "x": {nested(depth)}}}', "nested")
            sweep = f'{{"schema": "{SWEEP}", "axes": {nested(depth)}}}'
            self.refused(sweep, "nested")
        self.refused("[" * 1_000_000, "no end")

    def test_numbers_of_many_digits(self) -> None:
        self.refused('{"a": ' + "9" * 100_000 + "}", "not JSON")

    def test_thousands_of_results(self) -> None:
        rows = [{"evidence": {"a": 1}}] * (MOST_BODIES + 1)
        self.refused(self.doctor(results=rows), "results")

    def test_results_that_are_none(self) -> None:
        for results in (7, "x", {"a": 1}, [7], None):
            path = self.folder / "evidence.json"
            path.write_text(self.doctor(results=results, sweeps=results))
            report = io.StringIO()
            try:
                call_command("load_evidence", path, origin="x", stdout=report)
            except SystemExit as ended:
                self.assertEqual(ended.code, 1)
        self.assertFalse(Evidence.objects.exists())

    def test_a_folder_leads_nowhere_else_and_has_an_end(self) -> None:
        record = self.folder / self.repro.record.slug
        inside = record / "evidence"
        inside.mkdir(parents=True)
        secret = self.folder / "secret.json"
        secret.write_text(json.dumps(self.body))
        (inside / "good.json").write_text(json.dumps(self.body))
        (inside / "link.json").symlink_to(secret)
        (inside / "zero.json").symlink_to("/dev/zero")
        os.mkfifo(inside / "pipe.json")
        deep = f'"x": {nested(900)}, "telemetry": {{'
        text = json.dumps(self.body).replace('"telemetry": {', deep)
        (inside / "deep.json").write_text(text)
        (inside / "long.json").write_bytes(b" " * 5_000_000)
        told = self.load(self.folder)
        for name in ("link", "zero", "pipe", "deep", "long"):
            self.assertIn(f"{name}.json: It is ", told)
        self.assertEqual(Evidence.objects.count(), 1)
