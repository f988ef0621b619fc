"""Badges: what runs show of a build, and whether a version is affected."""

from __future__ import annotations

from xml.etree import ElementTree

from kb.findings import writing
from kb.models import Record
from runner.evidence import store
from tests.kb.releases.test_comparison import finding
from tests.kb.syndication.test_syndication import Loaded
from tests.support import runs

SVG = "{http://www.w3.org/2000/svg}"


class BadgeTests(Loaded):
    place = f"/badge/NAN-9001/{runs.SLUG}.svg"

    def add(self, bug: bool) -> None:
        store.add(runs.make_evidence(self.repro, bug=bug), origin="site")

    def test_what_nobody_ran_is_unknown(self) -> None:
        self.assertIn("Not tested", self.text(self.place))
        self.assertIn("Not tested", self.text("/badge/NAN-9001/9.9.9.svg"))
        self.text("/badge/NAN-9999/2.13.0-cpu.svg", 404)

    def test_it_says_what_the_evidence_shows_in_either_language(self) -> None:
        self.add(bug=True)
        self.assertIn("FAIL · bug reproduced", self.text(self.place))
        self.assertIn("未通过 · 缺陷已复现", self.text(f"{self.place}?lang=zh"))
        self.assertIn("Not tested", self.text(f"{self.place}?device=cuda"))
        self.assertIn("bug reproduced", self.text(f"{self.place}?device=cpu"))

    def test_stale_evidence_and_models_say_nothing(self) -> None:
        self.add(bug=True)
        for values in ({"stale": True}, {"fidelity": "mechanism_model"}):
            with self.subTest(values):
                self.record.findings.update(stale=False, fidelity="faithful")
                self.record.findings.update(**values)
                self.assertIn("Not tested", self.text(self.place))

    def test_an_error_is_no_verdict_and_a_bug_on_one_device_counts(self) -> None:
        self.add(bug=True)
        self.record.findings.update(verdict="error")
        self.assertIn("ERROR · no verdict", self.text(self.place))
        row = self.record.findings.get(check_name="trigger")
        row.pk, row.device_class, row.verdict = None, "cuda", "bug_present"
        row.save(force_insert=True)
        self.assertIn("FAIL · bug reproduced", self.text(self.place))

    def test_packages_that_a_verdict_depends_on_are_named(self) -> None:
        made = {"packages": {"transformers": "4.45.2"}}
        rows = [
            finding(self.record, "9.9.0", True, made_with=made),
            finding(self.record, "9.9.0", False, repro="repro_fixed"),
        ]
        writing.replace(self.record, rows)
        self.assertIn(
            "NAN-9001 · 9.9.0-cpu · transformers 4.45.2<", self.text(self.place)
        )
        # Torch alone shows the same.
        rows[1].verdict = "bug_present"
        writing.replace(self.record, rows)
        self.assertNotIn("transformers", self.text(self.place))

    def test_it_is_a_drawing_that_may_be_kept_for_minutes(self) -> None:
        response = self.client.get(self.place)
        self.assertEqual(response.headers["Content-Type"], "image/svg+xml")
        self.assertIn("max-age=300", response.headers["Cache-Control"])
        ElementTree.fromstring(response.text)


class AffectedBadgeTests(Loaded):
    """The sample documents torch from 2.11.0 until 2.15.0 as affected."""

    def badge(self, torch: str, more: str = "") -> str:
        path = f"/badge/NAN-9001.svg?torch={torch}{more}"
        drawn = ElementTree.fromstring(self.client.get(path).text)
        return [str(text.text) for text in drawn.iter(f"{SVG}text")][-1]

    def test_documents_alone_are_likely(self) -> None:
        self.assertEqual(self.badge("2.13.0"), "⋯ likely affected · by documents only")
        self.assertEqual(
            self.badge("2.15.0"), "⋯ likely not affected · by documents only"
        )
        self.assertEqual(self.badge("2.13.0", "&lang=zh"), "⋯ 推断受影响 · 仅据文档")
        Record.objects.filter(pk="NAN-9001").update(affected=[])
        said = "◌ unknown · neither runs nor documents tell"
        self.assertEqual(self.badge("2.13.0"), said)

    def test_runs_decide_and_documents_stand_beside_them(self) -> None:
        rows = [
            ("2.13.0", True, "✖ affected · by runs and documents"),
            ("2.10.0", True, "✖ affected by runs · documents say not"),
            ("2.12.1", False, "✔ bug not seen in runs · documents say affected"),
            ("2.9.1", False, "✔ bug not seen in runs · documents say not affected"),
        ]
        found = [finding(self.record, release, bug) for release, bug, _said in rows]
        found += [finding(self.record, "2.14.0", None)]
        writing.replace(self.record, found)
        for release, _bug, said in rows:
            with self.subTest(release):
                self.assertEqual(self.badge(release), said)
                # An address has "+" as a space.
                self.assertEqual(self.badge(f"{release}+cpu"), said)
                self.assertIn("only", self.badge(release, "&device=cuda"))
        # Documents alone speak of a build that nobody ran, or where it cannot apply.
        for raw in ("2.13.0%2Bcu126", "2.14.0"):
            self.assertIn("documents only", self.badge(raw))

    def test_builds_of_a_release_that_differ_are_affected(self) -> None:
        writing.replace(
            self.record,
            [
                finding(self.record, "2.13.0", False),
                finding(self.record, "2.13.0", True, local="cu126"),
            ],
        )
        self.assertIn("✖ affected", self.badge("2.13.0"))
        self.assertIn("✔ bug not seen", self.badge("2.13.0%2Bcpu"))

    def test_a_run_with_packages_of_its_own_says_nothing_of_torch(self) -> None:
        made = {"packages": {"deepspeed": "0.14.4"}}
        row = finding(self.record, "2.9.1", True, made_with=made)
        writing.replace(self.record, [row])
        self.assertIn("documents only", self.badge("2.9.1"))

    def test_the_only_device_that_was_run_on_is_named(self) -> None:
        writing.replace(self.record, [finding(self.record, "2.12.1", False)])
        drawing = self.client.get("/badge/NAN-9001.svg?torch=2.12.1").text
        self.assertIn("torch 2.12.1 · cpu", drawing)

    def test_what_names_no_version_says_what_is_missing(self) -> None:
        for typed in ("", "latest", "2" * 500, "%00", "<b>"):
            response = self.client.get(f"/badge/NAN-9001.svg?torch={typed}")
            self.assertEqual(response.status_code, 400, typed)
            self.assertIn("name a version: ?torch=2.4.1", response.text)
            ElementTree.fromstring(response.text)
        self.text("/badge/NAN-9999.svg?torch=2.4.1", 404)

    def test_a_build_from_source_is_asked_of_the_documents(self) -> None:
        self.assertEqual(
            self.badge("2.6.0a0%2Bdf5bbc09d1.nv24.12"),
            "⋯ likely affected · by documents only",
        )


class ReleasesTests(Loaded):
    """The strip as a picture."""

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
