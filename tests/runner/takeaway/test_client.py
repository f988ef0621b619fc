"""The client: the single files as one wheel, offline, against a site, installed."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.test import LiveServerTestCase, TestCase, override_settings, tag
from packaging.version import Version

from kb.models import Record
from kb.publishing import saving
from runner.takeaway import wheel
from runner.takeaway.doctor import doctor
from runner.takeaway.probe import nan_probe
from runner.takeaway.single_file import single_file
from tests.support import runs
from tests.support.builds import torch_python
from tests.support.package_index import PackageIndexes

# Each check is a process: as few as there must be.
CHECKS = runs.CHECKS.partition("\n\ndef workaround_off")[0]
TRAP = "from torch.utils.checkpoint import checkpoint as c\ny = c(f, x)  # frozen_f\n"
TRAPPED = settings.ISSUES_DIR / "checkpoint-reentrant-lost-grad" / "issue.toml"
LOG = "UserWarning: a sample went wrong\nloss: nan\n"
INSTALL_S = 300


def fill() -> None:
    """A published record with a repro and a rule."""
    repro = runs.make_repro(runs.source(CHECKS))
    repro.record.rules = tomllib.loads(TRAPPED.read_text())["rule"]
    saving.save(repro.record)


def replaced_title(record: Record) -> Record:
    record.title_en += ", again"
    return record


class ClientCase(unittest.TestCase):
    """Runs the wheel as a zip file that Python imports: nothing is installed."""

    def setUp(self) -> None:
        super().setUp()
        fill()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.write()
        self.environ = {
            "PATH": str(self.folder / "nothing"),  # where some have a torch
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.path),
            "TMPDIR": str(self.folder),
        }

    def write(self, site: str = "") -> Path:
        made = wheel.wheel(site)
        path = self.folder / made.name
        path.write_bytes(made.data)
        return path

    def ask(
        self, *arguments: str, said: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "doesitnan", *arguments],
            input=said,
            cwd=self.folder,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=INSTALL_S,
        )

    def assert_refused(
        self, done: subprocess.CompletedProcess[str], *words: str
    ) -> None:
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertNotIn("Traceback", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


@tag("any_database")
class WheelTest(TestCase):
    def setUp(self) -> None:
        fill()
        self.made = wheel.wheel("https://site.example")
        self.packed = zipfile.ZipFile(io.BytesIO(self.made.data))

    def test_the_same_records_make_the_same_bytes(self) -> None:
        self.assertEqual(wheel.wheel("https://site.example"), self.made)

    def test_other_content_has_another_version(self) -> None:
        self.assertNotEqual(wheel.wheel("https://other.example").name, self.made.name)
        record = replaced_title(Record.objects.get())
        saving.save(record)
        changed = wheel.wheel("https://site.example").name
        self.assertNotEqual(changed, self.made.name)
        # What somebody writes later is newer, also to an index.
        record.updated = "2031-05-06"
        saving.save(record)
        later = wheel.wheel("https://site.example").name
        self.assertIn(".post20310506", later)
        first, last = (Version(name.split("-")[1]) for name in (changed, later))
        self.assertGreater(last, first)

    def test_every_file_is_recorded(self) -> None:
        (record,) = [n for n in self.packed.namelist() if n.endswith("RECORD")]
        rows = list(csv.reader(io.StringIO(self.packed.read(record).decode())))
        self.assertEqual([row[0] for row in rows], self.packed.namelist())
        for name, digest, size in rows[:-1]:
            data = self.packed.read(name)
            made = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            self.assertEqual(digest, f"sha256={made.decode().rstrip('=')}")
            self.assertEqual(int(size), len(data))

    def test_it_needs_nothing_but_python_3_8(self) -> None:
        for name in self.packed.namelist():
            if not name.endswith(".py"):
                continue
            tree = ast.parse(self.packed.read(name), feature_version=(3, 8))
            for node in ast.walk(tree):
                found = set()
                if isinstance(node, ast.Import):
                    found = {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    found = {str(node.module).partition(".")[0]}
                beside = {"torch"} if "/nan_probe/" in name else set()
                self.assertLessEqual(found, sys.stdlib_module_names | beside, name)

    def test_the_site_serves_it(self) -> None:
        made = wheel.wheel("http://testserver")
        response = self.client.get(f"/api/v1/{made.name}")
        self.assertEqual(response.content, made.data)
        self.assertIn(made.name, response["Content-Disposition"])
        again = self.client.get(
            f"/api/v1/{made.name}", headers={"If-None-Match": response["ETag"]}
        )
        self.assertEqual(again.status_code, 304)
        links = self.client.get("/api/v1/").json()["links"]
        found = self.client.get(links["client_wheel"], follow=True)
        self.assertEqual(found.redirect_chain, [(f"/api/v1/{made.name}", 302)])


@tag("any_database")
class OfflineTest(ClientCase, TestCase):
    def test_a_file_comes_out_as_the_site_serves_it(self) -> None:
        code = "import sys; from doesitnan import carried as c; "
        code += "sys.stdout.write(c.text_of(sys.argv[1]))"
        repro = runs.make_record().repros.get()
        for name, text in {
            "NAN-9001/repro.py": single_file(repro),
            "doctor.py": doctor(),
        }.items():
            done = subprocess.run(
                [sys.executable, "-c", code, name],
                env=self.environ,
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertEqual(done.stdout, text)

    def test_run_finds_the_torch_of_the_active_environment(self) -> None:
        python = runs.stand_in_torch(self.folder)
        inner = self.folder / "env" / "bin"
        inner.mkdir(parents=True)
        (inner / "python").symlink_to(python)
        active = {"VIRTUAL_ENV": str(inner.parent)}
        done = self.ask("run", "nan-9001", "--json", **active)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["verdict"], "bug_present")
        self.assertIn(str(inner / "python"), done.stderr)

    def test_a_capture_is_read_by_the_torch_that_is_named(self) -> None:
        path = self.folder / "capture.json"
        path.write_text("{}")
        for command in ("run", "bisect"):
            done = self.ask(command, str(path), "--python", torch_python())
            self.assert_refused(done, "capture.json")
            self.assertNotIn("found no Python", done.stderr)
        inner = self.folder / "env"
        inner.mkdir()
        python = inner / "python"
        python.write_text(f'#!/bin/sh\nexec "{torch_python()}" "$@"\n')
        python.chmod(0o755)
        for named in (["--python", "env/python"], ["--python=env/python"]):
            done = self.ask("run", str(path), *named)
            self.assertNotIn("found no Python", done.stderr)

    def test_without_torch_it_says_what_to_do(self) -> None:
        for command in (["run", "NAN-9001"], ["doctor"]):
            done = self.ask(*command)
            self.assert_refused(done, "name it: --python PATH")
            self.assertNotIn("doesitnan watch", done.stderr)
        # Its options are the script's own.
        self.assert_refused(self.ask("watch", "train.py"), "watch PYTHON train.py")
        done = self.ask("run", "NAN-9001", "--source")
        self.assertEqual(done.stdout, runs.make_record().repros.get().source)
        self.assertIn("NAN-9001", self.ask("doctor", "--list").stdout)

    def test_lint(self) -> None:
        (self.folder / "train.py").write_text(TRAP)
        done = self.ask("lint", "train.py", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        (found,) = json.loads(done.stdout)["findings"]
        self.assertEqual((found["record"], found["line"]), ("NAN-9001", 2))

    def test_probe_writes_over_nothing_of_yours(self) -> None:
        self.assertEqual(self.ask("probe").returncode, 0)
        path = self.folder / "nan_probe.py"
        self.assertEqual(path.read_text(), nan_probe())
        path.write_text("mine = 1\n")
        self.assert_refused(self.ask("probe"), "--force")
        self.assertEqual(path.read_text(), "mine = 1\n")
        self.assertEqual(self.ask("probe", "--force").returncode, 0)
        self.assertIn("nan_probe.watch(model", self.ask("probe", "-").stdout)

    def test_watch_runs_a_script_as_it_is(self) -> None:
        script = self.folder / "train.py"
        script.write_text(
            "import sys, torch\nw = torch.zeros(2, requires_grad=True)\n"
            "(w.sum() / w.sum()).backward()\nsys.exit(int(sys.argv[1]))\n"
        )
        done = self.ask("watch", "--", torch_python(), "train.py", "5")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("op: aten.div.Tensor", done.stderr)
        self.assertIn("train.py:3", done.stderr)
        done = self.ask("watch", "--capture", "kept", torch_python(), "train.py", "5")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertTrue(list(self.folder.glob("kept/*/capture.json")))
        script.rename(self.folder / "python_train.py")
        done = self.ask("watch", "python_train.py", "5")
        self.assert_refused(done, "watch PYTHON train.py")

    def test_wrong_usage_names_the_right_one(self) -> None:
        rows = {
            (): "",
            ("frob",): "lookup, run, doctor",
            ("lookup",): "DOESITNAN_SITE",
            ("run",): "doesitnan run NAN-0002",
            ("run", "--json"): "doesitnan run NAN-0002",
            ("run", "NAN-0404"): "NAN-9001 to NAN-9001",
            ("run", "NAN-9001/other"): "NAN-9001/repro",
            ("lookup", "nothing.log"): "nothing.log",
            ("bisect", "NAN-9001"): "name two releases A..B",
            ("run", "NAN-9001", "--python", "nothing"): "nothing",
        }
        for arguments, words in rows.items():
            with self.subTest(arguments):
                site = "http://127.0.0.1:9" if "nothing.log" in arguments else ""
                done = self.ask(*arguments, DOESITNAN_SITE=site)
                self.assert_refused(done, words)

    def test_a_site_that_is_not_there_is_named(self) -> None:
        for site in ("http://127.0.0.1:9", "http://127.0.0.1:80a", "http://a b"):
            done = self.ask("lookup", said=LOG, DOESITNAN_SITE=site)
            self.assert_refused(done, site, "does it run?")

    def test_help_speaks_of_the_command(self) -> None:
        for command in ("lookup", "run", "doctor", "lint"):
            usage = self.ask(command, "--help").stdout.split("[")[0]
            self.assertIn(f"usage: doesitnan {command}", usage)
        self.assertIn("从日志", self.ask("--help", LANG="zh_CN.UTF-8").stdout)
        self.assertIn(self.path.name.split("-")[1], self.ask("--version").stdout)


@tag("any_database")
@override_settings(READ_LOGIN=True)
class SiteTest(ClientCase, LiveServerTestCase):
    """Against a site that is closed to strangers."""

    def setUp(self) -> None:
        super().setUp()
        self.environ["PYTHONPATH"] = str(self.write(self.live_server_url))
        self.secret = runs.token_of("ci", "run")

    def test_a_token_of_the_environment_goes_to_its_site_alone(self) -> None:
        environ = {"DOESITNAN_TOKEN": self.secret}
        self.assert_refused(self.ask("lookup", said=LOG), "Log in")
        done = self.ask("lookup", said=LOG, **environ)
        self.assert_refused(done, "Log in")  # of no site that is named
        environ["DOESITNAN_SITE"] = f"{self.live_server_url}/"
        done = self.ask("lookup", "--json", said=LOG, **environ)
        self.assertIn("outcome", json.loads(done.stdout))
        environ["DOESITNAN_TOKEN"] = "dtn_secret\nX-Other: 1"
        done = self.ask("lookup", said=LOG, **environ)
        self.assert_refused(done, "DOESITNAN_TOKEN")
        self.assertNotIn("dtn_secret", done.stderr)


@tag("servers", "any_database")
class InstalledTest(ClientCase, LiveServerTestCase):
    """By pip, uv and pipx, into environments of their own, without an index."""

    def setUp(self) -> None:
        super().setUp()
        self.environ = {**os.environ, "HOME": str(self.folder), "UV_NO_CONFIG": "1"}
        for name in ("PYTHONPATH", "VIRTUAL_ENV", "PIP_CONFIG_FILE"):
            self.environ.pop(name, None)
        indexes = self.enterContext(PackageIndexes(self.folder))
        self.environ |= indexes.environ
        self.environ |= {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1"}
        for name in ("NO_PROXY", "no_proxy"):
            self.environ[name] = "127.0.0.1,localhost"
        (self.folder / "train.log").write_text(LOG)

    def do(self, *command: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def tool(self, name: str) -> str:
        """One of this environment or of the PATH; else the test is skipped."""
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.exists() else shutil.which(name)
        if not found:
            raise unittest.SkipTest(f"there is no {name}")
        return found

    def test_pip(self) -> None:
        env = self.folder / "env"
        self.do(sys.executable, "-m", "venv", env)
        self.do(env / "bin" / "pip", "install", self.path)
        self.assertIn("No broken", self.do(env / "bin" / "pip", "check"))
        found = self.do(env / "bin" / "doesitnan", "lookup", "--dry-run", "train.log")
        self.assertIn("loss: nan", found)
        # Its own environment has no torch: --env is about one that has.
        beside_torch = str(Path(torch_python()).parent)
        with mock.patch.dict(self.environ, PATH=beside_torch):
            found = self.do(
                *(env / "bin" / "doesitnan", "lookup"),
                *("--dry-run", "--env", "train.log"),
            )
        self.assertIn("torch==", found.partition("--- env")[2])
        saving.save(replaced_title(Record.objects.get()))
        newer = self.write()
        self.do(env / "bin" / "pip", "install", "--upgrade", newer)
        found = self.do(env / "bin" / "doesitnan", "--version").split()[1]
        self.assertEqual(found, newer.name.split("-")[1])

    def test_uv_from_the_file_and_from_the_site(self) -> None:
        path = self.write(self.live_server_url)
        url = f"{self.live_server_url}/api/v1/{path.name}"
        uv = self.tool("uv")
        self.do(uv, "venv", "--python", sys.executable, self.folder / "env")
        python = self.folder / "env" / "bin" / "python"
        self.do(uv, "pip", "install", "--python", python, path)
        self.do(self.folder / "env" / "bin" / "doesitnan", "--version")
        for source in (path, url):
            # As the README prints it; nothing known is in this log.
            told = self.do(
                *(uv, "tool", "run", "--python", sys.executable, "--from", source),
                *("doesitnan", "lookup", "train.log"),
                status=1,
            )
            self.assertIn("No known cause explains this.", told)

    def test_pipx(self) -> None:
        pipx, uv = self.tool("pipx"), Path(self.tool("uv"))
        # Its own pip would want a newer one from an index first.
        self.environ["PATH"] = f"{uv.parent}{os.pathsep}{self.environ['PATH']}"
        told = self.do(
            *(pipx, "run", "--backend", "uv", "--python", sys.executable),
            *("--spec", self.path, "doesitnan", "lookup", "--dry-run", "train.log"),
        )
        self.assertIn("loss: nan", told)
