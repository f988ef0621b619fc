"""Which repro a run takes that names none."""

from __future__ import annotations

from django.test import TestCase

from kb.models import Repro
from runner.runs.admission import default_repro
from tests.support import runs


class DefaultReproTest(TestCase):
    def setUp(self) -> None:
        self.record = runs.make_record("NAN-9009")

    def add(self, name: str, device: str, fidelity: str, **header: object) -> None:
        Repro.objects.create(
            record=self.record,
            name=name,
            source=name,
            digest=f"sha256:{name}",
            fidelity=fidelity,
            device=device,
            header=header,
        )

    def test_one_for_the_device_that_needs_no_package(self) -> None:
        self.assertEqual(default_repro(self.record, "cpu"), "repro")
        self.add("repro", "cuda", "upstream_bug")
        self.add("repro_fla", "cpu", "real_kernel", stack={"fla": "0.6.0"})
        self.assertEqual(default_repro(self.record, "cpu"), "repro_fla")
        self.add("repro_model", "cpu", "mechanism_model")
        self.assertEqual(default_repro(self.record, "cpu"), "repro_model")
        self.add("repro_cpu", "cpu", "upstream_bug")
        self.assertEqual(default_repro(self.record, "cpu"), "repro_cpu")
        self.assertEqual(default_repro(self.record, "cuda"), "repro")
