"""The strip of a record's releases as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from kb.findings import writing
from kb.models import Record
from tests.kb.releases.test_comparison import finding
from tests.kb.syndication.test_syndication import Loaded

SVG = "{http://www.w3.org/2000/svg}"


class PictureTests(Loaded):
    place = "/badge/NAN-9001/releases.svg"

    def said(self, query: str = "") -> str:
        root = ElementTree.fromstring(self.text(self.place + query))
        title = root.findtext(f"{SVG}title")
        self.assertTrue(root.findtext(f"{SVG}desc"))
        # What is drawn says it, too.
        drawn = [element.text for element in root.iter(f"{SVG}text")]
        for part in str(title).partition(" ")[2].split(" · "):
            self.assertIn(part, drawn)
        return str(title)

    def test_it_states_the_range_and_no_verdict(self) -> None:
        rows = [
            finding(self.record, release, bug)
            for release, bug in (("2.3.1", True), ("2.4.1", True), ("2.5.1", False))
        ]
        writing.replace(self.record, rows)
        self.assertEqual(
            self.said(),
            "NAN-9001: CPU: Bug in 2.3.1 to 2.4.1: 2 builds · No bug seen 2.5.1",
        )
        self.assertIn("有此缺陷", self.text(f"{self.place}?lang=zh"))
        for word in ("PASS", "FAIL"):
            self.assertNotIn(word, self.text(self.place))

    def test_each_device_has_a_lane(self) -> None:
        rows = [
            finding(self.record, "2.3.1", True),
            finding(self.record, "2.3.1", False, device_class="cuda"),
        ]
        writing.replace(self.record, rows)
        svg = self.text(self.place)
        self.assertIn("CPU: Bug 2.3.1; CUDA: No bug seen 2.3.1", svg)
        self.assertEqual(svg.count(">2.3.1<"), 2)

    def test_what_was_not_run_is_said_and_a_copy_may_be_kept(self) -> None:
        self.assertIn("Not run on any release yet.", self.text(self.place))
        response = self.client.get(self.place)
        self.assertEqual(response.headers["Content-Type"], "image/svg+xml")
        self.assertIn("max-age=300", response.headers["Cache-Control"])
        self.text("/badge/NAN-9999/releases.svg", 404)

    def test_models_stale_runs_and_withdrawn_records_have_no_strip(self) -> None:
        writing.replace(self.record, [finding(self.record, "2.13.0", True)])
        self.record.findings.update(fidelity="mechanism_model")
        self.assertIn("Only a model of the mechanism", self.text(self.place))
        self.record.findings.update(fidelity="upstream_bug", stale=True)
        self.assertIn("Not run on any release yet.", self.text(self.place))
        self.record.findings.update(stale=False)
        self.assertIn("Bug 2.13.0", self.text(self.place))
        Record.objects.filter(pk="NAN-9001").update(publication="withdrawn")
        self.assertIn("NAN-9001: Withdrawn.", self.text(self.place))
