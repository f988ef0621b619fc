"""AMD's GPUs through AMD SMI: its Python package, or recorded answers.

Written after the functions and units that AMD SMI 6.4 to 7.0 documents
(https://rocm.docs.amd.com/projects/amdsmi/en/latest/reference/amdsmi-py-api.html) and
tested with composed answers: nobody has seen it run on hardware. Standard library, and
the package `amdsmi` where a host has AMD's driver.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from runner.gpus import answers
from runner.gpus.answers import Library
from runner.gpus.vendor import MIB, Gpu, GpuError, is_error, reading

DEVICES = Path("/dev")
# Enumerations of amdsmi, by name: (class, member) where a function takes one.
CLOCKS = {
    "graphics": ("AmdSmiClkType", "GFX"),
    # The compute units run with the graphics clock.
    "sm": ("AmdSmiClkType", "GFX"),
    "memory": ("AmdSmiClkType", "MEM"),
}
HOTSPOT = ("AmdSmiTemperatureType", "HOTSPOT")
CURRENT = ("AmdSmiTemperatureMetric", "CURRENT")
# Microjoules make a joule.
MICRO = 1_000_000
NOT_AVAILABLE = "N/A"


class Live:
    """The driver's own answers, through the package amdsmi."""

    @cached_property
    def module(self) -> Any:
        """Imported here: that loads AMD's library, which most hosts do not have."""
        try:
            return importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError) as error:
            raise GpuError("BindingsNotInstalled") from error

    def ask(self, function: str, *arguments: Any) -> Any:
        if not (DEVICES / "kfd").exists():
            raise GpuError("DriverNotLoaded")
        module = self.module
        given = [
            getattr(getattr(module, item[0]), item[1])
            if isinstance(item, tuple)
            else item
            for item in arguments
        ]
        try:
            return getattr(module, function)(*given)
        except AttributeError as error:
            raise GpuError("FunctionNotFound") from error
        except module.AmdSmiException as error:
            code = getattr(error, "err_code", None)
            raise GpuError(
                type(error).__name__ if code is None else f"Error{code}"
            ) from error


class Recorded(answers.Recorded):
    """Answers from a file: "devices" has a mapping of each GPU."""

    start, stop = "amdsmi_init", "amdsmi_shut_down"

    def ask(self, function: str, *arguments: Any) -> Any:
        if function == "amdsmi_get_processor_handles":
            return list(self.answers.get("devices", []))
        named = [item[1] if isinstance(item, tuple) else item for item in arguments]
        return super().ask(function, *named)


