"""The machine that a kit was carried to: its GPUs, its folder, the wheels it was given.

GPUs are locked and watched by the site's own `runner.gpus`, which a kit carries as it
is, with NVIDIA's binding of NVML (pynvml) beside it.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib
import io
import os
import pathlib
import shutil
import tempfile
import threading
import zipfile
from typing import Any, Callable, Dict, Iterator, List, Sequence

carried: Any = importlib.import_module("carried")
harness: Any = importlib.import_module("portable.harness")
gpu_run: Any = importlib.import_module("runner.gpus.gpu_run")
gpu_devices: Any = importlib.import_module("runner.gpus.devices")
nvml: Any = importlib.import_module("runner.gpus.nvml")

IN_USE = "kit.lock"
Json = Dict[str, Any]


@contextlib.contextmanager
def own_folder(folder: str) -> Iterator[None]:
    """Everything that is written lies below `folder`, or below that of a dead kit.

    A kit that was killed left its folder behind; it is removed by the next one.
    """
    path = os.path.join(folder, IN_USE)
    with open(path + ".part", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # Under its name only once it is held, or another kit would take it for dead.
        os.rename(path + ".part", path)
        remove_abandoned(os.path.dirname(folder), but=folder)
        for name in ("tmp", "locks", "wheels"):
            os.mkdir(os.path.join(folder, name))
        tempfile.tempdir = os.path.join(folder, "tmp")
        try:
            yield
        finally:
            tempfile.tempdir = None


def remove_abandoned(place: str, but: str) -> None:
    """Remove folders in `place` that a kit of this user left when it was killed."""
    for path in pathlib.Path(place).glob("doesitnan-*/" + IN_USE):
        with contextlib.suppress(OSError):
            mine = path.parent.stat().st_uid == os.getuid()
            if not mine or path.parent.is_symlink() or str(path.parent) == but:
                continue
            with open(str(path)) as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(str(path.parent), ignore_errors=True)


# --- wheels ---------------------------------------
class Wheels:
    """The wheels in the kit, unpacked when a repro first asks for one.

    `known`: of the manifest, file name -> {"digest", "python"}.
    """

    def __init__(self, kit: str, folder: str, known: Json) -> None:
        self.kit = kit
        self.folder = os.path.join(folder, "wheels")
        self.known = known
        self.lock = threading.Lock()
        self.unpacked: Dict[str, str] = {}

    def paths(self, names: Sequence[str], python: str) -> List[str]:
        """Folders for PYTHONPATH: of wheels that the interpreter "3.12" can load."""
        with self.lock:
            return [self.folder_of(name) for name in names if self.fits(name, python)]

    def fits(self, name: str, python: str) -> bool:
        return self.known[name]["python"] in ("any", python)

    def folder_of(self, name: str) -> str:
        if name not in self.unpacked:
            self.unpacked[name] = self.unpack(name)
        return self.unpacked[name]

    def changed(self) -> List[str]:
        """Those that are not what was put into the kit, or are no longer there."""
        return [
            name
            for name, facts in sorted(self.known.items())
            if facts["digest"] != self.digest(name)
        ]

    def digest(self, name: str) -> str:
        try:
            return "sha256:" + hashlib.sha256(self.data(name)).hexdigest()
        except (KeyError, zipfile.BadZipFile):
            return ""

    def data(self, name: str) -> bytes:
        with zipfile.ZipFile(self.kit) as kit:
            return kit.read("wheels/" + name)

    def unpack(self, name: str) -> str:
        target = os.path.join(self.folder, name)
        with zipfile.ZipFile(io.BytesIO(self.data(name))) as wheel:
            wheel.extractall(target)
        return target


# --- runs -----------------------------------------
class Node:
    """Runs repros here, on GPUs that are locked and watched."""

    def __init__(self, folder: str, python: str, wheels: Wheels) -> None:
        self.folder = folder
        self.python = python
        self.wheels = wheels
        # As the probe says who it is, once it was asked.
        self.build: Json = {}
        self.nvidia = nvml.Nvidia()

    def snapshot(self) -> Json:
        """What the driver says of each GPU now."""
        found: Json = gpu_devices.snapshot(self.nvidia)
        return found

    def execute(
        self,
        repro: Json,
        on_event: Callable[[str, str], None],
        cancelled: Callable[[], bool],
    ) -> Json:
        """The evidence of one repro. Raises what `harness.drive` does."""
        evidence: Json = gpu_run.drive(
            carried.source_of(self.folder, repro),
            self.starter(repro, cancelled),
            self.gpus(say=lambda text: on_event("gpu", text)),
            name=repro["name"],
            record=repro["record"],
            device=repro["device"],
            on_event=on_event,
            cancelled=cancelled,
        )
        return evidence

    @contextlib.contextmanager
    def cells(
        self, repro: Json, cancelled: Callable[[], bool], uuid: str
    ) -> Iterator[Any]:
        """A repro to be asked at many values, and the lease of its GPU or None.

        `uuid`: of the GPU on which an earlier start began, "" for any. Raises what
        `harness.Cells` does.
        """
        source = carried.source_of(self.folder, repro)
        start_with = self.starter(repro, cancelled)
        if repro["device"] == "cpu":
            yield harness.Cells(source, start_with("", ()), cancelled=cancelled), None
            return
        chosen = (uuid,) if uuid and repro["gpus"] == 1 else ()
        header = harness.parse_header(source)
        host = self.gpus(chosen=chosen)
        with gpu_run.held(header, start_with, host, cancelled) as lease:
            yield harness.Cells(source, lease.start, cancelled=cancelled), lease

    def starter(self, repro: Json, cancelled: Callable[[], bool]) -> Any:
        start = harness.start_plain(
            self.python, carried.path_of(self.folder, repro), cancelled=cancelled
        )
        paths = self.wheels.paths(repro["wheels"], str(self.build["python"]))
        return lambda visible, descriptors: with_settings(start, visible, paths)

    def gpus(self, **choices: Any) -> Any:
        locks = pathlib.Path(self.folder, "locks")
        return gpu_run.HostGpus(locks=locks, nvidia=self.nvidia, **choices)


def with_settings(start: Any, visible: Any, paths: List[str]) -> Any:
    """`start` with CUDA_VISIBLE_DEVICES where it is given, and wheels to import from.

    The wheels of a repro's stack come before what is installed: they are its stack.
    """
    settings = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    if paths:
        own = [path for path in [os.environ.get("PYTHONPATH")] if path]
        settings["PYTHONPATH"] = os.pathsep.join(paths + own)

    def started(spec: Any) -> Any:
        return start(dataclasses.replace(spec, preset=dict(spec.preset, **settings)))

    return started
