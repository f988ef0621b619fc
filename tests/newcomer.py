"""README's commands as a stranger has them: `python3 -m tests.newcomer`.

Root makes a user without privileges for it and removes that user at the end; whoever
else starts it is that user. From a clean clone of what is committed, with the oldest
Python from 3.11 on: `make run`, a look-up in each language, a click, the examples with
curl, Ctrl-C, `make test`. Standard library only: nothing is installed before.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.support import pythons
from tests.support.loopback import free_port
from tests.support.plain_browser import Browser

LIMIT_S = 3600  # of the whole, when everything is ended
TAIL, TEXT = 200, 1000  # lines of output, characters of a page
LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin"
# How this machine installs packages is no part of what README says.
INSTALLING = re.compile(r"PIP_|UV_|SSL_CERT_|(?i:\w+_proxy$)")
CONFIGURED = (".config/pip", ".pip", ".config/uv")
SHARED = ("/tmp", "/var/tmp", "/dev/shm")
VERSION = (
    "import os, sys, venv, ensurepip; version = sys.version_info[:3]; "
    "version >= (3, 11) and print(*version, os.path.realpath(sys.executable))"
)
# What `make run` prints once it has its records, evidence and a torch, in any order.
READY = {
    "Does it NaN\\? is at",
    r"^\d+ records\.",
    "^Evidence: ",
    "[Ss]erv(es|ing) [0-9]",
}
FAILED = re.compile(r"^(CommandError|Traceback)|: restart in \d")
READMES = {"en": "README.md", "zh": "README.zh.md"}
# The buttons, as each README names them: of the look-up, and of a run.
BUTTON = re.compile(r"press \*(.+?)\*|按“(.+?)”")


class WrongError(Exception):
    """What was done, or printed, in place of what README says."""


def read(language: str, pattern: str) -> list[Any]:
    text = (ROOT / READMES[language]).read_text()
    return re.findall(pattern, text, re.MULTILINE | re.DOTALL)


def blocks() -> list[list[str]]:
    """The commands of each block of a shell."""
    found = read("en", "^```sh\n(.*?)^```$")
    return [block.replace("\\\n", "").splitlines() for block in found]


def buttons(language: str) -> list[str]:
    return ["".join(names) for names in read(language, BUTTON.pattern)]


class Stranger:
    """Somebody with a home, a clean environment, and processes of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.is_made = os.geteuid() == 0 and shutil.which("useradd") is not None
        self.name = pwd.getpwuid(os.geteuid()).pw_name
        if self.is_made:
            self.name = f"newcomer{os.getpid()}"
            made = ["useradd", "--no-create-home", "--home-dir", str(home), self.name]
            subprocess.run(made, check=True)
        self.user = pwd.getpwnam(self.name)
        for folder in CONFIGURED:
            if (Path.home() / folder).is_dir():
                shutil.copytree(Path.home() / folder, home / folder)
        self.env = {k: v for k, v in os.environ.items() if INSTALLING.match(k)}
        self.env |= {"HOME": str(home), "USER": self.name, "LOGNAME": self.name}
        self.path = LOGIN_PATH if self.is_made else os.environ["PATH"]
        self.env |= {"PATH": self.path, "LANG": "C.UTF-8"}

    def start(self, command: str, cwd: Path, **env: str) -> subprocess.Popen[str]:
        ids = {"user": self.user.pw_uid, "group": self.user.pw_gid}
        become: dict[str, Any] = {**ids, "extra_groups": []} if self.is_made else {}
        return subprocess.Popen(
            ["bash", "-c", command],
            **{"cwd": cwd, "env": self.env | env, "start_new_session": True, **become},
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE},
            **{"stderr": subprocess.STDOUT, "text": True},
        )

    def run(self, command: str, cwd: Path, expected: int = 0) -> str:
        process = self.start(command, cwd)
        output, _ = process.communicate()
        if process.returncode != expected:
            status = f"{command}\nended with {process.returncode}, not {expected}"
            raise WrongError(f"{output}{status}")
        return output

    def processes(self) -> Iterator[int]:
        """Those that have not ended; of a present user, those of this home."""
        home = f"HOME={self.home}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if path.stat().st_uid != self.user.pw_uid:
                    continue
                ended = (path / "stat").read_text().rpartition(") ")[2][0] in "ZX"
                known = self.is_made or home in (path / "environ").read_bytes()
                if known and not ended:
                    yield int(path.name)

    def end(self) -> None:
        while left := [*self.processes()]:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def remove(self) -> None:
        self.end()
        if self.is_made:
            for path in (path for place in SHARED for path in Path(place).iterdir()):
                with suppress(FileNotFoundError):
                    if path.lstat().st_uid == self.user.pw_uid:
                        subprocess.run(["rm", "-rf", path], check=True)
            subprocess.run(["userdel", "--force", self.name], check=True)

    def oldest_python(self) -> str:
        found = []
        for program in pythons.programs():
            with suppress(WrongError):
                code = f"{shlex.quote(str(program))} -I -c {shlex.quote(VERSION)}"
                *version, path = self.run(code, self.home).split(maxsplit=3) or [""]
                found += [([*map(int, version)], path.strip())] if path else []
        if not found:
            raise WrongError("this user can start no Python from 3.11 on with venv")
        return min(found)[1]


