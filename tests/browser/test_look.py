"""Every page at four widths: no text cut or overlapping; nothing moves or is barred."""

from __future__ import annotations

from django.test import tag
from playwright.sync_api import expect

from kb.publishing import saving
from tests.browser import page_faults
from tests.browser.test_browser import (
    DOCUMENT_WIDTH,
    SLACK_PX,
    BrowserTest,
    visit,
)
from tests.support import page_types, runs

SIZES = ((360, "dark"), (820, "light"), (1280, "light"), (1920, "dark"))
TOPS = "(nodes) => nodes.map(node => Math.round(node.getBoundingClientRect().top))"


@tag("browser")
class EveryPageTest(BrowserTest):
    maxDiff = None

    def setUp(self) -> None:
        self.messages = []

    def test_no_text_is_cut_or_on_another_and_the_policy_is_kept(self) -> None:
        wanted = page_types.make()
        page = self.open("/en/")
        for lang in ("en", "zh"):
            for kind in wanted:
                self.messages.clear()
                visit(page, self.live_server_url, lang, kind)
                for width, scheme in SIZES:
                    with self.subTest(kind.name, lang=lang, width=width):
                        page.set_viewport_size({"width": width, "height": 900})
                        page.emulate_media(color_scheme=scheme)
                        self.assertLessEqual(page.evaluate(DOCUMENT_WIDTH), SLACK_PX)
                        self.assertEqual(page_faults.faults(page), [])
                with self.subTest(kind.name, lang=lang):
                    # Chromium itself notes the status of a page that is an error.
                    said = [text for text in self.messages if "status of" not in text]
                    self.assertEqual(said, [])

    def test_no_page_moves_while_it_is_loaded(self) -> None:
        wanted = [kind for kind in page_types.make() if not kind.action]
        for width in (360, 1280):
            context = self.context(viewport={"width": width, "height": 800})
            context.add_init_script(page_faults.WATCH_SHIFTS)
            page = context.new_page()
            for kind in wanted:
                with self.subTest(kind.name, width=width):
                    visit(page, self.live_server_url, "en", kind)
                    moved = page_faults.shift(page)
                    self.assertLessEqual(moved, page_faults.MOST_SHIFT)

    def test_what_is_planted_is_found(self) -> None:
        context = self.context(viewport={"width": 360, "height": 800})
        context.add_init_script(page_faults.WATCH_SHIFTS)
        page = context.new_page()
        page.goto(f"{self.live_server_url}/en/health/")
        for style, fault in [
            ("position: absolute; left: 400px", "beside the page: planted"),
            ("overflow: hidden; width: 9px; white-space: nowrap", "cut: planted"),
            ("position: fixed; top: 20px; left: 60px", " meets planted"),
            ("overflow: auto; text-indent: -30px", "out of reach: planted"),
        ]:
            page.evaluate(
                "(style) => {const node = document.createElement('div');"
                "node.id = 'planted'; node.textContent = 'planted';"
                "node.style.cssText = style; document.body.append(node)}",
                style,
            )
            found = [text for text in page_faults.faults(page) if "planted" in text]
            self.assertTrue(any(fault in text for text in found), (fault, found))
            page.evaluate("document.getElementById('planted').remove()")
        page.evaluate("document.querySelector('h1').style.marginTop = '300px'")
        self.assertGreater(page_faults.shift(page), page_faults.MOST_SHIFT)


@tag("browser")
class PlaceTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        for raw, bug in [("2.4.0", True), ("2.7.0", False)]:
            runs.run_on(self.repro, raw, bug=bug)

    def test_the_ruler_of_the_front_page_is_an_axis(self) -> None:
        page = self.open("/en/")
        for width in (1920, 1280, 820):
            page.set_viewport_size({"width": width, "height": 900})
            heads = page.locator(".ruler thead th")
            self.assertEqual(heads.all_inner_texts()[1:], ["2.4.0", "2.7.0"])
            tops = page.locator(".ruler tbody tr:first-child > *").evaluate_all(TOPS)
            self.assertEqual(len(set(tops)), 1, (width, tops))

    def test_a_long_name_among_the_flips_breaks_on_a_phone(self) -> None:
        record = self.repro.record
        record.title_en = 'LigerFusedLinearCrossEntropyLoss(reduction="none") is wrong'
        saving.save(record)
        page = self.open("/en/", viewport={"width": 360, "height": 800})
        expect(page.get_by_role("link", name=record.title_en).first).to_be_visible()
        self.assertLessEqual(page.evaluate(DOCUMENT_WIDTH), SLACK_PX)

    def test_filters_over_a_list_are_folded_and_beside_it_open(self) -> None:
        for path in ("records/", "search/?q=sample"):
            page = self.open(f"/en/{path}")
            for width, is_open in ((1280, True), (820, False), (360, False)):
                page.set_viewport_size({"width": width, "height": 900})
                page.reload()
                box = page.locator(".facet input").first
                expect(box).to_be_visible(visible=is_open)

    def test_an_address_opens_the_claim_that_it_names(self) -> None:
        for javascript in (True, False):
            page = self.open("/en/claims/", java_script_enabled=javascript)
            claim = page.locator("#NAN-9001-c1")
            expect(claim).to_be_hidden()
            page.locator("details.unfold summary").click()
            expect(claim).to_be_visible()
            page.goto(f"{self.live_server_url}/en/claims/?page=1#NAN-9001-c1")
            expect(claim).to_be_visible()

    def test_a_notice_over_a_page_stands_apart(self) -> None:
        page = self.open("/en/records/")
        page.evaluate(
            "document.querySelector('main > .wrap').insertAdjacentHTML('afterbegin',"
            "'<div class=notice id=underway>Everything is loaded.</div>')"
        )
        notice = page.locator("#underway").bounding_box()
        heading = page.locator(".pagehead").bounding_box()
        assert notice and heading
        self.assertGreaterEqual(heading["y"] - notice["y"] - notice["height"], 16)

    def test_search_answers_while_somebody_types(self) -> None:
        page = self.open("/en/search/")
        page.locator("form.ask #q").press_sequentially("sampl")
        expect(page.locator("#found a[data-row]")).to_have_count(1)
        expect(page.locator("h1")).to_have_text("Records for “sampl”")
        expect(page.locator("#found-say")).to_have_text("1 record")
        self.assertTrue(page.url.endswith("/en/search/?q=sampl"))
        self.assertEqual(page.evaluate("document.activeElement.id"), "q")
        # An id is a way to its record, taken by Enter alone.
        with page.expect_response("**/NAN-9001/sample/"):
            page.fill("form.ask #q", "NAN-9001")
        expect(page.locator("h1")).to_have_text("Records for “sampl”")
        page.fill("form.ask #q", "zebra")
        expect(page.locator("h1")).to_have_text("Records for “zebra”")
        page.get_by_role("link", name="中文").click()
        page.wait_for_url("**/zh/search/?q=zebra")
        self.assertEqual(self.messages, [])
