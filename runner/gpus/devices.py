"""GPUs of this host as NVML describes them.

Fields and units: runner.gpus.nvml. Standard library and pynvml.

    python -m runner.gpus.devices   what this host has
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from runner.gpus.nvml import VERSIONS, Gpu, GpuError, Nvidia, is_error


def system_errors(error: GpuError) -> dict[str, Any]:
    """What `system` returns where the library cannot be initialised."""
    return {key: {"error": error.name} for key in VERSIONS}


def snapshot(nvidia: Nvidia) -> dict[str, Any]:
    """Identity and state of every GPU now."""
    try:
        with nvidia.session():
            rows = [{**nvidia.identity(g), **nvidia.state(g)} for g in nvidia.gpus()]
            return {**nvidia.system(), "devices": rows}
    except GpuError as error:
        return {**system_errors(error), "devices": {"error": error.name}}


def inventory(nvidia: Nvidia) -> list[dict[str, Any]]:
    """The GPUs that runs may have, as a worker's row lists them.

    What the environment hides from this process is left out, as it is from torch.
    Raises GpuError.
    """
    requested = os.environ.get("CUDA_VISIBLE_DEVICES")
    with nvidia.session():
        driver = nvidia.system()["driver"]
        return [
            {
                "class": "cuda",
                "uuid": gpu.uuid,
                "name": value_or(facts["name"], ""),
                "capability": value_or(facts["capability"], ""),
                "memory_mib": value_or(facts["memory_total"], 0),
                "driver": value_or(driver, None),
            }
            for gpu in visible(list(nvidia.gpus()), requested)
            for facts in [nvidia.identity(gpu)]
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


if __name__ == "__main__":
    sys.stdout.write(json.dumps(snapshot(Nvidia()), indent=1) + "\n")
