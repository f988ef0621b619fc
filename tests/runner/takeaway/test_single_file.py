"""The single file: the reviewed source, the harness and a guard, run as users do."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.test import SimpleTestCase, TestCase, tag

from kb.choices import LANGS, Fidelity
from kb.models import Record, Repro
from portable import harness
from runner import run_sentences
from runner.evidence.exchange import receive_evidence
from runner.takeaway import bundle
from runner.takeaway.single_file import single_file
from tests.support import loaded, runs
from tests.support.builds import torch_python

# As PEP 723 has it: what uv, pipx and others look for.
PEP_723 = r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$"
# What must be the same here and there; the rest is measured.
JUDGED = ("record", "repro", "verdict", "reason", "is_affected", "hits", "trials")
# Each check is a process: as few as there must be, where nothing else is asked.
CHECKS = runs.CHECKS.partition("\n\ndef workaround_off")[0]
PRESENT = runs.source()
BRIEF = runs.source(CHECKS)
ABSENT = runs.source(CHECKS, trigger="return {'nonfinite': 0, 'grad': 1.0}")
NOT_APPLICABLE = runs.source(CHECKS, trigger="return {'not_applicable': 'no such op'}")
SILENT = runs.source(CHECKS, detector="return {'nonfinite': 0}")
RAISES = runs.source(CHECKS, control="raise ValueError")


def unsaved(text: str, name: str = "repro", **record: Any) -> Repro:
    """A repro of a record, neither in a database."""
    facts = {"id": "NAN-9001", "title_en": "A sample", "title_zh": "样例"}
    header, checks = harness.read_repro(text)
    return Repro(
        record=Record(**{**facts, "upstream": "open", **record}),
        name=name,
        source=text,
        digest=harness.source_digest(text),
        fidelity=header.fidelity,
        device=header.device,
        checks=checks,
    )


class FileTest(SimpleTestCase):
    """Files run under a stand-in torch, in a folder that hides modules of Python."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = str(runs.stand_in_torch(self.folder))
        for name in ("types", "json", "random", "torch"):
            (self.folder / f"{name}.py").write_text("raise RuntimeError('hidden')\n")

    def write(self, text: str) -> Path:
        path = self.folder / "repro.py"
        path.write_text(text, encoding="utf-8")
        return path

    def run_file(
        self, path: Path, *arguments: str, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        done = subprocess.run(
            [self.python, str(path), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(scratch)},
            timeout=300,
            **options,
        )
        self.assertEqual(list(scratch.iterdir()), [], "something was left behind")
        return done

    def run_source(
        self, text: str, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_file(self.write(single_file(unsaved(text))), *arguments)


@tag("long")
class ExitTest(FileTest):
    def test_the_exit_status_is_the_verdict(self) -> None:
        for text, status in (
            (BRIEF, 1),
            (ABSENT, 0),
            (NOT_APPLICABLE, 125),
            (SILENT, 2),
            (RAISES, 2),
        ):
            done = self.run_source(text)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_git_bisect_gets_good_bad_and_skip_and_no_error_counts(self) -> None:
        for text, searching_bug, searching_fix in (
            (BRIEF, 1, 0),
            (ABSENT, 0, 1),
            (NOT_APPLICABLE, 125, 125),
            (SILENT, 125, 125),
            (RAISES, 125, 125),
        ):
            path = self.write(single_file(unsaved(text)))
            self.assertEqual(self.run_file(path, "--bisect").returncode, searching_bug)
            self.assertEqual(
                self.run_file(path, "--bisect", "--find-fix").returncode, searching_fix
            )

    def test_wrong_usage_is_no_verdict_and_stops_a_bisection(self) -> None:
        path = self.write(single_file(unsaved(PRESENT)))
        for arguments, status in (
            (["--no-such"], 2),
            (["--trials", "0"], 2),
            (["--find-fix"], 2),
            (["--json", "/nowhere/at/all.json"], 2),
            (["--bisect", "--no-such"], 255),
            (["--bisect", "--trials", "many"], 255),
        ):
            done = self.run_file(path, *arguments)
            self.assertEqual(done.returncode, status, arguments)
            self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_changed_copy_does_not_run(self) -> None:
        text = single_file(unsaved(PRESENT))
        for old, new in (
            ('"nonfinite": 1, "grad"', '"nonfinite": 0, "grad"'),
            ("PROTOCOL = 1", "PROTOCOL = 2"),
            ('"upstream": "open"', '"upstream": "by_design"'),
        ):
            self.assertIn(old, text)
            path = self.write(text.replace(old, new, 1))
            for arguments, status in ([], 2), (["--bisect"], 255):
                done = self.run_file(path, *arguments)
                self.assertEqual(done.returncode, status)
                self.assertIn("not what was reviewed", done.stderr)
                self.assertIn("请重新下载", done.stderr)

    def test_an_error_of_the_file_itself_is_not_status_one(self) -> None:
        text = single_file(unsaved(PRESENT))
        path = self.write(text.replace("PROGRAM = 'single'", "PROGRAM = 'gone'"))
        done = self.run_file(path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("ModuleNotFoundError", done.stderr)

    def test_it_runs_from_standard_input(self) -> None:
        text = single_file(unsaved(PRESENT))
        done = self.run_file(Path("-"), input=text)
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_without_torch_there_is_no_verdict(self) -> None:
        path = self.write(single_file(unsaved(PRESENT)))
        self.python = sys.executable
        bare = self.run_file(path)
        self.assertEqual(bare.returncode, 2)
        self.assertIn("torch cannot be imported", bare.stdout)
        self.assertIn("无法导入 torch", self.run_file(path, "--lang", "zh").stdout)


class OutputTest(FileTest):
    def test_a_person_gets_the_language_of_the_locale(self) -> None:
        path = self.write(single_file(unsaved(PRESENT)))
        with mock.patch.dict(os.environ, {"LC_ALL": "", "LANG": "zh_CN.UTF-8"}):
            chinese = self.run_file(path)
        for words in (
            "NAN-9001 · 样例",
            "✖ 未通过 · 缺陷已复现（1/1）",
            "此构建受影响",
            "✔ 规避方法已验证: off",
            "上游：",
        ):
            self.assertIn(words, chinese.stdout)
        self.assertNotIn("FAIL", chinese.stdout)
        english = self.run_file(path, "--lang", "en", "--python", "lib/../python")
        self.assertEqual(english.returncode, 1, english.stderr)
        for words in (
            "NAN-9001 · A sample",
            "✖ FAIL · bug reproduced (1/1)",
            "on torch 9.9.0+cpu, cpu. This build is affected.",
            "✔ Workaround verified: off",
        ):
            self.assertIn(words, english.stdout)
        self.assertNotRegex(english.stdout, "[一-鿿]")
        told = english.stderr.splitlines()
        self.assertEqual(len(told), len(set(told)), "a line stands there twice")
        self.assertNotIn("started", english.stderr)

    def test_json_is_all_there_is_on_standard_output(self) -> None:
        done = self.run_source(BRIEF, "--json", "--trials", "3")
        body = json.loads(done.stdout)
        self.assertEqual(body["digest"], harness.evidence_digest(body))
        self.assertEqual((body["record"], body["trials"]), ("NAN-9001", 3))
        self.assertIn("trigger 3/3", done.stderr)

    def test_json_goes_into_a_file(self) -> None:
        done = self.run_source(PRESENT, "--json", "out.json")
        self.assertIn("✖ FAIL", done.stdout)
        body = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(body["verdict"], "bug_present")

    def test_the_reviewed_source_can_be_read_back(self) -> None:
        done = self.run_source(PRESENT, "--source")
        self.assertEqual((done.returncode, done.stdout), (0, PRESENT))

    def test_sentences_are_those_of_the_site(self) -> None:
        model = BRIEF.replace("upstream_bug", Fidelity.MECHANISM_MODEL)
        for text in (ABSENT, NOT_APPLICABLE, RAISES, model):
            path = self.write(single_file(unsaved(text)))
            for lang in LANGS:
                done = self.run_file(path, "--json", "out.json", "--lang", lang)
                body = json.loads((self.folder / "out.json").read_text())
                self.assertIn(run_sentences.evidence_sentence(body)[lang], done.stdout)


class TextTest(SimpleTestCase):
    """What a file is made of, whatever stands in its parts."""

    def parts_of(self, text: str) -> dict[str, str]:
        """The parts as Python reads them, without running anything."""
        found = {}
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Assign):
                continue
            place = node.targets[0]
            if isinstance(place, ast.Subscript) and ast.unparse(place.value) == "PARTS":
                found[ast.literal_eval(place.slice)] = ast.literal_eval(node.value)
        return found

    def test_awkward_sources_travel_unchanged(self) -> None:
        for awkward in (
            'X = """three"""',
            "X = '''three'''",
            "X = '''a''' \"\"\"b\"\"\" 'c\\\\'",
            "X = '\\\\' # ends in a backslash \\",
            "X = 1\r\nY = 2\r\n",
            "X = '\u2028 \x0c \u202e'",
            "X = 1 # no end of line",
            "Y = 1\n# /// script\n# x\n# ///",
        ):
            text = f"{PRESENT}\n{awkward}"
            with self.subTest(awkward):
                found = single_file(unsaved(PRESENT))
                made = bundle.literal(text)
                self.assertEqual(ast.literal_eval(made), text)
                whole = found + f"\nEXTRA = {made}\n"
                self.assertEqual(len(re.findall(PEP_723, whole)), 1)

    def test_the_source_stands_in_it_as_it_was_reviewed(self) -> None:
        text = single_file(unsaved(PRESENT))
        self.assertIn(f"r'''{PRESENT}'''", text)
        parts = self.parts_of(text)
        self.assertEqual(parts["NAN-9001/repro.py"], PRESENT)
        for path in Path(harness.__file__).parent.glob("*.py"):
            self.assertEqual(parts[f"portable/harness/{path.name}"], path.read_text())
        self.assertIn(harness.source_digest(PRESENT), text)

    def test_its_header_is_of_pep_723_and_asks_for_torch(self) -> None:
        (found,) = re.finditer(PEP_723, single_file(unsaved(PRESENT)))
        self.assertEqual(found["type"], "script")
        lines = found["content"].splitlines()
        facts = tomllib.loads("\n".join(line[2:] for line in lines))
        self.assertEqual(facts["dependencies"], ["torch>=1.13"])
        self.assertEqual(facts["requires-python"], ">=3.8")

    def test_titles_cannot_leave_their_line(self) -> None:
        title = "x\nimport os\r\u2028# /// script\u202e"
        text = single_file(unsaved(PRESENT, title_en=title))
        self.assertEqual(len(re.findall(PEP_723, text)), 1)
        self.assertNotIn("\u202e", text)
        self.assertNotIn("\nimport os\r", text)

    def test_every_python_can_read_it(self) -> None:
        # What stands outside the texts; an old Python must come to its refusal.
        ast.parse(single_file(unsaved(PRESENT)), feature_version=(3, 4))
        for name in ("single", "doctor", "carried"):
            ast.parse(bundle.program(name), feature_version=(3, 8))


class BisectTest(FileTest):
    """`git bisect run` on a made repository whose torch has a history."""

    COMMITS = (
        *("good", "good", "broken", "good", "bad", "bad", "broken", "bad"),
        *("fixed", "fixed", "broken", "fixed"),
    )

    def setUp(self) -> None:
        super().setUp()
        self.repository = self.folder / "repository"
        (self.repository / "torch").mkdir(parents=True)
        self.git("init", "--quiet")
        for number, state in enumerate(self.COMMITS):
            self.commit(number, state)
        # The torch of this checkout, asked by a repro that only reads a number.
        self.python = str(self.folder / "checkout")
        Path(self.python).write_text(
            f"#!/bin/sh\nexport PYTHONPATH='{self.repository}'\n"
            f"exec '{sys.executable}' \"$@\"\n"
        )
        Path(self.python).chmod(0o755)
        text = runs.source(
            CHECKS, trigger="import torch\nreturn {'nonfinite': torch.BUG, 'grad': 1.0}"
        )
        self.path = self.write(single_file(unsaved(text)))

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        done = subprocess.run(
            ["git", *names, *arguments],
            cwd=self.repository,
            env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def commit(self, number: int, state: str) -> None:
        package = (self.folder / "lib/torch/__init__.py").read_text()
        body = f"{package}BUG = {int(state == 'bad')}\nNUMBER = {number}\n"
        if state == "broken":
            body = "raise ImportError('does not build')\n"
        (self.repository / "torch/__init__.py").write_text(body)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", f"{number} {state}")
        self.git("tag", f"c{number}")

    def bisected(self, *arguments: str) -> str:
        told = self.git("bisect", "run", self.python, str(self.path), *arguments)
        found = re.search(r"^([0-9a-f]{40}) is the first \w+ commit", told, re.M)
        assert found, told
        return self.git("log", "-1", "--format=%s", found[1]).strip()

    def test_it_finds_the_first_bad_commit_past_broken_ones(self) -> None:
        self.git("bisect", "start", "c7", "c0")
        self.assertEqual(self.bisected("--bisect"), "4 bad")

    def test_it_finds_the_fix(self) -> None:
        terms = ("--term-old=broken", "--term-new=fixed")
        self.git("bisect", "start", *terms)
        self.git("bisect", "fixed", "c11")
        self.git("bisect", "broken", "c5")
        self.assertEqual(self.bisected("--bisect", "--find-fix"), "8 fixed")


@tag("any_database", "long")
class SameVerdictTest(TestCase):
    """The same bytes give the same verdict here, on the site and alone."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_every_shipped_repro_travels_unchanged(self) -> None:
        rows = list(Repro.objects.select_related("record"))
        self.assertGreaterEqual(len(rows), 10)
        for row in rows:
            with self.subTest(f"{row.record_id} {row.name}"):
                text = single_file(row)
                self.assertEqual(len(re.findall(PEP_723, text)), 1)
                parts = TextTest().parts_of(text)
                self.assertEqual(parts[f"{row.record_id}/{row.name}.py"], row.source)
                self.assertLess(len(text.encode()), 256 * 1024)

    def test_the_file_says_what_run_repro_says(self) -> None:
        # Of those that run on a CPU, the one with the fewest checks.
        row = Repro.objects.get(record="NAN-0006", name="repro_model")
        alone, here = self.alone(row), self.here(row)
        for key in (*JUDGED, "workarounds", "refuted"):
            self.assertEqual(alone[key], here[key], key)
        self.assertEqual(shape(alone), shape(here))
        for body in (alone, here):
            self.assertTrue(receive_evidence(json.dumps(body).encode(), "x").created)

    def alone(self, row: Repro) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "file.py")
            path.write_text(single_file(row), encoding="utf-8")
            done = subprocess.run(
                [torch_python(), str(path), "--json"], capture_output=True, text=True
            )
        body: dict[str, Any] = json.loads(done.stdout)
        self.assertEqual(done.returncode, harness.EXIT_CODES[body["verdict"]])
        return body

    def here(self, row: Repro) -> dict[str, Any]:
        runs.install(torch_python(), slug="2.13.0-cpu")
        out = StringIO()
        with self.assertRaises(SystemExit):
            call_command(
                *("run_repro", row.record_id, "--repro", row.name, "--json"),
                *("--build", "2.13.0-cpu"),
                stdout=out,
                stderr=StringIO(),
            )
        body: dict[str, Any] = json.loads(out.getvalue())
        runs.Installation.objects.all().delete()
        runs.Build.objects.all().delete()
        return body


def shape(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Checks by name, trial and outcome, with the names of what they observed."""
    return [
        (row["name"], row["trial"], row["outcome"], row["reason"], *row["observations"])
        for row in body["checks"]
    ]


class ServedTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()

    def test_the_address_serves_the_file_and_the_source(self) -> None:
        address = "/api/v1/records/nan-9001/repro.py"
        response = self.client.get(address)
        self.assertEqual(response.content.decode(), single_file(self.repro))
        self.assertEqual(
            response["Content-Disposition"], 'inline; filename="NAN-9001-repro.py"'
        )
        again = self.client.get(address, headers={"if-none-match": response["ETag"]})
        self.assertEqual((again.status_code, again.content), (304, b""))
        bare = self.client.get(f"{address}?form=source")
        self.assertEqual(bare.content.decode(), self.repro.source)

    def test_what_does_not_exist_is_a_problem(self) -> None:
        for path, status in (
            ("records/NAN-9001/other.py", 404),
            ("records/NAN-0404/repro.py", 404),
            ("records/NAN-9001/repro.py?form=exe", 400),
            ("records/NAN-9001/repro.py?from=source", 400),
            ("doctor.py?x=1", 400),
        ):
            response = self.client.get(f"/api/v1/{path}")
            self.assertEqual(response.status_code, status, path)
            self.assertEqual(response["Content-Type"], "application/problem+json")

    def test_the_address_of_the_site_stands_in_the_file(self) -> None:
        with self.settings(SITE_URL="https://nan.example.org"):
            text = single_file(self.repro)
        self.assertIn("https://nan.example.org/NAN-9001", text)
