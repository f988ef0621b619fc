"""The examples of the documentation, run as they are printed, against a live site.

Only the site's address is put in. What needs torch, a checkout or another service is
run by the tests of these; here are the API's examples and what a site hands out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.test import LiveServerTestCase, tag
from django.utils import timezone

from kb.models import Record
from tests.support import loaded, runs

DOCS = Path(settings.BASE_DIR) / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LOG = "UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
# Lines of clients.md that need nothing but the site and a Python.
RUN_HERE = (
    *("curl ", "python lint.py ", "python doctor.py --list"),
    *("python repro.py --source", "python train.py 2>&1 | python doesitnan.py --dry-"),
)
LANGUAGES = {
    "sh": ["bash", "-euo", "pipefail", "-c"],
    "python": [sys.executable, "-c"],
    "js": ["node", "--input-type=module", "-e"],
}


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The language of each fenced block, and its text."""
    for found in BLOCK.finditer((DOCS / page).read_text()):
        yield found[1], found[2]


def documents(text: str) -> list[dict[str, object]]:
    """JSON documents that stand one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


@tag("servers")
class ExamplesTest(LiveServerTestCase):
    def setUp(self) -> None:
        loaded.shipped()
        repro = Record.objects.get(pk="NAN-0002").repros.get(name="repro")
        # A fresh result, with which a request for this run is answered at once.
        runs.make_run(
            repro,
            build=runs.make_build("2.13.0-cpu", "2.13.0+cpu"),
            state="finished",
            verdict="bug_present",
            hits=20,
            trials=20,
            started_at=timezone.now(),
            finished_at=timezone.now(),
        )
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = Path(folder)
        (self.folder / "src").mkdir()
        (self.folder / "src" / "model.py").write_text("import torch\n")
        (self.folder / "train.py").write_text(f"print({LOG!r})\n")
        (self.folder / "python").symlink_to(sys.executable)

    def run_block(self, language: str, text: str) -> str:
        text = text.replace("http://localhost:8000", self.live_server_url)
        text = text.replace("localhost:8000", self.live_server_url)
        text = re.sub(r"\bSITE\b", self.live_server_url, text)
        ended = subprocess.run(
            [*LANGUAGES[language], text],
            cwd=self.folder,
            env={"PATH": f"{self.folder}:/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(ended.returncode, 0, f"{text}\n{ended.stdout}\n{ended.stderr}")
        return ended.stdout

    def test_the_api_in_three_languages(self) -> None:
        printed = dict(blocks("api.md"))
        self.assertEqual(sorted(printed), ["js", "python", "sh"])
        found, listed, run = documents(self.run_block("sh", printed["sh"]))
        self.assertEqual(found["outcome"], "exact")
        self.assertTrue(listed["items"])
        self.assertEqual((run["record"], run["verdict"]), ("NAN-0002", "bug_present"))
        lines = [self.run_block(one, printed[one]) for one in ("python", "js")]
        self.assertEqual(*lines)
        self.assertRegex(lines[0], r"^NAN-0002 explains line 1\.\nNAN-0002 exact \S")

    def test_what_a_site_hands_out(self) -> None:
        asked = [
            line
            for language, text in blocks("clients.md")
            if language == "sh"
            for line in text.replace("\\\n", " ").splitlines()
            if line.startswith(RUN_HERE)
        ]
        self.assertGreater(len(asked), 8)
        for line in asked:
            with self.subTest(line):
                self.run_block("sh", line)
        self.assertTrue((self.folder / "lint.sarif").exists())
