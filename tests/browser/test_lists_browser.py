"""Frame, lists and matrix in a real browser: keys, languages, sizes, the help."""

from __future__ import annotations

from django.test import tag

from tests.browser.test_browser import DOCUMENT_WIDTH, SLACK_PX, BrowserTest
from tests.support import runs

PATHS = ("", "records/?group=package", "matrix/", "matrix/?record=NAN-9001", "claims/")
PATHS += ("builds/", "workers/", "health/", "search/?q=sample", "login/", "nothing/")


@tag("browser")
class ListsTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        for raw, bug in [("2.4.0", True), ("2.7.0", False)]:
            runs.run_on(self.repro, raw, bug=bug)

    def test_g_and_a_letter_go_to_the_sections(self) -> None:
        page = self.open("/en/claims/")
        for key, path in [
            ("r", "/en/records/"),
            ("m", "/en/matrix/"),
            ("b", "/en/builds/"),
            ("c", "/en/claims/"),
            ("h", "/en/"),
        ]:
            page.keyboard.press("g")
            page.keyboard.press(key)
            page.wait_for_url(f"{self.live_server_url}{path}")
        page.goto(f"{self.live_server_url}/en/records/")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/en/NAN-9001/sample/**")
        self.assertEqual(self.messages, [])

    def test_single_keys_do_nothing_while_somebody_types_or_switched_them_off(
        self,
    ) -> None:
        page = self.open("/en/records/")
        page.focus("#q")
        page.keyboard.type("grm?")
        self.assertEqual(page.input_value("#q"), "grm?")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("?")
        page.locator("#keys-on").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        self.assertNotEqual(page.evaluate("document.activeElement.id"), "q")
        page.keyboard.press("?")
        self.assertTrue(page.locator("#keys").is_visible())

    def test_the_meaning_of_a_verdict_opens_by_keyboard_and_touch_without_script(
        self,
    ) -> None:
        for options in ({}, {"java_script_enabled": False, "has_touch": True}):
            page = self.open("/zh/matrix/", **options)
            button = page.locator(".what").first
            meaning = page.locator("#pass-means")
            self.assertFalse(meaning.is_visible())
            if options:
                button.tap()
            else:
                button.focus()
                page.keyboard.press("Enter")
            self.assertTrue(meaning.is_visible())
            self.assertIn("bug not seen", meaning.inner_text())
            self.assertIn("未见缺陷", meaning.inner_text())
            page.keyboard.press("Escape")
            self.assertFalse(meaning.is_visible())

    def test_the_filter_can_be_skipped_without_script(self) -> None:
        for path in ("records/", "search/?q=sample"):
            page = self.open(f"/en/{path}", java_script_enabled=False)
            page.get_by_role("link", name="Skip the filter").focus()
            for key in ("Enter", "Tab"):
                page.keyboard.press(key)
            focused = page.locator(":focus").get_attribute("href") or ""
            self.assertRegex(focused, r"NAN-9001|symptoms/", path)

    def test_the_other_language_keeps_path_query_and_filters(self) -> None:
        page = self.open("/en/records/?component=sdpa&group=package")
        page.get_by_role("link", name="中文").click()
        page.wait_for_url("**/zh/records/?component=sdpa&group=package")
        self.assertTrue(page.locator("input[value=sdpa]").is_checked())
        self.assertEqual(page.locator("html").get_attribute("lang"), "zh-Hans")

    def test_readers_in_taiwan_and_hong_kong_get_chinese(self) -> None:
        for locale in ("zh-TW", "zh-HK", "zh-CN"):
            page = self.open("/matrix/?show=flips", locale=locale)
            self.assertTrue(page.url.endswith("/zh/matrix/?show=flips"), locale)

    def test_nothing_scrolls_sideways_on_a_phone_or_at_twice_the_size(self) -> None:
        # 200 % of 1280 px leaves 640 for the page.
        for width in (390, 640):
            page = self.open("/en/", viewport={"width": width, "height": 800})
            for path in PATHS:
                for lang in ("en", "zh"):
                    with self.subTest(path, width=width, lang=lang):
                        page.goto(f"{self.live_server_url}/{lang}/{path}")
                        self.assertLessEqual(page.evaluate(DOCUMENT_WIDTH), SLACK_PX)

    def test_nothing_moves_for_readers_who_want_it_still(self) -> None:
        # The cursor of a live log is all that moves.
        blink = (
            "document.querySelector('#log-lines').innerHTML = '<li class=now></li>';"
            "document.querySelector('#log-lines').classList.add('log');"
            "document.getAnimations().length"
        )
        run = runs.make_run(self.repro, state="running", phase="control", attempt=1)
        for motion, moving in (("no-preference", 1), ("reduce", 0)):
            page = self.open(f"/en/runs/{run.id}/", reduced_motion=motion)
            page.wait_for_selector("#log-lines", state="attached")
            self.assertEqual(page.evaluate(blink), moving, motion)

    def test_on_paper_the_matrix_stays_and_the_controls_go(self) -> None:
        page = self.open("/en/matrix/")
        page.emulate_media(media="print")
        self.assertTrue(page.locator("table.mx").is_visible())
        for control in (".filters", ".nav", ".langs"):
            for found in page.locator(control).all():
                self.assertFalse(found.is_visible(), control)
