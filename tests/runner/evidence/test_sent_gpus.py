"""What a kit sent of GPUs: in the matrix by GPU and release, as sent till confirmed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command
from django.test import TestCase

from kb.choices import SHIPPED
from runner.evidence import origins
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
        self.assertIn("this one file", page)
        (row,) = self.document()["rows"]
        self.assertEqual((row["device"], row["gpu"]), ("cuda", None))

    def test_the_matrix_has_each_gpu_on_its_release_as_sent(self) -> None:
        self.load(H100, "node-7")
        self.load(H200, "node-8")
        whole = self.document()
        self.assertEqual(whole["builds"], ["2.11.0-cu130", "2.13.0-cu130"])
        rows = {row["gpu"]: row["cells"] for row in whole["rows"]}
        self.assertEqual(list(rows), [H100.name, H200.name])
        there = rows[H100.name]["2.11.0-cu130"]
        told = there["verdict"], there["origin"], there["confirmed"]
        self.assertEqual(told, ("bug_present", "node-7", False))
        self.assertIsNone(rows[H100.name]["2.13.0-cu130"]["verdict"])
        page = self.page("/en/matrix/?device=cuda")
        self.assertIn(f'<abbr class="on-gpu" title="{H200.name}">GPU</abbr>', page)
        self.assertIn(f"NAN-9001 · {H100.name}", page)
        self.assertIn("SENT · bug reproduced, says node-7; not confirmed", page)
        self.assertEqual(self.document("&device=cpu")["builds"], [])

    def test_the_record_says_who_sent_what_until_it_is_confirmed(self) -> None:
        self.load(H100, "node-7")
        page = self.page("/NAN-9001")
        self.assertIn("Nobody has run it here on a GPU yet", page)
        self.assertIn(f"torch {H100.raw}, {H100.name}:", page)
        self.assertIn("says node-7; not confirmed", page)
        origins.confirm(Evidence.objects.all())
        page = self.page("/NAN-9001")
        self.assertNotIn("Nobody has run it here on a GPU yet", page)
        self.assertNotIn("not confirmed", page)
        self.assertIn('<option value="2.11.0-cu130" selected>', page)
        cells = self.document()["rows"][0]["cells"]
        self.assertTrue(cells["2.11.0-cu130"]["confirmed"])
        origins.withdraw("node-7")
        self.assertEqual(self.document()["builds"], [])

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

    def test_what_names_no_commit_counts_where_the_build_has_one(self) -> None:
        self.load(H100, "node-7")
        row = Evidence.objects.get()
        row.build.git = "1" * 40
        row.build.save()
        self.load(Gpu(name="NVIDIA L4", capability="8.9"), "node-8")
        self.assertEqual(origins.confirm(Evidence.objects.all()), 2)
        self.assertEqual(self.document()["builds"], ["2.11.0-cu130"])
