"""The picture of a record: what stands on it, and when it is another one."""

from __future__ import annotations

import io
import re
import tomllib

from django.conf import settings
from django.test import SimpleTestCase
from PIL import Image

from kb.findings import writing
from kb.models import Record
from kb.syndication.cards import content, drawing
from tests.kb.releases.test_comparison import finding
from tests.kb.syndication.test_syndication import PATH, Loaded

ADDRESS = re.compile(r'property="og:image" content="http://testserver([^"]+)"')
RED, BLUE = (179, 38, 30), (11, 92, 173)


def colours(card: content.Card) -> set[tuple[int, ...]]:
    image = Image.open(io.BytesIO(drawing.png(card))).convert("RGB")
    found = image.getcolors(image.width * image.height)
    assert found
    # A square of a row has so many pixels; what is only the edge of a letter has not.
    return {colour for count, colour in found if count > 500}


class CardTests(Loaded):
    def card(self) -> content.Card:
        return content.of_record(Record.objects.get(pk="NAN-9001"))

    def address(self, path: str = PATH) -> str:
        found = ADDRESS.findall(self.text(path))
        self.assertEqual(len(found), 1)
        return str(found[0])

    def test_a_page_names_a_picture_of_the_promised_size(self) -> None:
        path = self.address()
        response = self.client.get(path)
        self.assertEqual(response.headers["Content-Type"], "image/png")
        image = Image.open(io.BytesIO(response.content))
        self.assertEqual((image.format, image.size), ("PNG", (1200, 630)))
        self.assertLess(len(response.content), 60_000)
        self.assertIn("max-age=31536000", response.headers["Cache-Control"])
        again = self.client.get(
            path, headers={"If-None-Match": response.headers["ETag"]}
        )
        self.assertEqual((again.status_code, again.content), (304, b""))
        self.text("/en/NAN-9999/card.png", 404)

    def test_each_language_has_its_own(self) -> None:
        paths = [self.address(PATH), self.address(PATH.replace("/en/", "/zh/"))]
        self.assertNotEqual(*(self.client.get(path).content for path in paths))
        html = self.text(PATH.replace("/en/", "/zh/"))
        self.assertIn('og:image:alt" content="一个样例 · 尚未在任何版本上运行。"', html)

    def test_another_verdict_is_another_picture_at_another_address(self) -> None:
        first, bare = self.address(), self.card()
        writing.replace(self.record, [finding(self.record, "2.13.0", True)])
        second, bad = self.address(), self.card()
        self.assertNotEqual(first, second)
        later = finding(self.record, "2.14.1", False)
        writing.replace(self.record, [finding(self.record, "2.13.0", True), later])
        self.assertNotIn(self.address(), (first, second))
        shown = [{RED, BLUE} & colours(card) for card in (bare, bad, self.card())]
        self.assertEqual(shown, [set(), {RED}, {RED, BLUE}])
        # Who kept the old address is shown the new picture, and does not keep it.
        old = self.client.get(first)
        self.assertEqual(old.content, drawing.png(self.card()))
        self.assertIn("max-age=300", old.headers["Cache-Control"])

    def test_devices_have_a_row_each_and_models_and_stale_runs_none(self) -> None:
        rows = [
            finding(self.record, "2.13.0", True),
            finding(self.record, "2.13.0", False, device_class="cuda"),
        ]
        writing.replace(self.record, rows)
        self.assertEqual([row.device for row in self.card().rows], ["cpu", "cuda"])
        self.assertLessEqual({RED, BLUE}, colours(self.card()))
        self.record.findings.filter(device_class="cuda").update(stale=True)
        self.record.findings.filter(device_class="cpu").update(
            fidelity="mechanism_model"
        )
        card = self.card()
        self.assertEqual(card.rows, ())
        self.assertIn("model of the mechanism", card.said)

    def test_a_withdrawn_record_shows_no_verdict(self) -> None:
        writing.replace(self.record, [finding(self.record, "2.13.0", True)])
        Record.objects.filter(pk="NAN-9001").update(publication="withdrawn")
        card = self.card()
        self.assertEqual(card.said, "Withdrawn.")
        self.assertNotIn(RED, colours(card))

    def test_a_sign_that_the_font_lacks_is_never_drawn(self) -> None:
        for en, zh, drawn in [
            ("A loss", "损失 🚨", "A loss"),
            ("A 🚨 loss", "损失", "损失"),
            ("A loss 🚨", "🚨", "A loss"),
        ]:
            Record.objects.filter(pk="NAN-9001").update(title_en=en, title_zh=zh)
            self.assertEqual(drawing.title_of(self.card()), drawn)

    def test_other_pages_keep_the_picture_of_the_site(self) -> None:
        self.assertRegex(self.text("/en/matrix/"), r'og:image" content="[^"]+card')


class TextTests(SimpleTestCase):
    def test_lines_fit_and_lose_nothing(self) -> None:
        for text in (
            "x" * 300,
            "梯度为零，" * 40,
            "torch.compile（Inductor）在 bf16 下，梯度变为 NaN。" * 5,
            "a " * 200,
        ):
            lines = drawing.wrapped(text, 60)
            self.assertEqual("".join(lines).replace(" ", ""), text.replace(" ", ""))
            for line in lines:
                self.assertLessEqual(drawing.length(line, 60), drawing.INNER)
                self.assertNotIn(line[0], "，。）")

    def test_the_font_has_every_title_that_is_shipped(self) -> None:
        for path in sorted(settings.ISSUES_DIR.glob("*/issue.toml")):
            titles = tomllib.loads(path.read_text())["title"]
            for title in titles.values():
                lacking = {sign for sign in title if not drawing.can_draw(sign)}
                self.assertEqual(lacking, set(), path.parent.name)
