"""On which device a reader computes, and whether the cause of a record holds there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kb.choices import ANYWHERE, DEVICE_NAMES, HOLDS_ANYWHERE_BY
from kb.environments import hardware
from kb.environments.environment import Environment
from kb.versions.ranges import NOT_AFFECTED, UNKNOWN, parse_version
from kb.versions.reasons import Reason, reason

CPU, CUDA, MPS, NPU = "cpu", "cuda", "mps", "npu"
# Beside a build of torch for the CPU.
NPU_PACKAGE = "torch-npu"
# Made from the same source as CUDA: what a kernel does there, nobody knows unasked.
LIKE_CUDA = ("rocm", "xpu")
Holds = Mapping[str, Any]
# Of a record that says nothing of it.
UNSAID: Holds = {"devices": [CPU, CUDA], "why": "seen"}


def local_of(env: Environment) -> str:
    version = parse_version(env.torch_raw or "").version
    return (version.local if version else None) or ""


def device_of(env: Environment) -> str:
    """cpu, cuda, rocm, xpu, npu or mps, where what was pasted tells; else ""."""
    local = local_of(env)
    for name in LIKE_CUDA:
        if local.startswith(name):
            return name
    platform = hardware.platform_of(env.gpus) or env.device
    platform = platform or (NPU if env.version(NPU_PACKAGE) else "")
    if platform not in ("", CPU, CUDA):
        return platform
    if env.is_cpu_build or local.partition(".")[0] == CPU:
        return CPU
    named = any(hardware.architecture(name) for name in env.gpus)
    built = local.startswith("cu") or parse_version(env.torch_raw or "").nv
    return platform or (CUDA if named or built else "")


def device_for(env: Environment, holds: Holds) -> str:
    """The same for one record: a build for GPUs computes on the CPU as well, one for
    a Mac on MPS. Unless a device is named, a record is asked about its own.
    """
    device = device_of(env)
    if env.gpus or env.device:
        return device
    if env.is_mac and MPS in holds["devices"]:
        return MPS
    return CPU if device == CUDA and only_on(holds, CPU) else device


def is_anywhere(holds: Holds) -> bool:
    return holds.get("why") in HOLDS_ANYWHERE_BY


def only_on(holds: Holds, device: str) -> bool:
    return holds.get("devices") == [device]


def elsewhere(holds: Holds, env: Environment) -> tuple[str, Reason] | None:
    """The answer on a device that the record does not list; None where it does."""
    holds = holds or UNSAID
    devices: list[str] = holds["devices"]
    device = device_for(env, holds)
    if not device or device in devices or ANYWHERE in devices:
        return None
    name, version = DEVICE_NAMES[device], env.torch_raw or ""
    is_unknown = holds["why"] == "seen" or (
        holds["why"] == "kernel" and CUDA in devices and device in LIKE_CUDA
    )
    if only_on(holds, CUDA) and device == CPU:
        return NOT_AFFECTED, reason("torch", "cpu_build", version=version)
    if is_unknown:
        return UNKNOWN, reason("torch", "other_device", version=name)
    others = ", ".join(DEVICE_NAMES[one] for one in devices)
    return NOT_AFFECTED, reason("torch", "other_code", version=name, ranges=others)


def excluded_by_hardware(
    preconditions: Iterable[Mapping[str, Any]], env: Environment
) -> Reason | None:
    """Why the bug cannot show here: it needs a GPU that this is not, or not for."""
    demands = [item["value"] for item in preconditions if item["key"] == "gpu_arch"]
    version = env.torch_raw or ""
    if demands and device_of(env) == CPU:
        return reason("torch", "cpu_build", version=version)
    for demand in demands:
        for_others = local_of(env).startswith(LIKE_CUDA)
        if hardware.is_cuda_only(demand) and for_others:
            return reason("torch", "other_build", version=version, ranges=demand)
        if hardware.meets(demand, env.gpus) is False:
            gpus = ", ".join(env.gpus)
            return reason("torch", "other_gpu", version=gpus, ranges=demand)
    return None
