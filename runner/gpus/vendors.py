"""The vendors whose GPUs a run may have, and which of them this host has."""

from __future__ import annotations

from runner.gpus import nvml
from runner.gpus.vendor import GpuError, Vendor

# The first whose library answers; without any, what the first says of its absence.
VENDORS = (nvml.Nvidia,)


def vendor_here() -> Vendor:
    """The vendor of this host's GPUs."""
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
