"""Keeping an answer in a real Chromium, with a script and without."""

from __future__ import annotations

from django.test import tag
from playwright.sync_api import Page, expect

from kb.models import SharedAnswer
from tests.browser.test_browser import BrowserTest

WARNING = 'UserWarning: "strides" \\ differ'
LOG = f"/home/alice/secret/train.py:3: {WARNING}\nHF_TOKEN=hf_abcdefghijklmnop"


@tag("browser")
class SharingTest(BrowserTest):
    def to_preview(self, script: bool = True) -> Page:
        page = self.open("/en/", java_script_enabled=script)
        page.fill("#log", LOG)
        page.get_by_role("button", name="Look it up").click()
        page.get_by_role("button", name="Keep this answer").click()
        expect(page.get_by_role("heading", name="What would be stored")).to_be_visible()
        return page

    def test_an_answer_is_kept_read_elsewhere_and_deleted(self) -> None:
        for script in (True, False):
            with self.subTest(script=script):
                page = self.to_preview(script)
                shown = page.input_value("#log")
                self.assertIn(WARNING, shown)
                self.assertNotIn("alice", shown)
                self.assertFalse(SharedAnswer.objects.exists())
                page.get_by_role("button", name="Keep it").click()
                page.wait_for_url("**/en/a/*/")
                expect(page.get_by_text("shown only now")).to_be_visible()
                self.assertEqual(SharedAnswer.objects.get().log, shown)
                other = self.open(page.url.removeprefix(self.live_server_url))
                expect(other.get_by_text("NAN-9001").first).to_be_visible()
                expect(other.get_by_role("link", name="Delete it")).to_have_count(0)
                page.get_by_role("link", name="Delete it").click()
                page.get_by_role("button", name="Delete it").click()
                expect(page.get_by_text("The answer is deleted.")).to_be_visible()
                self.assertFalse(SharedAnswer.objects.exists())
        self.assertEqual(self.messages, [])

    def test_what_is_put_in_is_masked_before_anything_is_kept(self) -> None:
        page = self.to_preview()
        page.fill("#log", f"{WARNING}\npassword is HuntEr2")
        page.get_by_role("button", name="Keep it").click()
        expect(page.get_by_text("More was masked than in what you")).to_be_visible()
        self.assertNotIn("HuntEr2", page.content())
        self.assertFalse(SharedAnswer.objects.exists())

    def test_the_preview_speaks_the_other_language_and_keeps_its_lines(self) -> None:
        page = self.to_preview()
        shown = page.input_value("#log")
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("heading", name="将要存储的内容")).to_be_visible()
        self.assertEqual(page.input_value("#log"), shown)
        page.get_by_role("button", name="再看一次").click()
        expect(page.get_by_role("heading", name="将要存储的内容")).to_be_visible()
        page.get_by_role("button", name="English").click()
        expect(page.get_by_role("heading", name="What would be stored")).to_be_visible()
        self.assertEqual(page.input_value("#log"), shown)
