"""The site in a real Chromium: policy, layout, live runs, keys, and no JavaScript.

Needs chromium-headless-shell, or /usr/bin/chromium, and the playwright package;
nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import LiveServerTestCase, tag
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from kb.models import Record
from kb.publishing import loading
from runner.evidence import repros, store
from runner.models import Run
from tests.support import page_types, runs
from tests.support.sample_record import write_sample

# The shell is the same without windows, whose own pages would take a third of the time.
CHROMIUM = shutil.which("chromium-headless-shell") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The page whose width or height an element with this much of a difference breaks.
SLACK_PX = 1
DOCUMENT_WIDTH = (
    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
)


SEND = """
([action, fields]) => {
  const forms = [...document.querySelectorAll("form[method=post]")];
  let form = forms.find(each => new URL(each.action).pathname.endsWith(action));
  if (!form) {
    // The form stands on a page that is itself a form's answer.
    form = document.createElement("form");
    [form.method, form.action] = ["post", action];
    document.body.append(form);
  }
  for (const [name, value] of Object.entries(fields)) {
    form.querySelectorAll(`[name="${name}"]`).forEach(field => field.remove());
    const field = document.createElement("input");
    [field.type, field.name, field.value] = ["hidden", name, value];
    form.append(field);
  }
  form.noValidate = true;
  form.submit();
}
"""


def visit(page: Page, site: str, lang: str, wanted: page_types.PageType) -> None:
    """Go to a page, over the form that leads to it where there is one."""
    page.goto(f"{site}/{lang}/{wanted.path}")
    if wanted.action:
        with page.expect_navigation():
            page.evaluate(SEND, [wanted.action, wanted.fields])


@tag("browser")
class BrowserTest(LiveServerTestCase):
    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        # Playwright's synchronous interface keeps an event loop in this thread.
        unsafe = mock.patch.dict(os.environ, {"DJANGO_ALLOW_ASYNC_UNSAFE": "1"})
        unsafe.start()
        cls.addClassCleanup(unsafe.stop)
        super().setUpClass()
        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        cls.browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_sample(Path(folder))
            loading.load_records(Path(folder), inspect=repros.inspect)
        self.repro = Record.objects.get(id="NAN-9001").repros.get()
        runs.make_build()
        runs.install("/nowhere/python")
        self.messages: list[str] = []

    def open(self, path: str, **options: Any) -> Page:
        page = self.context(**options).new_page()
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.goto(self.live_server_url + path)
        return page

    def context(self, **options: Any) -> BrowserContext:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = self.browser.new_context(**options)
        self.addCleanup(context.close)
        return context

    def evidence(self) -> store.Evidence:
        return store.add(runs.make_evidence(self.repro), origin="site")

    def log(self, run: Run, first: int, last: int) -> None:
        texts = [f"line {seq}" for seq in range(first, last + 1)]
        runs.write_log(run, *texts, first=first)


class ScriptTest(BrowserTest):
    def test_copy_keys_and_the_stored_language(self) -> None:
        context = self.context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{self.live_server_url}/en/NAN-9001/sample/")
        page.locator("#now .snip-head button").first.click()
        copied = page.evaluate("navigator.clipboard.readText()")
        self.assertEqual(copied, "off(1)\noff(2)")
        page.keyboard.press("/")
        self.assertEqual(page.evaluate("document.activeElement.id"), "q")
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("?")
        self.assertTrue(page.locator("#keys").is_visible())
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("z")
        page.wait_for_url("**/zh/NAN-9001/sample/")
        page.goto(f"{self.live_server_url}/NAN-9001")
        self.assertTrue(page.url.endswith("/zh/NAN-9001/sample/"))


class LiveRunTest(BrowserTest):
    def test_the_log_grows_in_place_and_ends_in_the_verdict(self) -> None:
        run = runs.make_run(self.repro, state="running", phase="control", attempt=1)
        self.log(run, 1, 3)
        page = self.open(f"/en/runs/{run.id}/")
        page.wait_for_selector("#L3")
        height = page.evaluate("document.documentElement.scrollHeight")
        self.log(run, 4, 80)
        page.wait_for_selector("#L80")
        numbers = page.locator("#log-lines li > a").all_inner_texts()
        self.assertEqual(numbers, [str(number) for number in range(1, 81)])
        grown = page.evaluate("document.documentElement.scrollHeight")
        self.assertEqual(grown, height)
        end = "document.querySelector('#log-lines')"
        page.wait_for_function(
            f"{end}.scrollTop + {end}.clientHeight > {end}.scrollHeight - 24"
        )
        found = self.evidence()
        Run.objects.filter(pk=run.pk).update(
            state="finished",
            lease_until=None,
            verdict=found.verdict,
            hits=1,
            evidence=found,
            finished_at=timezone.now(),
        )
        page.wait_for_selector("#run .answer-fail")
        self.assertIn("bug reproduced (1/1)", page.title())
        self.assertEqual(page.locator("[hx-get]").count(), 0)
        self.assertEqual(self.messages, [])

    def test_without_javascript_a_run_is_started_and_followed(self) -> None:
        page = self.open("/zh/NAN-9001/sample/", java_script_enabled=False)
        with page.expect_navigation():
            page.locator("#run-button").click()
        run = Run.objects.get()
        self.assertTrue(page.url.endswith(f"/zh/runs/{run.id}/"))
        refresh = page.locator("meta[http-equiv=refresh]")
        self.assertEqual(refresh.get_attribute("content"), "5")
        with page.expect_navigation():
            page.get_by_role("button", name="取消运行").click()
        self.assertEqual(page.locator("h1").inner_text(), "已取消")
        page.goto(f"{self.live_server_url}/zh/")
        page.fill("#log", "loss: nan")
        with page.expect_navigation():
            page.get_by_role("button", name="查询").click()
        self.assertTrue(page.url.endswith("/zh/lookup/"))
