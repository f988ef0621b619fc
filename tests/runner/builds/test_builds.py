"""Builds of this host: probing, registering, installing, removing."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings, tag
from django.utils import timezone

from portable import harness
from runner.builds import registry, venvs
from runner.builds.candidates import interpreter_of
from runner.builds.probe import BuildError, Probed
from runner.models import Build, Installation
from tests.support.builds import torch_python
from tests.support.ordinary_user import NOBODY

ROOT = Path(settings.BASE_DIR)
READY, BROKEN, MISSING, INSTALLING = Installation.State
# A package named torch that can tell the harness who it is.
STAND_IN = """\
from types import SimpleNamespace as N
__version__ = "{version}"
version = N(cuda=None, hip=None, git_version="0" * 40)
cuda = N(is_available=lambda: False)
backends = N(cudnn=N(version=lambda: None), mkldnn=N(is_available=lambda: False))
distributed = N(is_available=lambda: True)
nn = N(functional=N(rms_norm=len))
_C = N(_GLIBCXX_USE_CXX11_ABI=True)
"""


class Folder(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.lines: list[str] = []


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def own_python(path: Path) -> Path:
    """Somebody's own interpreter with torch, which may go away."""
    return program(path, f'exec "{torch_python()}" "$@"')


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Nobody but root may enter this folder, and we are not root."""
    before = os.geteuid()
    folder.chmod(0)
    try:
        os.seteuid(before or NOBODY)
        yield
    finally:
        os.seteuid(before)
        folder.chmod(0o700)


def stand_in(python: Path, version: str = "9.9.0+cpu") -> Path:
    """A Python whose torch is a package that only says who it is."""
    package = python.parent / "lib" / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(STAND_IN.format(version=version))
    (package / "version.py").touch()
    lib = package.parent
    return program(python, f'PYTHONPATH="{lib}" exec "{sys.executable}" "$@"')


class RemovalTest(Folder):
    def test_one_that_is_swept_meanwhile_is_removed_all_the_same(self) -> None:
        build, delete = self.folder / "2.0.0", shutil.rmtree
        build.mkdir()

        def swept_meanwhile(folder: Path, **options: Any) -> None:
            delete(folder, **options)
            with mock.patch.object(shutil, "rmtree", delete):
                venvs.sweep(self.folder)

        with mock.patch.object(shutil, "rmtree", swept_meanwhile):
            venvs.remove(build)
        self.assertEqual(list(self.folder.iterdir()), [])


@tag("any_database")  # what a Python says
class RegisterTest(Folder, TestCase):
    kept: Path
    python: Path
    probed: Probed
    installation: Installation

    @classmethod
    def setUpTestData(cls) -> None:
        cls.kept = Path(tempfile.mkdtemp(prefix="with space "))
        cls.addClassCleanup(shutil.rmtree, cls.kept)
        cls.python = own_python(cls.kept / "bin" / "python")
        cls.probed = registry.probe(cls.python)
        cls.installation = registry.save(cls.python, cls.probed)

    def setUp(self) -> None:
        super().setUp()
        own_python(self.python)
        self.slug = self.installation.build_id or ""

    def test_a_build_is_what_its_torch_says(self) -> None:
        hello = self.probed.identity
        build = Build.objects.get()
        self.assertEqual(self.installation.build, build)
        self.assertEqual((build.slug, build.raw), (hello["slug"], hello["raw"]))
        self.assertEqual(build.python, hello["python"])
        self.assertEqual(self.installation.interpreter, str(self.python))
        self.assertEqual(self.installation.state, READY)
        self.assertFalse(self.installation.managed)
        packages = self.installation.packages
        self.assertEqual(packages["numpy"], hello["packages"]["numpy"])
        self.assertEqual(registry.installation_for(build.slug), self.installation)
        self.assertEqual(registry.default_installation(), self.installation)
        self.assertIsNone(registry.installation_for("1.0.0-cpu"))
        facts = self.installation.facts
        self.assertEqual(facts["modules"]["torch"], hello["dist"])
        self.assertEqual(
            facts["features"]["sdpa"], harness.release(hello["raw"]) > (2,)
        )
        self.assertTrue(facts["features"]["distributed"])

    def test_what_a_build_can_do_is_asked_again_only_when_it_changed(self) -> None:
        python = stand_in(self.folder / "bin" / "python")
        # An environment may be named by its folder.
        row = registry.add_python(self.folder)
        self.assertEqual((row.interpreter, row.build_id), (str(python), "9.9.0-cpu"))
        self.assertEqual(
            [name for name, has in row.facts["features"].items() if has],
            ["rms_norm", "distributed"],
        )
        Installation.objects.filter(pk=row.pk).update(
            facts={**row.facts, "cxx": "kept"}
        )
        self.assertEqual(registry.register(python).facts["cxx"], "kept")
        version = python.parent / "lib" / "torch" / "version.py"
        os.utime(version, (1, 1))
        self.assertNotEqual(registry.register(python).facts["cxx"], "kept")

    def test_another_torch_of_the_same_name_is_another_build(self) -> None:
        Build.objects.update(git="1" * 40)
        with self.assertRaisesMessage(BuildError, "must not be mixed"):
            registry.save(self.python, self.probed)
        self.assertEqual(Build.objects.get().git, "1" * 40)

    def test_a_vanished_interpreter_serves_nothing(self) -> None:
        self.python.unlink()
        self.assertIsNone(registry.installation_for(self.slug))
        registry.register(self.python)
        self.assertEqual(Installation.objects.get().state, MISSING)
        self.assertTrue(Build.objects.filter(slug=self.slug).exists())

    def test_a_python_that_broke_says_why(self) -> None:
        program(
            self.python,
            "echo Traceback, most recent call last: >&2\n"
            "echo libsomething.so.1: no such library >&2; exit 3",
        )
        installation = registry.register(self.python)
        self.assertEqual(installation.state, BROKEN)
        self.assertIsNone(registry.default_installation())
        listed = self.listed()
        self.assertIn("    | libsomething.so.1: no such library\n", listed)
        self.assertIn("Traceback, most recent call last:", listed)
        page = self.client.get(f"/en/builds/{self.slug}/")
        self.assertContains(page, "Traceback, most recent call last:\n")
        self.assertContains(page, "libsomething.so.1: no such library")

    def test_an_interpreter_that_never_started_is_shown_too(self) -> None:
        python = program(self.folder / "python", "echo Illegal >&2; exit 4")
        registry.register(python)
        self.assertIn("unknown build: broken", self.listed())
        self.assertContains(self.client.get("/en/builds/"), "Illegal")

    def listed(self) -> str:
        out = StringIO()
        call_command("builds", "list", stdout=out)
        return out.getvalue()

    def test_the_list_says_what_each_build_is_and_can(self) -> None:
        nv = "2.6.0a0-df5bbc09d1.nv24.12"
        Build.objects.create(slug=nv, raw="2.6.0a0+df5bbc09d1.nv24.12")
        text = self.listed()
        self.assertIn(f"{self.slug}: ready ({self.python})", text)
        self.assertIn("distributed", text)
        self.assertIn(f"{nv}: not installed here", text)
        out = StringIO()
        call_command("builds", "list", "--json", stdout=out)
        found = {row["slug"]: row for row in json.loads(out.getvalue())["builds"]}
        self.assertEqual(found[nv]["state"], "not installed here")
        ready = found[self.slug]
        self.assertEqual((ready["state"], ready["raw"]), ("ready", ready["dist"]))
        self.assertIn("distributed", ready["capabilities"]["features"])
        page = self.client.get(f"/en/builds/{self.slug}/")
        self.assertContains(page, "distributed")

    def test_a_python_without_torch_is_refused(self) -> None:
        plain = self.folder / "plain"
        plain.write_text("")
        for path, said in (
            (self.folder / "nothing", "No such file or directory"),
            (self.folder, "No such file or directory"),
            (plain, "is not a Python that can be started"),
            (Path(sys.executable), "is no Python that has a torch"),
            (Path("/bin/false"), "is no Python that has a torch"),
        ):
            self.assert_refused(path, said)
        self.assertEqual(Installation.objects.count(), 1)

    def assert_refused(self, path: Path, said: str) -> None:
        """In one sentence, without a traceback."""
        with self.subTest(path), self.assertRaises(CommandError) as refused:
            call_command("builds", "add", "--python", str(path))
        text = str(refused.exception)
        self.assertIn(said, text)
        self.assertEqual(len(text.splitlines()), 1)
        self.assertEqual(refused.exception.returncode, 2)

    def test_a_path_that_is_closed_to_this_account(self) -> None:
        python = own_python(self.folder / "closed" / "bin" / "python")
        with closed(python.parent.parent):
            self.assert_refused(python, "Permission denied")
            self.assert_refused(python.parent.parent, "Permission denied")
            row = registry.register(interpreter_of(python))
            self.assertEqual(row.state, MISSING)
            Installation.objects.filter(pk=row.pk).update(state=READY, build=self.slug)
            self.assertNotIn(row, registry.installations_here())
            self.assertIn(row, registry.vanished(self.slug))

    def test_of_two_with_one_slug_the_list_says_which_one_runs_take(self) -> None:
        self.assertNotIn("Runs on", self.listed())
        own = own_python(self.folder / "z" / "bin" / "python")
        said = StringIO()
        call_command("builds", "add", "--python", str(own), stdout=said)
        taken = registry.installation_for(self.slug)
        assert taken
        line = f"Runs on {self.slug} take {taken.interpreter}, unless a stack asks"
        self.assertIn(line, said.getvalue())
        self.assertIn(line, self.listed())
        Installation.objects.filter(interpreter=str(own)).update(managed=True)
        self.assertIn(f"Runs on {self.slug} take {own}, ", self.listed())

    def test_scan_takes_what_is_known_and_what_is_declared(self) -> None:
        program(self.python, "exit 3")
        declared, gone = self.folder / "python", self.folder / "gone"
        stand_in(declared)
        own = self.folder / "builds"
        left = stand_in(own / "2.0.0" / "bin" / "python")
        (own / "2.0.0.incomplete").touch()
        named = [declared, gone, self.folder / "environment"]
        stand_in(self.folder / "environment" / "bin" / "python")
        with override_settings(BUILDS=named, BUILDS_DIR=own):
            self.assertEqual(registry.interrupted(), ["2.0.0"])
            rows = registry.scan(self.lines.append)
        found = {row.interpreter: row.state for row in rows}
        self.assertEqual(found[str(self.python)], BROKEN)
        self.assertEqual(found[str(declared)], READY)
        self.assertEqual(found[str(gone)], MISSING)
        self.assertIn(str(gone), "\n".join(self.lines))
        self.assertNotIn(sys.executable, found)
        # Named by its folder; and what an interrupted installation left is gone.
        self.assertEqual(found[str(self.folder / "environment/bin/python")], READY)
        self.assertNotIn(str(left), found)
        self.assertFalse(left.exists())

    def test_remove_forgets_a_foreign_environment_and_leaves_it(self) -> None:
        out = StringIO()
        call_command("builds", "remove", self.slug, stdout=out)
        self.assertIn("forgot", out.getvalue())
        self.assertTrue(self.python.exists())
        self.assertFalse(Installation.objects.exists())
        call_command("builds", "list", stdout=out)
        self.assertIn(f"{self.slug}: not installed here", out.getvalue())
        with self.assertRaisesMessage(CommandError, "is not installed on this host"):
            call_command("builds", "remove", self.slug)

    def test_remove_deletes_what_was_installed_here(self) -> None:
        with override_settings(BUILDS_DIR=self.folder):
            python = own_python(self.folder / "mine" / "bin" / "python")
            installation = registry.save(python, self.probed)
            self.assertGreater(installation.disk_bytes, 0)
            registry.remove(self.slug)
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertTrue(self.python.exists())


class ChoiceTest(TestCase):
    """Which of several installations of one build a repro gets."""

    slug = "2.6.0-cu124"
    commit = "b4ff1936c0ffee" + "0" * 26

    def setUp(self) -> None:
        Build.objects.create(slug=self.slug, raw="2.6.0+cu124")
        fla = f"git+https://example.org/fla@{self.commit}"
        self.plain = self.install("plain", {})
        self.old = self.install("old", {"transformers": "4.34.1"})
        self.new = self.install("new", {"transformers": "4.50.0", "peft": "0.15.0"})
        self.fla = self.install("fla", {"fla": fla, "triton": "3.2.0"})

    def install(self, name: str, with_: dict[str, str]) -> str:
        # The interpreter has to be there; the rest is as a probe would have it.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        Installation.objects.create(
            build_id=self.slug,
            host=registry.host_name(),
            interpreter=str(program(Path(folder.name) / name, "exit")),
            managed=True,
            state=READY,
            facts={
                "with": [f"{key}=={value}" for key, value in with_.items()],
                "modules": {"torch": "2.6.0", **with_},
            },
            probed_at=timezone.now(),
        )
        return name

    def chosen(self, **stack: str) -> str:
        row = registry.installation_for(self.slug, stack)
        return Path(row.interpreter).name if row else ""

    def test_a_repro_gets_what_its_stack_names_and_others_the_plain_one(self) -> None:
        self.assertEqual(self.chosen(), self.plain)
        self.assertEqual(self.chosen(transformers="4.34.1"), self.old)
        self.assertEqual(self.chosen(transformers="4.50.0"), self.new)
        self.assertEqual(self.chosen(transformers="4.34.1", peft="0.15.0"), self.new)
        # Another version is better than none: importable is what is asked for.
        self.assertEqual(self.chosen(transformers="4.40.0"), self.old)
        address = "git+https://github.com/fla-org/flash-linear-attention@b4ff1936"
        self.assertEqual(self.chosen(fla=address, triton="3.7.1"), self.fla)
        self.assertEqual(self.chosen(fla=f"{address}#subdirectory=x"), self.fla)
        # Nobody has it: the plain one runs it, and the harness says what is missing.
        self.assertEqual(self.chosen(deepspeed="0.1"), self.plain)

    def test_one_that_vanished_is_passed_over_and_named(self) -> None:
        Path(Installation.objects.get(interpreter__endswith="old").interpreter).unlink()
        self.assertEqual(self.chosen(transformers="4.34.1"), self.new)
        (gone,) = registry.vanished(self.slug)
        self.assertTrue(gone.interpreter.endswith("old"))
