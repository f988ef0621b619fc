"""What a reader would see broken: texts cut off, pushed out or overlapping."""

from __future__ import annotations

from playwright.sync_api import Page

FAULTS = """
() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  const short = (text) => text.trim().replace(/\\s+/g, " ").slice(0, 60);
  const style = (element) => getComputedStyle(element);
  const hides = (element) => {
    const its = style(element);
    return its.display === "none" || its.visibility === "hidden"
      || its.clipPath.startsWith("inset") || its.contentVisibility === "hidden";
  };
  const shown = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (hides(at)) return false;
      const summary = at.tagName === "DETAILS" && !at.open && at.firstElementChild;
      if (summary && !summary.contains(element)) return false;
    }
    return true;
  };
  const scroller = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (["auto", "scroll"].includes(style(at).overflowX)) return at;
    }
    return null;
  };
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = short(walker.currentNode.data);
    const isText = text && !element.closest("script, style, noscript, textarea");
    if (!isText || element.closest("option, .sh") || !shown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const box of range.getClientRects()) {
      if (box.width < 2 || box.height < 2) continue;
      const out = box.right > width + 1 || box.left < -1;
      if (out && !scroller(element)) found.push(`beside the page: ${text}`);
      // What scrolls never shows what lies before its start.
      for (let at = scroller(element); at; at = scroller(at.parentElement)) {
        const start = at.getBoundingClientRect().left - at.scrollLeft;
        const isReached = style(at).direction === "rtl" || box.left > start - 1;
        if (!isReached) found.push(`out of reach: ${text}`);
      }
      // Ascenders and descenders may meet, letters may not.
      const slack = box.height * 0.2;
      boxes.push({element, text, left: box.left, right: box.right,
        top: box.top + slack, bottom: box.bottom - slack});
    }
  }
  boxes.sort((one, other) => one.top - other.top);
  boxes.forEach((one, at) => {
    for (let next = at + 1; next < boxes.length; next += 1) {
      const other = boxes[next];
      if (other.top >= one.bottom) break;
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const apart = one.element === other.element
        || scroller(one.element) !== scroller(other.element);
      if (!apart && across > 2) found.push(`${one.text} meets ${other.text}`);
    }
  });
  for (const element of document.querySelectorAll("body *")) {
    const cuts = ["hidden", "clip"].includes(style(element).overflowX);
    if (cuts && !element.closest(".sh, svg") && shown(element)
        && element.scrollWidth > element.clientWidth + 1) {
      found.push(`cut: ${short(element.textContent)}`);
    }
  }
  return [...new Set(found)];
}
"""
# Sums what the browser itself counts as unexpected movement of things on screen.
WATCH_SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shift += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""
# Two frames: what scripts and sheets change is drawn by then, and counted.
SHIFT = """
() => new Promise((done) => requestAnimationFrame(
  () => requestAnimationFrame(() => done(window.shift))))
"""
MOST_SHIFT = 0.02


def faults(page: Page) -> list[str]:
    return [str(text) for text in page.evaluate(FAULTS)]


def shift(page: Page) -> float:
    """How far the page moved while it was loaded; `WATCH_SHIFTS` must be in it."""
    return float(page.evaluate(SHIFT))
