"""The parts of the bench that figures rest on."""

from django.test import SimpleTestCase

from tests.bench import figures


class FigureTests(SimpleTestCase):
    def test_targets(self) -> None:
        rows = [
            (3.0, ">= 3", True),
            (2.9, ">= 3", False),
            (0.1, "<= 0.1", True),
            (0.2, "<= 0.1", False),
            (1.0, "== 1", True),
            (None, ">= 3", False),
            (3.0, "", None),
            (None, "", None),
        ]
        for value, target, ok in rows:
            with self.subTest(value=value, target=target):
                self.assertIs(figures.figure("x", value, "s", target)["ok"], ok)

    def test_table(self) -> None:
        text = figures.table([figures.figure("slow", None, "x", "<= 1")], "api")
        self.assertIn("slow", text)
        self.assertIn("not measured", text)
        self.assertIn("| <= 1, **missed** |", text)
        self.assertTrue(text.endswith("| bench api |"))
