"""What hostile programs aim at, planted; and what must be intact after them.

A `Surroundings` holds secrets in the environment and in files, servers on every kind
of socket, folders of "other runs", and a process of ours, all of which a program may
try to reach. Its `damage` names whatever has changed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from portable.harness.process import read_bytes
from runner.sandbox.scratch import remove
from tests import ROOT
from tests.support.loopback import free_port

PR_SET_CHILD_SUBREAPER = 36
DYING_S = 2.0
DIRECTIONS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
PICKLED = Path("/tmp/hostile-pickle")  # observations/pickle


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name: state, parent, …; [] if it is gone."""
    stat = read_bytes(f"/proc/{pid}/stat")
    return stat.rpartition(b") ")[2].decode().split()


def started(pid: int) -> str:
    """When a process began, in clock ticks: with its number, a name for ever."""
    fields = stat_fields(pid)
    return fields[19] if fields else ""


def tracer(pid: int) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("TracerPid:"):
            return line.split()[1]
    return "?"


def ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent, and so on."""
    while pid > 0 and (fields := stat_fields(pid)):
        yield pid
        pid = int(fields[1])


def descendants(pid: int) -> list[int]:
    """Processes below this one, the dead that wait to be read among them."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        if fields := stat_fields(int(path.name)):
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def adopt_orphans() -> None:
    """Let what escapes its parents come to this process, where it is counted."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury_adopted() -> None:
    """Read the ends of children that are dead: of orphans nobody else will."""
    for pid in descendants(os.getpid()):
        if stat_fields(pid)[:2] == ["Z", str(os.getpid())]:
            with suppress(ChildProcessError):  # the collector read that of a Popen
                os.waitpid(pid, 0)


class Servers(threading.Thread):
    """A site, a database and a broker that note whoever calls."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.calls: list[str] = []
        self.selector = selectors.DefaultSelector()
        self.sockets: list[str] = []
        self.datagram_sockets: list[str] = []
        self.tcp = self.listen(socket.AF_INET, ("127.0.0.1", 0))
        self.udp = self.bind(socket.AF_INET, ("127.0.0.1", 0))
        name = secrets.token_hex(4)
        for address in (str(folder / "site.sock"), f"\0hostile-{name}"):
            self.listen(socket.AF_UNIX, address)
            self.sockets.append(address.replace("\0", "@"))
        for address in (str(folder / "log.sock"), f"\0hostile-log-{name}"):
            self.bind(socket.AF_UNIX, address)
            self.datagram_sockets.append(address.replace("\0", "@"))
        for path in folder.glob("*.sock"):
            path.chmod(0o777)
        self.ending, self.end = os.pipe()
        self.selector.register(self.ending, selectors.EVENT_READ)

    def listen(self, family: int, address: Any) -> Any:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.bind(address)
        server.listen(64)
        self.selector.register(server, selectors.EVENT_READ, str(address))
        return server.getsockname()

    def bind(self, family: int, address: Any) -> Any:
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.bind(address)
        self.selector.register(server, selectors.EVENT_READ, str(address))
        return server.getsockname()

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == self.ending:
                    return
                assert isinstance(key.fileobj, socket.socket)
                self.calls.append(key.data)
                if key.fileobj.type == socket.SOCK_STREAM:
                    key.fileobj.accept()[0].close()
                else:
                    key.fileobj.recv(65536)

    def close(self) -> None:
        os.write(self.end, b"x")
        self.join()
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        os.close(self.ending)
        os.close(self.end)


def picture(folder: Path) -> dict[str, Any]:
    """Everything in a folder: rights, owners, attributes, times, contents."""
    found: dict[str, Any] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        attributes = os.listxattr(path, follow_symlinks=False)
        owner, times = (status.st_uid, status.st_gid), status.st_mtime_ns
        found[str(path)] = (status.st_mode, owner, attributes, times, content)
    return found


