"""The matrix in a real Chromium: nothing is cut or overlaps, whatever its width."""

from __future__ import annotations

from typing import Any

from django.test import tag
from playwright.sync_api import Page

from kb.models import Finding
from tests.browser.test_browser import DOCUMENT_WIDTH, SLACK_PX, BrowserTest
from tests.support import runs

WIDTHS = (360, 820, 1280, 1920)
RELEASES = (
    *("1.13.1", "2.0.1", "2.1.2", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1"),
    *("2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"),
)
# Texts of the table that leave the box of their cell or meet those of another one.
LOST = """
() => {
  const boxes = [];
  const lost = [];
  const walker = document.createTreeWalker(
    document.querySelector(".mx"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest(".vh, caption")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const cell = parent.closest("td, th").getBoundingClientRect();
    for (const box of range.getClientRects()) {
      if (box.width < 1) continue;
      const inside = box.left >= cell.left - 1 && box.right <= cell.right + 1
        && box.top >= cell.top - 2 && box.bottom <= cell.bottom + 2;
      if (!inside) lost.push("out of its cell: " + node.textContent.trim());
      for (const [other, words] of boxes) {
        const {min, max} = Math;
        const across = min(box.right, other.right) - max(box.left, other.left);
        const down = min(box.bottom, other.bottom) - max(box.top, other.top);
        if (across > 1 && down > 6) lost.push(node.textContent + " on " + words);
      }
      boxes.push([box, node.textContent.trim()]);
    }
  }
  return lost;
}
"""
HEAD_TOP = "document.querySelector('.mx thead').getBoundingClientRect().top"


@tag("browser")
class MatrixBrowserTest(BrowserTest):
    def setUp(self) -> None:
        super().setUp()
        # The worst case: the verdict turns with every build, so that nothing folds.
        for at, release in enumerate(RELEASES):
            raw = f"{release}+cu{110 + at}"
            found = runs.run_on(self.repro, raw, bug=at % 2 == 0)
            Finding.objects.filter(evidence=found.digest).update(trials=20)

    def each(self, path: str, **options: Any) -> None:
        page = self.open("/en/", **options)
        for lang in ("en", "zh"):
            for width in WIDTHS:
                with self.subTest(path, lang=lang, width=width, **options):
                    page.set_viewport_size({"width": width, "height": 900})
                    page.goto(f"{self.live_server_url}/{lang}/{path}")
                    self.assertEqual(page.evaluate(LOST), [])
                    self.assertLessEqual(page.evaluate(DOCUMENT_WIDTH), SLACK_PX)

    def test_nothing_is_cut_or_overlaps(self) -> None:
        for path in ("matrix/", "NAN-9001/sample/"):
            self.each(path)
        self.assertEqual(self.messages, [])

    def test_nor_in_forced_colours_where_every_shape_stays(self) -> None:
        self.each("matrix/", forced_colors="active")
        page = self.open("/en/matrix/", forced_colors="active")
        painted = page.evaluate(
            "getComputedStyle(document.querySelector('.cell .sh-x')).backgroundColor"
        )
        self.assertNotIn(painted, ("rgba(0, 0, 0, 0)", "transparent"))

    def test_its_own_width_decides_between_axis_and_lines(self) -> None:
        page = self.open("/en/matrix/")
        for width, is_axis in [(1280, True), (820, False), (360, False)]:
            page.set_viewport_size({"width": width, "height": 900})
            self.assertEqual(page.locator(".mx thead").is_visible(), is_axis, width)
            self.assertEqual(page.locator(".rng").first.is_visible(), not is_axis)

    def test_the_head_stays_on_top_while_rows_pass_below(self) -> None:
        page = self.open("/en/matrix/", viewport={"width": 1280, "height": 200})
        self.assertGreater(page.evaluate(HEAD_TOP), 100)
        self.scroll_past_the_head(page)
        self.assertEqual(page.evaluate(HEAD_TOP), 0)

    def scroll_past_the_head(self, page: Page) -> None:
        page.evaluate(
            f"scrollTo({{top: scrollY + {HEAD_TOP} + 20, behavior: 'instant'}})"
        )

    def test_every_cell_is_a_link_that_a_finger_meets(self) -> None:
        page = self.open("/en/matrix/", viewport={"width": 360, "height": 800})
        links = page.locator(".mx .cell a")
        self.assertEqual(links.count(), page.locator(".mx .cell").count())
        for box in (links.nth(at).bounding_box() for at in range(links.count())):
            assert box
            self.assertGreaterEqual(min(box["width"], box["height"]), 22)
