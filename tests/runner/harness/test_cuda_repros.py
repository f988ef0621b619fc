"""Repros for GPUs, as far as a CPU goes: their shapes, control flow and predicates.

No verdict follows from this. It finds what a GPU would find first: a name that is
missing, shapes that do not fit, observations that the predicate cannot read.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase, tag

from portable import harness
from tests.support import builds

PROGRAM = Path(__file__).parents[2] / "support" / "cuda_on_cpu.py"
# A CUDA context maps and pins memory of the host, some GiB with its libraries.
LEAST_MIB = 8192


def of_gpus() -> dict[Path, tuple[harness.Header, list[str]]]:
    found = {}
    for path in sorted(Path(settings.ISSUES_DIR).glob("*/repro*.py")):
        header, checks = harness.read_repro(path.read_text())
        if header.device == "cuda":
            found[path] = header, checks
    return found


@tag("long")
class CudaReproTest(SimpleTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """Every check in one process, with one that a repro does not have."""
        super().setUpClass()
        cls.repros = of_gpus()
        cls.broken = next(path for path in cls.repros if "fa4" in path.name)
        asked = {path: checks for path, (_header, checks) in cls.repros.items()}
        asked[cls.broken] = [*asked[cls.broken], "no_such_check"]
        done = subprocess.run(
            [builds.torch_python(), str(PROGRAM), *map(str, asked)],
            input="".join(" ".join(names) + "\n" for names in asked.values()),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        cls.found: dict[str, Any] = json.loads(done.stdout)

    def test_every_check_runs_and_can_be_judged(self) -> None:
        for path, (header, checks) in self.repros.items():
            # Stand-ins for kernels need not compute what the control does.
            unmatched = replace(header, match={})
            for name in checks:
                seen = self.found[str(path)][name]
                with self.subTest(f"{path.parent.name}/{path.stem}: {name}"):
                    self.assertNotIn("raised", seen, seen.get("raised"))
                    self.assertEqual(harness.observation_problems(seen), [])
                    outcome, reason, note = harness.assess(unmatched, name, seen)
                    self.assertNotEqual(outcome, "error", (reason, note))
                    if name in ("reference", "control", "detector"):
                        wanted = "bug" if name == "detector" else "clean"
                        self.assertEqual(outcome, wanted)
                    if "not_applicable" not in seen and name != "trigger":
                        compared = name == "control" or name.startswith("workaround_")
                        missing = header.match.keys() - seen.keys()
                        self.assertFalse(compared and missing)

    def test_a_check_that_a_gpu_would_end_is_found(self) -> None:
        seen = self.found[str(self.broken)]["no_such_check"]
        self.assertIn("AttributeError", seen["raised"])

    def test_they_ask_for_what_a_context_and_a_compiler_take(self) -> None:
        for path, (header, _checks) in self.repros.items():
            with self.subTest(f"{path.parent.name}/{path.stem}"):
                self.assertGreaterEqual(header.memory_mib, LEAST_MIB)
                if "compiler" in header.needs:
                    self.assertIn("compile_threads = 1", path.read_text())
