"""The vendors whose GPUs a run may have, and which of them this host has."""

from __future__ import annotations

import json
from pathlib import Path

from runner.gpus import nvml
from runner.gpus.vendor import GpuError, Vendor

# The first whose library answers; without any, what the first says of its absence.
VENDORS = (nvml.Nvidia,)
RECORDED = {"nvidia": nvml.Recorded}


def vendor_here(recorded: str = "") -> Vendor:
    """The vendor of this host's GPUs, or of the file of recorded answers.

    Such a file says in "vendor" whose it is; "nvidia" where it says nothing.
    """
    if recorded:
        path = Path(recorded)
        name = json.loads(path.read_text()).get("vendor", "nvidia")
        (kind,) = (vendor for vendor in VENDORS if vendor.name == name)
        return kind(RECORDED[name](path))
    for kind in VENDORS:
        vendor = kind()
        try:
            with vendor.session():
                return vendor
        except GpuError:
            continue
    return VENDORS[0]()


def device_nodes(visible: str) -> list[str]:
    """Device files of GPUs for a run with this CUDA_VISIBLE_DEVICES."""
    return [node for vendor in VENDORS for node in vendor().device_nodes(visible)]


def has_device_nodes() -> bool:
    """Whether device files of GPUs exist, whatever the libraries say."""
    return bool(device_nodes(""))
