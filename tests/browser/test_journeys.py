"""What people come for, from end to end in Chromium: paste, run, cancel, edit."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.test import tag
from playwright.sync_api import Page, expect

from runner.models import Installation, Run
from runner.worker import execution
from tests.browser.test_browser import BrowserTest
from tests.support import page_types, runs

WORDS = {
    "en": {"look": "Look it up", "present": "bug reproduced", "cancelled": "Cancelled"},
    "zh": {"look": "查询", "present": "缺陷已复现", "cancelled": "已取消"},
}
CANCEL = {"en": "Cancel run", "zh": "取消运行"}
# The stand-in's version is no affected one: a paste that names it rules the record out.
PASTE = page_types.PASTE.partition("torch 2.")[0]
# How htmx names a request that was under way when its page was left.
LEFT = ("htmx:sendAbort", "htmx:afterRequest")
FOCUSED = "document.activeElement.matches({!r})"


@tag("browser")
class JourneyTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        torch = runs.stand_in_torch(Path(folder.name))
        Installation.objects.update(interpreter=str(torch))

    def execute(self) -> None:
        """What a worker does with the run that is waiting."""
        run = runs.claimed()
        self.assertTrue(execution.execute(run))

    def tab_to(self, page: Page, selector: str) -> None:
        for _key in range(60):
            if page.evaluate(FOCUSED.format(selector)):
                return
            page.keyboard.press("Tab")
        self.fail(f"the Tab key never comes to {selector}")

    def test_from_a_paste_to_a_verdict(self) -> None:
        for lang, words in WORDS.items():
            with self.subTest(lang):
                Run.objects.all().delete()
                page = self.open(f"/{lang}/")
                page.fill("#log", PASTE)
                page.get_by_role("button", name=words["look"]).click()
                page.locator(f"main a[href*='/{lang}/NAN-9001/sample/']").first.click()
                page.locator("#run-button").click()
                page.wait_for_url(f"**/{lang}/runs/*/")
                address = page.url
                # The server of the test shares one connection with this thread.
                page.goto("about:blank")
                self.execute()
                page.goto(address)
                answer = page.locator("#run .answer-fail").inner_text()
                self.assertIn(words["present"], answer)
                self.assertIn(words["present"], page.title())
                self.assertEqual(page.locator("[hx-get]").count(), 0)
        self.assertEqual(self.messages, [])

    def test_a_waiting_run_is_cancelled(self) -> None:
        for lang, words in WORDS.items():
            with self.subTest(lang):
                page = self.open(f"/{lang}/NAN-9001/sample/")
                page.locator("#run-button").click()
                page.get_by_role("button", name=CANCEL[lang]).click()
                expect(page.locator("[hx-get]")).to_have_count(0)
                self.assertEqual(page.locator("h1").inner_text(), words["cancelled"])
        states = set(Run.objects.values_list("state", flat=True))
        said = [text for text in self.messages if not text.startswith(LEFT)]
        self.assertEqual((states, said), ({"cancelled"}, []))

    def test_by_keyboard_alone(self) -> None:
        page = self.open("/en/")
        self.assertTrue(page.evaluate(FOCUSED.format("#log")))
        page.keyboard.type(PASTE)
        self.tab_to(page, "form.paste-box button")
        page.keyboard.press("Enter")
        page.wait_for_url("**/en/lookup/")
        self.tab_to(page, "main a[href*='/NAN-9001/']")
        page.keyboard.press("Enter")
        page.wait_for_url("**/en/NAN-9001/sample/**")
        page.keyboard.press("Tab")
        self.assertTrue(page.evaluate(FOCUSED.format(".skip")))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        self.assertTrue(page.evaluate(FOCUSED.format("#run-button")))
        page.keyboard.press("r")
        page.wait_for_url("**/en/runs/*/")
        self.assertEqual(Run.objects.get().state, "queued")
        self.assertEqual(self.messages, [])

    def test_the_language_switch_keeps_the_place(self) -> None:
        run = runs.make_run(self.repro, state="cancelled")
        page = self.open("/en/")
        for path in (
            "records/?group=component",
            "NAN-9001/sample/?torch=2.13.0&device=cpu",
            "matrix/?record=NAN-9001",
            "search/?q=nan",
            f"runs/{run.pk}/",
        ):
            with self.subTest(path):
                page.goto(f"{self.live_server_url}/en/{path}")
                page.locator(".langs a[data-language]").click()
                page.wait_for_url(f"**/zh/{path}")
                self.assertEqual(
                    page.evaluate("document.documentElement.lang"), "zh-Hans"
                )
                page.locator(".langs a[data-language]").click()
                page.wait_for_url(f"**/en/{path}")
        page.goto(f"{self.live_server_url}/en/")
        page.fill("#log", PASTE)
        page.get_by_role("button", name="Look it up").click()
        page.locator(".langs button").click()
        page.wait_for_url("**/zh/lookup/")
        self.assertIn("NAN-9001", page.locator("main").inner_text())
        self.assertEqual(self.messages, [])

    def test_dark_and_light_follow_the_system(self) -> None:
        page = self.open("/en/")
        paper = "getComputedStyle(document.body).backgroundColor"
        found = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found.append(page.evaluate(paper))
        self.assertEqual(found, ["rgb(255, 255, 255)", "rgb(15, 20, 25)"])
