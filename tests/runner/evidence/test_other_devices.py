"""What a kit brings of a device that no worker has: taken, shown, and judged again."""

from __future__ import annotations

import json
from typing import Any

from django.core.management import call_command
from django.test import tag

from kb.choices import SHIPPED
from kb.models import Record
from kb.publishing import saving
from portable import harness
from runner.evidence import exchange
from runner.evidence.store import EvidenceRefused
from runner.models import Evidence
from tests.support import kits, runs


@tag("any_database")
class OtherDeviceTest(kits.KitCase):
    def setUp(self) -> None:
        super().setUp()
        runs.make_repro(kits.for_any_device())
        self.make()
        self.put_npu()
        status, out, _err = self.run_kit("--device", "npu", "--json", "npu.json")
        self.assertEqual(status, 0)
        self.assertIn("load_evidence npu.json", out)

    def keep(self) -> list[str]:
        """The files that somebody who stands for the machine gets, loaded."""
        issues = self.folder / "issues"
        with self.settings(ISSUES_DIR=issues):
            call_command(
                "load_evidence", self.folder / "npu.json", keep="atlas", verbosity=0
            )
            call_command("load_evidence", verbosity=0)
        return [path.name for path in issues.rglob("*.json")]

    def rows(self, query: str) -> list[dict[str, Any]]:
        page = self.client.get(f"/en/matrix/?format=json&{query}").json()
        return list(page["rows"])

    def test_its_verdict_stands_in_a_row_of_its_own(self) -> None:
        self.assertEqual(self.keep(), ["repro-9.9.0-cpu-npu-atlas.json"])
        row = Evidence.objects.get()
        self.assertEqual((row.origin, row.device_class), (SHIPPED, "npu"))
        found = {(row["device"], row["gpu"]): row["cells"] for row in self.rows("")}
        self.assertEqual(sorted(found, key=str), [("cpu", None), ("npu", "TEST NPU")])
        self.assertEqual(
            found["npu", "TEST NPU"]["9.9.0-cpu"]["verdict"], "bug_present"
        )
        self.assertIsNone(found["cpu", None]["9.9.0-cpu"]["verdict"])
        page = self.client.get("/NAN-9001", follow=True).content.decode()
        self.assertIn("TEST NPU", page)
        page = self.client.get(row.get_absolute_url()).content.decode()
        self.assertIn("/repro.py --device npu", page)
        self.assertNotIn("uv run", page)

    def test_a_device_on_which_nobody_ran_it_has_a_row_without_a_verdict(self) -> None:
        self.keep()
        (row,) = self.rows("device=mps")
        self.assertEqual((row["device"], row["gpu"]), ("mps", None))
        self.assertEqual({cell["verdict"] for cell in row["cells"].values()}, {None})
        page = self.client.get("/en/matrix/?device=mps&show=all").content.decode()
        self.assertIn("NAN-9001", page)
        # A repro that is not declared for any device has none.
        runs.make_repro(runs.source())
        self.assertEqual(self.rows("device=mps"), [])

    def test_a_cause_of_a_device_is_answered_for_that_device_alone(self) -> None:
        self.keep()
        record = Record.objects.get()
        record.holds_on = {"devices": ["npu", "mps"], "why": "kernel"}
        saving.save(record)
        self.assertEqual(self.affected("npu"), ("affected", "tested_build"))
        self.assertEqual(self.affected("mps")[0], "unknown")

    def affected(self, device: str) -> tuple[str, str]:
        found = self.client.post(
            "/api/v1/records/NAN-9001/affected",
            {"env": f"torch==9.9.0\ndevice={device}"},
            content_type="application/json",
        ).json()["affected"]
        return found["answer"], found["basis"]

    def test_what_did_not_run_there_is_refused(self) -> None:
        body = json.loads((self.folder / "npu.json").read_text())["results"][0]
        body = body["evidence"]
        exchange.validate(harness.dumps(body).encode())
        nowhere = {**body, "device": {**body["device"], "count": 0, "name": None}}
        for lie, said in (
            (nowhere, "There was no npu, so nothing ran"),
            ({**body, "device": {**body["device"], "class": "tpu"}}, "device.class"),
            (
                {**body, "device": {**body["device"], "capability": "9.0"}},
                "there is no GPU that it could be of",
            ),
        ):
            lie["digest"] = harness.evidence_digest(lie)
            with self.assertRaisesRegex(EvidenceRefused, said):
                exchange.validate(harness.dumps(lie).encode())
        runs.make_repro(runs.source())
        with self.assertRaises(EvidenceRefused):
            exchange.validate(harness.dumps(body).encode())
