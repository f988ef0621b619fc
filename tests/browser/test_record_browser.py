"""Record, run and evidence pages in a real Chromium: what is drawn, followed, printed.

Needs what tests/browser/test_browser.py needs.
"""

from __future__ import annotations

from typing import Any

from django.test import tag
from playwright.sync_api import Page, expect

from runner.evidence import store
from runner.models import Run
from tests.browser.page_faults import WATCH_SHIFTS
from tests.browser.test_browser import DOCUMENT_WIDTH, SLACK_PX, BrowserTest
from tests.support import runs

PATH = "/en/NAN-9001/sample/"


def observe(test: BrowserTest, raw: str, *, bug: bool) -> store.Evidence:
    body = runs.make_evidence(test.repro, bug=bug)
    body["build"].update(raw=raw, slug=raw.replace("+", "-"))
    for check in body["checks"]:
        if check["name"] in ("control", "trigger"):
            check["observations"]["loss"] = [2.0, 1.5, {"$float": "nan"}, 1.0]
    return store.add(runs.signed(body), origin="site")


@tag("browser")
class RecordBrowserTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        observe(self, "2.10.0+cpu", bug=False)
        self.found = observe(self, "2.12.0+cpu", bug=True)

    def sideways(self, page: Page) -> Any:
        return page.evaluate(DOCUMENT_WIDTH)

    def test_the_strip_is_a_row_or_folds_and_none_scrolls_sideways(self) -> None:
        for lang in ("en", "zh"):
            page = self.open(f"/{lang}/NAN-9001/sample/")
            for width in (1280, 1000, 820, 360):
                page.set_viewport_size({"width": width, "height": 800})
                cells = page.locator(".rs > li")
                self.assertEqual(cells.count(), 2)
                self.assertGreater(cells.last.bounding_box()["height"], 40)
                is_row = width > 1100
                expect(page.locator(".rs-word").first).to_be_visible(visible=is_row)
                expect(page.locator(".rs-legend")).to_be_visible(visible=not is_row)
                self.assertLessEqual(self.sideways(page), SLACK_PX)
        self.assertEqual(self.messages, [])

    def test_the_choice_is_kept_without_javascript(self) -> None:
        page = self.open(PATH, java_script_enabled=False)
        page.fill("#a-torch", "torch==2.10.0+cpu")
        page.get_by_role("button", name="Show").click()
        self.assertIn("torch=torch", page.url)
        page.goto(self.live_server_url + PATH)
        self.assertIn("torch 2.10.0+cpu", page.locator(".yours-said").inner_text())
        page.goto(f"{self.live_server_url}/zh/NAN-9001/sample/")
        self.assertIn("2.10.0+cpu", page.locator(".yours-said").inner_text())

    def test_every_command_has_a_copy_button_that_copies_it(self) -> None:
        context = self.context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(self.live_server_url + PATH)
        page.get_by_text("Repro source").click()
        lines = page.locator(".commands .copyline")
        self.assertEqual(lines.count(), 3)
        for number in range(3):
            line = lines.nth(number)
            line.locator("button").click()
            copied = page.evaluate("navigator.clipboard.readText()")
            self.assertEqual(copied, line.locator("code").inner_text())

    def test_folded_parts_open_without_javascript_and_on_paper(self) -> None:
        page = self.open(PATH, java_script_enabled=False)
        source = page.locator("#source-1")
        self.assertFalse(source.is_visible())
        page.get_by_text("Repro source").click()
        self.assertTrue(source.is_visible())
        workaround = page.locator(".wa .copyline code")
        self.assertFalse(workaround.is_visible())
        page.emulate_media(media="print")
        self.assertTrue(workaround.is_visible())

    def test_an_address_opens_the_fold_that_it_leads_to(self) -> None:
        page = self.open(PATH, java_script_enabled=False)
        for name in ("evidence", "run", "repro", "workarounds", "NAN-9001-c1"):
            page.goto(f"about:blank#{name}")
            page.goto(f"{self.live_server_url}{PATH}#{name}")
            expect(page.locator(f"#{name}")).to_be_visible()
            expect(page.locator(f"#{name}")).to_be_in_viewport()

    def test_conditions_are_counted_without_javascript(self) -> None:
        page = self.open(PATH, java_script_enabled=False)
        boxes = page.locator(".conds input")
        yours = page.get_by_text("You have this bug.")
        for number in range(boxes.count()):
            self.assertFalse(yours.is_visible())
            boxes.nth(number).check()
        self.assertTrue(yours.is_visible())

    def test_it_fits_every_width_in_both_languages(self) -> None:
        page = self.open(PATH)
        for width in (360, 820, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            for lang in ("en", "zh"):
                page.goto(f"{self.live_server_url}/{lang}/NAN-9001/sample/")
                self.assertLessEqual(self.sideways(page), SLACK_PX, (width, lang))

    def test_it_runs_the_build_of_the_reader_and_shares_the_record(self) -> None:
        context = self.context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{self.live_server_url}{PATH}?torch={runs.SLUG}")
        page.locator("#permalink").click()
        page.wait_for_selector("#permalink[aria-live]")
        shared = page.evaluate("navigator.clipboard.readText()")
        self.assertEqual(shared, f"{self.live_server_url}/NAN-9001")
        self.assertIn(PATH, page.url)
        with page.expect_navigation():
            page.locator("#run-button").click()
        self.assertEqual(Run.objects.get().build_id, runs.SLUG)

    def test_printed_it_holds_everything_and_no_control(self) -> None:
        page = self.open(PATH)
        page.emulate_media(media="print")
        self.assertTrue(page.locator(".rs").is_visible())
        self.assertFalse(page.locator("#run-button").is_visible())
        self.assertFalse(page.locator(".copyline button").first.is_visible())
        page.goto(self.live_server_url + self.found.get_absolute_url())
        self.assertTrue(page.locator("#object pre").is_hidden())
        self.assertEqual(self.messages, [])


@tag("browser")
class RunBrowserTest(BrowserTest):
    def running(self, lines: int = 60) -> Run:
        run = runs.make_run(self.repro, state="running", phase="control", attempt=1)
        self.log(run, 1, lines)
        return run

    def test_a_growing_log_and_new_phases_move_nothing(self) -> None:
        for width in (1280, 390):
            run = self.running(lines=3)
            page = self.context(viewport={"width": width, "height": 1600}).new_page()
            page.add_init_script(WATCH_SHIFTS)
            page.goto(f"{self.live_server_url}/en/runs/{run.id}/")
            page.wait_for_selector("#L3")
            self.assertTrue(page.locator("footer").is_visible())
            self.log(run, 4, 150)
            Run.objects.filter(pk=run.pk).update(phase="trigger 1/1")
            page.wait_for_selector("#L150")
            page.wait_for_selector("li[aria-current=step] >> text=trigger")
            self.assertLess(page.evaluate("window.shift"), 0.02)
            Run.objects.filter(pk=run.pk).update(state="cancelled", lease_until=None)

    def test_a_line_in_the_address_is_shown_and_not_scrolled_away(self) -> None:
        run = self.running()
        # Playwright waits for conditions by eval, which the policy forbids.
        page = self.open(f"/en/runs/{run.id}/#L7", bypass_csp=True)
        inside = (
            "(() => { const log = document.querySelector('#log-lines')"
            ".getBoundingClientRect(); const line = document.querySelector('#L7')"
            ".getBoundingClientRect();"
            "return line.top >= log.top - 1 && line.bottom <= log.bottom + 1 })()"
        )
        page.wait_for_function(inside)
        self.assertFalse(page.locator("#follow").is_checked())
        self.log(run, 61, 90)
        page.wait_for_selector("#L90", state="attached")
        self.assertTrue(page.evaluate(inside))
        page.locator("#follow").check()
        self.log(run, 91, 95)
        page.wait_for_selector("#L95", state="attached")
        page.wait_for_function(f"!{inside}")

    def test_a_line_that_is_still_to_come_is_waited_for(self) -> None:
        run = self.running()
        page = self.open(f"/en/runs/{run.id}/#L120", bypass_csp=True)
        page.wait_for_selector("#L60", state="attached")
        self.log(run, 61, 200)
        page.wait_for_function(
            "(() => { const log = document.querySelector('#log-lines');"
            "const line = document.querySelector('#L120'); return line && "
            "Math.abs(line.offsetTop - log.scrollTop - log.offsetTop) < 500"
            " && log.scrollTop > 0 })()"
        )

    def test_evidence_and_a_finished_run_fit_every_width_in_both_languages(
        self,
    ) -> None:
        found = observe(self, "2.12.0+cpu", bug=True)
        run = runs.make_run(
            self.repro, state="finished", verdict=found.verdict, evidence=found
        )
        for scheme in ("light", "dark"):
            page = self.open("/en/", color_scheme=scheme)
            for width in (1280, 640, 390):
                page.set_viewport_size({"width": width, "height": 800})
                for lang in ("en", "zh"):
                    for path in (f"runs/{run.id}/", f"evidence/{found.short}/"):
                        with self.subTest(path, lang=lang, width=width):
                            page.goto(f"{self.live_server_url}/{lang}/{path}")
                            wide = page.evaluate(DOCUMENT_WIDTH)
                            self.assertLessEqual(wide, SLACK_PX)
        self.assertEqual(self.messages, [])
