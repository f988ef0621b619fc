"""`lint PATH…`: formats, settings, exit statuses, files that cannot be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

from kb.rules import sarif
from kb.rules.settings import WrongUse, read_settings, table_by_lines, table_of
from tests.support import sarif_schema

TRAP = """from torch.utils.checkpoint import checkpoint
frozen_layers = 2

def run(block, x):
    return checkpoint(block, x)
"""
HALF = "import torch\ny = torch.ones(3).half().masked_fill(mask, -1e9)\n"
CLEAN = "import torch\n\nprint(torch.ones(3))\n"
TOML = """[tool.other]
select = ["x"]

[tool.doesitnan.lint]
ignore = [
    "NAN-0002",  # by design here
]
severity = "warning"

[tool.last]
"""


class Linted(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def lint(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        command = [sys.executable, str(settings.BASE_DIR / "kb/rules/__main__.py")]
        home = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "home")}
        done = subprocess.run(
            [*command, "--lang", "en", *arguments],
            cwd=self.folder,
            env=home,
            input=stdin,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr


class CommandTest(Linted):
    def test_exit_statuses(self) -> None:
        self.write("trap.py", TRAP)
        self.write("clean.py", CLEAN)
        self.assertEqual(self.lint("clean.py")[0], 0)
        self.assertEqual(self.lint("clean.py", "trap.py")[0], 1)
        for wrong in (
            ["nowhere.py"],
            [],
            ["--format", "xml", "trap.py"],
            ["--select", "all", "trap.py"],
            ["--select", "NAN-9999", "trap.py"],
            ["--config", "nowhere.toml", "trap.py"],
        ):
            with self.subTest(wrong):
                self.assertEqual(self.lint(*wrong)[0], 2)
        status, _out, err = self.lint("trap.py", "--baseline", "nowhere.json")
        self.assertEqual(status, 2)
        self.assertTrue(err.endswith(": nowhere.json: No such file or directory\n"))

    def test_text_names_the_place_and_the_record(self) -> None:
        self.write("a/trap.py", TRAP)
        status, out, err = self.lint("a")
        self.assertEqual(status, 1)
        self.assertRegex(out, r"^a/trap\.py:5:12: warning NAN-0002 This checkpoint is")
        self.assertIn("findings: 1, files: 1", err)
        self.assertIn("reentrant 的", self.lint("a", "--lang", "zh")[1])

    def test_of_a_package_only_what_its_file_trains_through(self) -> None:
        # A file alone shows no more, and the same text is cached apart.
        text = "def far(a, b):\n    return ((a - b) ** 2).sum(-1).sqrt()\n"
        self.write("alone/far.py", text)
        self.write("package/far.py", text)
        self.write("package/__init__.py", "")
        for _again in range(2):
            found = self.lint(".", "--severity", "note")[1]
            self.assertIn("alone/far.py:2:12: note NAN-0016", found)
            self.assertNotIn("package/far.py", found)

    def test_notes_are_for_those_who_ask(self) -> None:
        self.write(
            "far.py", "def far(a, b):\n    return ((a - b) ** 2).sum(-1).sqrt()\n"
        )
        self.assertEqual(self.lint("far.py")[0], 0)
        asked = (["--severity", "note"], ["--select", "NAN-0016"])
        for arguments in asked:
            self.assertIn("note NAN-0016", self.lint("far.py", *arguments)[1])
        refused = ["--select", "NAN-0016", "--severity", "warning"]
        self.assertEqual(self.lint("far.py", *refused)[0], 0)

    def test_of_one_place_the_more_severe_finding_is_told(self) -> None:
        self.write("frozen.py", TRAP)
        self.write("open.py", TRAP.replace("frozen_", ""))
        out = self.lint(".", "--severity", "note")[1]
        places = [line.split(" N")[0] for line in out.splitlines()[::2]]
        wanted = ["./frozen.py:5:12: warning", "./open.py:5:12: note"]
        self.assertEqual(places, wanted)

    def test_input_from_a_pipe(self) -> None:
        self.assertRegex(self.lint("-", stdin=TRAP)[1], r"^-:5:12: ")

    def test_what_is_no_python_is_named_and_stops_nothing(self) -> None:
        self.write("bad.py", "def f(:\n")
        self.write("binary.py", "x")
        (self.folder / "binary.py").write_bytes(b"\xff\xfe\x00x")
        self.write("nul.py", "checkpoint\x00(f, x)")
        self.write("trap.py", TRAP + "def f(:\n")
        self.write("zz.py", HALF)
        (self.folder / "gone.py").symlink_to("nowhere.py")
        os.mkfifo(self.folder / "pipe.py")
        with (self.folder / "large.py").open("wb") as file:
            file.truncate(200_000_000)
        reasons = {
            "bad.py": "line 1: invalid syntax",
            "binary.py": "invalid or missing encoding declaration",
            "gone.py": "No such file or directory",
            "large.py": "it has more than 2000000 characters",
            "nul.py": "source code string cannot contain null bytes",
            "pipe.py": "it is no regular file",
            "trap.py": "line 6: invalid syntax",
        }
        status, out, err = self.lint(".")
        self.assertEqual(status, 2)
        self.assertRegex(out, r"\A\./zz\.py:2:5: error NAN-0014.*\n.*\n\Z")
        told = dict(line.split(": not read: ") for line in err.splitlines()[:-1])
        self.assertEqual(list(told), [f"./{name}" for name in reasons])
        for name, text in reasons.items():
            self.assertIn(text, told[f"./{name}"])
        document = json.loads(self.lint(".", "--format", "json")[1])
        rows = {row["path"]: row["problem"] for row in document["unreadable"]}
        self.assertEqual(rows, told)
        document = json.loads(self.lint(".", "--format", "sarif")[1])
        self.assertEqual(sarif_schema.problems(document), [])
        (done,) = document["runs"][0]["invocations"]
        self.assertFalse(done["executionSuccessful"])
        self.assertEqual(len(done["toolExecutionNotifications"]), len(reasons))
        named = self.lint("zz.py", "nowhere.py", "pipe.py")
        self.assertEqual(named[0], 2)
        self.assertIn("zz.py:2:5: error NAN-0014", named[1])
        self.assertEqual(self.lint(".", "--write-baseline", "old.json")[0], 2)

    def test_what_is_empty_is_read(self) -> None:
        self.write("a/__init__.py", "")
        self.write("a/words.py", "# only a comment: x ** 2\n")
        self.assertEqual(self.lint("a"), (0, "", "findings: 0, files: 2\n"))

    def test_json(self) -> None:
        self.write("trap.py", TRAP)
        document = json.loads(self.lint("trap.py", "--format", "json")[1])
        (found,) = document["findings"]
        self.assertEqual(document["schema"], "doesitnan.lint/1")
        self.assertEqual(
            [found[key] for key in ("record", "rule", "severity", "line", "column")],
            ["NAN-0002", "reentrant_behind_frozen", "warning", 5, 12],
        )
        self.assertEqual(found["fix"]["text"], ", use_reentrant=False")

    def test_sarif(self) -> None:
        self.write("trap.py", TRAP)
        self.write("half.py", HALF)
        document = json.loads(self.lint(".", "--format", "sarif")[1])
        self.assertEqual(sarif_schema.problems(document), [])
        (run,) = document["runs"]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        self.assertEqual(rules, ["NAN-0002", "NAN-0014"])
        for result in run["results"]:
            self.assertIn(result["ruleId"], rules)
            self.assertIn(result["level"], ("error", "warning", "note"))
            (place,) = result["locations"]
            region = place["physicalLocation"]["region"]
            self.assertLessEqual(region["startLine"], region["endLine"])
            self.assertGreaterEqual(region["startColumn"], 1)
        prints = [result["partialFingerprints"] for result in run["results"]]
        self.write("trap.py", "# above\n" + TRAP)
        again = json.loads(self.lint(".", "--format", "sarif")[1])["runs"][0]["results"]
        self.assertEqual(prints, [result["partialFingerprints"] for result in again])
        (fix,) = [result["fixes"] for result in run["results"] if "fixes" in result]
        (change,) = fix[0]["artifactChanges"]
        self.assertEqual(change["artifactLocation"]["uri"], "trap.py")

    def test_sarif_of_nothing_and_of_any_name(self) -> None:
        nothing = json.loads(self.lint(".", "--format", "sarif")[1])
        self.assertEqual(sarif_schema.problems(nothing), [])
        self.write("a trap, 100%.py", TRAP)
        self.write("训练.py", TRAP)
        document = json.loads(self.lint(".", "--format", "sarif")[1])
        self.assertEqual(sarif_schema.problems(document), [])
        places = {
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            for result in document["runs"][0]["results"]
        }
        self.assertEqual(places, {"a%20trap%2C%20100%25.py", "%E8%AE%AD%E7%BB%83.py"})

    def test_what_is_no_sarif_is_seen(self) -> None:
        document = sarif.log([], [], complete=True)
        self.assertEqual(sarif_schema.problems(document), [])
        place = sarif.place_of("x.py", {"startLine": 0})
        document["runs"][0]["results"] = [
            sarif.result("NAN-0001", "fatal", "said", place, [], {})
        ]
        self.assertEqual(len(sarif_schema.problems(document)), 2)
        place["artifactLocation"]["uri"] = "a b.py"
        self.assertEqual(len(sarif_schema.problems(document)), 3)

    def test_which_files(self) -> None:
        for name in (
            *("a.py", "b/c.py", "b/skip/d.py", ".hidden/e.py"),
            *("env/pyvenv.cfg", "env/f.py", "node_modules/g.py", "h.txt"),
            *("tests/i.py", "b/test_j.py", "b/k_test.py", "test_l.py"),
        ):
            self.write(name, TRAP)
        self.write("pyproject.toml", '[tool.doesitnan.lint]\nexclude = ["b/skip"]\n')
        named = ("b/c.py", "b/test_j.py")
        document = json.loads(self.lint(".", *named, "--format", "json")[1])
        paths = sorted({row["path"] for row in document["findings"]})
        self.assertEqual(paths, ["./a.py", "./b/c.py", *named])

    def test_many_files_by_several_processes(self) -> None:
        for number in range(70):
            self.write(f"p/m{number:02}.py", TRAP)
        document = json.loads(self.lint("p", "--jobs", "2", "--format", "json")[1])
        paths = [row["path"] for row in document["findings"]]
        self.assertEqual(paths, [f"p/m{number:02}.py" for number in range(70)])

    def test_settings_of_the_project_and_of_the_command(self) -> None:
        self.write("src/trap.py", TRAP)
        self.write("src/half.py", HALF)
        self.write("pyproject.toml", TOML)
        self.assertNotIn("NAN-0002", self.lint("src")[1])
        self.assertIn("NAN-0014", self.lint("src")[1])
        self.assertIn("NAN-0002", self.lint("src", "--ignore", "")[1])
        only = self.lint("src", "--select", "NAN-0002", "--ignore", "NAN-0001")[1]
        self.assertNotIn("NAN-0014", only)
        self.assertEqual(self.lint("src", "--select", "NAN-0002")[0], 0)
        self.write("pyproject.toml", "[tool.doesitnan.lint]\nignored = []\n")
        status, _out, err = self.lint("src")
        self.assertEqual(status, 2)
        self.assertIn("unknown key ignored; known are select, ignore", err)

    def test_the_rules_are_listed(self) -> None:
        status, out, _err = self.lint("--list", "--severity", "error")
        self.assertEqual(status, 0)
        self.assertIn("NAN-0014 error fill_below_float16: ", out)
        self.assertNotIn(" warning ", out)


class SettingsTest(SimpleTestCase):
    def test_the_table_without_a_reader_of_toml(self) -> None:
        for text in (TOML, "", "[tool.doesitnan]\nlint = 1\n"[:16], "[a]\nb = [1]\n"):
            with self.subTest(text):
                self.assertEqual(table_by_lines(text), table_of(text))
        with self.assertRaises(ValueError):
            table_by_lines("[tool.doesitnan.lint]\nselect = {a = 1}\n")

    def test_values_that_cannot_be_meant(self) -> None:
        for line in (
            'select = "NAN-0001"',
            "ignore = [1]",
            'ignore = ["all"]',
            'severity = "high"',
            "[broken",
        ):
            with self.subTest(line), tempfile.NamedTemporaryFile("w+") as file:
                file.write(f"[tool.doesitnan.lint]\n{line}\n")
                file.flush()
                with self.assertRaises(WrongUse):
                    read_settings(file.name, ".")


class HookTest(SimpleTestCase):
    def test_the_hook_names_a_program_that_can_be_started(self) -> None:
        text = (settings.BASE_DIR / ".pre-commit-hooks.yaml").read_text()
        self.assertIn("language: script", text)
        entry = text.partition("entry: ")[2].partition("\n")[0]
        path = settings.BASE_DIR / entry
        self.assertTrue(path.stat().st_mode & 0o111)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(TRAP)
            file.flush()
            done = subprocess.run([path, file.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)


class KeptTest(Linted):
    """What is kept between two runs: a cache, a baseline."""

    def cached(self, *arguments: str) -> tuple[int, str, str]:
        return self.lint("--cache-dir", str(self.folder / "cache"), *arguments)

    def entries(self) -> list[Path]:
        return sorted((self.folder / "cache").rglob("*.json"))

    def test_a_second_run_takes_what_the_first_found(self) -> None:
        self.write("trap.py", TRAP)
        first = self.cached("trap.py")
        (entry,) = self.entries()
        self.assertEqual(self.cached("trap.py"), first)
        # It is read: with other places in it the answer is another one.
        entry.write_text(entry.read_text().replace(" 5, 11,", " 4, 0,"))
        self.assertIn("trap.py:4:1: ", self.cached("trap.py")[1])
        self.assertEqual(self.cached("trap.py", "--no-cache"), first)

    def test_a_damaged_or_missing_entry_is_made_again(self) -> None:
        self.write("trap.py", TRAP)
        first = self.cached("trap.py")
        (entry,) = self.entries()
        for damage in ("", "[[0, 1]]", "[[9999, 1, 2, 3, 4, null]]", "{"):
            with self.subTest(damage):
                entry.write_text(damage)
                self.assertEqual(self.cached("trap.py"), first)
                self.assertEqual(self.entries(), [entry])
        entry.unlink()
        self.assertEqual(self.cached("trap.py"), first)

    def test_other_content_or_settings_are_other_findings(self) -> None:
        self.write("trap.py", TRAP)
        self.cached("trap.py")
        self.assertEqual(self.cached("trap.py", "--ignore", "NAN-0002")[0], 0)
        self.write("trap.py", CLEAN)
        self.assertEqual(self.cached("trap.py")[0], 0)
        self.assertEqual(len(self.entries()), 2)

    def test_nothing_of_the_user_is_deleted_from_the_folder(self) -> None:
        self.write("trap.py", TRAP)
        mine = self.write("cache/mine/notes.txt", "mine")
        old = self.write(f"cache/{'0' * 32}/old.json", "[]")
        self.cached("trap.py")
        self.assertTrue(mine.exists())
        self.assertFalse(old.exists())

    def test_a_folder_that_cannot_be_written_is_no_matter(self) -> None:
        self.write("trap.py", TRAP)
        self.write("cache", "a file")
        self.assertEqual(self.cached("trap.py")[0], 1)

    def test_a_baseline_leaves_out_what_was_there(self) -> None:
        self.write("trap.py", TRAP)
        self.assertEqual(self.lint("trap.py", "--write-baseline", "old.json")[0], 0)
        status, out, _err = self.lint("trap.py", "--baseline", "old.json")
        self.assertEqual((status, out), (0, ""))
        self.write("trap.py", "# a line above\n" + TRAP)
        self.assertEqual(self.lint("trap.py", "--baseline", "old.json")[0], 0)
        # One more of the same text is new.
        self.write("trap.py", TRAP + TRAP[TRAP.index("def run") :])
        status, out, _err = self.lint("trap.py", "--baseline", "old.json")
        self.assertEqual((status, out.count("NAN-0002")), (1, 1))
        self.assertIn("trap.py:7:12: ", out)
        for text in ("{", "[]", '{"schema": "x"}'):
            with self.subTest(text):
                self.write("old.json", text)
                self.assertEqual(self.lint("trap.py", "--baseline", "old.json")[0], 2)


class PathsTest(Linted):
    def test_excluded_on_the_command_line(self) -> None:
        self.write("a/trap.py", TRAP)
        self.write("b/trap.py", TRAP)
        self.write("pyproject.toml", '[tool.doesitnan.lint]\nexclude = ["a"]\n')
        self.assertEqual(self.lint(".")[0], 1)
        self.assertEqual(self.lint(".", "--exclude", "c, b/*.py")[0], 0)

    def test_what_is_piped_in_has_a_name(self) -> None:
        name = ("-", "--stdin-filename", "src/trap.py")
        status, out, _err = self.lint(*name, stdin=TRAP)
        self.assertEqual(status, 1)
        self.assertTrue(out.startswith("src/trap.py:5:12: warning NAN-0002 "), out)
        self.assertEqual(self.lint(*name, "--exclude", "src", stdin=TRAP)[0], 0)

    def test_below_each_finding_stands_its_line(self) -> None:
        self.write("trap.py", TRAP)
        lines = self.lint("trap.py")[1].splitlines()
        self.assertEqual(lines[1:], ["    return checkpoint(block, x)"])
