"""A site of its own for a test: data folder, database, broker and real workers."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from portable.harness.process import read_bytes
from tests.support import loaded, runs

PATIENCE_S = 120  # guards a hang, measures nothing
DEPLOYMENT = ("DATABASE_URL", "CELERY_BROKER_URL", "DOESITNAN_TEST_PYTHON", "BUILDS")
# Records that name no other one, each with evidence of every build.
FEW = ("atan2-origin-nan-grad", "kl-div-zero-target-grad-nan", "std-single-sample-nan")
FEW_SETTINGS = """\
from pathlib import Path
from config.settings import *
ISSUES_DIR = Path({path!r})
"""
SETUP = """
import json, sys
import django
django.setup()
from pathlib import Path
from runner.models import Run
from runner.runs import jobs, ledger, submission
from tests.support import runs
"""
# Executes one JSON string of code per line and prints what it assigned to `answer`.
SERVE = """
for line in sys.stdin:
    names = dict(globals())
    exec(json.loads(line), names)
    print(json.dumps(names["answer"]), flush=True)
"""


class Site:
    """A data folder with its own database, broker and workers."""

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        if database:
            copy(database, self.database)
        self.environ = {
            **{k: v for k, v in os.environ.items() if k not in DEPLOYMENT},
            "DATA_DIR": str(folder),
            "SECRET_KEY": "test",
            "TMPDIR": str(folder),  # of killed workers, too
            "DJANGO_SETTINGS_MODULE": "config.settings",
            # Repros of these tests speak with the test through files.
            "SANDBOX_WITHOUT": "bubblewrap,namespaces,landlock,seccomp,cgroup",
            "SANDBOX_MIN_TIER": "D",
        }
        self.command = [sys.executable, str(settings.BASE_DIR / "manage.py")]
        self.workers: list[subprocess.Popen[str]] = []
        self.shell: subprocess.Popen[str] | None = None

    @property
    def database(self) -> Path:
        return self.folder / "db.sqlite3"

    def migrate(self) -> Path:
        """Make the tables; on SQLite once in a run of tests, then by a copy."""
        if "DATABASE_URL" in self.environ:
            self.make_tables()
        elif not self.database.exists():
            self.database.write_bytes(loaded.once("tables", self.empty_database))
        return self.database

    def make_tables(self) -> None:
        command = [sys.executable, "manage.py", "migrate", "-v0", "--skip-checks"]
        subprocess.run(command, cwd=settings.BASE_DIR, env=self.environ, check=True)

    def empty_database(self) -> bytes:
        self.make_tables()
        made = copy(self.database, self.folder / "made.sqlite3").read_bytes()
        self.database.unlink()
        return made

    def copy_static(self) -> None:
        """What `collectstatic` would collect, as the test runner has done."""
        shutil.copytree(settings.STATIC_ROOT, self.folder / "static")

    def process(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=settings.BASE_DIR,
                env=self.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def python(self, code: str, **names: object) -> Any:
        """Run code with `names` in a process of the site; returns its `answer`."""
        if self.shell is None:
            self.shell = self.process("-c", SETUP + SERVE)
        assert self.shell.stdin and self.shell.stdout
        given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        self.shell.stdin.write(json.dumps(given + code) + "\n")
        self.shell.stdin.flush()
        return json.loads(self.shell.stdout.readline())

    def submit(self, text: str, slug: str = runs.SLUG, name: str = "repro") -> str:
        """Submit a run as the web does; returns its id."""
        found = self.python(
            "repro, build = runs.make_repro(text, name), runs.make_build(slug)\n"
            "answer = submission.submit(repro, build, 'cpu', 1).run.pk.hex",
            text=text,
            slug=slug,
            name=name,
        )
        return str(found)

    def install(self, interpreter: Path, slug: str = runs.SLUG, raw: str = "") -> None:
        self.python(
            "runs.make_build(slug, raw); runs.install(interpreter, slug); answer = 1",
            interpreter=str(interpreter),
            slug=slug,
            raw=raw or runs.STAND_IN,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        worker = self.process("manage.py", "worker", *arguments)
        self.workers.append(worker)
        assert worker.stdout
        self.said = worker.stdout.readline()
        return worker

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.folder / "db.sqlite3", timeout=20) as database:
            return database.execute(query, values).fetchall()

    def is_writable(self) -> bool:
        """Whether no process keeps the database to itself for a second."""
        path = self.folder / "db.sqlite3"
        with (
            closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as database,
            suppress(sqlite3.OperationalError),
        ):
            database.execute("BEGIN IMMEDIATE")
            return True
        return False

    def run_row(self, pk: str) -> tuple[Any, ...]:
        columns = "state, verdict, reason, attempt"
        return self.sql(f"SELECT {columns} FROM runner_run WHERE id = ?", pk)[0]

    def close(self) -> None:
        for process in [*self.workers, *filter(None, [self.shell])]:
            process.kill()
            process.communicate()


def with_few_records(folder: Path, names: Iterable[str] = FEW) -> dict[str, str]:
    """Variables for a site that reads only these shipped records, from `folder`."""
    issues = folder / "issues"
    issues.mkdir()
    for name in names:
        (issues / name).symlink_to(settings.ISSUES_DIR / name)
    text = FEW_SETTINGS.format(path=str(issues))
    (folder / "few_settings.py").write_text(text)
    return {"PYTHONPATH": str(folder), "DJANGO_SETTINGS_MODULE": "few_settings"}


def copy(database: Path, to: Path) -> Path:
    """A plain copy would leave the write-ahead log behind."""
    with closing(sqlite3.connect(database)) as source:
        source.execute("VACUUM INTO ?", [str(to)])
    return to


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Ask until it holds; a test that waits for ever fails instead."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting: {what}")
        time.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    # Empty once it is gone: also where it went between open and read (ESRCH).
    stat = read_bytes(f"/proc/{pid}/stat")
    return stat.rpartition(b") ")[2][:1] not in (b"", b"Z", b"X")
