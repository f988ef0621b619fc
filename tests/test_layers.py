"""Imports point one way: config → runner → kb; the harness needs nothing at all."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

ROOT = Path(settings.BASE_DIR)
STDLIB_ONLY = (
    *("harness", "sandbox", "jail", "pool", "build_probe", "build_features"),
    *("devices", "nvml", "gpu_lock", "telemetry", "measured"),
)
CELERY_ALLOWED = {"config/celery.py", "runner/worker/tasks.py", "runner/transport.py"}


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names of every import in a file, also those inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


class LayersTest(SimpleTestCase):
    def assert_no_import(self, paths: Iterator[Path], *names: str) -> None:
        wrong = [
            f"{path.relative_to(ROOT)} imports {name}"
            for path in paths
            for name in imported(path) & set(names)
        ]
        self.assertEqual(wrong, [])

    def test_the_knowledge_base_knows_nothing_of_runs(self) -> None:
        self.assert_no_import(sources("kb"), "runner", "config", "celery", "kombu")

    def test_the_runner_knows_nothing_of_the_deployment(self) -> None:
        self.assert_no_import(sources("runner"), "config")

    def test_torch_is_imported_by_nobody(self) -> None:
        site = (path for path in sources("config", "kb", "runner"))
        outside = (path for path in site if path.name != "harness.py")
        self.assert_no_import(outside, "torch", "numpy", "triton")

    def test_celery_has_three_doors(self) -> None:
        site = sources("config", "kb", "runner")
        inside = (
            path for path in site if str(path.relative_to(ROOT)) not in CELERY_ALLOWED
        )
        self.assert_no_import(
            (path for path in inside if path != ROOT / "config" / "__init__.py"),
            "celery",
            "kombu",
        )

    def test_what_runs_beside_torch_needs_the_standard_library_only(self) -> None:
        allowed = set(sys.stdlib_module_names) | {"pynvml", "runner"}
        jail = {path.stem for path in sources("runner/sandbox/jail")}
        for name in STDLIB_ONLY:
            file = ROOT / "runner" / f"{name}.py"
            for path in [file] if file.exists() else sources(f"runner/{name}"):
                # The harness reaches for torch only in the child process.
                extra = {"torch", "numpy", "triton"} if name == "harness" else set()
                if name == "jail":
                    extra = jail  # They run by path, as neighbours.
                self.assertEqual(imported(path) - allowed - extra, set(), path)

    def test_the_harness_starts_without_site_packages(self) -> None:
        harness = ROOT / "runner" / "harness.py"
        done = subprocess.run(
            [sys.executable, "-I", "-S", harness, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
