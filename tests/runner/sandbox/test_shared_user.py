"""Where no namespace and no user of its own stands between a run and the machine.

Rights, owners, times, attributes and contents of files then stay as they are; and where
the worker is root, nothing runs at all unless the machine may be thrown away.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import SkipTest

from django.template import Context, Template
from django.test import SimpleTestCase, tag
from django.utils import translation

from runner.models import Worker
from runner.sandbox import tiers, view
from runner.sandbox.tiers import SHARED_ROOT, Layers
from tests.support import jails, ordinary_user, runs
from tests.support.jails import here, inside

sys.path.insert(0, str(view.JAIL))
import seccomp  # found by path, as it runs

ROAD = "namespaces,bubblewrap"
SWITCH = "SANDBOX_ALLOW_SHARED_ROOT"
# As a run gets it that has no user of its own; and one that has.
SHARED = {"seccomp": {"level": "shared", "truncation": True}}
OWN = {"seccomp": {"level": "confined", "truncation": True}}
# Each call of seccomp.RIGHTS so that it would leave all as it is, on `path` and `fd`.
ATTEMPTS = """\
import fcntl
numbers = {numbers!r}
path, fd, at = {path!r}.encode(), os.open({path!r}, os.O_RDONLY), -100
mode, uid, gid = os.fstat(fd).st_mode & 0o7777, os.getuid(), os.getgid()
name, value = b"user.hostile", ctypes.create_string_buffer(b"x")
tree = ctypes.create_string_buffer(16)  # struct xattr_args, then struct file_attr
arguments = {{
    "chmod": (path, mode), "fchmod": (fd, mode), "fchmodat": (at, path, mode, 0),
    "fchmodat2": (at, path, mode, 0x100), "chown": (path, -1, gid),
    "fchown": (fd, -1, gid), "lchown": (path, uid, -1),
    "fchownat": (fd, b"", uid, gid, 0x1000), "utime": (path, None),
    "utimes": (path, None), "futimesat": (at, path, None),
    "utimensat": (fd, None, None, 0), "setxattr": (path, name, value, 1, 0),
    "lsetxattr": (path, name, value, 1, 0), "fsetxattr": (fd, name, value, 1, 0),
    "setxattrat": (at, path, 0, name, tree, 16), "removexattr": (path, name),
    "lremovexattr": (path, name), "fremovexattr": (fd, name),
    "removexattrat": (at, path, 0, name),
    "file_setattr": (at, path, tree, 24, 0),
}}
def call(number, values):
    wide = [ctypes.c_long(v) if isinstance(v, int) else v for v in values]
    return libc.syscall(ctypes.c_long(number), *wide)