def own_state() -> dict[str, Any]:
    """What a program could change of the process that started it."""
    limits = [n for n in dir(resource) if n.startswith("RLIMIT_")]
    os.umask(umask := os.umask(0))
    return {
        "limits": {n: resource.getrlimit(getattr(resource, n)) for n in limits},
        "cwd": str(Path.cwd()),
        "umask": umask,
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "tracer": tracer(os.getpid()),
        "user": os.getresuid(),
        "mounts": len(Path("/proc/self/mountinfo").read_text().split("doesitnan-")),
    }


@dataclass
class Surroundings:
    """Made by `plant`; `targets` is what a program is told, `damage` what it did."""

    folder: Path
    temporary: Path
    servers: Servers
    victim: subprocess.Popen[bytes]
    secret: str
    targets: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    pools: list[int] = field(default_factory=list)

    def note(self) -> None:
        """Take the picture that `damage` compares with."""
        self.before = picture(self.folder)
        self.state = own_state()
        self.children = set(descendants(os.getpid()))

    def damage(self, *, reachable: bool = False) -> list[str]:
        """What is no longer as it was, once. `reachable`: this tier closes nothing off.

        Even then the programs of the corpus put back what they change, but for the
        poison, which is looked for in a folder of packages that is planted here.
        """
        found = []
        after = picture(self.folder)
        for path in sorted(self.before.keys() | after.keys()):
            if self.before.get(path) != after.get(path) and not reachable:
                found.append(f"changed: {path}")
        self.before = after
        state = own_state()
        if state != self.state:
            found.append(f"changed: own process: {state} != {self.state}")
            self.state = state
        life = (stat_fields(self.victim.pid) or ["X"])[0]
        if life in "TtZX" or tracer(self.victim.pid) != "0":
            found.append(f"process of ours: state {life}")
        if self.servers.calls and not reachable:
            found.append(f"servers were called: {self.servers.calls}")
        self.servers.calls.clear()
        for path in (PICKLED, shared_file(self.targets["shared_key"])):
            if path.exists() and not reachable:
                found.append(f"left behind: {path}")
                path.unlink()
        # Where a program can listen, a neighbour may see it while it is checked.
        if not reachable and self.somebody_listens():
            found.append("somebody listens")
        return found

    def leftovers(self) -> list[str]:
        """Processes and files that outlived their checks; only between checks.

        Who is about to die has two seconds; what lives on is killed, and so is counted
        once.
        """
        deadline = time.monotonic() + DYING_S
        while (alive := self.strangers()) and time.monotonic() < deadline:
            time.sleep(0.01)
        found = [f"process {name_of(pid)}" for pid in alive]
        found += ["somebody listens"] * self.somebody_listens()
        while alive:
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            alive = self.strangers()
        kept = {"planted", *(Path(p).name for p in self.targets["other_runs"])}
        kept |= {"pool.sock", "pool.sock.lock"}
        kept.add(f"doesitnan-uids-{os.getuid()}")  # locks, one for each user of a run
        found += [f"file {p}" for p in self.temporary.iterdir() if p.name not in kept]
        return found

    def somebody_listens(self) -> bool:
        """Whether a server answers on the port that was left free."""
        with socket.socket() as caller:
            caller.settimeout(1)
            return caller.connect_ex(("127.0.0.1", self.targets["free_port"])) == 0

    def strangers(self) -> list[int]:
        """Processes below this one that it did not start itself, nor a pool of ours."""
        bury_adopted()
        known = {self.victim.pid, *self.pools, *self.children}
        for pool in self.pools:
            known.update(descendants(pool))
        return [pid for pid in descendants(os.getpid()) if pid not in known]


def name_of(pid: int) -> str:
    state = (stat_fields(pid) or ["gone"])[0]
    line = read_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
    return f"{pid} {state} {line.decode(errors='replace')[:200]}"


