"""Every shipped record at a glance: what the first screen holds, how long a page is.

Needs what tests/browser/test_browser.py needs.
"""

from __future__ import annotations

from typing import Any

from django.test import tag
from playwright.sync_api import Page

from kb.models import Record
from tests.browser import page_faults
from tests.browser.test_browser import DOCUMENT_WIDTH, SLACK_PX, BrowserTest
from tests.support import loaded

# Of a page that is 1280 wide.
FIRST_SCREEN = 740
LONGEST = 2600
MOST_BLOCKS = 9
# Records of each kind, to be seen in Chinese as well: with a fix, of two devices, never
# run, with many conditions, brief, brief without a repro.
KINDS = ("NAN-0008", "NAN-0070", "NAN-0003", "NAN-0059", "NAN-0120", "NAN-0132")
UNFOLD = "document.querySelectorAll('main details').forEach(it => it.open = true)"
HEIGHT = "document.documentElement.scrollHeight"
MEASURE = """
() => {
  const bottom = (node) => node ? Math.round(node.getBoundingClientRect().bottom) : 0;
  const now = document.querySelector("#now");
  const first = now.querySelector(".snip-box") || now.querySelector("p");
  const open = [...document.querySelectorAll("main > .wrap > *")];
  return {
    height: document.documentElement.scrollHeight,
    title: bottom(document.querySelector("h1")),
    range: bottom(document.querySelector(".affected")),
    first: bottom(first),
    blocks: open.filter(node => node.offsetHeight > 0).length,
    wrapped: [...document.querySelectorAll("main pre.code, main code.lines")].filter(
      node => getComputedStyle(node).whiteSpace !== "pre").length,
  };
}
"""


@tag("browser")
class HeightsTest(BrowserTest):
    def setUp(self) -> None:
        self.messages = []
        loaded.shipped_with_evidence()

    def faults(self, page: Page, path: str) -> dict[str, Any]:
        page.goto(f"{self.live_server_url}{path}")
        seen = page.evaluate(MEASURE)
        limits = {
            **dict.fromkeys(("title", "range", "first"), FIRST_SCREEN),
            **{"height": LONGEST, "blocks": MOST_BLOCKS, "wrapped": 0},
        }
        too_much = {name: seen[name] for name in limits if seen[name] > limits[name]}
        absent = {name: 0 for name in ("title", "range", "first") if not seen[name]}
        wide = page.evaluate(DOCUMENT_WIDTH)
        return too_much | absent | ({"sideways": wide} if wide > SLACK_PX else {})

    def test_the_first_screen_answers_and_no_page_is_long(self) -> None:
        ids = list(Record.objects.visible().order_by("id").values_list("id", flat=True))
        self.assertGreater(len(ids), 100)
        page = self.context(viewport={"width": 1280, "height": 900}).new_page()
        for path in (
            *(f"/en/{name}" for name in ids),
            *(f"/zh/{name}" for name in KINDS),
        ):
            with self.subTest(path):
                self.assertEqual(self.faults(page, path), {})

    def test_what_is_folded_is_not_beside_the_page_either(self) -> None:
        page = self.context(viewport={"width": 360, "height": 800}).new_page()
        for at, name in enumerate(
            Record.objects.visible().values_list("id", flat=True)
        ):
            lang = ("en", "zh")[at % 2]
            page.goto(f"{self.live_server_url}/{lang}/{name}")
            page.evaluate(UNFOLD)
            for width in (360, 1280):
                with self.subTest(name, lang=lang, width=width):
                    page.set_viewport_size({"width": width, "height": 800})
                    self.assertLessEqual(page.evaluate(DOCUMENT_WIDTH), SLACK_PX)
        page.set_viewport_size({"width": 820, "height": 800})
        page.goto(f"{self.live_server_url}/en/claims/")
        self.assertEqual(page_faults.faults(page), [])

    def test_the_first_screen_of_a_build_names_its_bugs(self) -> None:
        page = self.context(viewport={"width": 1280, "height": 900}).new_page()
        for path in ("/en/builds/2.13.0-cpu/", "/zh/builds/2.5.1-cu124/"):
            page.goto(f"{self.live_server_url}{path}")
            for what in (".lead .v-fail", ".recs li", ".folds summary .v-fail"):
                box = page.locator(what).first.bounding_box()
                assert box, (path, what)
                self.assertLess(box["y"] + box["height"], FIRST_SCREEN, (path, what))
            self.assertLess(page.evaluate(HEIGHT), LONGEST, path)
