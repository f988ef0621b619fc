"""What of a paste would be kept: telling lines, masked, and versions."""

from __future__ import annotations

from django.test import SimpleTestCase, TestCase

from kb.lookup import keeping
from kb.lookup.answer import look_up
from tests import TESTS
from tests.support import runs

WARNING = 'UserWarning: "strides" \\ differ'


class MaskedTest(SimpleTestCase):
    def masked(self, text: str) -> str:
        return keeping.of_form(text, "").log

    def test_the_names_that_a_paste_gives_away_are_masked_throughout(self) -> None:
        for text, name in (
            ("/home/alice/p/train.py: warning\nalice saw an error", "alice"),
            ("C:\\Users\\Bob\\train.py\nBob saw an error", "Bob"),
            ("carol@gpu-box:~$ python t.py\ncarol on gpu-box: error", "gpu-box"),
            ("Nov 21 10:00:00 node17 python[33]: x\nnode17: error", "node17"),
            ("[node17:4]: error\nlost node17", "node17"),
            ("[pod/team-a-trainer-0/main] error", "team-a"),
        ):
            with self.subTest(text):
                self.assertIn(name, text)
                self.assertNotIn(name, self.masked(text))

    def test_a_home_that_is_named_after_a_package_hides_no_error(self) -> None:
        self.assertIn("torch error", self.masked("/home/torch/x.py\ntorch error"))

    def test_what_nobody_sees_is_not_kept(self) -> None:
        text = "\x1b[31mError\x1b[0m \u202egnp.exe\u200b\ufeff \x00 end"
        kept = self.masked(text)
        self.assertTrue(kept.startswith("Error"))
        for sign in "\x1b\u202e\u200b\ufeff\x00":
            self.assertNotIn(sign, kept)

    def test_masked_again_nothing_changes(self) -> None:
        logs = sorted((TESTS / "logs").rglob("*.log"))
        self.assertGreater(len(logs), 50)
        for path in logs:
            kept = keeping.of_form(path.read_text(errors="replace"), "")
            self.assertEqual(keeping.of_form(kept.log, kept.env), kept, path.name)

    def test_it_is_bounded(self) -> None:
        many = "\n".join(f"line {number}" for number in range(500))
        self.assertTrue(keeping.of_form(many, "").is_too_long)
        wide = "\n".join("é" * 900 for _ in range(40))
        self.assertTrue(keeping.of_form(wide, "").is_too_long)
        self.assertFalse(keeping.of_form("é" * 40_000, "").is_too_long)


class OfAnswerTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        runs.load_sample()

    def kept(self, log: str, env: str = "") -> keeping.Kept:
        return keeping.of_answer(log, look_up(log, env))

    def test_of_a_log_only_what_tells_is_kept(self) -> None:
        steps = "\n".join(f"step {n} lr 0.1 private-{n}" for n in range(60))
        kept = self.kept(f"{steps}\n{WARNING}\n{steps}")
        self.assertIn(WARNING, kept.log)
        self.assertIn("private-59", kept.log)
        self.assertNotIn("private-30", kept.log)
        self.assertLess(kept.log.count("\n"), 10)

    def test_of_versions_those_that_records_speak_of(self) -> None:
        env = "torch==2.6.0\nnumpy==1.26.4\nacme-secret-model==0.3\n"
        kept = self.kept(WARNING, env)
        self.assertEqual(kept.env.split("\n"), ["torch==2.6.0", "numpy==1.26.4"])
        pasted = self.kept(f"{WARNING}\n\n{env}numba==0.60\nscipy==1.14.0\n")
        self.assertNotIn("acme", pasted.log + pasted.env)

    def test_what_was_written_is_kept_as_it_is(self) -> None:
        code = "import torch\n\nx = torch.ones(3)\ny = x.sqrt()\nz = y.sum()"
        self.assertEqual(self.kept(code).log, code)

    def test_what_is_kept_finds_the_same(self) -> None:
        log = f"/home/alice/x.py:3: {WARNING}\nloss nan"
        before = look_up(log, "torch==2.6.0")
        kept = keeping.of_answer(log, before)
        after = look_up(kept.log, kept.env)
        self.assertEqual(
            [(row["record"], row["confidence"]) for row in before["matches"]],
            [(row["record"], row["confidence"]) for row in after["matches"]],
        )
        self.assertEqual(after["query"]["env"]["torch"]["raw"], "2.6.0")

    def test_a_very_long_paste_is_cut_to_what_may_be_kept(self) -> None:
        log = "\n".join(
            f"RuntimeError: {'abc ' * (n // 4)} failed" for n in range(4, 1200)
        )
        kept = self.kept(log)
        self.assertFalse(kept.is_too_long)
        self.assertFalse(kept.is_empty)
