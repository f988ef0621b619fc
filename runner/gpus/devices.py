"""GPUs of this host as NVML describes them. Having none is an ordinary state.

Standard library and pynvml (nvidia-ml-py), so that it works beside torch without the
site. Every field is a value or {"error": NVML's name of the error}: one that fails
never takes the others along. Memory is in MiB, power in W, energy in J, clocks in
MHz, temperature in °C.

    python -m runner.gpus.devices            what this host has
    python -m runner.gpus.devices --record   the raw answers, in the form tests replay
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from runner.gpus.nvml import Live, Nvml, NvmlError, Recorder

MIB = 1024 * 1024
PROC_GPUS = Path("/proc/driver/nvidia/gpus")
# nvml.h; spelled out because the recorded answers need no pynvml.
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


@contextmanager
def session(nvml: Nvml) -> Iterator[None]:
    """NVML initialised for the block. Raises NvmlError.

    Keep sessions short: one that is open while the driver is upgraded stops answering.
    """
    nvml.ask("nvmlInit")
    try:
        yield
    finally:
        reading(nvml.ask, "nvmlShutdown")


def reading(read: Callable[..., Any], *arguments: Any) -> Any:
    """The value that `read` returns, or {"error": name} where NVML raises."""
    try:
        return read(*arguments)
    except NvmlError as error:
        return {"error": error.name}


def is_error(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"error"}


class Gpu(NamedTuple):
    """A GPU or a MIG instance. `board`: handle of the whole GPU."""

    uuid: str
    handle: Any
    board: Any
    order: int


def gpus(nvml: Nvml) -> Iterator[Gpu]:
    """Every GPU, or the MIG instances of one in MIG mode. Call it in a session."""
    for index in range(nvml.ask("nvmlDeviceGetCount")):
        try:
            board = nvml.ask("nvmlDeviceGetHandleByIndex", index)
            parts = list(mig_instances(nvml, board)) or [board]
        except NvmlError:
            continue  # Lost, or another user's: the rest is still there.
        for handle in parts:
            uuid = reading(nvml.ask, "nvmlDeviceGetUUID", handle)
            if not is_error(uuid):
                yield Gpu(uuid, handle, board, index)


def mig_instances(nvml: Nvml, board: Any) -> Iterator[Any]:
    """Handles of a GPU's MIG instances; none where the mode is off or unknown."""
    if reading(mig_mode, nvml, board) != 1:
        return
    for number in range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", board)):
        try:
            yield nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", board, number)
        except NvmlError:
            continue


# --- fields ------------------------------------------------------------------------


def system(nvml: Nvml) -> dict[str, Any]:
    """Versions of the driver, NVML and the CUDA that the driver supports."""

    def cuda() -> str:
        version = nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
        return f"{version // 1000}.{version % 1000 // 10}"

    return {
        "driver": reading(nvml.ask, "nvmlSystemGetDriverVersion"),
        "nvml": reading(nvml.ask, "nvmlSystemGetNVMLVersion"),
        "cuda_driver": reading(cuda),
    }


def system_errors(error: NvmlError) -> dict[str, Any]:
    """What `system` returns where NVML cannot be initialised."""
    return {key: {"error": error.name} for key in ("driver", "nvml", "cuda_driver")}


def identity(nvml: Nvml, gpu: Gpu) -> dict[str, Any]:
    """Fields that do not change during a run."""

    def number(function: str) -> int:
        return int(nvml.ask(function, gpu.handle))

    return {
        "uuid": gpu.uuid,
        "name": reading(nvml.ask, "nvmlDeviceGetName", gpu.handle),
        "architecture": reading(
            named, nvml, "nvmlDeviceGetArchitecture", gpu.board, ARCHITECTURES
        ),
        "capability": reading(capability, nvml, gpu.board),
        "memory_total": memory(nvml, gpu)["memory_total"],
        "mig_mode": reading(mig_mode, nvml, gpu.board),
        "gpu_instance": reading(number, "nvmlDeviceGetGpuInstanceId"),
        "compute_instance": reading(number, "nvmlDeviceGetComputeInstanceId"),
        "compute_mode": reading(
            named, nvml, "nvmlDeviceGetComputeMode", gpu.board, COMPUTE_MODES
        ),
        "persistence": reading(nvml.ask, "nvmlDeviceGetPersistenceMode", gpu.board),
    }


def named(nvml: Nvml, function: str, board: Any, names: Mapping[int, str]) -> str:
    number = nvml.ask(function, board)
    return names.get(number, str(number))


def capability(nvml: Nvml, board: Any) -> str:
    major, minor = nvml.ask("nvmlDeviceGetCudaComputeCapability", board)
    return f"{major}.{minor}"


def mig_mode(nvml: Nvml, board: Any) -> int:
    current, _pending = nvml.ask("nvmlDeviceGetMigMode", board)
    return int(current)


def state(nvml: Nvml, gpu: Gpu) -> dict[str, Any]:
    """Fields that a run may change: memory, load and health counters."""
    return {
        **load(nvml, gpu),
        "energy": reading(thousandths, nvml, "TotalEnergyConsumption", gpu.board),
        "ecc": {
            name: reading(nvml.ask, "nvmlDeviceGetTotalEccErrors", gpu.board, *which)
            for name, which in ECC.items()
        },
        "remapped_rows": reading(remapped_rows, nvml, gpu.board),
        "processes": reading(processes, nvml, gpu),
    }


