"""What people come for, from end to end in Chromium: paste, run, cancel, edit."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.test import tag
from playwright.sync_api import Page, expect

from kb.models import Record
from runner.models import Installation, Run
from runner.runs import ledger
from runner.worker import execution
from tests.browser.test_browser import BrowserTest
from tests.support import page_types, runs

WORDS = {
    "en": {"look": "Look it up", "present": "bug reproduced", "cancelled": "Cancelled"},
    "zh": {"look": "查询", "present": "缺陷已复现", "cancelled": "已取消"},
}
CANCEL = {"en": "Cancel run", "zh": "取消运行"}
# Of somebody whose torch can be run here: records open on it.
PASTE = page_types.PASTE.replace("2.13.0+cpu", runs.STAND_IN)
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
        run = ledger.claim([f"{runs.SLUG}.cpu"], "w")
        assert run
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
        self.assertEqual((states, self.messages), ({"cancelled"}, []))

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
        page.keyboard.press("r")
        self.assertTrue(page.evaluate(FOCUSED.format("#run-button")))
        page.keyboard.press("Enter")
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


@tag("browser")
class EditingTest(BrowserTest):
    def log_in(self, **options: bool) -> Page:
        page_types.superuser()
        page = self.open("/en/login/?next=/admin/kb/record/NAN-9001/change/", **options)
        page.fill("[name=username]", "chief")
        page.fill("[name=password]", "chief-of-all")
        page.press("[name=password]", "Enter")
        page.wait_for_url("**/change/")
        return page

    def test_prose_is_previewed_saved_and_compared(self) -> None:
        page = self.log_in()
        english, chinese = page.locator("#id_fix_en"), page.locator("#id_fix_zh")
        boxes = [field.bounding_box() for field in (english, chinese)]
        left, right = [box for box in boxes if box]
        self.assertLess(abs(left["y"] - right["y"]), 20)
        self.assertLess(left["x"] + left["width"], right["x"])
        self.assertEqual(chinese.get_attribute("lang"), "zh-Hans")
        english.fill("A root fix in **2.15**.")
        page.locator("button[value=fix_en]").click()
        page.wait_for_selector(".preview .sheet strong")
        self.assertEqual(page.locator(".preview .sheet").count(), 2)
        page.fill("#id_reason", "Names the release")
        page.locator("[name=_save]").click()
        page.wait_for_url("**/admin/kb/record/")
        record = Record.objects.get()
        self.assertEqual((record.revision, list(record.outdated)), (2, ["zh"]))
        page.goto(f"{self.live_server_url}/admin/kb/record/NAN-9001/history/")
        self.assertIn("Names the release", page.locator("#change-history").inner_text())
        page.locator("#change-history a").first.click()
        page.wait_for_selector("ins", state="attached")
        added = page.locator("ins").all_inner_texts()
        self.assertEqual("".join(added).strip(), "in **2.15**")
        self.assertEqual(self.messages, [])

    def test_what_is_refused_stands_at_its_field(self) -> None:
        page = self.log_in()
        page.fill("#id_fix_zh", "Upgrade.")
        page.locator("[name=_save]").click()
        errors = page.locator(".field-fix_zh .errorlist")
        self.assertIn("holds no Chinese", errors.first.inner_text())
        self.assertEqual(page.locator(".errorlist li").count(), 1)
        self.assertEqual(Record.objects.get().revision, 1)
        self.assertEqual(self.messages, [])

    def test_previews_need_no_script(self) -> None:
        page = self.log_in(java_script_enabled=False)
        page.fill("#id_fix_en", "A **root** fix.")
        with page.context.expect_page() as opened:
            page.locator("button[value=fix_en]").click()
        found = opened.value.locator(".sheet").first.inner_html()
        self.assertIn("<strong>root</strong>", found)

    def test_the_admin_stays_within_the_policy(self) -> None:
        runs.make_run(self.repro)
        self.evidence()
        page_types.make_machines()
        page = self.log_in()
        for path in page_types.admin_pages():
            with self.subTest(path):
                page.goto(self.live_server_url + path)
        self.assertEqual(self.messages, [])
