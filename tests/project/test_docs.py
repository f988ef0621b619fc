"""The pages about the project: their links, paths, commands and settings are real."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.management import get_commands
from django.test import SimpleTestCase

ROOT = Path(settings.BASE_DIR)
READMES = ("README.md", "README.zh.md")
MOST_LINES = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
# What names a file or, with a slash at its end, a folder of this project.
PATH = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+/?|[A-Za-z0-9_-]+/")
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}
# "`finish` in `runner/…/ledger.py`": a name, and the module that defines it.
DEFINED = re.compile(r"`(\w+)`\s(?:in|of)\s`([\w/.]+\.py)`")
COMMAND = re.compile(r"manage\.py ([a-z_]+)")
GOAL = re.compile(r"\bmake ([a-z][a-z-]*)")


# What these would write into a checkout.
UNHAPPY = {"a.py", "b", "uv.lock"}


def written(commands: str) -> Iterator[str]:
    """Paths below the checkout that commands of a shell write."""
    for line in commands.replace("\\\n", " ").splitlines():
        yield from re.findall(r"\s(?:-\w*o|--json|--sarif|>)\s+([\w./-]+)", line)
        if re.search(r"\s-\w*O\b", line):
            yield re.sub(r"\s+#.*", "", line).rpartition("/")[2]
        if re.search(r"\buv (audit|sync|lock)\b(?!.* --directory )", line):
            yield "uv.lock"


def pages() -> list[Path]:
    named = [*READMES, "CONTRIBUTING.md", "CHANGELOG.md"]
    return [ROOT / name for name in named] + sorted((ROOT / "docs").glob("*.md"))


def without_code(text: str) -> str:
    return FENCE.sub("", text)


def headings(text: str) -> list[str]:
    """The level of each heading, in order."""
    return [marks for marks, _title in HEADING.findall(without_code(text))]


def anchor(title: str) -> str:
    """As code hosts make it of a heading."""
    kept = re.sub(r"[^\w\- ]", "", title.lower())
    return kept.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    found = HEADING.findall(without_code(path.read_text()))
    return {anchor(title) for _marks, title in found}


def named_paths(text: str) -> Iterator[str]:
    """What stands in backticks outside fences and is a path below a folder of ours."""
    for code in CODE.findall(without_code(text)):
        if PATH.fullmatch(code) and code.split("/")[0] in FOLDERS:
            yield code


class ReadmeTest(SimpleTestCase):
    def setUp(self) -> None:
        self.texts = [(ROOT / name).read_text() for name in READMES]

    def test_each_is_read_in_minutes(self) -> None:
        for name, text in zip(READMES, self.texts, strict=True):
            self.assertLessEqual(len(text.splitlines()), MOST_LINES, name)

    def test_both_have_the_same_sections(self) -> None:
        english, chinese = map(headings, self.texts)
        self.assertGreater(len(english), 3)
        self.assertEqual(english, chinese)

    def test_both_have_the_same_commands(self) -> None:
        english, chinese = map(FENCE.findall, self.texts)
        self.assertGreater(len(english), 3)
        self.assertEqual(english, chinese)

    def test_what_commands_write_is_seen_by_neither_git_nor_the_linter(self) -> None:
        clients = FENCE.findall((ROOT / "docs" / "clients.md").read_text())
        here = "\n".join(re.findall(r"^ *\.venv/.*$", "\n".join(clients), re.MULTILINE))
        readme = {*written("\n".join(FENCE.findall(self.texts[0])))}
        paths = readme | {*written(here)}
        self.assertGreaterEqual(len(readme), 1)
        self.assertIn("var/kit.zip", paths)
        self.assertEqual({*written("curl -fsSO h/a.py\nx > b\nuv audit")}, UNHAPPY)
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in (".gitignore", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        git = ["git", "-c", "safe.directory=*"]
        subprocess.run([*git, "init", "--quiet"], cwd=folder, check=True)
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("import os, sys\nx = eval('1')\n")
        status = [*git, "status", "--porcelain", "--untracked-files=all"]
        seen = subprocess.run(status, cwd=folder, capture_output=True, text=True)
        self.assertEqual(seen.stdout.split()[1::2], [".gitignore", "pyproject.toml"])
        lint = [sys.executable, "-m", "ruff", "check", "--no-cache", "."]
        linted = subprocess.run(lint, cwd=folder, capture_output=True, text=True)
        self.assertEqual(linted.returncode, 0, linted.stdout)

    def test_both_lead_to_the_same_places(self) -> None:
        english, chinese = (
            [link for link in LINK.findall(text) if link not in READMES]
            for text in self.texts
        )
        self.assertEqual(
            [link.replace("record-en.png", "record-zh.png") for link in english],
            chinese,
        )


class PagesTest(SimpleTestCase):
    def test_every_link_within_the_project_leads_somewhere(self) -> None:
        count = 0
        for path in pages():
            for link in LINK.findall(without_code(path.read_text())):
                if "://" in link:
                    continue
                count += 1
                with self.subTest(f"{path.name}: {link}"):
                    name, _, place = link.partition("#")
                    target = (path.parent / name) if name else path
                    self.assertTrue(target.exists())
                    if place:
                        self.assertIn(place, anchors(target))
        self.assertGreater(count, 20)

    def test_every_path_that_is_named_exists(self) -> None:
        for path in pages():
            if path.name == "CHANGELOG.md":
                continue  # It tells of what was.
            for name in named_paths(path.read_text()):
                if name.split("/")[0] == "var":
                    continue  # made by running
                with self.subTest(f"{path.name}: {name}"):
                    self.assertTrue((ROOT / name).exists())

    def test_every_name_is_defined_where_a_page_says(self) -> None:
        count = 0
        for path in pages():
            for name, module in DEFINED.findall(path.read_text()):
                count += 1
                with self.subTest(f"{path.name}: {name} in {module}"):
                    source = (ROOT / module).read_text()
                    self.assertRegex(source, rf"(?m)(?:def|class) {name}\b|^{name}\b")
        self.assertGreater(count, 30)

    def test_the_map_names_every_package(self) -> None:
        named = set(named_paths((ROOT / "docs" / "architecture.md").read_text()))
        packages = {
            init.parent.relative_to(ROOT)
            for top in ("kb", "runner")
            for init in (ROOT / top).rglob("*/__init__.py")
        }
        # Named by what they hold, or with what is above them.
        inner = {"migrations", "commands", "templatetags", "search"}
        wanted = {f"{path}/" for path in packages if path.name not in inner}
        self.assertGreater(len(wanted), 10)
        self.assertEqual(wanted - named, set())

    def test_every_command_that_is_named_exists(self) -> None:
        known = set(get_commands())
        goals = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
        for path in pages():
            text = path.read_text()
            for name in COMMAND.findall(text):
                with self.subTest(f"{path.name}: manage.py {name}"):
                    self.assertIn(name, known)
            for code in (*CODE.findall(text), *FENCE.findall(text)):
                for name in GOAL.findall(code):
                    with self.subTest(f"{path.name}: make {name}"):
                        self.assertIn(name, goals)

    def test_every_page_says_first_what_it_is_for(self) -> None:
        for path in sorted((ROOT / "docs").glob("*.md")):
            with self.subTest(path.name):
                _title, gap, first = path.read_text().split("\n")[:3]
                self.assertEqual(gap, "")
                self.assertRegex(first, r"^For \w")

    def test_what_make_attack_runs_is_what_the_page_lists(self) -> None:
        makefile = (ROOT / "Makefile").read_text()
        listed = re.findall(
            r"`(tests/\S+)\.py`", (ROOT / "docs/security.md").read_text()
        )
        run = makefile.partition("ATTACKS := ")[2].partition("\nLOCK")[0]
        # Of a module that does more, one class.
        self.assertEqual(
            sorted(re.findall(r"tests(?:\.[a-z_]+)+", run)),
            sorted(name.replace("/", ".") for name in listed),
        )


class CommandsTest(SimpleTestCase):
    def test_what_is_copied_runs_under_the_python_with_django(self) -> None:
        kinds = ("*.html", "*.py", "*.md")
        shown = [
            path
            for folder in ("config", "docs", "kb", "runner", "templates")
            for kind in kinds
            for path in (ROOT / folder).rglob(kind)
        ]
        other = re.compile(r"(?<!\.venv/bin/)python manage\.py")
        wrong = [str(path) for path in shown if other.search(path.read_text())]
        self.assertEqual(wrong, [])


class SettingsTest(SimpleTestCase):
    def test_each_has_a_row_in_the_table(self) -> None:
        source = (ROOT / "config" / "settings.py").read_text()
        read = set(re.findall(r'env_[a-z]+\(\s*"([A-Z_]+)"', source)) | {"DATA_DIR"}
        self.assertIn("PORT", read)
        page = (ROOT / "docs" / "operate.md").read_text()
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        cells = [line.split("|")[1] for line in rows]
        named = {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}
        self.assertEqual(named, read)