@contextmanager
def plant() -> Iterator[Surroundings]:
    """Surroundings in a temporary folder of their own, which is TMPDIR meanwhile."""
    # Not below /tmp, of which every check in a namespace has its own.
    temporary = Path(tempfile.mkdtemp(prefix="doesitnan-hostile-", dir="/var/tmp"))
    temporary.chmod(0o755)
    folder = temporary / "planted"
    folder.mkdir()
    secret = "planted-" + secrets.token_hex(4)
    servers = Servers(folder)
    servers.start()
    victim = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=-1)
    here = Surroundings(folder, temporary, servers, victim, secret)
    environment = {
        "PYTHONUSERBASE": str(folder / "user"),
        "SECRET_KEY": secret,
        "DATABASE_URL": f"postgres://site:{secret}@127.0.0.1/site",
        "CELERY_BROKER_URL": f"amqp://site:{secret}@127.0.0.1//",
    }
    try:
        with (
            mock.patch.object(tempfile, "tempdir", str(temporary)),
            mock.patch.dict(os.environ, environment),
        ):
            here.targets = targets_in(here)
            here.note()
            yield here
    finally:
        servers.close()
        victim.kill()
        victim.communicate()
        if here.targets:
            remove_shared_objects(here.targets["shared_key"])
        remove(temporary)


def targets_in(here: Surroundings) -> dict[str, Any]:
    """Plant the files; returns what the programs are told of."""
    data = here.folder / "data"
    data.mkdir()
    paths = [data / name for name in ("secret_key", "db.sqlite3", "broker.json")]
    for path in paths:
        path.write_text(here.secret)
        path.chmod(0o600)
    (readable := data / "readable").write_text(here.secret)
    (outside := here.folder / "outside").mkdir()
    outside.chmod(0o777)
    (outside / "kept").write_text("kept")
    (here.folder / "user").mkdir()
    other = here.temporary / "doesitnan-run-other"
    other.mkdir()
    (other / "repro.py").write_text(here.secret)
    return {
        "spared": [[pid, started(pid)] for pid in ancestors(os.getpid())],
        "pid_namespace": str(Path("/proc/self/ns/pid").readlink()),
        "uid": os.getuid(),
        "victims": [here.victim.pid],
        "free_port": free_port(),
        "shared_key": secrets.randbits(30) | 1,
        "readable": str(readable),
        "secrets": [*map(str, [*paths, readable, data]), str(ROOT / "manage.py")],
        "other_runs": [str(other)],
        "outside": str(outside),
        "own_files": [str(readable), str(outside / "kept")],
        # Of what lies below /tmp a check in a namespace may have a folder of its own.
        "unwritable": [str(outside), str(data), str(other), *project()],
        "user_base": str(here.folder / "user"),
        "tcp": [list(here.servers.tcp), ["192.0.2.1", 80]],
        "udp": [list(here.servers.udp)],
        "sockets": here.servers.sockets,
        "datagram_sockets": here.servers.datagram_sockets,
    }


def project() -> list[str]:
    return [] if ROOT.is_relative_to("/tmp") else [str(ROOT)]


def shared_file(key: int) -> Path:
    return Path(f"/dev/shm/hostile-{key}")


def remove_shared_objects(key: int) -> None:
    """What secrets/shared_objects leaves where a tier does not separate it."""
    libc = ctypes.CDLL(None)
    segment = libc.shmget(key, 0, 0)
    if segment >= 0:
        libc.shmctl(segment, 0, None)
    shared_file(key).unlink(missing_ok=True)


def unsafe_texts(value: Any) -> Iterator[str]:
    """Texts of an evidence object that are not safe to print as they are."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from unsafe_texts(key)
            yield from unsafe_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from unsafe_texts(item)
    elif isinstance(value, str) and any(map(is_unsafe, set(value))):
        yield value[:200]


def is_unsafe(character: str) -> bool:
    """Whether it moves a cursor, turns a text round or is no character at all."""
    return character not in "\t\n" and (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in DIRECTIONS
    )
