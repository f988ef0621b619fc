"""Every pattern means the same on every Python that the site may run on."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

from django.test import SimpleTestCase, tag

from tests import TESTS
from tests.support import log_corpus, patterns, pythons

FORMS = {
    r"(?:ab)*+": True,
    r"\((\d++(?:,\s?\d++){1,5}+)": True,
    r"(?P<a>b)?+": True,
    r"x(?>(?:a|(?:bc)++)*)": True,
    r"(?=(?:ab)++)": True,
    "(?:ab  # of two\n)++": True,
    "(?:a  # of one\n)++": False,
    r"(?>(?:ab)*)": False,
    r"[ab]++.?+a{2,3}+(?:\d)*+": False,
    r"(?:[ab]++)(?:\s*+)": False,
    "no (pattern": False,
}
# Rounds of a repeat that fail when they are half over.
BROKEN = (
    'x = torch.randn(2, 8, 512, 64, device="cuda")',
    "torch.Size([2, 8, 512,",
    "torch::cuda::std:OutOfMemoryError: a.b.c.: 1.2.3.: x",
    "torch.nn.functional.9(a.b.c.d.)",
    "torch 2.5.1.+-cu121",
    "RuntimeError: 损失.loss.-梯度",
)
LONGEST = 1000
# Possessive repeats and atomic groups are new in 3.11 and were mended since, \\B
# changed in 3.14: patterns with one of them read all lines, the others one of ten.
NEW = re.compile(r"[+*?}]\+|\(\?>|\\B")
SOME = 10
# Of each pattern a digest of all that it finds and of all lines that it is.
READ = """
import hashlib, json, re, sys
asked = json.load(sys.stdin)
answers = []
for text, flags, step in asked["patterns"]:
    pattern = re.compile(text, flags)
    spans = [
        [found.span(group) for group in range(pattern.groups + 1)]
        for line in asked["lines"][::step]
        for found in (*pattern.finditer(line), pattern.fullmatch(line))
        if found
    ]
    answers.append(hashlib.sha256(repr(spans).encode()).hexdigest())
json.dump(answers, sys.stdout)
"""


class FormTests(SimpleTestCase):
    def test_what_is_refused(self) -> None:
        for text, is_misread in FORMS.items():
            with self.subTest(text):
                self.assertEqual(patterns.misread(text), is_misread)

    def test_no_pattern_is_misread(self) -> None:
        """Write (?>(?:…)*) for (?:…)*+: CPython before 3.11.5 reads that wrongly."""
        written = [
            f"{path.relative_to(patterns.ROOT)}:{line}: {text[:80]}"
            for path in patterns.sources()
            for line, text in patterns.texts_in(path)
            if patterns.misread(text)
        ]
        kept = [
            where
            for (text, flags), where in patterns.kept().items()
            if patterns.misread(text, flags)
        ]
        self.assertEqual(written + kept, [])


class PythonTests(SimpleTestCase):
    def check(self, read: list[str]) -> None:
        at_hand = pythons.at_hand()
        if len(at_hand) == 1:
            self.skipTest(f"the only Python from 3.11 on here is {next(iter(at_hand))}")
        kept = patterns.kept()
        steps = [(text, flags, 1 if NEW.search(text) else SOME) for text, flags in kept]
        asked = json.dumps({"patterns": steps, "lines": read})
        answers = {
            version: read_by(program, asked) for version, program in at_hand.items()
        }
        for where, *digests in zip(kept.values(), *answers.values(), strict=True):
            with self.subTest(where):
                by_python = dict(zip(answers, digests, strict=True))
                self.assertEqual(len(set(digests)), 1, by_python)

    def test_all_pythons_read_some_lines_the_same(self) -> None:
        self.check([*BROKEN, *every_line()[::SOME]])

    @tag("servers", "corpus")  # for its length: six seconds for each Python
    def test_all_pythons_read_all_lines_the_same(self) -> None:
        self.check(every_line())


def read_by(program: str, asked: str) -> list[str]:
    done = subprocess.run(
        [program, "-I", "-c", READ],
        input=asked,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: list[str] = json.loads(done.stdout)
    return answer


def every_line() -> list[str]:
    return list(dict.fromkeys(lines()))


def lines() -> Iterator[str]:
    """Of all corpora, and the same without what follows a sign."""
    files = [
        path
        for name in ("logs", "environments")
        for path in (TESTS / name).rglob("*.*")
    ]
    texts = [path.read_text("utf-8") for path in sorted(files)]
    for text in (
        *BROKEN,
        *texts,
        *(text[:LONGEST] for text in log_corpus.hostile().values()),
    ):
        for line in text.splitlines():
            yield line[:LONGEST]
            yield re.sub(r"(?<=[.,:=+/#-])\s?\w++", "", line)[:LONGEST]
