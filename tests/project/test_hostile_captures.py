"""A stranger's capture is refused with a reason, or runs and ends by itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase

from portable.nan_probe.functions import ALLOWED
from portable.nan_probe.schema import Refused, checked
from tests import TESTS
from tests.probe.hostile import HELD, capture, corpus, labels, zeros
from tests.support.probes import PORTABLE, pythons

PROGRAM = TESTS / "probe" / "held.py"
ANSWERS = (0, 1, 2, 125)
CODES = {"size", "encoding", "truncated", "kind", "version", "digest"}
CODES |= {"field", "function", "value", "numbers", HELD}
ROW = {"torch", "status", "said", "total", "nan", "inf", "digest"}
ROW |= {"law", "class", "heals", "does_not_heal", "ways"}


def refusal(text: str | bytes) -> tuple[str, str]:
    """(code, text) of why a capture is refused; (HELD, "") where it is not."""
    try:
        checked(text)
    except Refused as error:
        return error.code, str(error)
    return HELD, ""


@cache
def ended(python: str) -> dict[str, list[Any]]:
    """Of each capture, how the child ended that was given it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "captures")
        folder.mkdir()
        for at, (text, _) in enumerate(corpus().values()):
            Path(folder, f"{at:03}.json").write_bytes(text)
        before = {path: path.stat().st_mtime_ns for path in Path(name).rglob("*")}
        done = subprocess.run(
            [python, str(PROGRAM), str(PORTABLE), str(folder)],
            capture_output=True,
            text=True,
            timeout=900,
            cwd=name,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 0, done.stderr
        after = {path: path.stat().st_mtime_ns for path in Path(name).rglob("*")}
        assert before == after, "a capture left something"
    found = json.loads(done.stdout)["found"]
    return dict(zip(corpus(), found.values(), strict=True))


class RefusedTests(SimpleTestCase):
    """Without torch, as a site reads what it is sent."""

    def test_each_is_refused_for_what_it_is(self) -> None:
        for name, (text, wanted) in corpus().items():
            with self.subTest(name):
                code, said = refusal(text)
                self.assertEqual(code, wanted, said)
                self.assertLessEqual(len(said), 300)
                self.assertTrue(said.isprintable() and said.isascii(), said)

    def test_there_are_enough_of_each_kind(self) -> None:
        found = Counter(wanted for _, wanted in corpus().values())
        self.assertGreaterEqual(sum(found.values()) - found[HELD], 60)
        self.assertEqual(found.keys(), CODES)

    def test_whatever_is_put_into_a_capture_only_refused_is_raised(self) -> None:
        whole = json.loads(corpus()["log of 0"][0])
        odd = [None, True, 0, -1, 10**17, "", "x", [], {}, [[]], {"list": []}, "nan"]
        for path in places(whole):
            for value in odd:
                with self.subTest(path=path, value=value):
                    code, _ = refusal(json.dumps(put(whole, path, value)))
                    self.assertIn(code, CODES)

    def test_whatever_a_function_is_given_only_refused_is_raised(self) -> None:
        chance = random.Random(0)
        words = ["mean", "same", "ij,jk->ik", "...a,...->a", "->", ""]
        numbers = [0, 1, -1, True, 4096, 2**31 - 1, {"float": "nan"}, None]
        found: Counter[str] = Counter()
        for function, names in ALLOWED.items():
            for _ in range(60):
                shapes = chance.choices(range(4), k=chance.randrange(5))
                ones = [zeros(*shapes), zeros(*shapes[::-1]), labels(0, 1), zeros(2, 2)]
                odd = [*words, *numbers, *ones, *ones, *ones]
                odd += [{"list": chance.choices(odd, k=chance.randrange(4))}]
                args = chance.choices(odd, k=chance.randrange(1, 7))
                kwargs = {chance.choice(names): chance.choice(odd)}
                whole = capture(function, *args, kwargs=chance.choice([{}, kwargs]))
                with self.subTest(call=whole["call"]):
                    found[refusal(json.dumps(whole))[0]] += 1
        self.assertGreater(found[HELD], 500)

    def test_cut_off_at_each_place(self) -> None:
        text = corpus()["log of 0"][0]
        for at in range(len(text)):
            self.assertIn(refusal(text[:at])[0], ("truncated", "kind"), text[:at])

    def test_no_torch_is_needed(self) -> None:
        code = "import sys, portable.nan_probe.schema; print('torch' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=settings.BASE_DIR,
        )
        self.assertEqual(done.stdout, "False\n", done.stderr)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for name, one in inner:
        found += places(one, (*path, name))
    return found


def put(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    found = json.loads(json.dumps(whole))
    held = found
    for name in path[:-1]:
        held = held[name]
    held[path[-1]] = value
    return found


class HeldTests(SimpleTestCase):
    """In a process of its own, under each real torch here."""

    def each(self) -> list[tuple[str, str, list[Any]]]:
        return [
            (corpus()[name][1], f"{name}, {python}", said)
            for python in pythons()
            for name, said in ended(python).items()
        ]

    def test_none_ends_by_a_signal_or_leaves_its_process(self) -> None:
        for _, name, (status, out, err, seen) in self.each():
            with self.subTest(name):
                self.assertIn(status, ANSWERS, err)
                self.assertNotIn("Traceback", out + err)
                self.assertEqual(seen, "")

    def test_what_is_refused_is_said_in_one_line(self) -> None:
        for wanted, name, (status, out, err, _) in self.each():
            if wanted != HELD:
                with self.subTest(name):
                    self.assertEqual((status, out), (2, ""))
                    self.assertEqual(err.count("\n"), 1, err)

    def test_what_runs_says_how_it_ended_and_no_number(self) -> None:
        for wanted, name, (status, out, err, _) in self.each():
            if wanted == HELD:
                with self.subTest(name):
                    row = json.loads(out.splitlines()[-1])
                    self.assertEqual(row["status"], status, err)
                    self.assertLessEqual(row.keys(), ROW)
                    self.assertLessEqual(len(row["said"]), 300)

    def test_every_function_is_public_on_some_torch(self) -> None:
        code = (
            "import json, sys; sys.path.insert(0, sys.argv[1]);"
            "from nan_probe import calls\n"
            "def has(name):\n"
            "    try: return callable(calls.function_of(name))\n"
            "    except calls.Missing: return False\n"
            "print(json.dumps([n for n in calls.ALLOWED if not has(n)]))"
        )
        command = [pythons()[0], "-c", code, str(PORTABLE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        missing = json.loads(done.stdout)
        # Of torch.Tensor and torch the same names are run: of some one has none.
        names = {name.rpartition(".")[2] for name in ALLOWED.keys() - set(missing)}
        lost = {name for name in missing if name.rpartition(".")[2] not in names}
        self.assertEqual(lost, set())