def load(nvml: Nvml, gpu: Gpu) -> dict[str, Any]:
    """The fields that are cheap enough to be sampled several times a second."""
    return {
        **memory(nvml, gpu),
        "power": reading(thousandths, nvml, "PowerUsage", gpu.board),
        "temperature": reading(temperature, nvml, gpu),
        "clocks": {
            name: reading(nvml.ask, "nvmlDeviceGetClockInfo", gpu.board, kind)
            for name, kind in CLOCKS.items()
        },
        "throttle": reading(throttle, nvml, gpu),
    }


def thousandths(nvml: Nvml, what: str, board: Any) -> float:
    """NVML counts milliwatts and millijoules."""
    return float(nvml.ask(f"nvmlDeviceGet{what}", board) / 1000)


def remapped_rows(nvml: Nvml, board: Any) -> dict[str, int]:
    counts = nvml.ask("nvmlDeviceGetRemappedRows", board)
    return dict(zip(REMAPPED, counts, strict=True))


def memory(nvml: Nvml, gpu: Gpu) -> dict[str, Any]:
    """Total, used and free memory in MiB."""
    answer = reading(nvml.ask, "nvmlDeviceGetMemoryInfo", gpu.handle)
    return {
        f"memory_{name}": answer if is_error(answer) else getattr(answer, name) // MIB
        for name in ("total", "used", "free")
    }


def temperature(nvml: Nvml, gpu: Gpu) -> int:
    try:
        return int(nvml.ask("nvmlDeviceGetTemperature", gpu.board, 0))
    except NvmlError as error:
        if error.name != "FunctionNotFound":
            raise
        return int(nvml.ask("nvmlDeviceGetTemperatureV", gpu.board, 0))


def throttle(nvml: Nvml, gpu: Gpu) -> list[str]:
    """Clock event reasons; drivers before 535 know the older function name only."""
    try:
        bits = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", gpu.board)
    except NvmlError as error:
        if error.name != "FunctionNotFound":
            raise
        bits = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu.board)
    return [name for bit, name in CLOCK_REASONS.items() if bits & bit]


def processes(nvml: Nvml, gpu: Gpu) -> list[dict[str, Any]]:
    """Compute processes: host pid, and memory in MiB or None where NVML has none.

    In a container the list may be empty although other processes use the GPU.
    """
    rows = []
    for row in nvml.ask("nvmlDeviceGetComputeRunningProcesses", gpu.handle):
        used = row.usedGpuMemory
        rows.append({"pid": row.pid, "memory": None if used is None else used // MIB})
    return rows


def snapshot(nvml: Nvml) -> dict[str, Any]:
    """Identity and state of every GPU now."""
    try:
        with session(nvml):
            rows = [{**identity(nvml, gpu), **state(nvml, gpu)} for gpu in gpus(nvml)]
            return {**system(nvml), "devices": rows}
    except NvmlError as error:
        return {**system_errors(error), "devices": {"error": error.name}}


# --- what runs are given -----------------------------------------------------------


def inventory(nvml: Nvml) -> list[dict[str, Any]]:
    """The GPUs that runs may have, as a worker's row lists them.

    CUDA_VISIBLE_DEVICES of this process limits the list, as it limits torch. Raises
    NvmlError.
    """
    with session(nvml):
        driver = system(nvml)["driver"]
        return [
            {
                "class": "cuda",
                "uuid": gpu.uuid,
                "name": value_or(facts["name"], ""),
                "capability": value_or(facts["capability"], ""),
                "memory_mib": value_or(facts["memory_total"], 0),
                "driver": value_or(driver, None),
            }
            for gpu in visible(list(gpus(nvml)), os.environ.get("CUDA_VISIBLE_DEVICES"))
            for facts in [identity(nvml, gpu)]
        ]


def value_or(value: Any, otherwise: Any) -> Any:
    return otherwise if is_error(value) else value


def visible(available: list[Gpu], requested: str | None) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, by index or UUID prefix.

    As in CUDA, the first name without a match ends the list. NVML counts in PCI order,
    CUDA does so with CUDA_DEVICE_ORDER=PCI_BUS_ID or where all GPUs are alike.
    """
    if requested is None:
        return available
    chosen: list[Gpu] = []
    for word in filter(None, (word.strip() for word in requested.split(","))):
        matching = [gpu for gpu in available if is_named(gpu, word)]
        if not matching:
            break
        chosen += [gpu for gpu in matching if gpu not in chosen]
    return chosen


def is_named(gpu: Gpu, word: str) -> bool:
    return gpu.order == int(word) if word.isdecimal() else gpu.uuid.startswith(word)


def proc_uuids(folder: Path = PROC_GPUS) -> list[str]:
    """UUIDs from the kernel driver's /proc files, for hosts without NVML."""
    uuids = []
    for path in sorted(folder.glob("*/information")):
        match = re.search(r"GPU UUID:\s*(GPU-[0-9a-f-]{36})", path.read_text())
        uuids += [match.group(1)] if match else []
    return uuids


def has_nodes() -> bool:
    """Whether device nodes of NVIDIA or AMD GPUs exist."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists()


# --- command line ------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m runner.gpus.devices")
    parser.add_argument("--record", action="store_true", help="print raw answers")
    options = parser.parse_args()
    recorder = Recorder(Live())
    snapshot_now = snapshot(recorder)
    output = recorder.answers if options.record else snapshot_now
    sys.stdout.write(json.dumps(output, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
