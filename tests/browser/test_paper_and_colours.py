"""Colours that a reader chose, and pages on paper, in a real Chromium."""

from __future__ import annotations

import re
from typing import Any

from django.test import tag
from playwright.sync_api import Page

from kb.models import Record
from runner.models import Run
from tests.browser.test_browser import BrowserTest
from tests.support import loaded, page_types

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(15, 20, 25)"
PASTE = "UserWarning: None of the inputs have requires_grad=True\ntorch 2.13.0+cpu"
MOST_PAGES = 4


@tag("browser")
class ColourTest(BrowserTest):
    def background(self, page: Page) -> Any:
        return page.evaluate(BACKGROUND)

    def test_the_choice_beats_the_system_and_stays(self) -> None:
        for javascript in (True, False):
            page = self.open(
                "/en/records/?component=sdpa",
                color_scheme="dark",
                java_script_enabled=javascript,
            )
            self.assertEqual(self.background(page), DARK)
            page.get_by_role("button", name="light").click()
            page.wait_for_selector("html[data-theme=light]")
            self.assertIn("component=sdpa", page.url)
            self.assertEqual(self.background(page), LIGHT)
            page.goto(self.live_server_url + "/zh/records/")
            self.assertEqual(self.background(page), LIGHT)
            page.get_by_role("button", name="跟随系统").click()
            page.wait_for_selector("html:not([data-theme])")
            self.assertEqual(self.background(page), DARK)
        self.assertEqual(self.messages, [])

    def test_an_answer_changes_colours_without_javascript(self) -> None:
        page = self.open("/en/", java_script_enabled=False)
        page.fill("#log", "Segfault")
        page.get_by_role("button", name="Look it up").click()
        page.get_by_role("button", name="dark").click()
        page.wait_for_selector("html[data-theme=dark]")
        self.assertIn("Segfault", page.locator("main").text_content() or "")
        self.assertEqual(self.background(page), DARK)


@tag("browser")
class PaperTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        loaded.shipped_with_evidence()

    def pages(self, page: Page) -> int:
        return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))

    def on_paper(self, page: Page) -> None:
        self.assertLessEqual(self.pages(page), MOST_PAGES, page.url)
        page.emulate_media(media="print")
        controls = page.locator("select, button, input, textarea, .btn")
        seen = [node.is_visible() for node in controls.all()]
        self.assertFalse(any(seen), page.url)
        self.assertEqual(page.evaluate(BACKGROUND), LIGHT)

    def test_a_record_fits_on_four_pages_with_its_sources(self) -> None:
        path = Record.objects.get(pk="NAN-0002").get_absolute_url()
        for lang in ("en", "zh"):
            place = path.replace("/en/", f"/{lang}/")
            page = self.open(place, color_scheme="dark")
            self.on_paper(page)
            cited = "getComputedStyle(document.querySelector('.src a'), '::after')"
            self.assertIn("https://", page.evaluate(f"{cited}.content"))

    def test_so_do_the_matrix_an_answer_and_a_run(self) -> None:
        page = self.open("/en/matrix/")
        self.on_paper(page)
        page = self.open("/en/")
        page.fill("#log", PASTE)
        page.get_by_role("button", name="Look it up").click()
        page.wait_for_selector(".decision")
        self.on_paper(page)
        page_types.make_runs(self.repro)
        run = Run.objects.filter(evidence__isnull=False).latest("pk")
        self.on_paper(self.open(f"/en/runs/{run.pk}/"))