class Walk:
    def __init__(self, stranger: Stranger) -> None:
        self.stranger = stranger
        self.clone = stranger.home / "does-it-nan"
        self.said: list[str] = []
        self.is_ready = False
        self.port = str(free_port())

    def steps(self) -> dict[str, Callable[[], str]]:
        return {
            "git clone": self.get_clone,
            "make run": self.make_run,
            **{f"look-up, {name}": partial(self.look_up, name) for name in READMES},
            "Run repro": self.click,
            "examples": self.examples,
            "Ctrl-C": self.stop,
            "make test": self.make_test,
        }

    def get_clone(self) -> str:
        origin = self.stranger.home / "origin"
        subprocess.run(["git", "clone", "-q", "--bare", ROOT, origin], check=True)
        owner = f"{self.stranger.user.pw_uid}:{self.stranger.user.pw_gid}"
        subprocess.run(["chown", "-R", owner, self.stranger.home], check=True)
        python = self.stranger.env["PYTHON"] = self.stranger.oldest_python()
        command = blocks()[0][0].replace("<URL>", str(origin))
        self.stranger.run(command, self.stranger.home)
        return f"as {self.stranger.name}, with {python}"

    def make_run(self) -> str:
        self.site = self.stranger.start(blocks()[0][1], self.clone, PORT=self.port)
        ready = threading.Event()
        self.listener = threading.Thread(target=self.listen, args=[ready])
        self.listener.start()
        ready.wait()
        if not self.is_ready:
            raise WrongError("the site ended, or a part of it failed")
        return next(line for line in self.said if " is at " in line)

    def listen(self, ready: threading.Event) -> None:
        awaited = set(READY)
        for line in self.site.stdout or []:
            self.said.append(line.rstrip())
            awaited -= {pattern for pattern in awaited if re.search(pattern, line)}
            self.is_ready = self.is_ready or not awaited
            if self.is_ready or FAILED.search(line):
                ready.set()
        ready.set()

    def look_up(self, language: str) -> str:
        self.browser = Browser(language)
        front = self.browser.open(f"http://localhost:{self.port}/")
        line = read(language, "^```\n([^\n]+)\n```$")[0]
        page = self.browser.press(front, buttons(language)[0], line)
        records = [link for link in page.links if re.search(r"/NAN-\d+/", link)]
        if f"/{language}/" not in page.address or line not in page.text:
            raise WrongError(f"{page.address}: {page.text[:TEXT]}")
        if not records or "/NAN-0002/" not in records[0]:
            raise WrongError(f"{records} of {page.address}: {page.text[:TEXT]}")
        self.record = records[0]
        return self.record

    def click(self) -> str:
        """The page in Chinese, since that look-up was the last one."""
        page = self.browser.press(self.browser.open(self.record), buttons("zh")[1])
        page = self.browser.stay(page)
        verdict = str(read("zh", "`(✖[^`]+)`")[0])
        if verdict not in page.text:
            raise WrongError(f"no {verdict} in {page.address}: {page.text[:TEXT]}")
        return f"{page.address}: {verdict}"

    def examples(self) -> str:
        """The blocks that name this build, line by line; uv belongs to the machine."""
        lines = [line for block in blocks() if "2.13.0" in str(block) for line in block]
        missing = []
        for line in lines:
            command = line.replace(":8000", f":{self.port}")
            status = re.search(r"  # (\d+)$", line)
            program, silent = command.split()[:2]
            if program == "uvx" and not shutil.which(program, path=self.stranger.path):
                missing.append(program)
                continue
            output = self.stranger.run(
                command, self.clone, int(status[1] if status else 0)
            )
            if (program, silent) == ("curl", "-s"):
                self.check(json.loads(output))
        without = f"; not on the PATH: {', '.join(missing)}" * bool(missing)
        return f"{len(lines) - len(missing)} commands{without}"

    def check(self, answer: dict[str, Any]) -> None:
        """`curl -s` ends with 0 whatever it was answered."""
        is_over = answer.get("state", "finished") == "finished"
        if "NAN-0002" not in str(answer) or "status" in answer or not is_over:
            raise WrongError(json.dumps(answer, indent=2))

    def stop(self) -> str:
        os.killpg(self.site.pid, signal.SIGINT)
        self.site.wait()
        if left := [*self.stranger.processes()]:
            raise WrongError(f"left behind: {left}")
        self.listener.join()
        if "Stopped." not in self.said:
            raise WrongError("it was not stopped")
        return "nothing left"

    def make_test(self) -> str:
        return self.stranger.run("make test", self.clone).splitlines()[-1]


def walk(stranger: Stranger) -> int:
    steps = Walk(stranger)
    for name, step in steps.steps().items():
        began = time.monotonic()
        try:
            said = step()
        except (WrongError, OSError, LookupError, StopIteration, ValueError) as error:
            lines = steps.said[-TAIL:] + str(error).splitlines()[-TAIL:]
            reason = f"{type(error).__name__}: this is not what README says"
            print(*lines, f"{name}: {reason}", sep="\n")
            return 1
        print(f"{name}: {time.monotonic() - began:.1f} s, {said}", flush=True)
    return 0


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="newcomer-", dir="/var/tmp") as home:
        stranger = Stranger(Path(home))
        watchdog = threading.Timer(LIMIT_S, stranger.end)
        watchdog.daemon = True
        watchdog.start()
        try:
            return walk(stranger)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            stranger.remove()


if __name__ == "__main__":
    sys.exit(main())
