"""Imports and templates point one way: floors, and none reaches for one above it.

A floor may import itself and what stands below. Every module stands on a floor: a new
package has to be given its place here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

ROOT = Path(settings.BASE_DIR)
APPS = ("config", "kb", "portable", "runner")
# From the ground up. Rooms of one floor do not know each other.
FLOORS: tuple[str, ...] = (
    "portable.harness portable.nan_probe portable.masking portable.known_answers",
    "portable.answer",
    "portable.doesitnan",
    "kb.languages kb.progress kb.rules runner.exits runner.limits",
    "kb.wording kb.apps",
    "kb.choices",
    "kb.problems kb.badges",
    "kb.models kb.environments kb.records kb.search.reading",
    "kb.versions kb.search.index kb.addresses",
    "kb.findings kb.search.ranking",
    "kb.publishing kb.releases",
    "kb.lookup kb.syndication",
    "kb.api kb.pages kb.admin",
    "kb.templatetags kb.management.commands",
    # --- of a checkout without Django ---
    "runner.sandbox.jail runner.parameters runner.gpus",
    "runner.sandbox",
    "runner.pool",
    "runner.pool.__main__ runner.sandbox.__main__",
    # --- of the site ---
    "runner.models runner.transport",
    "runner.builds runner.run_sentences",
    "runner.evidence",
    "runner.takeaway",
    "runner.runs",
    "runner.bisecting runner.captures runner.sweeps",
    "runner.access runner.worker",
    "runner.apps runner.pages",
    "runner.authoring",
    "runner.api runner.admin runner.templatetags",
    "runner.agents",
    "runner.management.commands",
    "config.datadir",
    "config.settings config.i18n config.middleware config.api_schema config.gunicorn",
    "config.access config.api_page config.api_urls config.celery config.bootstrap "
    "config.serving",
    "config.page_cache",
    "config config.urls config.wsgi",
)
FLOOR_OF = {room: at for at, floor in enumerate(FLOORS) for room in floor.split()}
# How many lines of Python a room may have, migrations left out. A room may shrink, and
# then its number follows; who wants more for one says in the commit what it is for.
LINES = {
    "config": 1845,
    "kb": 1400,
    "kb.admin": 180,
    "kb.api": 1871,
    "kb.environments": 1484,
    "kb.findings": 1315,
    "kb.lookup": 2945,
    "kb.management": 192,
    "kb.models": 590,
    "kb.pages": 2746,
    "kb.publishing": 494,
    "kb.records": 2816,
    "kb.releases": 862,
    "kb.rules": 3833,
    "kb.search": 4796,
    "kb.syndication": 1237,
    "kb.templatetags": 642,
    "kb.versions": 1119,
    "portable": 983,
    "portable.harness": 4451,
    "portable.nan_probe": 5735,
    "runner": 470,
    "runner.admin": 286,
    "runner.agents": 700,
    "runner.api": 1728,
    "runner.authoring": 1239,
    "runner.bisecting": 316,
    "runner.builds": 2089,
    "runner.captures": 608,
    "runner.evidence": 1698,
    "runner.gpus": 955,
    "runner.management": 2058,
    "runner.models": 771,
    "runner.pages": 4479,
    "runner.pool": 1562,
    "runner.runs": 2045,
    "runner.sandbox": 4223,
    "runner.sweeps": 932,
    "runner.takeaway": 4298,
    "runner.templatetags": 371,
    "runner.worker": 1215,
}
# A module has no more lines than one reads at once, but for these; none joins them.
MOST_LINES = 400
LONGER = {
    "kb.api.serializers": 430,
    "kb.environments.package_lines": 436,
}
# Runs where there is no Django: beside torch, or from a checkout alone.
WITHOUT_DJANGO = (
    *("portable.harness", "runner.exits", "runner.sandbox", "runner.pool"),
    *("runner.gpus", "runner.builds.probe", "runner.builds.features", "kb.rules"),
)
CELERY_ALLOWED = {
    *("config/__init__.py", "config/celery.py"),
    *("runner/worker/tasks.py", "runner/transport.py"),
}
# They run by path, as neighbours, under the Python of a build or of a user.
BY_PATH = ("runner/sandbox/jail", "runner/takeaway/programs")

TAG = re.compile(r"{% (load|include|extends) (.*?) %}")


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def room_of(module: str) -> str:
    """The longest name in FLOORS that the module is or stands in; "" for none."""
    while module and module not in FLOOR_OF:
        module = module.rpartition(".")[0]
    return module


@cache
def imported(path: Path) -> frozenset[str]:
    """Full names of all that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{source_of(node, path)}.{alias.name}" for alias in node.names}
    return frozenset(found)


