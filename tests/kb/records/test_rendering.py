"""Markdown becomes HTML that runs nothing."""

import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from django.test import SimpleTestCase

from kb.records.files import read_record
from kb.records.rendering import (
    ATTRIBUTES,
    FOCUSABLE,
    TAGS,
    render,
    sections_html,
)
from tests.support.sample_record import write_sample

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](java&#x09;script:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](\x01javascript:alert(1))",
    "[a][1]\n\n[1]: javascript:alert(1)",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:x) [b](file:///etc/passwd) [c](blob:x)",
    "<javascript:alert(1)>",
    "# a {: onmouseover=alert(1) style=color:red}",
    "a {: hx-get=/x hx-trigger=load}",
    '<div markdown="1" onclick="alert(1)">x</div>',
    "<!-- unclosed\n<svg onload=alert(1)><style>@import 'x'</style>",
    '```"onmouseover="alert(1)\ncode\n```',
    "```{.python .button .danger}\ncode\n```",
    "```{.x #csrfmiddlewaretoken onclick=alert(1)}\ncode\n```",
    "<form action=/x><meta http-equiv=refresh><base href=//x><iframe srcdoc=x>",
    "## csrfmiddlewaretoken {#csrfmiddlewaretoken}",
    "a[^1]\n\n[^1]: [x](javascript:alert(1)) <script>alert(1)</script>",
    "*[HTML]: x onclick=alert(1)\n\nHTML",
    "![pixel](https://example.org/pixel.png)",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    '[a](https://example.org "x\\" onclick=alert(1)")',
    "|a|\n|:-:|\n|<img src=x onerror=alert(1)>|",
]


class Inventory(HTMLParser):
    """Every tag and attribute of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, "", ""))
        self.found += [(tag, name, value or "") for name, value in attrs]


class SafetyTest(SimpleTestCase):
    def test_nothing_hostile_stays_alive(self) -> None:
        for markdown, html in zip(HOSTILE, map(render, HOSTILE), strict=True):
            for tag, name, value in Inventory(html).found:
                with self.subTest(markdown=markdown, html=html):
                    self.assertIn(tag, TAGS)
                    allowed = ATTRIBUTES.get(tag, set()) | {"", "rel"}
                    allowed |= set(FOCUSABLE.get(tag, {}))
                    self.assertIn(name, allowed)
                    if name == "href":
                        self.assertRegex(value, r"^(https?:|mailto:)")
                    if name == "class":
                        self.assertRegex(value, r"^language-[A-Za-z0-9]+$")

    def test_the_inventory_sees_what_is_alive(self) -> None:
        found = Inventory('<img src="x" onerror="alert(1)">').found
        self.assertIn(("img", "onerror", "alert(1)"), found)

    def test_links_leave_without_a_trace(self) -> None:
        html = render("[a](https://example.org/)")
        self.assertIn('rel="nofollow ugc noopener"', html)


class MarkupTest(SimpleTestCase):
    def test_what_articles_use_is_kept(self) -> None:
        html = render(
            "**a** `x < y`\n\n### name\n\n```python\nif a < b:\n```\n\n"
            "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n1. x\n\n- y\n\nn[^1]\n\n[^1]: note"
        )
        for piece in (
            "<strong>a</strong>",
            "<code>x &lt; y</code>",
            "<h3>name</h3>",
            '<pre tabindex="0"><code class="language-python">'
            "if a &lt; b:\n</code></pre>",
            '<th align="left">a</th>',
            '<td align="right">2</td>',
            "<ol>\n<li>x</li>\n</ol>\n<ul>\n<li>y</li>\n</ul>",
            "<sup>",
        ):
            self.assertIn(piece, html)

    def test_html_is_shown_as_text(self) -> None:
        self.assertEqual(
            render("a <b>x</b> & y"), "<p>a &lt;b&gt;x&lt;/b&gt; &amp; y</p>"
        )

    def test_texts_do_not_leak_into_each_other(self) -> None:
        first, second = map(render, ["[a][1]\n\n[1]: https://e.org", "[a][1]"])
        self.assertIn("https://e.org", first)
        self.assertEqual(second, "<p>[a][1]</p>")


class SectionsTest(SimpleTestCase):
    def setUp(self) -> None:
        scratch = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = write_sample(Path(scratch))

    def test_sections_and_workarounds_of_both_languages(self) -> None:
        html = sections_html(read_record(self.folder))
        self.assertEqual(html["zh"]["root_cause"], "<p>未确定。</p>")
        self.assertEqual(html["en"]["workaround"], "<p>Before any of them.</p>")
        self.assertEqual(html["en"]["workarounds"], {"turn_off": "<p>Turn it off.</p>"})
        self.assertTrue(re.search(r"## not a heading", str(html["en"]["symptom"])))
