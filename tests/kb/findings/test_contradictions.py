"""What contradicts what is documented, and what does not."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from django.test import TestCase

from kb.findings import contradictions
from kb.models import Claim, Finding, Record
from kb.publishing import saving
from runner.evidence import store
from tests.support import runs
from tests.support.findings import stored


class ContradictionTest(TestCase):
    record: Record

    @classmethod
    def setUpTestData(cls) -> None:
        # Documented: from 2.11.0, root fix in 2.15.0; turn_off helps (claim c1).
        cls.record = runs.load_sample()

    def ran(self, raw: str, verdict: str = "bug_present", **changes: Any) -> Finding:
        return stored(self.record, raw, verdict, **changes)

    def found(self) -> list[tuple[str, str, str]]:
        rows = contradictions.everything(self.record, self.record.findings.all())
        return [(row["kind"], row["build"], row["observed"]) for row in rows]

    def test_what_agrees_is_none(self) -> None:
        self.ran("2.13.0+cpu")
        self.ran("2.10.0+cpu", "bug_absent")
        self.ran("2.16.0+cpu", "bug_absent")
        self.assertEqual(self.found(), [])

    def test_the_bug_outside_the_range_and_none_inside(self) -> None:
        self.ran("2.10.0+cpu")
        self.ran("2.13.0+cpu", "bug_absent")
        self.assertEqual(
            self.found(),
            [
                ("range", "2.10.0-cpu", "bug_present"),
                ("range", "2.13.0-cpu", "bug_absent"),
            ],
        )

    def test_a_fix_that_is_none(self) -> None:
        self.record.affected = []
        self.ran("2.15.0+cpu")
        (row,) = contradictions.everything(self.record, self.record.findings.all())
        self.assertEqual((row["kind"], row["documented"]), ("fix", "2.15.0"))
        self.assertEqual(row["source"], "s-1")
        self.assertIn(
            "Documented as fixed in 2.15.0 (cause fixed)", row["sentence"]["en"]
        )
        self.assertIn("2.15.0 已修复（根本修复）", row["sentence"]["zh"])

    def test_one_build_is_not_reported_twice(self) -> None:
        self.ran("2.16.0+cpu")
        self.assertEqual(self.found(), [("range", "2.16.0-cpu", "bug_present")])

    def test_incomplete_evidence_is_none(self) -> None:
        for raw, verdict, changes in [
            ("2.10.0+cpu", "error", {}),
            ("2.10.1+cpu", "inconclusive", {}),
            ("2.10.2+cpu", "not_applicable", {}),
            ("2.10.3+cpu", "bug_present", {"stale": True}),
            ("2.10.4+cpu", "bug_present", {"fidelity": "mechanism_model"}),
            # A container between two releases: nobody knows what it holds.
            ("2.15.0a0+abcdef1.nv99.01", "bug_present", {}),
        ]:
            self.ran(raw, verdict, **changes)
        self.assertEqual(self.found(), [])

    def test_nothing_documented_is_not_contradicted(self) -> None:
        self.record.affected, self.record.fixes = [], []
        self.ran("2.10.0+cpu")
        self.assertEqual(self.found(), [])

    def test_a_bug_of_another_package_is_not_settled_by_torch(self) -> None:
        for entry in self.record.affected:
            entry["package"] = "peft"
        self.ran("2.10.0+cpu")
        self.ran("2.16.0+cpu")
        self.assertEqual(self.found(), [])

    def test_a_gpu_that_matters(self) -> None:
        gpu = {"key": "gpu_arch", "value": "sm_90", "text": {"en": "x", "zh": "x"}}
        self.record.preconditions = [gpu]
        self.ran("2.13.0+cpu", "bug_absent")
        self.assertEqual(self.found(), [])

    def test_avoided_by_default_may_still_be_asked_for(self) -> None:
        self.record.affected = []
        self.record.fixes = [{**self.record.fixes[0], "kind": "avoided_by_default"}]
        self.ran("2.16.0+cpu")
        self.assertEqual(self.found(), [])

    def test_a_claim_that_a_run_refutes(self) -> None:
        self.ran("2.13.0+cpu")
        self.ran("2.13.0+cpu", check_name="workaround_turn_off")
        (row,) = contradictions.everything(self.record, self.record.findings.all())
        self.assertEqual((row["kind"], row["claim"]), ("claim", "c1"))
        self.assertEqual((row["documented"], row["observed"]), ("clean", "bug"))
        self.assertIn("If the claim were true, it would not", row["sentence"]["en"])

    def test_a_claim_where_builds_differ_names_those_against_it(self) -> None:
        for raw, outcome in [("2.13.0+cpu", "bug"), ("2.14.0+cpu", "clean")]:
            self.ran(raw)
            self.ran(raw, check_name="workaround_turn_off", outcome=outcome)
        self.assertEqual(self.found(), [("claim", "2.13.0-cpu", "bug")])

    def test_a_claim_that_says_there_is_the_bug(self) -> None:
        claim = Claim.objects.get(cid="c2")
        claim.check_ref, claim.expects = "repro:trigger", "bug"
        claim.save()
        self.ran("2.10.0+cpu", "bug_absent")
        self.assertEqual(self.found(), [("claim", "2.10.0-cpu", "clean")])

    # --- over HTTP ----------------------------------------
    def test_new_evidence_is_enough(self) -> None:
        self.record.affected[0]["builds"] = [
            {"raw": runs.STAND_IN, "state": "not_affected"}
        ]
        saving.save(self.record)
        path = "/api/v1/contradictions"
        self.assertEqual(self.client.get(path).json()["items"], [])
        store.add(runs.make_evidence(self.record.repros.get()), origin="site")
        (item,) = self.client.get(path).json()["items"]
        self.assertEqual((item["record"], item["kind"]), ("NAN-9001", "range"))
        record = self.client.get("/api/v1/records/NAN-9001").json()
        self.assertEqual(record["contradictions"][0]["build"], runs.SLUG)

    def test_the_page_in_both_languages(self) -> None:
        for lang in ("en", "zh"):
            with self.subTest(lang):
                response = self.client.get(f"/{lang}/contradictions/")
                self.assertEqual(response.status_code, 200)
        self.ran("2.10.0+cpu")
        english = self.client.get("/en/contradictions/")
        self.assertContains(
            english, "Documented as not affected; we reproduce the bug on 2.10.0-cpu"
        )
        self.assertContains(english, "https://example.org/1")
        self.assertContains(self.client.get("/zh/contradictions/"), "不受影响")

    def test_builds_that_contradict_a_claim_alike_share_a_line(self) -> None:
        for raw in ("2.13.0+cpu", "2.14.0+cpu", "2.14.1+cpu"):
            self.ran(raw)
            self.ran(raw, check_name="workaround_turn_off")
        english = self.client.get("/en/contradictions/")
        self.assertContains(english, "Turning it off helps.", count=1)
        self.assertContains(english, "turn off: 3 builds have the bug (3/3)")
        self.assertContains(english, "2.14.1-cpu", count=1)
        chinese = self.client.get("/zh/contradictions/")
        self.assertContains(chinese, "在 3 个构建上出现缺陷（3/3）")
        self.assertNotContains(english, "<details>")

    def test_many_builds_of_a_line_fold_and_count_once(self) -> None:
        for raw in ("2.13.0+cpu", "2.14.0+cpu", "2.14.1+cpu", "2.14.2+cpu"):
            self.ran(raw)
            self.ran(raw, check_name="workaround_turn_off")
        other = runs.make_record("NAN-9002")
        other.affected = self.record.affected
        other.save()
        self.ran("2.10.0+cpu", record=other)
        with patch("kb.findings.contradiction_list.SHOWN", 2):
            english = self.client.get("/en/contradictions/")
        self.assertContains(english, "<summary>4 builds</summary>", count=1)
        self.assertContains(
            english, "Documented as not affected; we reproduce the bug on 2.10.0-cpu"
        )

    def test_many_records_are_walked_to_the_end(self) -> None:
        for number in range(30):
            record = runs.make_record(f"NAN-8{number:03}")
            record.affected = self.record.affected
            saving.save(record)
            self.ran("2.10.0+cpu", record=record)
        address, seen, pages = "/api/v1/contradictions?limit=4", [], 0
        while address:
            body = self.client.get(address).json()
            seen += [item["record"] for item in body["items"]]
            address, pages = body["next"], pages + 1
        self.assertEqual(seen, [f"NAN-8{number:03}" for number in range(30)])
        self.assertEqual(pages, 8)

    def test_a_place_that_is_none(self) -> None:
        for after in ("%00", "x", "NAN-99999", "NAN-9999"):
            response = self.client.get(f"/en/contradictions/?after={after}")
            self.assertEqual(response.status_code, 200)