done = {{n: tried(call, numbers[n], arguments[n]) for n in numbers if numbers[n]}}
by_name = "/proc/self/fd/%d" % fd
python = {{
    "chmod by descriptor": tried(os.chmod, by_name, mode),
    "utime by descriptor": tried(os.utime, by_name),
    "copy": tried(__import__("shutil").copymode, path, path),
    "set flags": tried(fcntl.ioctl, fd, 0x40086602, b"\\0" * 8),
    "set flags, as of 32 bits": tried(fcntl.ioctl, fd, 0x40046602, b"\\0" * 8),
    "set project": tried(fcntl.ioctl, fd, 0x401C5820, b"\\0" * 28),
    "set version": tried(fcntl.ioctl, fd, 0x40087602, b"\\0" * 8),
    "seal": tried(fcntl.ioctl, fd, 0x40806685, b"\\1" + b"\\0" * 127),
}}
say(calls=done, python=python)
"""


def machine() -> str:
    return os.uname().machine


class RightsTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )
        self.folder.chmod(0o755)
        self.file = self.folder / "file"
        self.file.write_text("content")

    def attempts(self, path: str, change: dict[str, Any]) -> dict[str, Any]:
        numbers = {n: seccomp.number_of(n, machine()) for n in seccomp.RIGHTS}
        code = ATTEMPTS.format(numbers=numbers, path=path)
        change = {**change, "landlock": self.landlock(7)}
        ended = inside(Layers(seccomp=True), code, change=change)
        self.assertTrue(ended.said, ended)
        return ended.said

    def landlock(self, abi: int) -> dict[str, Any] | None:
        """All may be read and nothing written: as of a build."""
        rules = {"read": ["/"], "write": [], "tcp": False, "scoped": True}
        return {"abi": abi, **rules} if here().landlock else None

    def test_no_call_changes_rights_owners_times_or_attributes(self) -> None:
        before = self.file.stat()
        said = self.attempts(str(self.file), SHARED)
        self.assertEqual(set(said["calls"].values()), {"EPERM"}, said)
        kinds = ("set", "seal")
        for name, end in said["python"].items():
            wanted = "ENOTSUP" if name.startswith(kinds) else "EPERM"
            self.assertEqual(end, wanted, name)
        after = self.file.stat()
        for field in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_ctime_ns"):
            self.assertEqual(getattr(before, field), getattr(after, field), field)
        self.assertEqual(os.listxattr(self.file), [])

    def test_a_user_of_its_own_keeps_its_own_files(self) -> None:
        # The same calls work where the owner is what separates: so they can succeed.
        said = self.attempts(str(self.file), OWN)
        for name in ("chmod", "fchmod", "chown", "utimensat", "setxattr"):
            self.assertEqual(said["calls"].get(name, "done"), "done", said)

    def test_an_old_landlock_lets_nothing_be_emptied(self) -> None:
        if not here().landlock:
            self.skipTest("this kernel has no Landlock")
        code = f"""
            path = {str(self.file)!r}
            folder = os.open({str(self.folder)!r}, os.O_RDONLY)
            how = ctypes.create_string_buffer(bytes([0, 2]) + bytes(22))
            say(
                read=open(path).read(),
                by_name=tried(os.truncate, path, 0),
                reading=tried(os.open, path, os.O_RDONLY | os.O_TRUNC),
                neither=tried(os.open, path, 3 | os.O_TRUNC),
                below=tried(lambda: os.open("file", os.O_TRUNC, dir_fd=folder)),
                openat2=tried(libc.syscall, 437, -100, path.encode(), how, 24),
                writing=tried(os.open, path, os.O_WRONLY),
            )
        """
        for abi in (1, 2):
            layers = Layers(seccomp=True, landlock=abi)
            ended = inside(layers, code, change={"landlock": self.landlock(abi)})
            ends = {k: v for k, v in ended.said.items() if k not in ("read", "openat2")}
            with self.subTest(abi=abi):
                self.assertEqual(ended.said["read"], "content", ended)
                self.assertLessEqual(set(ends.values()), {"EPERM", "EACCES"}, ends)
                self.assertEqual(ended.said["openat2"], "ENOSYS")
                self.assertEqual(self.file.read_text(), "content")

    def test_a_compiler_still_makes_what_can_be_loaded(self) -> None:
        if not shutil.which("gcc"):
            self.skipTest("no compiler")
        ended = inside(
            here()._replace(namespaces=None, uid="shared"),
            """
            import subprocess, tempfile
            with tempfile.TemporaryDirectory() as folder:
                source = os.path.join(folder, "x.c")
                open(source, "w").write("int seven(void) { return 7; }")
                made = folder + "/x.so"
                done = subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, source])
                os.replace(made, "kept.so")
                seven = ctypes.CDLL(os.path.abspath("kept.so")).seven()
            say(status=done.returncode, seven=seven)
            """,
            env={"PATH": os.environ["PATH"], "TMPDIR": "."},
        )
        self.assertEqual(ended.said, {"status": 0, "seven": 7}, ended)


@tag("servers", "corpus")
class CorpusTest(SimpleTestCase):
    """Programs after others' files, sent by the other users that a worker may be."""

    def setUp(self) -> None:
        found = filter(ordinary_user.startable, ordinary_user.system_pythons())
        self.python = next(found, "") if os.geteuid() == 0 else sys.executable
        if not self.python:
            self.skipTest("no Python that an ordinary user can read")
        self.folder = Path(
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )
        self.folder.chmod(0o755)
        for name in ("portable", "runner", "tests"):
            shutil.copytree(jails.ROOT / name, self.folder / name)
        (self.folder / "manage.py").touch()

    def send(self, *become: str) -> None:
        kinds = ("rights", "emptied", "access", "links", "hard", "writes", "files")
        names = [f"secrets/{kind}" for kind in kinds]
        names += [f"escapes/{kind}" for kind in ("r", "flags", "own_filter", "secret")]
        program = [self.python, "-m", "tests.gauntlet", "--light", "--tier", "C cold"]
        env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        done = jails.run([*become, *program, *names], cwd=self.folder, env=env)
        if "no such tier" in done.stderr:
            self.skipTest("there is no tier C here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(" 0 wrong", done.stdout)

    def test_an_ordinary_user(self) -> None:
        become = ["setpriv", *ordinary_user.BECOME, "sh", "-c", 'exec "$@"', "sh"]
        self.send(*(become if os.geteuid() == 0 else ()))

    def test_a_user_for_each_run(self) -> None:
        if os.geteuid():
            self.skipTest("only root gives runs a user of their own")
        self.send()


class WordsTest(SimpleTestCase):
    def test_builds_and_evidence_say_that_a_run_was_root(self) -> None:
        page = Template("{% load runs %}{% tier_line of %}")
        held = tiers.describe(Layers(None, 7, True, None, SHARED_ROOT))
        worker = Worker(name="w", tier="C", sandbox=held._asdict())
        for of in (worker, {"tier": "C", "limits": {"layers": held.layers}}):
            with translation.override("en"):
                text = page.render(Context({"of": of}))
                self.assertIn("A run is root, as the worker is.", text)
                self.assertIn("Landlock 7 · seccomp · shared root", text)
            with translation.override("zh-hans"):
                self.assertIn("同为 root", page.render(Context({"of": of})))


class RootTest(SimpleTestCase):
    """A worker that is root, and has no namespaces."""

    def setUp(self) -> None:
        if os.geteuid():
            self.skipTest("only root can be refused this")
        self.folder = Path(
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )
        self.folder.chmod(0o755)
        self.build = runs.stand_in_torch(self.folder / "build")
        self.repro = self.folder / "repro.py"
        # Its verdict says whether it was another user than root.
        trigger = "import os\nreturn {'nonfinite': os.getuid(), 'grad': 1.0}"
        self.repro.write_text(runs.source(trigger=trigger))
        # Whoever may read all else cannot read this: so runs have no user of their own.
        self.closed = self.folder / "closed"
        self.closed.mkdir(mode=0o700)

    def command(self, python: str, *arguments: str, **env: str) -> Any:
        variables = {"PATH": os.environ["PATH"], "DATA_DIR": str(self.closed), **env}
        command = [python, "-m", "runner.sandbox", *arguments, "--json"]
        done = jails.run(command, cwd=self.checkout, env=variables)
        self.assertTrue(done.stdout, done.stderr)
        self.errors = done.stderr
        return json.loads(done.stdout)

    def copy(self, folder: Path) -> None:
        """A checkout there, and a Python that other users may start."""
        for name in ("portable", "runner"):
            shutil.copytree(jails.ROOT / name, folder / name)
        self.checkout = folder
        found = filter(ordinary_user.startable, ordinary_user.system_pythons())
        self.python = next(found, "")
        if not self.python:
            raise SkipTest("no Python that an ordinary user can read")
        text = self.build.read_text().replace(sys.executable, self.python)
        self.build.write_text(text)

    def run_it(self, road: str = ROAD, **env: str) -> Any:
        arguments = [str(self.repro), "--python", str(self.build), "--without", road]
        return self.command(self.python, *arguments, **env)

    def test_nothing_runs_as_root_unless_the_machine_may_be_thrown_away(self) -> None:
        self.copy(self.closed)
        for road in (ROAD, f"{ROAD},landlock,seccomp"):
            body = self.run_it(road)
            self.assertEqual((body["verdict"], body["reason"]), ("error", "refused"))
            log = body["checks"][-1]["log"]["text"]
            for text in (log, self.errors):
                self.assertIn(f"other users cannot read {self.closed}", text)
                self.assertIn(SWITCH, text)
            self.assertEqual(body["limits"]["layers"]["uid"], SHARED_ROOT)
            body = self.run_it(road, **{SWITCH: "1"})
            self.assertEqual(body["verdict"], "bug_absent", body["checks"][-1])
            self.assertEqual(body["limits"]["layers"]["uid"], SHARED_ROOT)

    def test_a_user_of_its_own_needs_no_permission(self) -> None:
        self.copy(self.folder)
        body = self.run_it()
        self.assertEqual(body["verdict"], "bug_present", body["checks"][-1])
        self.assertEqual(body["limits"]["layers"]["uid"], "own")
        self.build.parent.chmod(0o700)
        body = self.run_it()
        self.assertEqual(body["reason"], "refused", body)
        self.assertIn(f"cannot read {self.build.parent}", self.errors)

    def test_the_probe_says_so_and_heeds_the_setting(self) -> None:
        self.copy(self.closed)
        found = self.command(self.python, "--probe", SANDBOX_WITHOUT=f" {ROAD}")
        self.assertIn(found["tier"], "CD")
        self.assertEqual(found["layers"]["uid"], SHARED_ROOT)
        refused = f"refused here; other users cannot read {self.closed}"
        self.assertIn(f"root, as the worker is ({refused})", found["reason_en"])
        self.assertIn("ordinary user", found["remedy_en"])
        env = {"SANDBOX_WITHOUT": ROAD, SWITCH: "1"}
        found = self.command(self.python, "--probe", **env)
        self.assertIn("(allowed here;", found["reason_en"])
        self.assertIn("同为 root", found["reason_zh"])
