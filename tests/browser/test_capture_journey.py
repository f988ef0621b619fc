"""A stranger's NaN, from a script that knows nothing of it to the draft of a record."""

from __future__ import annotations

import tempfile
from io import StringIO
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.core.management import call_command
from django.test import tag
from playwright.sync_api import Page, expect

from kb.publishing import explained
from kb.records.laws import read_laws
from portable.nan_probe.known import known_by
from runner.authoring import scratch
from runner.builds import registry
from runner.captures import keeping
from runner.models import Capture, Installation
from runner.takeaway.probe import NAME, nan_probe
from runner.worker import drain
from tests.browser.test_browser import BrowserTest
from tests.project.test_captures import started
from tests.runner.authoring.test_check_record import FINE, migrate_once
from tests.support import captures, draft
from tests.support.builds import torch_python

SCRIPT = """\
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(5):
    gates = torch.relu(layer(torch.rand(3, 4)) + (-50.0 if step == 3 else 50.0))
    shares = gates / gates.sum(-1, keepdim=True)
    loss = (shares * torch.arange(4.0)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FORM = "a / (b + 1e-6)"
WORDS = {
    "en": {
        "send": "Send and run",
        "verdict": "NaN on 1 of 1 build",
        "yours": "Your call",
        "none": "No record has exactly this.",
        "delete": "Delete now",
        "refused": "The capture is cut off",
    },
    "zh": {
        "send": "发送并运行",
        "verdict": "NaN：1 个构建中的 1 个",
        "yours": "你的调用",
        "none": "没有记录与它完全相同。",
        "delete": "立即删除",
        "refused": "捕获不完整",
    },
}


@tag("browser")
class CaptureJourneyTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        explained.store_laws(read_laws(settings.ISSUES_DIR))
        Installation.objects.all().delete()
        build = registry.add_python(Path(torch_python())).build
        captures.worker(queues=[f"{build.slug}.cpu"])

    def caught(self) -> Path:
        """What the probe keeps of the script, which is left as it is."""
        probe, script = self.folder / NAME, self.folder / "train.py"
        probe.write_text(nan_probe())
        script.write_text(SCRIPT)
        command = [torch_python(), str(probe), "--capture", "kept", str(script)]
        done = started(*command, cwd=self.folder)
        (path,) = self.folder.glob("kept/*/capture.json")
        self.assertIn("gates / gates.sum", done.stderr)
        return path

    def send(self, page: Page, path: Path, words: dict[str, str]) -> None:
        page.set_input_files("#file", path)
        page.get_by_role("button", name=words["send"]).click()

    def run_it(self, page: Page) -> None:
        """What a worker does with it, while nobody asks this thread's server."""
        page.wait_for_url("**/captures/*-*/")
        address = page.url
        page.goto("about:blank")
        self.assertEqual(drain.drain("w1"), 1)
        page.goto(address)

    def test_from_a_script_to_the_draft_of_a_record(self) -> None:
        path = self.caught()
        cut = self.folder / "cut.json"
        cut.write_text(path.read_text()[:-40])
        for lang, scripts in (("en", True), ("zh", False)):
            words = WORDS[lang]
            with self.subTest(lang, scripts=scripts):
                page = self.open(f"/{lang}/captures/", java_script_enabled=scripts)
                self.send(page, cut, words)
                expect(page.get_by_role("alert")).to_contain_text(words["refused"])
                self.send(page, path, words)
                self.run_it(page)
                expect(page.locator("h1")).to_contain_text(words["verdict"])
                expect(page.locator("#heals li").first).to_contain_text(FORM)
                # Nobody knows it: its law is named, and no record.
                expect(page.locator("#why")).to_contain_text(words["none"])
                with page.expect_download() as download:
                    page.locator("a[download='capture.json']").first.click()
                back = self.folder / f"{lang}.json"
                download.value.save_as(back)
                self.assertEqual(back.read_text(), path.read_text())
                address = page.url
                page.locator(f"#why a[href*='/{lang}/laws/zero-by-zero/']").click()
                yours = page.locator(f"section:has-text('{words['yours']}')").first
                expect(yours).to_contain_text("torch.Tensor.div")
                expect(yours).to_contain_text(FORM)
                page.goto(address)
                page.get_by_role("button", name=words["delete"]).click()
                self.assertFalse(Capture.objects.exists())
        refused = "status of 422"  # of what is cut off, by the browser itself
        self.assertEqual([one for one in self.messages if refused not in one], [])
        self.becomes_a_record(back)

    def becomes_a_record(self, capture: Path) -> None:
        sent = keeping.read(capture.read_bytes())
        self.assertEqual(known_by(sent["slice"], sent["law"])[0], [])
        said, python = StringIO(), Path(torch_python())
        with (
            mock.patch.object(registry, "default_interpreter", return_value=python),
            mock.patch.object(scratch, "call_command", migrate_once),
        ):
            draft.make(self.folder, "--from-capture", str(capture))
            draft.fill_in(self.folder, plain=False)
            places = draft.places(self.folder)
            call_command("check_record", draft.SLUG, *places, stdout=said)
        self.assertIn("bug_present", said.getvalue())
        self.assertIn(FINE, said.getvalue())
