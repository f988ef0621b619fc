"""Collected in the process of a check: the torch, what works there, the repro."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import json
import os
import platform
import re
import socket
import subprocess
import sys
import traceback
import types
from typing import Any, Dict, List, Mapping, Optional

from .checks import functions_of
from .fields import Header, parse_dependency, release
from .judge import unmet_requirement
from .parameters import defaults_of
from .process import read_bytes
from .values import MIB, build_slug, encode


def source_text(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode("utf-8")


def exception_message(error: BaseException) -> Dict[str, Any]:
    """The message for an exception, whatever its methods do; logs its trace."""
    try:
        text = str(error)[:2000]
    except BaseException:
        text = "(its text cannot be shown)"
    try:
        trace = traceback.format_exc()
    except BaseException:
        trace = "%s: %s\n" % (type(error).__name__, text)
    try:
        sys.stderr.write(trace)
    except BaseException:
        os.write(2, trace.encode("utf-8", "replace"))
    return {"t": "raised", "type": type(error).__name__[:200], "text": text}


def as_sent(value: Any) -> Any:
    """Observations for the channel; what JSON cannot hold is named by its type."""
    if isinstance(value, dict):
        return {str(key): as_sent(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_sent(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return encode(value)
    return {"$type": type(value).__name__[:80]}


def offer_parameters(header: Optional[Header], chosen: Mapping[str, Any]) -> None:
    """`from doesitnan import parameter` for the repro of this process."""
    values = dict(defaults_of(header.parameters) if header else {}, **chosen)

    def parameter(name: str) -> Any:
        """The value of this run for a parameter that the header declares."""
        return values[name]

    module: Any = types.ModuleType("doesitnan")
    module.parameter = parameter
    sys.modules["doesitnan"] = module


def load_repro(path: str, source: str) -> types.ModuleType:
    module = types.ModuleType("repro")
    module.__file__ = path
    # Pickle, dynamo and inspect look a function's module up by its name.
    sys.modules["repro"] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


# Kept: a warm parent asks once for all its children.
@functools.lru_cache(maxsize=None)
def dist_version(name: str) -> Optional[str]:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit_of(name: str) -> Optional[str]:
    """The commit that a distribution was installed from, where pip noted one."""
    try:
        text = importlib.metadata.distribution(name).read_text("direct_url.json")
        commit = json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return str(commit) if commit else None


DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages/"


@functools.lru_cache(maxsize=None)
def _debian_name(place: str) -> str:
    """Debian's package names itself 1.13.0a0 whatever it is; ask dpkg."""
    if not place.startswith(DEBIAN_PACKAGES):
        return ""
    query = ["dpkg-query", "-W", "-f", "${Version}", "python3-torch"]
    try:
        text = subprocess.run(query, stdout=subprocess.PIPE, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return ""
    numbers = ".".join(map(str, release(text.rpartition(":")[2])))
    return numbers and numbers + "-debian"


# Whose versions all evidence records; a repro adds those that it names.
RECORDED_PACKAGES = ("numpy", "triton")


def identity(torch: Any, header: Optional[Header]) -> Dict[str, Any]:
    """Which build this is (`build` of the evidence)."""
    names = [*RECORDED_PACKAGES]
    if header:
        names += [parse_dependency(source)[0] for source in header.dependencies]
    raw, cuda = str(torch.__version__), torch.version.cuda
    try:
        cudnn = torch.backends.cudnn.version()
    except RuntimeError:
        cudnn = None  # The library that was found is not the one it was built with.
    where = "%s-%s" % (sys.platform, platform.machine())
    debian = _debian_name(str(getattr(torch, "__file__", "")))
    return {
        "slug": build_slug(raw, cuda, debian, where),
        "raw": raw,
        "dist": dist_version("torch"),
        "git": getattr(torch.version, "git_version", None),
        "cuda": cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": None if cudnn is None else str(cudnn),
        "python": "%d.%d" % sys.version_info[:2],
        "platform": where,
        "machine": platform.machine(),
        "packages": {n: dist_version(n) for n in sorted({*names} - {"torch"})},
    }


def cuda_devices(torch: Any, header: Optional[Header]) -> List[Dict[str, Any]]:
    """The devices torch sees; none are looked for on behalf of a CPU repro."""
    for_cpu = header is not None and header.device == "cpu"
    if for_cpu or not torch.cuda.is_available():
        return []
    driver = re.search(rb"\b\d{3}\.\d[\d.]*", read_bytes("/proc/driver/nvidia/version"))
    # HIP imitates the numbers of CUDA, which say nothing there.
    is_hip = bool(getattr(torch.version, "hip", None))
    devices = []
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "class": "cuda",
                "name": device.name,
                "capability": "" if is_hip else "%d.%d" % (device.major, device.minor),
                "memory_mib": device.total_memory // MIB,
                "driver": driver.group().decode() if driver else None,
                # Since torch 2.5.
                "uuid": "GPU-%s" % device.uuid if hasattr(device, "uuid") else None,
            }
        )
    return devices