def source_of(node: ast.ImportFrom, path: Path) -> str:
    """The full name of what a statement imports from, also of a relative one."""
    if not node.level:
        return str(node.module)
    folders = path.relative_to(ROOT).parent.parts
    above = folders[: len(folders) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def top_levels(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def lines_by_room() -> Counter[str]:
    """Of each package below the apps; modules beside the packages are the app's own."""
    found: Counter[str] = Counter()
    for path in sources(*APPS):
        app, *within = path.relative_to(ROOT).parts
        room = f"{app}.{within[0]}" if len(within) > 1 else app
        found[room] += len(path.read_text().splitlines())
    return found


class LayersTest(SimpleTestCase):
    def test_no_room_grows_beyond_its_lines(self) -> None:
        found = lines_by_room()
        grown = {room: n for room, n in found.items() if n > LINES.get(room, 0)}
        self.assertEqual(grown, {}, "more lines than LINES gives these rooms")
        self.assertEqual(LINES.keys() - found.keys(), set())

    def test_no_module_is_longer_than_one_reads(self) -> None:
        long = {
            name: lines
            for path in sources(*APPS)
            if (lines := len(path.read_text().splitlines()))
            > LONGER.get(name := name_of(path), MOST_LINES)
        }
        self.assertEqual(long, {})

    def test_every_module_stands_on_a_floor(self) -> None:
        homeless = [
            name_of(path)
            for path in sources(*APPS)
            # What only says what a package is for stands nowhere.
            if imported(path) and room_of(name_of(path)) in ("", *APPS)
            if name_of(path) not in FLOOR_OF
        ]
        self.assertEqual(homeless, [])
        for room in FLOOR_OF:
            path = ROOT.joinpath(*room.split("."))
            self.assertTrue(path.is_dir() or path.with_suffix(".py").exists(), room)

    def test_no_import_points_upwards(self) -> None:
        wrong = []
        for path in sources(*APPS):
            own = room_of(name_of(path))
            for name in imported(path):
                room = room_of(name)
                same_floor = FLOOR_OF.get(room) == FLOOR_OF.get(own)
                if not room or room == own:
                    continue
                if same_floor or FLOOR_OF[room] > FLOOR_OF[own]:
                    wrong.append(f"{name_of(path)} imports {name}")
        self.assertEqual(wrong, [])

    def test_the_knowledge_base_knows_nothing_of_runs(self) -> None:
        for path in sources("kb"):
            self.assertLessEqual({"runner", "config"} & top_levels(path), set(), path)

    def test_no_template_points_upwards(self) -> None:
        above = {path.stem for path in (ROOT / "runner" / "templatetags").glob("*.py")}
        templates = ROOT / "templates"
        for path in templates.rglob("*.*"):
            if path.is_relative_to(templates / "runner"):
                continue
            tags = [(tag, said.split()) for tag, said in TAG.findall(path.read_text())]
            loaded = {name for tag, said in tags if tag == "load" for name in said}
            self.assertLessEqual(loaded & above, set(), path)
            shown = [said[0] for tag, said in tags if tag != "load"]
            self.assertEqual([one for one in shown if one.startswith('"runner/')], [])
        for path in sources("kb"):
            self.assertNotIn('"runner/', path.read_text(), path)

    def test_no_package_is_a_corridor(self) -> None:
        for folder in {path.parent for path in sources(*APPS)}:
            modules = [path for path in folder.glob("*.py") if path.stem != "__init__"]
            self.assertLessEqual(len(modules), 25, folder)

    def test_torch_is_imported_by_nobody(self) -> None:
        for path in sources(*APPS):
            if ROOT / "portable" not in path.parents:
                found = {"torch", "numpy", "triton"} & top_levels(path)
                self.assertEqual(found, set(), path)

    def test_celery_has_three_doors(self) -> None:
        for path in sources(*APPS):
            if str(path.relative_to(ROOT)) not in CELERY_ALLOWED:
                found = {"celery", "kombu"} & top_levels(path)
                self.assertEqual(found, set(), path)

    def test_what_runs_without_django_needs_the_standard_library(self) -> None:
        for path in sources("portable", "runner"):
            name = f"{name_of(path)}."
            if not any(name.startswith(f"{room}.") for room in WITHOUT_DJANGO):
                continue
            allowed = set(sys.stdlib_module_names) | {"pynvml", "portable", "runner"}
            if str(path.parent.relative_to(ROOT)) in BY_PATH:
                allowed |= {neighbour.stem for neighbour in path.parent.glob("*.py")}
            self.assertEqual(top_levels(path) - allowed, set(), path)
            for module in imported(path):
                if module.startswith("runner."):
                    self.assertTrue(module.startswith(WITHOUT_DJANGO), (path, module))

    def test_the_harness_starts_without_site_packages(self) -> None:
        harness = ROOT / "portable" / "harness"
        done = subprocess.run(
            [sys.executable, "-I", "-S", harness, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
