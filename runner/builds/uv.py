"""Installing with uv, which hard-links files that several builds share.

uv reads none of pip's settings; they are translated, so that a mirror configured for
pip is used here too. Settings made for uv itself win. Standard library only.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runner.builds import venvs
from runner.builds.venvs import InstallError, Progress

MIB = 1024 * 1024
PLAN_LIMIT_S = 300
SIZE_TIMEOUT_S = 5
# pip's option -> the variable by which uv takes the same.
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "constraint": "UV_CONSTRAINT",
}
# Older names that uv still reads.
DEPRECATED = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}


def find() -> list[str] | None:
    """The command of uv on this machine; None where there is none."""
    path = shutil.which(os.environ.get("UV") or "uv") or shutil.which("uv")
    if path:
        return [path]
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    return None


# --- pip's settings ---------------------------------------------------------------


def pip_settings() -> dict[str, str]:
    """Options of `pip config list`: name -> the value that has precedence.

    Without pip in this environment, only those of PIP_* variables.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(  # noqa: S603
        command, env=venvs.clean_environ(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {
            name[4:].lower().replace("_", "-"): value
            for name, value in os.environ.items()
            if name.startswith("PIP_") and value
        }
    return parse_settings(done.stdout)


def may_ask_indexes(settings: Mapping[str, str]) -> bool:
    """Whether pip's settings leave the network to it."""
    return settings.get("no-index", "").lower() in ("", "0", "false", "no", "off")


def parse_settings(text: str) -> dict[str, str]:
    """Lines such as `global.find-links='/wheels'`; the environment beats `install`,
    `install` beats `global`.
    """
    order = ("global", "install", ":env:")
    rows = re.findall(r"^(global|install|:env:)\.([a-z-]+)=(.*)$", text, re.MULTILINE)
    rows.sort(key=lambda row: order.index(row[0]))
    return {option: str(ast.literal_eval(value)) for _, option, value in rows}


def variables(
    settings: Mapping[str, str], environ: Mapping[str, str], extra_index: str = ""
) -> dict[str, str]:
    """pip's settings as variables of uv, but for those that `environ` sets already.

    Variables, not arguments: an address may hold a password. `extra_index`: one more
    index to look in.
    """
    values = {
        variable: settings.get(option, "") for option, variable in UV_VARIABLES.items()
    }
    indexes = [*settings.get("extra-index-url", "").split(), extra_index]
    values["UV_INDEX"] = " ".join(filter(None, indexes))
    if values["UV_INDEX"]:
        # Like pip: the best version of all indexes, not the first index that has any.
        values["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    values["UV_FIND_LINKS"] = ",".join(settings.get("find-links", "").split())
    values["HTTPS_PROXY"] = values["HTTP_PROXY"] = settings.get("proxy", "")
    return {
        name: value
        for name, value in values.items()
        if value and not (environ.get(name) or environ.get(DEPRECATED.get(name, "")))
    }


# --- what would be installed ------------------------------------------------------


@dataclass(frozen=True)
class Wheel:
    """One package of a plan; `size` in bytes, None where it is unknown."""

    name: str
    version: str
    url: str
    size: int | None


@dataclass(frozen=True)
class Plan:
    wheels: list[Wheel]
    to_download: int | None

    @property
    def mib(self) -> int:
        return sum(wheel.size or 0 for wheel in self.wheels) // MIB

    @property
    def unknown(self) -> int:
        return sum(wheel.size is None for wheel in self.wheels)

    def version_of(self, name: str) -> str:
        return next((w.version for w in self.wheels if w.name == name), "")

    def describe(self) -> str:
        """Size and downloads of the plan in one line."""
        text = f"{len(self.wheels)} wheels, {self.mib} MiB"
        if self.unknown:
            text += f" and {self.unknown} of unknown size"
        if self.to_download is not None:
            text += f"; {self.to_download} of them are not in uv's cache"
        return text


@dataclass(frozen=True)
class Uv:
    """uv for the environments below one folder. `settings`: variables for its runs."""

    command: list[str]
    settings: Mapping[str, str]
    builds: Path

    @cached_property
    def variables(self) -> dict[str, str]:
        """Hard links where the cache allows them; else a cache beside the builds."""
        values = {**self.settings, "UV_NO_PROGRESS": "1"}
        cache = self.cache()
        if not can_link(cache, self.builds):
            cache = self.builds / ".uv-cache"
            values["UV_CACHE_DIR"] = str(cache)
        if can_link(cache, self.builds):
            values.setdefault("UV_LINK_MODE", "hardlink")
        return values

    def cache(self) -> Path:
        done = subprocess.run(  # noqa: S603
            [*self.command, "cache", "dir"],
            env=venvs.clean_environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        return Path(done.stdout.strip() or self.builds / ".uv-cache")

    def run(self, arguments: list[str], text: str = "") -> tuple[int, str, str]:
        done = subprocess.run(  # noqa: S603
            [*self.command, *arguments],
            env={**venvs.clean_environ(), **self.variables},
            input=text,
            capture_output=True,
            text=True,
            timeout=PLAN_LIMIT_S,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def plan(self, folder: Path, requirements: list[str]) -> Plan | None:
        """The wheels that would be installed; None where this uv is too old to tell.

        Raises InstallError where the requirements cannot be resolved.
        """
        arguments = ["pip", "compile", "-", "--format", "pylock.toml", "--quiet"]
        arguments += ["--no-header", *self.common(folder)]
        status, lock, stderr = self.run(arguments, "\n".join(requirements))
        if status and "unexpected argument" in stderr:
            return None
        if status:
            raise InstallError(one_line(stderr) or f"uv ended with {status}")
        packages = tomllib.loads(lock).get("packages", [])
        with ThreadPoolExecutor(8) as pool:
            wheels = list(pool.map(wheel_of, packages))
        return Plan(wheels, self.to_download(folder, requirements))

    def to_download(self, folder: Path, requirements: list[str]) -> int | None:
        arguments = ["pip", "install", "--dry-run", *self.common(folder)]
        status, _, stderr = self.run([*arguments, *requirements])
        match = re.search(r"Would download (\d+) package", stderr)
        if status or "Would install" not in stderr:
            return None
        return int(match.group(1)) if match else 0

    def common(self, folder: Path, wheels_only: bool = True) -> list[str]:
        binary = ["--only-binary", ":all:"] * wheels_only
        python = ["--python", str(venvs.python_of(folder))]
        return [*python, *binary]

    def install(
        self,
        folder: Path,
        requirements: list[str],
        progress: Progress,
        limit_s: float,
        *,
        wheels_only: bool = True,
    ) -> None:
        """Raises InstallError."""
        command = [*self.command, "pip", "install", *self.common(folder, wheels_only)]
        venvs.run_installer(
            "uv", [*command, *requirements], self.variables, progress, limit_s
        )


def wheel_of(package: Mapping[str, object]) -> Wheel:
    """A package of a pylock.toml (PEP 751) with the size of its one wheel."""
    wheels = package.get("wheels")
    first = wheels[0] if isinstance(wheels, list) and wheels else {}
    archive = package.get("archive")
    source = first or (archive if isinstance(archive, dict) else {})
    url = str(source.get("url") or source.get("path") or "")
    size = source.get("size")
    known_size = size if isinstance(size, int) else size_of(url)
    return Wheel(str(package["name"]), str(package.get("version", "")), url, known_size)


def size_of(url: str) -> int | None:
    """Size in bytes of a local file or a download; None where it is unknown."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        path = Path(unquote(parts.path))
        return path.stat().st_size if path.is_file() else None
    if parts.scheme not in ("http", "https"):
        return None
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310  # http(s)
    try:
        with urllib.request.urlopen(request, timeout=SIZE_TIMEOUT_S) as answer:  # noqa: S310
            length = answer.headers.get("Content-Length", "")
    except (OSError, urllib.error.URLError, ValueError):
        return None
    return int(length) if length.isdecimal() else None


def can_link(cache: Path, builds: Path) -> bool:
    """Whether hard links between the two folders work, tested by making one."""
    try:
        for folder in (cache, builds):
            folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=cache, prefix=".link-") as file,
            tempfile.TemporaryDirectory(dir=builds, prefix=".link-") as target,
        ):
            os.link(file.name, Path(target) / "second")
    except OSError:
        return False
    return True


def one_line(text: str) -> str:
    """An error of uv, which wraps its lines for a terminal, on one line."""
    return " ".join(text.replace("╰─▶", "").replace("×", "").split())[:800]
