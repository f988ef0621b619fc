"""Impossible evidence with a right digest: every field has its bounds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from django.test import TestCase

from runner.evidence import store
from runner.evidence.exchange import receive_evidence
from runner.evidence.store import EvidenceRefused
from runner.models import Evidence
from tests.support import runs

Body = dict[str, Any]
Change = Callable[[Body], object]

# By what the refusal names: changes that no machine makes.
IMPOSSIBLE: dict[str, list[Body]] = {
    "duration_s": [{"duration_s": value} for value in (-5, 1e308, 700_000, "1", True)],
    "harness": [{"harness": value} for value in (0, -1, 1.0)],
    "tier": [{"tier": value} for value in ("<b>Z</b>", "A" * 900, "a", "")],
    "served": [{"served": "nonsense"}],
    "trials": [{"trials": value} for value in (-1, 10**6)],
    "hits": [{"hits": -1}],
    "reason": [{"reason": "x" * 1001}],
    "record": [{"record": "<b>"}],
    "origin": [{"origin": "x" * 41}],
    "started_at": [
        {"started_at": value}
        for value in (
            *("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z"),
            *("9999-12-31T23:59:59-14:00", "1970-01-01T00:00:00Z"),
            *("2026-W01-1T00:00:00Z", "20260101T000000Z", "2026-01-01T00:00:00"),
            *("2026-01-01", "yesterday", ""),
        )
    ],
}
IN_CHECK: dict[str, list[Body]] = {
    "duration_s": [{"duration_s": value} for value in (-1, 1e300, 86_401)],
    "cpu_s": [{"cpu_s": value} for value in (-0.1, 1e300)],
    "peak_mib": [{"peak_mib": value} for value in (-1, 2**25)],
    "exit": [{"exit": value} for value in (2**62, -256, 0.5)],
    "trial": [{"trial": -1}],
    "served": [{"served": "hot"}],
    "outcome": [{"outcome": "splendid"}],
    "log.text": [{"log": {"text": "x" * 200_001, "cut_bytes": 0}}],
    "log.cut_bytes": [{"log": {"text": "", "cut_bytes": -1}}],
    "killed": [{"killed": [{"by": "oom", "after_s": after}]} for after in (-1, 1e9)]
    + [{"killed": [{"by": "oom", "after_s": 1}] * 9}],
}
IN_BUILD: dict[str, list[Body]] = {
    "packages": [
        {"packages": {f"p{at}": "1" for at in range(20_000)}},
        {"packages": {"<script>": "1"}},
        {"packages": {"": "1"}},
        {"packages": {"numpy": "<b>1</b>"}},
        {"packages": {"numpy": "1" * 200}},
    ],
}
IN_DEVICE: dict[str, list[Body]] = {
    "count": [{"count": value} for value in (-3, 65, 1.5)],
    "name": [{"name": "NVIDIA H100"}],
    "capability": [{"capability": "9.0"}, {"capability": "x"}],
    "driver": [{"driver": "580.1"}, {"driver": "<b>"}],
    "uuid": [{"uuid": "GPU-1"}],
}
TELEMETRY: list[Body] = [
    {"cpu": {"cpu_s": 1, "peak_mib": 1}, "at": list(range(100_000))},
    {"cpu": {"cpu_s": 1e300, "peak_mib": 1}},
    {"driver": "x" * 1001},
]


class ImpossibleTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.body = runs.make_evidence(self.repro)

    def refused(self, change: Change) -> str:
        body = copy.deepcopy(self.body)
        change(body)
        data = json.dumps(runs.signed(body), ensure_ascii=False).encode()
        with self.assertRaises(EvidenceRefused) as caught:
            receive_evidence(data, "somebody")
        self.assertFalse(Evidence.objects.exists())
        return str(caught.exception)

    def each(self, wrong: dict[str, list[Body]], *path: str | int) -> None:
        for name, changes in wrong.items():
            for facts in changes:
                with self.subTest(name, facts=str(facts)[:80]):

                    def change(body: Body, facts: Body = facts) -> None:
                        found: Any = body
                        for key in path:
                            found = found[key]
                        found.update(facts)

                    self.assertIn(name, self.refused(change))

    def test_the_object(self) -> None:
        self.each(IMPOSSIBLE)

    def test_a_check(self) -> None:
        self.each(IN_CHECK, "checks", 1)

    def test_packages(self) -> None:
        self.each(IN_BUILD, "build")

    def test_a_cpu_is_no_gpu_and_a_count_no_debt(self) -> None:
        self.each(IN_DEVICE, "device")

    def test_limits(self) -> None:
        wrong = [{"timeout_s": -1}, {"memory_mib": 2**40}, {"processes": -1}]
        for facts in wrong:
            (name,) = facts
            self.each({name: [facts]}, "limits")

    def test_telemetry(self) -> None:
        for facts in TELEMETRY:
            with self.subTest(str(facts)[:60]):
                self.refused(lambda body, facts=facts: body.update(telemetry=facts))  # type: ignore[misc]

    def test_a_gpu_run_without_a_gpu_names_none(self) -> None:
        self.repro = runs.make_repro(runs.source(device="cuda"))
        self.body = runs.make_evidence(self.repro)
        device = {"class": "cuda", "count": 0, "name": "NVIDIA H100"}
        told = self.refused(lambda body: body["device"].update(device))
        self.assertIn("device.name", told)

    def test_what_nobody_sees_in_any_plane(self) -> None:
        for code in (
            *(0xAD, 0x34F, 0x61C, 0x115F, 0x180E, 0x200B, 0x200C, 0x202E, 0x2066),
            *(0x2028, 0x3164, 0xE000, 0xFE00, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF9, 0xFFFE),
            *(0x1D173, 0x1FFFE, 0xE0001, 0xE0041, 0xE0100, 0xE01EF, 0xF0000, 0x10FFFD),
        ):
            with self.subTest(f"U+{code:04X}"):
                text = f"a{chr(code)}b"
                told = self.refused(
                    lambda body, text=text: body["checks"][1]["log"].update(text=text)  # type: ignore[misc]
                )
                self.assertIn(f"<U+{code:04X}>", told)

    def test_what_a_moment_before_all_years_does_to_our_own(self) -> None:
        body = self.body | {"started_at": "0001-01-01T00:00:00+14:00"}
        with self.assertRaisesMessage(EvidenceRefused, "started_at"):
            store.add(runs.signed(body), store.SITE)

    def test_honest_texts_of_every_language_stay(self) -> None:
        text = "损失为 nan 🤗 ≤ 10⁻⁴ Größe テスト\t한글 ✓\n"
        self.body["checks"][1]["log"]["text"] = text
        data = json.dumps(runs.signed(self.body)).encode()
        self.assertTrue(receive_evidence(data, "somebody").created)
