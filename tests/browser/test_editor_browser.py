"""The form of a record in a real Chromium: drafts, also without a script."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.test import tag
from playwright.sync_api import Page

from kb.models import Record
from tests.browser.test_browser import DOCUMENT_WIDTH, SLACK_PX, BrowserTest

EDIT = "/en/NAN-9001/edit/"
KEPT = "Object.keys(localStorage).filter((key) => key.startsWith('draft:')).length"


@tag("browser")
class EditorTest(BrowserTest):
    def edit(self, path: str = EDIT, **options: Any) -> Page:
        if not User.objects.filter(username="ed").exists():
            user = User.objects.create_user("ed", password="an editor's word")
            user.groups.add(Group.objects.get(name="editor"))
        page = self.open(f"/en/login/?next={path}", **options)
        page.fill("#id_username", "ed")
        page.fill("#id_password", "an editor's word")
        page.locator("main").get_by_role("button", name="Log in").click()
        page.wait_for_url(f"**{path}")
        return page

    def save(self, page: Page) -> None:
        page.locator(".actions").get_by_role("button", name="Save").click()
        page.wait_for_url("**/sample/")

    def test_a_draft_is_offered_after_a_reload_with_the_rows_it_had(self) -> None:
        page = self.edit()
        page.locator("#sources").get_by_role("button", name="Another row").click()
        page.fill("[name=fix_en]", "Half a thought.")
        page.fill("[name=sources-2-title]", "A title")
        self.assertEqual(page.evaluate(KEPT), 1)
        page.goto(self.live_server_url + EDIT)
        self.assertNotEqual(page.input_value("[name=fix_en]"), "Half a thought.")
        page.get_by_role("button", name="Put it back").click()
        page.wait_for_selector("[name=sources-2-title]")
        self.assertEqual(page.input_value("[name=fix_en]"), "Half a thought.")
        self.assertEqual(page.input_value("[name=sources-2-title]"), "A title")
        page.fill("[name=sources-2-title]", "")
        self.save(page)
        self.assertEqual(Record.objects.get().fix_en, "Half a thought.")
        page.goto(self.live_server_url + EDIT)
        self.assertFalse(page.locator("#draft").is_visible())
        self.assertEqual(page.evaluate(KEPT), 0)
        self.assertEqual(self.messages, [])

    def test_without_javascript_it_is_a_plain_form(self) -> None:
        page = self.edit(java_script_enabled=False)
        page.locator("#sources").get_by_role("button", name="Another row").click()
        self.assertEqual(page.locator("[name=sources-2-title]").count(), 1)
        page.fill("[name=fix_en]", "Without a script.")
        self.save(page)
        self.assertEqual(Record.objects.get().fix_en, "Without a script.")

    def test_it_fits_a_phone(self) -> None:
        page = self.edit(viewport={"width": 360, "height": 800})
        self.assertLessEqual(page.evaluate(DOCUMENT_WIDTH), SLACK_PX)
