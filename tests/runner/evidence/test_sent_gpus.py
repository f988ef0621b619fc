"""What a kit sent of GPUs: shown as sent, and in the matrix once it was reviewed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command
from django.test import TestCase

from kb.choices import SHIPPED
from runner.models import Evidence
from tests.support import composed_kit, runs
from tests.support.composed_kit import Gpu

H100, H200 = Gpu(), Gpu(name="NVIDIA H200", raw="2.13.0+cu130")


class SentGpuTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro(runs.source(device="cuda"))
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def load(self, gpu: Gpu, origin: str) -> None:
        path = self.folder / f"{origin}.json"
        path.write_text(json.dumps(composed_kit.whole([self.repro], gpu, bug=True)))
        call_command("load_evidence", path, origin=origin, verbosity=0)

    def page(self, address: str) -> str:
        return self.client.get(address, follow=True).content.decode()

    def document(self, query: str = "") -> dict[str, Any]:
        found = self.client.get(f"/en/matrix/?format=json{query}").json()
        return dict(found)

    def test_without_any_the_record_offers_the_one_file(self) -> None:
        page = self.page("/NAN-9001")
        self.assertIn("Nobody has run it here on a GPU yet", page)
        self.assertIn("repro.py", page)
        self.assertIn("Download the single file", page)
        (row,) = self.document()["rows"]
        self.assertEqual((row["device"], row["gpu"]), ("cuda", None))

    def test_the_record_says_who_sent_what_and_the_matrix_nothing(self) -> None:
        self.load(H100, "node-7")
        self.load(H200, "node-8")
        self.assertEqual(self.document()["builds"], [])
        page = self.page("/NAN-9001")
        self.assertIn("Nobody has run it here on a GPU yet", page)
        for gpu, name in ((H100, "node-7"), (H200, "node-8")):
            self.assertIn(f"by {name}; not run here", page)
            self.assertIn(gpu.name, page)

    def test_who_stands_for_the_machine_keeps_it_with_the_records(self) -> None:
        self.load(H100, "node-7")
        Evidence.objects.all().delete()
        sent = self.folder / "node-7.json"
        issues = self.folder / "issues"
        with self.settings(ISSUES_DIR=issues):
            for _ in range(2):
                call_command("load_evidence", sent, keep="h100", verbosity=0)
            call_command("load_evidence", verbosity=0)
            with self.assertRaisesMessage(CommandError, "evidence file of a kit"):
                call_command("load_evidence", keep="h100")
        (kept,) = issues.rglob("*.json")
        self.assertEqual(kept.name, "repro-2.11.0-cu130-h100.json")
        self.assertEqual(kept.read_text().count("\n"), 1)
        row = Evidence.objects.get()
        self.assertEqual((row.origin, row.verdict), (SHIPPED, "bug_present"))
        self.assertNotIn("Nobody has run it here", self.page("/NAN-9001"))
        (row,) = self.document()["rows"]
        self.assertEqual(row["gpu"], H100.name)
        self.assertEqual(row["cells"]["2.11.0-cu130"]["origin"], SHIPPED)
