"""Environments with a release of torch, made by pip in a folder that goes again.

Which indexes are asked is the user's own setting (PIP_EXTRA_INDEX_URL and the like);
none is named here.
"""

import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import urllib.request
from typing import Any, List, Sequence, Tuple

LISTED = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
# As pip begins what went wrong, and what it says after it.
ERROR = re.compile(r"error:", re.IGNORECASE)
ADVICE = re.compile(r"hint:|\[notice\]", re.IGNORECASE)
FINAL = re.compile(r"(\d+(?:\.\d+)+)(?:\+.*)?$")
MIB = 1024 * 1024
LIMIT_S = 3600
# Disk size of an environment per size of its wheels, as the site measured it.
UNPACKED = 2.3
RESERVE_MIB = 300
# A folder beside those of the releases, whose pip is theirs too.
ASKING = "asking"
NUMPY_1_UNTIL = (2, 3)
SETUPTOOLS_UNTIL = (2, 11)
# These would make pip or Python use other folders than the environment's.
DROPPED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")


class Failed(Exception):
    """Something that was started did not work; the text is its last line."""


def numbers(release: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def run(command: Sequence[str]) -> str:
    """What it printed. Raises Failed."""
    environ = {name: os.environ[name] for name in os.environ if name not in DROPPED}
    environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    try:
        done = subprocess.run(  # noqa: S603
            list(command),
            stdin=subprocess.DEVNULL,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed("%s: %s" % (command[0], error)) from error
    if done.returncode:
        said = reason(done.stderr) or "status %d" % done.returncode
        raise Failed("%s: %s" % (os.path.basename(command[0]), said[:400]))
    return done.stdout


def reason(stderr: str) -> str:
    """What pip says went wrong, with its causes, without advice; on a line."""
    stripped = [line.strip() for line in stderr.splitlines() if line.strip()]
    lines = list(itertools.takewhile(lambda line: not ADVICE.match(line), stripped))
    begun = [number for number, line in enumerate(lines) if ERROR.match(line)]
    return " ".join(lines[begun[0] if begun else -1 :])


class Maker:
    """Makes environments of `python` below `folder`, one for each release."""

    def __init__(self, folder: str, python: str) -> None:
        self.folder = folder
        self.python = python

    def pip(self, release: str, *arguments: str) -> str:
        """What the pip of an environment prints. Raises Failed."""
        command = [self.python_of(release), "-m", "pip", *arguments]
        return run([*command, "--only-binary", ":all:"])

    def releases(self) -> List[str]:
        """Final releases of torch with a wheel, oldest first. Raises Failed.

        Asked in an empty environment: `python` itself may have no pip.
        """
        run([self.python, "-m", "venv", os.path.join(self.folder, ASKING)])
        listed = LISTED.search(self.pip(ASKING, "index", "versions", "torch"))
        if not listed:
            raise Failed("pip lists no releases of torch")
        found = [FINAL.match(text) for text in listed.group(1).split(", ")]
        return sorted({match.group(1) for match in found if match}, key=numbers)

    def python_of(self, release: str) -> str:
        return os.path.join(self.folder, release, "bin", "python")

    def packages_of(self, release: str) -> str:
        inside = os.path.join(glob.escape(self.folder), release, "lib")
        return glob.glob(os.path.join(inside, "python*", "site-packages"))[0]

    def make_empty(self, release: str) -> None:
        """With a copy of the pip that was asked: making one takes seconds."""
        new = os.path.join(self.folder, release)
        run([self.python, "-m", "venv", "--without-pip", new])
        packages = self.packages_of(ASKING), self.packages_of(release)
        shutil.copytree(*packages, dirs_exist_ok=True)

    def size_mib(self, release: str, wanted: Sequence[str]) -> int:
        """Of all its wheels; 0 where that is not told. The environment exists."""
        plan = ("install", "--dry-run", "--quiet", "--report", "-")
        rows = json.loads(self.pip(release, *plan, *wanted))["install"]
        return sum(size_of(row["download_info"]["url"]) for row in rows) // MIB

    def fill(self, release: str, wanted: Sequence[str]) -> None:
        self.pip(release, "install", "--quiet", *wanted)

    def free_mib(self) -> int:
        return int(shutil.disk_usage(self.folder).free // MIB)

    def require_space(self, mib: int) -> None:
        """For an environment of wheels of this size. Raises Failed."""
        needed = int(mib * UNPACKED) + RESERVE_MIB
        if self.free_mib() < needed:
            raise Failed(
                "%s has %d MiB free, %d MiB are needed: TMPDIR names another folder"
                % (self.folder, self.free_mib(), needed)
            )

    def remove(self, release: str) -> None:
        shutil.rmtree(os.path.join(self.folder, release), ignore_errors=True)


def size_of(url: str) -> int:
    """Bytes of a file or a download; 0 where nobody says."""
    if url.startswith("file:"):
        path = urllib.request.url2pathname(url[len("file://") :])
        return os.path.getsize(path) if os.path.isfile(path) else 0
    if not url.startswith(("http:", "https:")):
        return 0
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310  # http(s)
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310
            return int(answer.headers.get("Content-Length") or 0)
    except (OSError, ValueError):
        return 0


def requirements(release: str, others: Sequence[str]) -> List[str]:
    """torch, what old releases import without naming it, and what the repro needs."""
    found: List[Any] = ["torch==%s" % release]
    found.append("numpy<2" if numbers(release) < NUMPY_1_UNTIL else "numpy")
    if numbers(release) < SETUPTOOLS_UNTIL:
        found.append("setuptools<81")
    named = [re.match(r"[\w.-]+", text) for text in others]
    pairs = zip(named, others)
    return found + [text for name, text in pairs if name and name.group() != "torch"]
