"""The row that other pages frame, and oEmbed, by which they find it."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

from kb.findings import writing
from kb.models import Record
from tests.kb.releases.test_comparison import finding
from tests.kb.syndication.test_syndication import PATH, Loaded

FRAME = "/en/embed/NAN-9001/"
HERE = "http://testserver"


class EmbeddedRowTests(Loaded):
    def setUp(self) -> None:
        rows = [
            finding(self.record, "2.13.0", True),
            finding(self.record, "2.14.1", False),
        ]
        writing.replace(self.record, rows)

    def test_it_shows_each_release_and_leads_to_the_record(self) -> None:
        html = self.text(FRAME)
        self.assertEqual(
            re.findall(r"<span class=\"xs\">([\d.]+)", html), ["2.13.0", "2.14.1"]
        )
        self.assertIn(f'href="{PATH}"', html)
        self.assertIn("bug reproduced: 1", html)
        self.assertIn("缺陷已复现：1", self.text(FRAME.replace("/en/", "/zh/")))
        self.text("/en/embed/NAN-9999/", 404)

    def test_this_page_alone_may_be_framed_and_runs_nothing(self) -> None:
        response = self.client.get(FRAME)
        policy = response.headers["Content-Security-Policy"]
        self.assertIn("frame-ancestors *", policy)
        self.assertNotIn("script-src", policy)
        self.assertNotIn("X-Frame-Options", response.headers)
        self.assertNotIn("<script", response.text)
        self.assertEqual(response.cookies, {})
        record = self.client.get(PATH).headers
        self.assertEqual(record["X-Frame-Options"], "DENY")
        self.assertIn("frame-ancestors 'none'", record["Content-Security-Policy"])

    def test_its_colours_are_the_embedders_choice(self) -> None:
        self.assertIn('data-theme="dark"', self.text(f"{FRAME}?theme=dark"))
        self.client.cookies.load({"dtn_theme": "dark"})
        self.assertNotIn("data-theme", self.text(f"{FRAME}?theme=x"))

    def test_a_withdrawn_record_says_so_and_no_more(self) -> None:
        Record.objects.filter(pk="NAN-9001").update(publication="withdrawn")
        html = self.text(FRAME)
        self.assertIn("Withdrawn.", html)
        self.assertNotIn("2.13.0", html)


class OEmbedTests(Loaded):
    def ask(self, status: int = 200, **asked: str) -> str:
        return self.text(f"/oembed?{urlencode(asked)}", status)

    def answer(self, **asked: str) -> dict[str, object]:
        found = self.client.get(f"/oembed?{urlencode(asked)}").json()
        assert isinstance(found, dict)
        return found

    def test_a_record_leads_to_its_answer(self) -> None:
        link = re.search(
            r'json\+oembed" title="NAN-9001" href="([^"]+)"', self.text(PATH)
        )
        assert link
        found = self.client.get(unescape(link[1]).removeprefix(HERE)).json()
        self.assertEqual((found["version"], found["type"]), ("1.0", "rich"))
        self.assertEqual(found["title"], "NAN-9001 A sample")
        self.assertIn(f'src="{HERE}{FRAME}"', found["html"])
        self.assertIn('sandbox="allow-popups ', found["html"])
        self.assertIn(f'width="{found["width"]}"', found["html"])
        self.assertIn(f'height="{found["height"]}"', found["html"])
        picture = self.client.get(found["thumbnail_url"].removeprefix(HERE))
        self.assertEqual(picture.headers["Content-Type"], "image/png")

    def test_every_address_of_a_record_is_known_in_its_language(self) -> None:
        for path, title in [
            ("/NAN-9001", "A sample"),
            ("/en/NAN-9001/?torch=2.13.0#claims", "A sample"),
            ("/zh/NAN-9001/sample/", "一个样例"),
        ]:
            self.assertEqual(self.answer(url=HERE + path)["title"], f"NAN-9001 {title}")

    def test_a_title_cannot_leave_its_attribute(self) -> None:
        Record.objects.filter(pk="NAN-9001").update(title_en='"><script>x</script>')
        self.assertNotIn("<script", str(self.answer(url=HERE + PATH)["html"]))

    def test_sizes_stay_below_what_is_asked_for(self) -> None:
        found = self.answer(url=HERE + PATH, maxwidth="300", maxheight="90")
        self.assertEqual((found["width"], found["height"]), (300, 90))
        self.assertNotIn("thumbnail_url", found)

    def test_what_cannot_be_answered_is_refused_as_the_format_says(self) -> None:
        for url in (
            *("", "x", "http://[", f"https://elsewhere.example{PATH}", f"{HERE}/en/"),
            *(
                f"ftp://testserver{PATH}",
                f"{HERE}/en/NAN-9999/",
                f"{HERE}/fr/NAN-9001/",
            ),
        ):
            self.ask(404, url=url)
        self.ask(501, url=HERE + PATH, format="xml")
        for width in ("", "0", "-1", "1e9", "٣", "9" * 9):
            self.ask(400, url=HERE + PATH, maxwidth=width)
