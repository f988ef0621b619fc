"""The filters beside a list: what stands there, what is folded."""

from __future__ import annotations

from collections import Counter

from django.template.loader import render_to_string
from django.test import SimpleTestCase

from kb.pages.facets import OPEN, Facet, facets
from kb.search.ranking.filters import FACETS


def components(count: int, *chosen: str) -> Facet:
    """Component c0 has most records, the last one has one."""
    counts = {name: Counter[str]() for name in FACETS}
    counts["component"].update({f"c{at}": count - at for at in range(count)})
    (found,) = facets(counts, {"component": list(chosen)})
    return found


class FacetTest(SimpleTestCase):
    def test_the_commonest_values_stand_open(self) -> None:
        facet = components(OPEN + 3)
        self.assertEqual(
            [option.value for option in facet.first], [f"c{n}" for n in range(OPEN)]
        )
        self.assertEqual(len(facet.rest), 3)

    def test_what_is_chosen_is_never_folded(self) -> None:
        facet = components(OPEN + 3, f"c{OPEN + 1}", "gone")
        self.assertEqual(
            [option.value for option in facet.first[OPEN:]], [f"c{OPEN + 1}", "gone"]
        )
        self.assertEqual([option.checked for option in facet.rest], [False, False])

    def test_each_value_has_one_box(self) -> None:
        facet = components(OPEN + 3, f"c{OPEN + 1}")
        html = render_to_string("kb/_facets.html", {"facets": [facet]})
        self.assertEqual(html.count('type="checkbox"'), OPEN + 3)
        self.assertIn("2 more</summary>", html)
        few = render_to_string("kb/_facets.html", {"facets": [components(OPEN)]})
        self.assertNotIn("more</summary>", few)
