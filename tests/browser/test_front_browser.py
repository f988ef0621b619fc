"""The box of the front page in a real Chromium: keys, files, pastes too long."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.test import tag
from playwright.sync_api import Page, expect

from tests.browser.test_browser import BrowserTest

WARNING = 'UserWarning: "strides" \\ differ'
DROP = """
([text, place]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "train.log"));
  const target = document.querySelector(place);
  for (const type of ["dragover", "drop"]) {
    target.dispatchEvent(
      new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
  }
}
"""
# Not drawn: to lay out 350,000 lines takes longer than all else.
SEND_LONG = """
() => {
  const box = document.querySelector("#log");
  box.style.display = "none";
  box.value = "step loss 2.31\\n".repeat(350000);
  box.form.submit();
}
"""
# As a folder is: its stream ends with an error.
UNREADABLE = """
() => {
  const file = new File(["x"], "train.log");
  const fails = {start: (stream) => stream.error(new DOMException("gone"))};
  Object.defineProperty(file, "stream", {value: () => new ReadableStream(fails)});
  const drop = new DragEvent("drop", {bubbles: true, cancelable: true});
  Object.defineProperty(drop, "dataTransfer", {value: {files: [file]}});
  document.body.dispatchEvent(drop);
}
"""


def long_log() -> str:
    """Over the limit of 1 MiB; what tells is in its middle."""
    rows = [f"step {number} loss 2.31 lr 0.0001" for number in range(60_000)]
    rows[30_000] = WARNING
    return "\n".join(rows)


@tag("browser")
class FrontPageTest(BrowserTest):
    def file(self, text: str) -> Path:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = Path(folder) / "train.log"
        path.write_text(text)
        return path

    def send(self, page: Page) -> str:
        page.get_by_role("button", name="Look it up").click()
        page.wait_for_url("**/en/lookup/")
        return page.locator("main").inner_text()

    def test_the_box_waits_for_a_paste_and_control_enter_sends_it(self) -> None:
        page = self.open("/en/")
        self.assertEqual(page.evaluate("document.activeElement.id"), "log")
        page.keyboard.insert_text(WARNING)
        page.keyboard.press("Control+Enter")
        page.wait_for_url("**/en/lookup/")
        self.assertIn("NAN-9001", page.locator("main").inner_text())
        self.assertEqual(self.messages, [])

    def test_a_log_dropped_or_chosen_is_reduced_before_it_is_sent(self) -> None:
        text = long_log()
        for way in ("drop", "choose"):
            page = self.open("/en/")
            if way == "drop":
                page.evaluate(DROP, [text, "form.paste-box"])
            else:
                page.set_input_files("#file", self.file(text))
            page.wait_for_selector("#paste-note:not([hidden])")
            said = page.locator("#paste-note").inner_text()
            self.assertIn("the 4,000 relevant lines of 60,000", said)
            self.assertLess(len(page.input_value("#log")), 200_000)
            page.wait_for_function("!document.querySelector('#file').value")
            found = self.send(page)
            self.assertIn("NAN-9001", found)
            self.assertIn("Your paste was over 1 MiB.", found)
        self.assertEqual(self.messages, [])

    def test_a_small_file_goes_into_the_box_as_it_is(self) -> None:
        page = self.open("/en/")
        page.evaluate(DROP, [f"first\n{WARNING}\n", "h1"])
        page.wait_for_selector("#paste-note:not([hidden])")
        self.assertEqual(page.input_value("#log"), f"first\n{WARNING}\n")
        self.assertNotIn("over 1 MiB", self.send(page))

    def test_too_long_a_paste_is_reduced_before_it_is_sent(self) -> None:
        page = self.open("/en/")
        page.evaluate(
            "(text) => document.querySelector('#log').value = text", long_log()
        )
        self.assertIn("NAN-9001", self.send(page))

    def test_a_file_that_cannot_be_read_leaves_the_box_alone(self) -> None:
        page = self.open("/en/")
        page.fill("#log", WARNING)
        page.evaluate(UNREADABLE)
        expect(page.locator("#paste-note")).to_contain_text("train.log cannot be read")
        self.assertEqual(page.input_value("#log"), WARNING)
        self.assertIn("NAN-9001", self.send(page))
        self.assertEqual(self.messages, [])

    def test_a_paste_over_every_limit_is_still_there_after_going_back(self) -> None:
        """Without a script: nothing reduces it before it is sent."""
        page = self.open("/en/", java_script_enabled=False)
        with page.expect_navigation():
            page.evaluate(SEND_LONG)
        expect(page.locator("#paste-error")).to_contain_text("Go back")
        page.go_back()
        left = page.evaluate("document.querySelector('#log').value.length")
        self.assertEqual(left, 15 * 350_000)

    def test_without_javascript_a_file_is_sent_whole(self) -> None:
        page = self.open("/en/", java_script_enabled=False)
        self.assertTrue(page.get_by_text("up to 64 MiB").is_visible())
        page.set_input_files("#file", self.file(long_log()))
        self.assertIn("NAN-9001", self.send(page))