def devices_of(
    torch: Any, header: Optional[Header], device: str
) -> List[Dict[str, Any]]:
    """The devices that a check may use; `device`: where it runs instead, or ""."""
    if not device:
        return cuda_devices(torch, header)
    # Since torch 2.0; before, tensors that name no device are the CPU's.
    if not hasattr(torch, "set_default_device"):
        return []
    return cuda_devices(torch, None) if device == "cuda" else others(torch, device)


def others(torch: Any, kind: str) -> List[Dict[str, Any]]:
    """Devices of a kind for which torch, or a package beside it, has a module."""
    module: Any = getattr(torch, kind, None)
    of_mps = kind == "mps"
    asked = getattr(torch.backends, kind, None) if of_mps else module
    if asked is None or not asked.is_available():
        return []
    names = (
        [chip()]
        if of_mps
        else map(module.get_device_name, range(module.device_count()))
    )
    facts = {"capability": "", "memory_mib": 0, "driver": None, "uuid": None}
    return [{"class": kind, "name": str(name), **facts} for name in names]


def chip() -> str:
    """What macOS calls its processor, of which the GPU is a part."""
    query = ["sysctl", "-n", "machdep.cpu.brand_string"]
    return (
        subprocess.run(query, stdout=subprocess.PIPE, check=True)
        .stdout.decode()
        .strip()
    )


def cheap_facts(
    torch: Any, header: Optional[Header], known: Dict[str, Any]
) -> Dict[str, Any]:
    """What the requirements read, as far as it costs nothing but imports."""
    missing = []
    for name in header.stack if header else ():
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            missing.append(name)
            if isinstance(error, ModuleNotFoundError) and error.name == name:
                print("%s is not installed" % name, file=sys.stderr)
            else:
                exception_message(error)
            continue
        version = getattr(module, "__version__", None) or dist_version(name)
        commit = commit_of(name)
        # Commits of a repository share their version number.
        named = "%s@%s" % (version, commit) if version and commit else version
        known["packages"][name] = named and str(named)
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "missing": missing,
        "packages": known["packages"],
    }


def dear_facts(
    torch: Any,
    header: Optional[Header],
    hello: Dict[str, Any],
    path: str,
    source: str,
) -> Dict[str, Any]:
    """What only trying can tell: compiler, workers, sockets, `requires()`.

    Nothing is tried once something cheaper is unmet.
    """
    facts: Dict[str, Any] = {}
    if header is None:
        return facts
    cheap = dict(hello["facts"], devices=hello["devices"])
    if unmet_requirement(dataclasses.replace(header, needs=()), cheap):
        return facts
    for need in header.needs:
        try:
            _ATTEMPTS[need](torch, header.device)
            facts[need] = True
        except Exception as error:
            exception_message(error)
            print(REMEDIES[need], file=sys.stderr)
            return dict(facts, **{need: False})
    if any(node.name == "requires" for node in functions_of(source)):
        reason = load_repro(path, source).requires()
        if not isinstance(reason, (str, type(None))):
            raise TypeError("requires() returns None or a text")
        facts["said"] = reason or ""
    return facts


def try_compiler(torch: Any, device: str) -> None:
    """Compile and run something small, for real."""
    double = torch.compile(lambda x: (x * 2.0).sin())
    double(torch.ones(8, device=device))


def try_loader(torch: Any, device: str) -> None:
    data = importlib.import_module("torch.utils.data")
    seen = [int(item) for item in data.DataLoader([1, 2, 3], num_workers=1)]
    if seen != [1, 2, 3]:
        raise RuntimeError("the worker returned %r" % seen)


def try_loopback(torch: Any, device: str) -> None:
    dist = importlib.import_module("torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dist.init_process_group(
        "gloo", init_method="tcp://127.0.0.1:%d" % port, rank=0, world_size=1
    )
    # The group ends with the process: destroying it never returns on some releases.
    dist.all_reduce(torch.ones(1))


_ATTEMPTS = {"compiler": try_compiler, "loader": try_loader, "loopback": try_loopback}
REMEDIES = {
    "compiler": "torch.compile does not work under this build. On the CPU it needs a "
    "C++ compiler and the headers of Python: on Debian and Ubuntu the packages g++ and "
    "python3-dev. On CUDA it needs triton and a C compiler: the package gcc. Releases "
    "up to 2.10 also import setuptools: pip install 'setuptools<81'. A build whose "
    "path has a space does not compile either: Inductor does not quote it.",
    "loader": "A DataLoader with one worker process does not work under this build.",
    "loopback": "gloo cannot open a connection to 127.0.0.1 here.",
}
