"""`manage.py up`: the whole site on one machine, from the database to a worker."""

import argparse
import fcntl
import hashlib
import http.client
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from kb import progress
from kb.progress import Work
from runner.builds import registry, venvs
from runner.management.commands import builds
from runner.pool import keeper
from runner.worker import execution, heartbeat
from runner.worker.supervisor import Child, Supervisor

# What loads and probes gives way to whoever looks at a page or starts a run.
BEHIND = 10
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104

# Seconds for the web server of an `up` that was killed to answer what it has and end.
FORMER_S = 30.0

ADVICE = (
    "No torch was found or installed; the site works without it. Name a Python "
    "that has torch (make run BUILDS=PATH) or an index with its wheel "
    "(TORCH_INDEX_URL=ADDRESS)."
)


FAILED = (
    "The search for torch failed with the error above; the site works without it. "
    "To search again: .venv/bin/python manage.py builds scan"
)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # they load every page, as the server does
    waited = False
    help = "Prepare the database and start web server and worker; Ctrl-C stops both."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--cuda",
            action="store_true",
            help="allow the CUDA wheel if there is no CPU wheel",
        )
        parser.add_argument(
            "--no-install",
            action="store_true",
            help="install no torch build; only look for installed ones",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with venvs.lock(settings.DATA_DIR / "run.lock"):
                self.prepare()
                self.supervise(options)
        except venvs.LockHeld as held:
            raise CommandError(
                f"This site is running already (process {held.owner}): stop it first, "
                "or give another DATA_DIR and PORT."
            ) from held

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    # --- before the start -----------------------------------------------------

    def prepare(self) -> None:
        """What pages need to be answered at all; the rest comes behind them."""
        self.port = self.take_over()
        require_port()
        self.migrate()
        heartbeat.expect_one()
        self.collect_static()

    def take_over(self) -> IO[str]:
        """Wait for the web server of an earlier `up` that was killed: it has the port.

        Returns an open file with a lock on it. Each process of the web server inherits
        it, so that the kernel frees it once the last of them has ended.
        Raises CommandError after `FORMER_S`.
        """
        file = (Path(settings.DATA_DIR) / "web.lock").open("a")
        deadline = time.monotonic() + FORMER_S
        while not locked(file):
            if time.monotonic() > deadline:
                raise CommandError(
                    "The web server of an earlier start does not end: stop the "
                    f"processes that have {file.name} open."
                )
            if not self.waited:
                self.waited = True
                self.say("Waiting for the web server of an earlier start to end ...")
            time.sleep(0.1)
        return file

    def migrate(self) -> None:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if plan:
            self.say(f"Database: applying {len(plan)} migrations ...")
            call_command("migrate", interactive=False, verbosity=0)
        self.say(f"Database: ready ({connection.vendor})")

    def collect_static(self) -> None:
        stamp = Path(settings.STATIC_ROOT) / ".sources"
        digest = static_digest()
        if stamp.is_file() and stamp.read_text() == digest:
            return
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        stamp.write_text(digest)
        self.say("Static files: collected")

    # --- the site ---------------------------------------------------------------

    def supervise(self, options: dict[str, Any]) -> None:
        """Web server and pool first; what slows them down follows the first answer."""
        self.say("Starting web server and worker ...")
        self.records = Child("Records", manage("load_all"), once=True, nice=BEHIND)
        self.builds = Child("Builds", manage(*scan(options)), once=True, nice=BEHIND)
        # Shown from the first page on: the children need a moment to say so themselves.
        self.shown = {Work.RECORDS: self.records, Work.TORCH: self.builds}
        default = registry.default_installation()
        if default:
            del self.shown[Work.TORCH]
        for work in self.shown:
            progress.begin(work)
        self.to_warm = default.interpreter if default else ""
        self.announced = self.advised = False
        web = Child("Web server", web_command(), keeps=[self.port.fileno()])
        children = [web, *pool()]
        self.supervisor = Supervisor(children, self.say)
        self.supervisor.run(self.tick)
        self.say("Stopped.")

    def tick(self) -> None:
        if self.to_warm and execution.warm_up(self.to_warm):
            self.to_warm = ""
        if not self.announced and answers():
            self.announced = True
            self.announce()
            later = [Child("Worker", manage("worker")), self.records, self.builds]
            self.supervisor.children += later
        for work in [work for work, child in self.shown.items() if child.is_over]:
            del self.shown[work]
            progress.end(work)
        if not self.advised and self.builds.is_over:
            self.advised = self.advise()

    def advise(self) -> bool:
        """Say what came of the look for torch; False while the database is busy."""
        try:
            registry.expect_nothing()
            found = registry.installations_here()
        except OperationalError:
            return False
        if not found:
            process = self.builds.process
            status = process.returncode if process else 0
            self.say(ADVICE if status in (0, builds.REFUSED) else FAILED)
        return True

    def announce(self) -> None:
        took = since_start_s()
        self.say(f"Does it NaN? is at {address()} after {took:.1f} s (Ctrl-C stops it)")
        if settings.HOST not in LOOPBACK and not settings.SITE_URL:
            hosts = ", ".join(settings.ALLOWED_HOSTS)
            self.say(f"It answers to {hosts} only: ALLOWED_HOSTS adds other names.")


def since_start_s() -> float:
    """Seconds since this process began; `make run` becomes it, so .venv is counted."""
    ticks = int(progress.born(os.getpid())) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks


def scan(options: dict[str, Any]) -> list[str]:
    """The command that looks for torch, and gets one where there is none."""
    command = ["builds", "scan", "--only-changed"]
    command += [] if options["no_install"] else ["--install-default"]
    return command + ["--cuda"] * options["cuda"]


def pool() -> list[Child]:
    """The warm pool, unless POOL_MEMORY_MIB is 0."""
    if not settings.POOL_MEMORY_MIB:
        return []
    # A worker of an earlier site may still have one, hence --wait.
    socket_path, memory = execution.pool_socket(), settings.POOL_MEMORY_MIB
    command = keeper.command(socket_path, memory, "--wait")
    return [Child("Pool", command, cwd=keeper.ROOT)]


def manage(*arguments: str) -> list[str]:
    return [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]


def web_command() -> list[str]:
    host = f"[{settings.HOST}]" if ":" in settings.HOST else settings.HOST
    return [
        *(sys.executable, "-m", "gunicorn", "--config", "python:config.gunicorn"),
        *("--bind", f"{host}:{settings.PORT}"),
    ]


def local_host() -> str:
    return EVERYWHERE.get(settings.HOST, settings.HOST)


def address() -> str:
    host = f"[{local_host()}]" if ":" in local_host() else local_host()
    return settings.SITE_URL or f"http://{host}:{settings.PORT}/"


def answers() -> bool:
    """Whether the web server answers, with any status."""
    site = http.client.HTTPConnection(local_host(), settings.PORT, timeout=5)
    try:
        site.request("GET", "/healthz")
        site.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        site.close()
    return True


def locked(file: IO[str]) -> bool:
    """Whether this process has got, or has, the lock on an open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def require_port() -> None:
    """Raise CommandError where the web server cannot bind its port."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            settings.HOST, settings.PORT, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        raise CommandError(
            f"{settings.HOST}:{settings.PORT} cannot be used ({error.strerror}): "
            "give another PORT."
        ) from error


def static_digest() -> str:
    """Changes whenever a file that collectstatic would copy changes."""
    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
