"""The parts of the bench that figures rest on."""

import random
import tempfile
from pathlib import Path
from unittest import mock

from django.test import SimpleTestCase, TestCase

from kb.models import SearchDocument
from tests.bench import corpus, figures, peers
from tests.support.records import save_all

ERRORS = [
    corpus.Template(
        "ValueError", ("expected a zebra of ", " stripes, got ", ""), "a.py"
    ),
    corpus.Template("UserWarning", ("the giraffe of rank ", " is too tall"), "b.py"),
    corpus.Template("RuntimeError", ("no penguin is left on ", ""), "c.py"),
]
MATERIAL = corpus.Material(
    targets=ERRORS[:1],
    unknown=ERRORS[1:2],
    others=ERRORS[2:],
    english=[
        "The quick fox jumps over the lazy dog.",
        "All birds fly south in autumn.",
    ],
    chinese=["警告先出现", "损失不再下降"],
)


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
        text = figures.table([figures.figure("slow", None, "x", "<= 1")])
        self.assertIn("slow", text)
        self.assertIn("not measured", text)
        self.assertTrue(text.endswith("no"))


class CorpusTests(TestCase):
    def setUp(self) -> None:
        patch = mock.patch.object(corpus, "material", return_value=MATERIAL)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_same_corpus_each_time(self) -> None:
        first, second = list(corpus.records(5)), list(corpus.records(5))
        for one, other in zip(first, second, strict=True):
            self.assertEqual(one.title_zh, other.title_zh)
            self.assertEqual(one.signatures, other.signatures)
        self.assertEqual(len({row.id for row in first}), 5)

    def test_records_are_indexed_as_any(self) -> None:
        save_all(corpus.records(5))
        self.assertEqual(SearchDocument.objects.count(), 5)

    def test_a_log_shows_its_record_otherwise_filled(self) -> None:
        (log,) = corpus.logs(1)
        (row,) = corpus.records(1)
        self.assertEqual(log.record, row.id)
        self.assertIn("expected a zebra of", log.text)
        self.assertNotIn(row.signatures[0]["text"], log.text)
        (unknown,) = corpus.unknown_logs(1)
        self.assertEqual(unknown.record, "")
        self.assertIn("giraffe", unknown.text)

    def test_templates_that_differ_in_holes_only(self) -> None:
        more = [
            *ERRORS,
            ERRORS[0]._replace(pieces=("expected a zebra of 3 stripes", "")),
        ]
        self.assertEqual(len(corpus.distinct(iter(more))), 4)
        same = ERRORS[0]._replace(pieces=("expected a", " zebra of stripes, got"))
        self.assertEqual(len(corpus.distinct(iter([*ERRORS, same]))), 3)

    def test_filled(self) -> None:
        text = corpus.filled(ERRORS[0], random.Random(1))
        self.assertRegex(text, r"^ValueError: expected a zebra of .+ stripes, got .+")


class PeerTests(SimpleTestCase):
    def test_each_finds(self) -> None:
        texts = [
            peers.Text("A", "the giraffe is too tall 梯度", {"giraffe": 1}),
            peers.Text("B", "no penguin is left 溢出 100%", {"penguin": 2}),
        ]
        with tempfile.TemporaryDirectory() as folder:
            like = peers.Like(Path(folder))
            stock = peers.Fts5(Path(folder), "unicode61", shortest=1)
            trigram = peers.Fts5(Path(folder), "trigram", shortest=3)
            for peer in (like, stock, trigram):
                peer.add(texts)
                self.assertGreater(peer.size(), 0)
            self.assertEqual(like.having("溢出"), ["B"])
            self.assertEqual(like.having("0%"), ["B"])
            self.assertEqual(like.having("_%"), [])
            self.assertEqual(like.search("x\nthe giraffe\n\n"), ["A"])
            self.assertEqual(stock.search('a "penguin" OR'), ["B"])
            self.assertEqual(trigram.search("giraffes tall"), ["A"])
