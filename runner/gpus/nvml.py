"""NVIDIA's GPUs through NVML, which pynvml asks.

Having no GPU is an ordinary state. Every field is a value or {"error": NVML's name of
it}: one that fails never takes the others along. Memory is in MiB, power in W, energy
in J, clocks in MHz, temperature in °C. Standard library and pynvml (nvidia-ml-py), so
that it works beside torch without the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

try:
    import pynvml
except ImportError:  # A machine with torch and a checkout need not have it.
    pynvml = None

MIB = 1024 * 1024
DEVICES = Path("/dev")
PROC_GPUS = Path("/proc/driver/nvidia/gpus")
# nvml.h; spelled out because a machine need not have pynvml.
ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
COMPUTE_MODES = {
    0: "default",
    1: "exclusive_thread",
    2: "prohibited",
    3: "exclusive_process",
}
CLOCK_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
CLOCKS = {"graphics": 0, "sm": 1, "memory": 2}
# (error type, counter): NVML_MEMORY_ERROR_TYPE_*, NVML_VOLATILE_ECC/AGGREGATE_ECC
ECC = {
    "corrected_volatile": (0, 0),
    "uncorrected_volatile": (1, 0),
    "corrected_aggregate": (0, 1),
    "uncorrected_aggregate": (1, 1),
}
REMAPPED = ("corrected", "uncorrected", "pending", "failure")
# What `system` tells.
VERSIONS = ("driver", "nvml", "cuda_driver")


class GpuError(Exception):
    """The library could not answer; `name` in its words, such as "NotSupported"."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def reading(read: Callable[..., Any], *arguments: Any) -> Any:
    """The value that `read` returns, or {"error": name} where the library raises."""
    try:
        return read(*arguments)
    except GpuError as error:
        return {"error": error.name}


def is_error(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"error"}


class Library(Protocol):
    """Something that answers NVML's functions by their names."""

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer. Raises GpuError."""


class Live:
    """The driver's own answers, through pynvml."""

    def ask(self, function: str, *arguments: Any) -> Any:
        if pynvml is None:
            raise GpuError("BindingsNotInstalled")
        call = getattr(pynvml, function, None)
        if call is None:
            raise GpuError("FunctionNotFound")
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            name = type(error).__name__
            short = name.removeprefix("NVMLError_")
            number = getattr(error, "value", "?")
            raise GpuError(short if short != name else f"Error{number}") from error


class Gpu(NamedTuple):
    """A GPU or a part of one that runs may have.

    `board`: handle of the whole GPU; `order`: its number as NVML counts.
    """

    uuid: str
    handle: Any
    board: Any
    order: int


