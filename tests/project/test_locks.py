"""The locks: whole for every Python that the site runs on, by hash, of no index."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(settings.BASE_DIR)
# What each lock holds beside the dependencies of the site.
LOCKS = {
    "requirements.txt": "",
    "requirements-mcp.txt": "mcp",
    "requirements-redis.txt": "redis",
    "requirements-dev.txt": "dev",
}
# 3.11.2 is Debian 12's, older than what some libraries ask of 3.11.
PYTHONS = ("3.11.2", "3.11.7", "3.12.1", "3.13.0", "3.14.0")

Environment = dict[str, str]


def environment(python: str) -> Environment:
    """The markers of CPython on Linux in one release, as this machine has the rest."""
    short = ".".join(python.split(".")[:2])
    here = {name: str(value) for name, value in default_environment().items()}
    return here | {"python_version": short, "python_full_version": python, "extra": ""}


def holds(wanted: Requirement, markers: Environment, extras: set[str]) -> bool:
    """Whether a dependency applies there to who asked for these extras."""
    return wanted.marker is None or any(
        wanted.marker.evaluate(markers | {"extra": extra}) for extra in {"", *extras}
    )


def pins(name: str) -> list[Requirement]:
    """The lines of a lock, without hashes."""
    lines = re.findall(r"^[a-z][^\\\n]*", (ROOT / name).read_text(), re.MULTILINE)
    return [Requirement(line) for line in lines]


def pinned(name: str, markers: Environment) -> dict[str, str]:
    """What a lock installs in an environment: names with their versions."""
    here = [pin for pin in pins(name) if holds(pin, markers, set())]
    found = {pin.name: str(pin.specifier).removeprefix("==") for pin in here}
    assert len(found) == len(here), "a package is pinned twice"
    return found


def asked_for(extra: str) -> list[Requirement]:
    """The site's own dependencies and those of one extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    more = project["optional-dependencies"][extra] if extra else []
    return [Requirement(line) for line in [*project["dependencies"], *more]]


def dependencies(name: str) -> list[Requirement]:
    """What an installed package needs; nothing of one that is not needed here."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    return [Requirement(line) for line in lines]


def walk(extra: str, markers: Environment, lock: dict[str, str]) -> list[str]:
    """One line for each requirement, of whatever depth, that the lock does not meet."""
    seen: set[str] = set()
    missing = []
    waiting = [(wanted, "the site") for wanted in asked_for(extra)]
    while waiting:
        wanted, of = waiting.pop()
        name = canonicalize_name(wanted.name)
        if not wanted.specifier.contains(lock.get(name, "0"), prereleases=True) or (
            name not in lock
        ):
            missing.append(f"{wanted} of {of}")
        key = f"{name}{sorted(wanted.extras)}"
        if key in seen:
            continue
        seen.add(key)
        waiting += [
            (needed, name)
            for needed in dependencies(name)
            if holds(needed, markers, wanted.extras)
        ]
    return missing


class LocksTest(SimpleTestCase):
    def test_every_python_finds_all_that_it_needs(self) -> None:
        for name, extra in LOCKS.items():
            for python in PYTHONS:
                with self.subTest(lock=name, python=python):
                    markers = environment(python)
                    lock = pinned(name, markers)
                    self.assertEqual(walk(extra, markers, lock), [])

    def test_redis_needs_a_package_more_before_3_11_3(self) -> None:
        # What the walk above is for; and it sees the package that is not installed.
        for name in ("requirements-redis.txt", "requirements-dev.txt"):
            needs = [
                "async-timeout" in pinned(name, environment(python))
                for python in PYTHONS
            ]
            self.assertEqual(needs, [True, False, False, False, False], name)

    def test_every_package_is_pinned_by_hash_and_no_index_is_named(self) -> None:
        for name in LOCKS:
            text = (ROOT / name).read_text()
            self.assertNotIn("://", text)
            for block in re.split(r"\n(?=[a-z])", text):
                self.assertRegex(
                    block, r"(?s)^[a-z][^ ]*==[^ ]+ (; [^\\]+ )?\\\n +--hash=sha256:"
                )

    def test_all_locks_pin_one_version_of_a_package(self) -> None:
        developers = {str(pin) for pin in pins("requirements-dev.txt")}
        for name in LOCKS:
            versions = {f"{pin.name}{pin.specifier}" for pin in pins(name)}
            self.assertLessEqual(
                versions, {line.split(";")[0].strip() for line in developers}, name
            )
