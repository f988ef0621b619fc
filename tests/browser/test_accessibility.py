"""axe-core finds nothing on any page: both languages, widths and colour schemes."""

from __future__ import annotations

from django.test import tag
from playwright.sync_api import Page

from tests.browser import axe_audit
from tests.browser.test_browser import BrowserTest, visit
from tests.support import page_types


@tag("browser")
class AccessibilityTest(BrowserTest):
    maxDiff = None

    def setUp(self) -> None:
        self.messages = []

    def audited(self) -> Page:
        return self.context(bypass_csp=True).new_page()

    def test_axe_finds_nothing_on_any_page(self) -> None:
        wanted = page_types.make()
        page = self.audited()
        for lang in ("en", "zh"):
            for kind in wanted:
                with self.subTest(kind.name, lang=lang):
                    visit(page, self.live_server_url, lang, kind)
                    self.assertEqual(axe_audit.violations_in_every_view(page), [])

    def test_axe_finds_nothing_in_the_admin(self) -> None:
        page_types.make()
        page_types.superuser()
        page = self.audited()
        page.goto(f"{self.live_server_url}/en/login/?next=/admin/")
        page.fill("[name=username]", "chief")
        page.fill("[name=password]", "chief-of-all")
        page.press("[name=password]", "Enter")
        page.wait_for_url("**/admin/")
        for path in page_types.admin_pages():
            with self.subTest(path):
                page.goto(self.live_server_url + path)
                self.assertEqual(axe_audit.violations_in_every_view(page), [])

    def test_a_planted_violation_is_found(self) -> None:
        page = self.audited()
        page.goto(f"{self.live_server_url}/en/")
        page.evaluate("document.body.append(document.createElement('button'))")
        found = axe_audit.violations(page)
        self.assertTrue(any(text.startswith("button-name:") for text in found), found)