class Nvidia:
    """The GPUs of this host; of one in MIG mode its instances.

    All but `session` is to be called in a session.
    """

    def __init__(self, library: Library | None = None) -> None:
        self.ask = (library or Live()).ask

    @contextmanager
    def session(self) -> Iterator[None]:
        """The library initialised for the block. Raises GpuError.

        Keep sessions short: one that is open while the driver is upgraded may stop
        answering.
        """
        self.ask("nvmlInit")
        try:
            yield
        finally:
            reading(self.ask, "nvmlShutdown")

    def gpus(self) -> Iterator[Gpu]:
        """Every GPU that runs may have. Raises GpuError."""
        for index in range(self.ask("nvmlDeviceGetCount")):
            try:
                board = self.ask("nvmlDeviceGetHandleByIndex", index)
                parts = list(self.mig_instances(board)) or [board]
            except GpuError:
                continue  # Lost, or another user's: the rest is still there.
            for handle in parts:
                uuid = reading(self.ask, "nvmlDeviceGetUUID", handle)
                if not is_error(uuid):
                    yield Gpu(uuid, handle, board, index)

    def mig_instances(self, board: Any) -> Iterator[Any]:
        """Handles of a GPU's MIG instances; none where the mode is off or unknown."""
        if reading(self.mig_mode, board) != 1:
            return
        for number in range(self.ask("nvmlDeviceGetMaxMigDeviceCount", board)):
            try:
                yield self.ask("nvmlDeviceGetMigDeviceHandleByIndex", board, number)
            except GpuError:
                continue

    def system(self) -> dict[str, Any]:
        """Versions of the driver, NVML and the CUDA that the driver supports."""
        return {
            "driver": reading(self.ask, "nvmlSystemGetDriverVersion"),
            "nvml": reading(self.ask, "nvmlSystemGetNVMLVersion"),
            "cuda_driver": reading(self.cuda_driver),
        }

    def cuda_driver(self) -> str:
        version = self.ask("nvmlSystemGetCudaDriverVersion_v2")
        return f"{version // 1000}.{version % 1000 // 10}"

    def identity(self, gpu: Gpu) -> dict[str, Any]:
        """Fields that do not change during a run."""
        board = gpu.board
        return {
            "uuid": gpu.uuid,
            "name": reading(self.ask, "nvmlDeviceGetName", gpu.handle),
            "architecture": reading(
                self.named, "nvmlDeviceGetArchitecture", board, ARCHITECTURES
            ),
            "capability": reading(self.capability, board),
            "memory_total": self.memory(gpu)["memory_total"],
            "mig_mode": reading(self.mig_mode, board),
            "gpu_instance": reading(self.number, "GpuInstanceId", gpu),
            "compute_instance": reading(self.number, "ComputeInstanceId", gpu),
            "compute_mode": reading(
                self.named, "nvmlDeviceGetComputeMode", board, COMPUTE_MODES
            ),
            "persistence": reading(self.ask, "nvmlDeviceGetPersistenceMode", board),
        }

    def number(self, what: str, gpu: Gpu) -> int:
        return int(self.ask(f"nvmlDeviceGet{what}", gpu.handle))

    def named(self, function: str, board: Any, names: Mapping[int, str]) -> str:
        number = self.ask(function, board)
        return names.get(number, str(number))

    def capability(self, board: Any) -> str:
        major, minor = self.ask("nvmlDeviceGetCudaComputeCapability", board)
        return f"{major}.{minor}"

    def mig_mode(self, board: Any) -> int:
        current, _pending = self.ask("nvmlDeviceGetMigMode", board)
        return int(current)

    def state(self, gpu: Gpu) -> dict[str, Any]:
        """Fields that a run may change: `load`, and counters of health."""
        return {
            **self.load(gpu),
            "energy": reading(self.thousandths, "TotalEnergyConsumption", gpu),
            "ecc": {
                name: reading(self.ask, "nvmlDeviceGetTotalEccErrors", gpu.board, *of)
                for name, of in ECC.items()
            },
            "remapped_rows": reading(self.remapped_rows, gpu),
            "processes": reading(self.processes, gpu),
        }

    def load(self, gpu: Gpu) -> dict[str, Any]:
        """The fields that are cheap enough to be sampled several times a second."""
        return {
            **self.memory(gpu),
            "power": reading(self.thousandths, "PowerUsage", gpu),
            "temperature": reading(self.temperature, gpu),
            "clocks": {
                name: reading(self.ask, "nvmlDeviceGetClockInfo", gpu.board, kind)
                for name, kind in CLOCKS.items()
            },
            "throttle": reading(self.throttle, gpu),
        }

    def thousandths(self, what: str, gpu: Gpu) -> float:
        """NVML counts milliwatts and millijoules."""
        return float(self.ask(f"nvmlDeviceGet{what}", gpu.board) / 1000)

    def remapped_rows(self, gpu: Gpu) -> dict[str, int]:
        counts = self.ask("nvmlDeviceGetRemappedRows", gpu.board)
        return dict(zip(REMAPPED, counts, strict=True))

    def memory(self, gpu: Gpu) -> dict[str, Any]:
        """Total, used and free memory in MiB."""
        answer = reading(self.ask, "nvmlDeviceGetMemoryInfo", gpu.handle)
        names = ("total", "used", "free")
        if is_error(answer):
            return {f"memory_{name}": answer for name in names}
        return {f"memory_{name}": getattr(answer, name) // MIB for name in names}

    def temperature(self, gpu: Gpu) -> int:
        try:
            return int(self.ask("nvmlDeviceGetTemperature", gpu.board, 0))
        except GpuError as error:
            if error.name != "FunctionNotFound":
                raise
            return int(self.ask("nvmlDeviceGetTemperatureV", gpu.board, 0))

    def throttle(self, gpu: Gpu) -> list[str]:
        """Clock event reasons; drivers before 535 know the older function name only."""
        try:
            bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons", gpu.board)
        except GpuError as error:
            if error.name != "FunctionNotFound":
                raise
            bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu.board)
        return [name for bit, name in CLOCK_REASONS.items() if bits & bit]

    def processes(self, gpu: Gpu) -> list[dict[str, Any]]:
        """Compute processes: host pid, and memory in MiB or None where NVML has none.

        In a container the list may be empty although other processes use the GPU.
        """
        rows = []
        for row in self.ask("nvmlDeviceGetComputeRunningProcesses", gpu.handle):
            used = row.usedGpuMemory
            memory = None if used is None else used // MIB
            rows.append({"pid": row.pid, "memory": memory})
        return rows


# --- what the kernel driver says without NVML -----------------------------------------
def device_nodes(visible: str) -> list[str]:
    """Device files that a run with this CUDA_VISIBLE_DEVICES needs.

    Of the GPUs only the `visible` UUIDs, if the kernel driver lists all; all for "".
    """
    nodes = sorted(str(path) for path in DEVICES.glob("nvidia*"))
    numbers = {row["GPU UUID"]: row.get("Device Minor") for row in kernel_rows()}
    wanted = {numbers.get(uuid) for uuid in visible.split(",")}
    if not visible or None in wanted:
        return nodes
    others = {f"{DEVICES}/nvidia{n}" for n in set(numbers.values()) - wanted}
    return [path for path in nodes if path not in others]


def kernel_uuids() -> list[str]:
    whole = re.compile(r"GPU-[0-9a-f-]{36}")
    uuids = [row["GPU UUID"] for row in kernel_rows()]
    return [uuid for uuid in uuids if whole.fullmatch(uuid)]


def kernel_rows() -> Iterator[dict[str, str]]:
    """What the kernel driver's /proc files say of each GPU."""
    for path in sorted(PROC_GPUS.glob("*/information")):
        lines = (line.partition(":") for line in path.read_text().splitlines())
        row = {name.strip(): value.strip() for name, _, value in lines}
        if "GPU UUID" in row:
            yield row
