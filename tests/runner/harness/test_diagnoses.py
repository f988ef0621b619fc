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
