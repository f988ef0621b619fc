"""Code that tells whose bug it is, in models as people write them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

from tests.support import builds

PROGRAM = Path(__file__).parents[2] / "support" / "diagnoses_in_models.py"
RIGHT = {
    "ranks": [[False, True, False, False]] * 6,
    "distances_compared": [False, True],
    "means_compared": [False, True, False],
    "buffers": [False, True],
    "modes": [False, True],
    "sparse_clipped": [True, False],
    "distances": [True, True, False],
    "weight_norms": [True, False],
    "entropies": [True, False, True],
    "ctc": [True, False],
    "sparse": [False, True],
    "unregistered": [True, True, False, False, False],
    "no_graph": [True, True, False],
    "tuples": [True, False],
    "checkpointed": [True, True, False] * 2 + [True, True],
    "hidden_rows": [True, True, True, True, False, True],
    "checkpoints_compared": [False, False, False, True, True],
    "normed_along_one": [True, False, True, True, True],
    "gumbel": [False, True, True, [0.0, 0.0, 1.0]],
    "ctc_kept": [False, True],
    "dropped": [True, False],
    "spectral_norms": [False, False, False, False, True],
    "standing": [False, False, False, False, True],
    "class_indices": [True, False],
    "scalers": [256.0, 8.0],
}


class DiagnosisTest(SimpleTestCase):
    def test_they_answer_right_in_code_that_is_not_the_repros(self) -> None:
        done = subprocess.run(
            [builds.torch_python(), str(PROGRAM), str(settings.ISSUES_DIR)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual(json.loads(done.stdout), RIGHT)
