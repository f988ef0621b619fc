"""Sweeps that come with the records: cells judged again, their rules checked."""

from __future__ import annotations

import json
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase

from kb.choices import LANGS
from kb.models import Record, Repro
from kb.records.conditions import holds
from portable import harness
from runner.evidence import executed
from runner.models import Sweep
from runner.pages.sweeps import maps as sweep_maps
from runner.sweeps import exchange, sentences
from runner.sweeps.boundary import boundary_of

FILES = sorted(Path(settings.ISSUES_DIR).glob("*/sweeps/*.json"))
TOLD = ("bug_present", "bug_absent")


class ShippedSweepTest(SimpleTestCase):
    def each(self) -> Any:
        for path in FILES:
            with self.subTest(f"{path.parent.parent.name}/{path.name}"):
                yield path, json.loads(path.read_text())

    def test_ten_records_have_one(self) -> None:
        self.assertGreaterEqual(len({path.parent for path in FILES}), 10)

    def test_each_record_has_one_on_a_build_with_the_bug(self) -> None:
        shown = {
            path.parent
            for path, body in self.each()
            if any(cell["verdict"] == "bug_present" for cell in body["cells"])
        }
        self.assertEqual({path.parent for path in FILES} - shown, set())

    def test_every_cell_gives_its_verdict_again(self) -> None:
        for path, body in self.each():
            self.assertEqual(body["digest"], harness.evidence_digest(body))
            name = f"{body['repro']['name']}.py"
            source = (path.parent.parent / name).read_text()
            now = Repro(source=source, digest=harness.source_digest(source))
            self.assertTrue(executed.holds(body["repro"], now))
            exchange.verify_cells(body, source)

    def test_the_sentence_is_right_for_every_cell(self) -> None:
        for _path, body in self.each():
            cells = [c for c in harness.decode(body["cells"]) if c["verdict"] in TOLD]
            found = boundary_of(cells)
            bugs = [cell["verdict"] == "bug_present" for cell in cells]
            self.assertEqual((found.bug, found.judged), (sum(bugs), len(bugs)))
            if found.rule:
                told = [any(holds(p, c["at"]) for p in found.rule) for c in cells]
                self.assertEqual(told, bugs)
                for lang in LANGS:
                    said = sentences.sentence(found, lang)
                    self.assertIn(sentences.rule(found.rule, lang), said)
            else:
                self.assertIn(sum(bugs), (0, len(bugs)))

    def test_preconditions_hold_in_every_cell_with_the_bug(self) -> None:
        proofs = []
        for path, body in self.each():
            facts = tomllib.loads((path.parent.parent / "issue.toml").read_text())
            record = Record(preconditions=facts.get("precondition", []))
            names = [axis["name"] for axis in body["axes"]]
            cells = harness.decode(body["cells"])
            proofs += sweep_maps.proofs_of(record, names, cells)
        self.assertGreaterEqual(len(proofs), 5)
        self.assertEqual([proof for proof in proofs if proof.against], [])

    def test_a_contradicted_precondition_says_in_how_many(self) -> None:
        record = Record(
            preconditions=[
                {"key": "shape", "value": "", "where": "size = 1", "text": {}},
                {"key": "shape", "value": "", "where": "width = 1", "text": {}},
            ]
        )
        cells = [
            {"at": {"size": size}, "verdict": TOLD[size > 3]} for size in range(1, 6)
        ]
        (proof,) = sweep_maps.proofs_of(record, ["size"], cells)
        self.assertEqual((proof.holds, proof.against, proof.cells), (3, 2, 5))
        self.assertEqual(list(sweep_maps.proofs_of(record, ["size"], cells[3:])), [])

    def test_the_map_has_each_cell_once(self) -> None:
        for _path, body in self.each():
            sweep = Sweep(
                names=[axis["name"] for axis in body["axes"]],
                cells=body["cells"],
                same={"repro": body["repro"]},
                started_at=datetime.fromisoformat(body["started_at"]),
                origin="repository",
            )
            drawn = sweep_maps.map_of(Record(), [sweep])
            corners = {(square.x, square.y) for square in drawn.picture.squares}
            self.assertEqual(len(corners), len(body["cells"]))
            self.assertEqual(len(drawn.table), len(body["cells"]))
            judged = {cell["verdict"] for cell in body["cells"]}
            self.assertEqual(drawn.is_without_bug, "bug_present" not in judged)