class Amd:
    """The GPUs of AMD SMI, as HIP numbers them."""

    name = "amd"
    versions: tuple[str, ...] = ("driver", "amdsmi")
    # torch on ROCm writes another identifier than AMD SMI.
    torch_knows_uuids = False

    def __init__(self, library: Library | None = None) -> None:
        self.ask = (library or Live()).ask

    @contextmanager
    def session(self) -> Iterator[None]:
        self.ask("amdsmi_init")
        try:
            yield
        finally:
            reading(self.ask, "amdsmi_shut_down")

    def gpus(self) -> Iterator[Gpu]:
        found = []
        for index, handle in enumerate(self.ask("amdsmi_get_processor_handles")):
            uuid = reading(self.ask, "amdsmi_get_gpu_device_uuid", handle)
            if not is_error(uuid):
                number = reading(self.part, "gpu_enumeration_info", "hip_id", handle)
                order = index if is_error(number) else int(number)
                found.append(Gpu(f"GPU-{uuid}", handle, handle, order))
        yield from sorted(found, key=lambda gpu: gpu.order)

    def part(self, function: str, key: str, handle: Any) -> Any:
        """One value of a mapping. Raises GpuError where it has none."""
        value = self.ask(f"amdsmi_get_{function}", handle).get(key, NOT_AVAILABLE)
        if value == NOT_AVAILABLE:
            raise GpuError("NotSupported")
        return value

    def system(self) -> dict[str, Any]:
        """Versions of the driver of the first GPU and of AMD SMI."""
        return {
            "driver": reading(self.driver),
            "amdsmi": reading(self.library_version),
        }

    def driver(self) -> str:
        handles = self.ask("amdsmi_get_processor_handles")
        if not handles:
            raise GpuError("NotFound")
        return str(self.part("gpu_driver_info", "driver_version", handles[0]))

    def library_version(self) -> str:
        version = self.ask("amdsmi_get_lib_version")
        return "{major}.{minor}.{release}".format(**version)

    def identity(self, gpu: Gpu) -> dict[str, Any]:
        """`capability` stays empty: HIP only imitates that notion of CUDA's."""
        return {
            "uuid": gpu.uuid,
            "name": reading(self.part, "gpu_asic_info", "market_name", gpu.handle),
            "architecture": reading(
                self.part, "gpu_asic_info", "target_graphics_version", gpu.handle
            ),
            "capability": "",
            "memory_total": self.memory(gpu)["memory_total"],
        }

    def state(self, gpu: Gpu) -> dict[str, Any]:
        return {
            **self.load(gpu),
            "energy": reading(self.energy, gpu),
            "ecc": reading(self.ecc, gpu),
            "remapped_rows": reading(self.retired_pages, gpu),
            "processes": reading(self.processes, gpu),
        }

    def load(self, gpu: Gpu) -> dict[str, Any]:
        return {
            **self.memory(gpu),
            "power": reading(self.power, gpu),
            "temperature": reading(
                self.ask, "amdsmi_get_temp_metric", gpu.handle, HOTSPOT, CURRENT
            ),
            "clocks": {
                name: reading(self.clock, gpu, kind) for name, kind in CLOCKS.items()
            },
            # AMD SMI has no reasons, only counters of violations on a few models.
            "throttle": {"error": "NotSupported"},
        }

    def memory(self, gpu: Gpu) -> dict[str, Any]:
        """Total, used and free memory; AMD SMI counts in MiB."""
        answer = reading(self.ask, "amdsmi_get_gpu_vram_usage", gpu.handle)
        if is_error(answer):
            return {f"memory_{name}": answer for name in ("total", "used", "free")}
        total, used = answer["vram_total"], answer["vram_used"]
        return {
            "memory_total": total,
            "memory_used": used,
            "memory_free": total - used,
        }

    def power(self, gpu: Gpu) -> float:
        """Of the socket: now, or the average where a model gives only that."""
        for key in ("current_socket_power", "average_socket_power"):
            watts = reading(self.part, "power_info", key, gpu.handle)
            if not is_error(watts) and watts:
                return float(watts)
        raise GpuError("NotSupported")

    def clock(self, gpu: Gpu, kind: tuple[str, str]) -> int:
        value = self.ask("amdsmi_get_clock_info", gpu.handle, kind)["clk"]
        if value == NOT_AVAILABLE:
            raise GpuError("NotSupported")
        return int(value)

    def energy(self, gpu: Gpu) -> float:
        """The accumulator counts in steps of `counter_resolution` microjoules."""
        answer = self.ask("amdsmi_get_energy_count", gpu.handle)
        return float(
            answer["energy_accumulator"] * answer["counter_resolution"] / MICRO
        )

    def ecc(self, gpu: Gpu) -> dict[str, int]:
        """Counts since the driver was loaded, under the names that NVML's have."""
        counts = self.ask("amdsmi_get_gpu_total_ecc_count", gpu.handle)
        return {
            "corrected_volatile": counts["correctable_count"],
            "uncorrected_volatile": counts["uncorrectable_count"],
        }

    def retired_pages(self, gpu: Gpu) -> dict[str, int]:
        pages = self.ask("amdsmi_get_gpu_bad_page_info", gpu.handle)
        return {"retired_pages": len(pages)}

    def processes(self, gpu: Gpu) -> list[dict[str, Any]]:
        """Processes with memory on the GPU: pid, and memory in MiB."""
        return [
            {"pid": row["pid"], "memory": row["memory_usage"]["vram_mem"] // MIB}
            for row in self.ask("amdsmi_get_gpu_process_list", gpu.handle)
        ]

    def requested(self) -> str | None:
        """HIP heeds CUDA's variable where its own is not set."""
        own = os.environ.get("HIP_VISIBLE_DEVICES")
        return os.environ.get("CUDA_VISIBLE_DEVICES") if own is None else own

    def visible_names(self, uuids: Sequence[str]) -> str:
        """HIP takes numbers: those that AMD SMI says it gives. Raises GpuError."""
        with self.session():
            numbers = {gpu.uuid: gpu.order for gpu in self.gpus()}
        return ",".join(str(numbers[uuid]) for uuid in uuids if uuid in numbers)

    def device_nodes(self, visible: str) -> list[str]:
        """All of AMD's: which number stands for which file is not known here."""
        if not (DEVICES / "kfd").exists():
            return []
        renderers = sorted(str(path) for path in DEVICES.glob("dri/renderD*"))
        return [str(DEVICES / "kfd"), *renderers]

    def kernel_uuids(self) -> list[str]:
        return []
