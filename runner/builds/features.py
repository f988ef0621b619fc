# /// script
# dependencies = ["torch"]
# [tool.doesitnan]
# fidelity = "mechanism_model"
# device = "cpu"
# bug = "features < 0"
# match_waived = "this is no repro"
# ///
"""Probes the features of a build, in a throw-away process under its own Python.

Written as a check of a repro, so that the harness can start, limit and read it. Needs
no GPU. Initialising CUDA is harmless here because the process ends. Python 3.8 syntax.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")

CHUNK = 3500  # one text of an observation may have 4 kB
CHUNKS = 40


def control() -> dict[str, Any]:
    """Required by the contract, as are detector and trigger."""
    return {}


detector = trigger = control


def has(path: str) -> bool:
    """Whether torch has a name such as "nn.functional.rms_norm"."""
    value = torch
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None:
            return False
    return True


def cxx() -> str:
    """The C++ compiler that Inductor would find for the CPU; "" if none."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        path = name and shutil.which(name)
        if path:
            done = subprocess.run(  # noqa: S603
                [path, "--version"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            lines = done.stdout.decode("utf-8", "replace").splitlines()
            return lines[0][:100] if lines else path
    return ""


def missing_for_compile() -> list[str]:
    """Requirements of torch.compile on the CPU that are missing here."""
    missing = []
    if not has("compile"):
        return ["torch.compile"]
    if not cxx():
        missing.append("a C++ compiler")
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        missing.append("Python.h")
    if " " in sys.prefix:
        missing.append("a path without a space")
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    # Inductor of 2.1 imports pkg_resources, which setuptools 81 no longer has.
    imported = "pkg_resources" if release < (2, 7) else "setuptools"
    try:
        importlib.import_module(imported)
    except ImportError:
        missing.append("setuptools<81")
    return missing


def arch_flags() -> str:
    """Compute capabilities that the CUDA kernels were built for."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    try:
        return (flags() or "") if flags else ""
    except RuntimeError:
        return ""


def modules() -> dict[str, str]:
    """{import name: version} of every installed distribution."""
    versions: dict[str, str] = {}
    for dist in metadata.distributions():
        try:
            name, version = dist.metadata["Name"], dist.version
            tops = (dist.read_text("top_level.txt") or "").split()
        except (KeyError, OSError, ValueError):
            continue
        if not name:
            continue
        names = tops or top_names(dist) or [name.replace("-", "_")]
        origin = commit_of(dist)
        for top in names:
            if "/" not in top and not top.startswith("_"):
                versions.setdefault(top, origin or str(version))
    return versions


def top_names(dist: metadata.Distribution) -> list[str]:
    """Import names from the file list, for distributions without top_level.txt."""
    names = set()
    for path in dist.files or ():
        first, _, rest = str(path).replace(os.sep, "/").partition("/")
        if rest and first.isidentifier() and rest == "__init__.py":
            names.add(first)
        elif not rest and first.endswith(".py"):
            names.add(first[:-3])
    return sorted(names)


def commit_of(dist: metadata.Distribution) -> str:
    """ "git+URL@commit" of a distribution installed from a repository, else ""."""
    try:
        origin = json.loads(dist.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    vcs = origin.get("vcs_info") or {}
    if not vcs.get("commit_id"):
        return ""
    return f"{vcs.get('vcs', 'git')}+{origin.get('url')}@{vcs['commit_id']}"


def features() -> dict[str, str]:
    """The facts as JSON, split into `part_00`, `part_01`, …."""
    functional = "nn.functional."
    facts: dict[str, Any] = {
        "features": {
            "sdpa": has(functional + "scaled_dot_product_attention"),
            "rms_norm": has(functional + "rms_norm"),
            "float8": has("float8_e4m3fn"),
            "compile": has("compile"),
            "distributed": bool(torch.distributed.is_available()),
            "mkldnn": bool(torch.backends.mkldnn.is_available()),
        },
        "cxx": cxx(),
        "compile_lacks": missing_for_compile(),
        "cuda_archs": arch_flags(),
        "cxx11_abi": bool(torch._C._GLIBCXX_USE_CXX11_ABI),
        "torch_file": torch.__file__,
        "base_prefix": sys.base_prefix,
        "modules": modules(),
    }
    text = json.dumps(facts)
    if len(text) > CHUNK * CHUNKS:
        facts["modules"] = {}
        text = json.dumps(facts)
    starts = range(0, len(text), CHUNK)
    return {f"part_{n:02}": text[at : at + CHUNK] for n, at in enumerate(starts)}
