"""What axe-core finds wrong with a page (axe/axe-4.14.1.min.js, npm axe-core)."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

SCRIPT = Path(__file__).parent / "axe" / "axe-4.14.1.min.js"
RUN = """
async () => {
  // A colour that is still changing is none that anybody reads.
  const ending = document.getAnimations().filter(
    animation => animation.effect.getComputedTiming().endTime < Infinity);
  await Promise.allSettled(ending.map(animation => animation.finished));
  const found = await axe.run(document, {
    resultTypes: ["violations"], rules: {"target-size": {enabled: true}}});
  return found.violations.flatMap(rule => rule.nodes.map(node =>
    `${rule.id}: ${node.target.join(" ")}: ${node.html.slice(0, 160)} ` +
    `(${node.failureSummary.split("\\n").slice(1).join(";").trim().slice(0, 240)})`));
}
"""
# (width, scheme): each is looked at in the same visit.
VIEWS = ((1280, "light"), (1280, "dark"), (390, "dark"), (390, "light"))


def violations(page: Page) -> list[str]:
    """Every violation of the page as it stands: rule, element, what would mend it.

    The page's context must bypass the policy, or axe cannot be put into it.
    """
    if not page.evaluate("() => Boolean(window.axe)"):
        page.add_script_tag(path=SCRIPT)
    return [str(text) for text in page.evaluate(RUN)]


def violations_in_every_view(page: Page) -> list[str]:
    """Violations at each width and in each colour scheme, each once."""
    found: dict[str, str] = {}
    for width, scheme in VIEWS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        for text in violations(page):
            found.setdefault(text, f"{width} px, {scheme}: {text}")
    return list(found.values())
