"""Names that an authority has given to an error: they say more than its words.

Dynamo numbers its graph breaks (GB0042, torch/_dynamo/graph_break_registry.json);
CUDA, cuDNN, cuBLAS, NCCL and their ROCm likes name their statuses; the driver numbers
what it reports of a GPU (Xid); autograd names the op whose gradient is NaN. Two errors
with different names of one authority are two errors, however alike their texts.
"""

from __future__ import annotations

import re

OFFICIAL = re.compile(
    r"""
      (?<![\w-])gb(?P<gb>\d{4})(?!\w)
    | (?<!\w)cudaError(?P<cuda>[A-Z][A-Za-z]{2,60})(?!\w)
    | (?<!\w)CUDA_ERROR_(?P<driver>[A-Z_]{3,60})(?!\w)
    | (?<!\w)(?P<hip>hipError[A-Z][A-Za-z]{2,60})(?!\w)
    | (?<!\w)(?P<status>(?:CUDNN|CUBLAS|CUSOLVER|CUSPARSE|CUFFT|CURAND|NVRTC|HIPBLAS
        |ROCBLAS|HIPDNN|MIOPEN)_(?:STATUS_|ERROR_)?[A-Z][A-Z_]{3,60})(?!\w)
    | (?<!\w)(?P<miopen>miopenStatus[A-Z][A-Za-z]{2,60})(?!\w)
    | (?<!\w)(?P<nccl>nccl(?:UnhandledCudaError|SystemError|InternalError
        |InvalidArgument|InvalidUsage|RemoteError))(?!\w)
    | (?<!\w)Xid\ \([^()\n]{1,60}+\):\ (?P<xid>\d{1,4})(?!\w)
    """,
    re.VERBOSE | re.IGNORECASE,
)
HINTS = (
    *("gb0", "gb1", "cudaerror", "cuda error", "cuda_error", "hiperror", "_status_"),
    *("miopenstatus", "nccl", "xid (", " returned "),
)
# What cudaGetErrorString says, and the name of the error it describes (CUDA Runtime
# API, cudaError_t). torch prints the text, newer releases the name as well.
CUDA_TEXTS = {
    "an illegal memory access was encountered": "IllegalAddress",
    "misaligned address": "MisalignedAddress",
    "device-side assert triggered": "Assert",
    "unspecified launch failure": "LaunchFailure",
    "out of memory": "MemoryAllocation",
    "invalid device ordinal": "InvalidDevice",
    "no kernel image is available for execution on the device": (
        "NoKernelImageForDevice"
    ),
    "invalid argument": "InvalidValue",
    "invalid configuration argument": "InvalidConfiguration",
    "an illegal instruction was encountered": "IllegalInstruction",
    "uncorrectable ecc error encountered": "ECCUncorrectable",
    "the launch timed out and was terminated": "LaunchTimeout",
    "too many resources requested for launch": "LaunchOutOfResources",
    "all cuda-capable devices are busy or unavailable": "DevicesUnavailable",
    "initialization error": "InitializationError",
    "invalid device function": "InvalidDeviceFunction",
    "invalid resource handle": "InvalidResourceHandle",
    "no cuda-capable device is detected": "NoDevice",
    "hardware stack error": "HardwareStackError",
    "invalid program counter": "InvalidPc",
    "operation not permitted when stream is capturing": "StreamCaptureUnsupported",
    "driver shutting down": "CudartUnloading",
    "unknown error": "Unknown",
}
CUDA_TEXT = re.compile(
    r"CUDA error: (" + "|".join(map(re.escape, CUDA_TEXTS)) + r")(?!\w)", re.IGNORECASE
)
# The driver's names that differ from the runtime's by more than their spelling.
DRIVER_NAMES = {
    "out_of_memory": "MemoryAllocation",
    "launch_failed": "LaunchFailure",
    "no_binary_for_gpu": "NoKernelImageForDevice",
    "invalid_handle": "InvalidResourceHandle",
    "ecc_uncorrectable": "ECCUncorrectable",
}
# Autograd's anomaly mode names the op; a suffix digit counts overloads, no more.
ANOMALY = re.compile(
    r"Function ['\"]([A-Za-z_:]\w{0,80}?)\d{0,3}['\"] returned (?:nan|inf)"
)
MAX_IDS = 40


def error_ids(text: str) -> frozenset[str]:
    """Official names in a text as authority:name, such as gb:0042, op:SqrtBackward."""
    low = text.lower()
    if not any(map(low.__contains__, HINTS)):
        return frozenset()
    said = CUDA_TEXT.findall(text)
    ids = {f"cuda:{CUDA_TEXTS[name.lower()].lower()}" for name in said}
    ids |= {f"op:{name}" for name in ANOMALY.findall(text)}
    for match in OFFICIAL.finditer(text):
        authority, name = match.lastgroup or "", match[match.lastgroup or 0]
        ids.add(_named(authority, name.lower()))
        if len(ids) >= MAX_IDS:
            break
    return frozenset(ids)


def _named(authority: str, name: str) -> str:
    if authority == "driver":
        runtime = DRIVER_NAMES.get(name) or name.replace("_", "")
        return f"cuda:{runtime.lower()}"
    if authority == "status":
        return f"{name.partition('_')[0]}:{name}"
    return f"{authority}:{name}"


def contradict(left: frozenset[str], right: frozenset[str]) -> bool:
    """One authority names two different errors, and none that both share."""
    if not left or not right or left & right:
        return False
    return bool(_authorities(left) & _authorities(right))


def _authorities(ids: frozenset[str]) -> set[str]:
    return {name.partition(":")[0] for name in ids}
