"""Runs the checks of repros for GPUs on the CPU: their shapes and control flow.

    python cuda_on_cpu.py REPRO.py …

The device is replaced, and what only a GPU has by stand-ins, so the numbers say nothing
of a GPU. Prints {path: {check: observations}} as JSON, with {"raised": text} for one
that raised. Standard library and torch.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import math
import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any

import torch

# Before anything is replaced, and once for all checks: it takes seconds.
import torch._dynamo
import torch._inductor.graph
import torch._inductor.utils

# What would take too much of a CPU, by the name of the folder: text -> text.
SMALLER = {
    "cudnn-sdpa-stride-warning-nan": {
        "HEADS, LENGTH, HEAD_DIM = 2, 8, 384, 64": (
            "HEADS, LENGTH, HEAD_DIM = 2, 2, 128, 16"
        )
    },
    "embedding-bag-max-int32-overflow-zero-grad": {
        "DIM = 2**16": "DIM = 2**6",
        "ROW = 2**15": "ROW = 2**5",
        "SLACK = 2**26": "SLACK = 2**10",
    },
    "flex-attention-compiled-wrong-grad": {
        "LENGTH, HEADS, DIM = 2 * 1024, 2, 64": "LENGTH, HEADS, DIM = 256, 2, 16",
        "1024": "128",
    },
    "inductor-4x-random-dropout-mask": {"TIME = 8, 64, 4096": "TIME = 8, 64, 256"},
    "inductor-mix-order-reduction-wrong-grad": {
        "WIDTH, ROWS = 1024, 32768": "WIDTH, ROWS = 64, 256"
    },
    "sdpa-mem-efficient-nan-grad-large-inputs": {
        "WIDTH, HEADS, LENGTH, BATCH = 1024, 16, 32, 50": (
            "WIDTH, HEADS, LENGTH, BATCH = 64, 4, 8, 4"
        ),
        "STEPS = 40": "STEPS = 3",
    },
    "torchtitan-fp8-rowwise-rmsnorm-nan": {
        "TOKENS, WIDTH, HEADS = 512, 1024, 8": "TOKENS, WIDTH, HEADS = 64, 64, 4"
    },
}


def prepared(path: Path) -> str:
    source = path.read_text(encoding="utf-8")
    for text, smaller in SMALLER.get(path.parent.name, {}).items():
        if text not in source:
            raise SystemExit(f"{path}: {text!r} no longer stands in it")
        source = source.replace(text, smaller)
    return source.replace('"cuda"', '"cpu"')


# --- the device -----------------------------------
def replace_device() -> None:
    """Whatever a repro asks of `torch.cuda`, and tensors that move there."""
    torch.set_num_threads(1)
    cuda: Any = torch.cuda
    cuda.synchronize = cuda.empty_cache = cuda._sleep = lambda *given: None
    cuda.get_device_capability = lambda *given: (9, 0)
    cuda.make_graphed_callables = lambda module, sample_args: module
    cuda.current_stream = lambda *given: types.SimpleNamespace(
        cuda_stream=0, synchronize=cuda.synchronize
    )
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *given: self  # type: ignore[method-assign,assignment]
    torch.compile = lambda function=None, **options: function  # type: ignore[assignment]
    torch._scaled_mm = scaled_mm  # type: ignore[assignment]
    # A backend of the GPU is refused on the CPU.
    torch.nn.attention.sdpa_kernel = lambda backends: contextlib.nullcontext()  # type: ignore[assignment]
    torch.backends.cudnn.is_available = lambda: True
    # Imported here, as each is of some releases only.
    from torch.nn.attention import flex_attention
    from torch.optim import adam, adamw

    flex_attention._validate_device = lambda *given: None  # type: ignore[attr-defined]
    for module in (adam, adamw):
        module._get_capturable_supported_devices = lambda *given, **named: ["cpu"]  # type: ignore[attr-defined]


def scaled_mm(left: Any, right: Any, scale_a: Any, scale_b: Any, **options: Any) -> Any:
    product = (left.float() * scale_a) @ (right.float() * scale_b)
    return product.to(options["out_dtype"])


# --- libraries of the GPU -------------------------
def put(name: str, **members: Any) -> None:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=__file__)
    module.__dict__.update(members)
    sys.modules[name] = module


def attention(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    """[batch, rows, heads, dim] over the slots in use; the others are not read."""
    rows = []
    for at, length in enumerate(lengths.tolist()):
        one = (
            t[at].double().transpose(0, 1) for t in (q, k[:, :length], v[:, :length])
        )
        query, key, value = one
        scores = query @ key.transpose(-1, -2) / math.sqrt(q.shape[-1])
        rows.append((scores.softmax(-1) @ value).transpose(0, 1))
    return torch.stack(rows).to(q.dtype)


def with_kvcache(q: Any, k: Any, v: Any, cache_seqlens: Any) -> Any:
    return attention(q, k, v, cache_seqlens)


def varlen(q: Any, k: Any, v: Any, seqused_k: Any) -> Any:
    return attention(q, k, v, seqused_k), None


def packed(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, max_q: int, max_k: int) -> Any:
    """[rows, heads, dim] of one sequence after the other; rows of none are NaN."""
    ends = cu_q.tolist()
    parts = []
    for rows in map(slice, ends, ends[1:]):
        one, lengths = [t[None, rows] for t in (q, k, v)], torch.tensor([len(q[rows])])
        parts.append(attention(one[0], one[1], one[2], lengths)[0])
    return torch.cat([*parts, torch.full_like(q[ends[-1] :], math.nan)])


class Node:
    """A tensor of a cuDNN graph; `is_output`: the graph writes it."""

    is_output = False

    def set_output(self, wanted: bool) -> Node:
        self.is_output = wanted
        return self

    def set_dim(self, sizes: Any) -> Node:
        return self

    def set_stride(self, strides: Any) -> Node:
        return self

    def set_data_type(self, kind: Any) -> Node:
        return self


class Graph:
    """Takes what the repro builds, and writes zeros as its results."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def tensor_like(self, tensor: Any) -> Node:
        return Node()

    def sdpa(self, **given: Any) -> list[Node]:
        return [Node(), Node()]

    def sdpa_backward(self, **given: Any) -> list[Node]:
        return [Node(), Node(), Node()]

    def execute(self, pack: dict[Node, Any], workspace: Any, handle: Any) -> None:
        for node, tensor in pack.items():
            if node.is_output:
                tensor.zero_()

    def get_workspace_size(self) -> int:
        return 0

    def validate(self, *given: Any) -> None:
        """And what else a graph is asked to do before it runs."""

    build_operation_graph = create_execution_plans = check_support = validate
    build_plans = validate


def put_libraries() -> None:
    put("flash_attn_interface", flash_attn_with_kvcache=with_kvcache)
    put("flash_attn", flash_attn_with_kvcache=with_kvcache, __path__=[])
    put("torch.nn.attention.varlen", varlen_attn=packed)
    put("flash_attn.cute", flash_attn_varlen_func=varlen)
    put(
        "cudnn",
        pygraph=Graph,
        create_handle=lambda: 0,
        set_stream=lambda handle, stream: None,
        backend_version=lambda: 0,
        data_type=types.SimpleNamespace(BFLOAT16=0, FLOAT=1),
        heur_mode=types.SimpleNamespace(A=0, FALLBACK=1),
    )


# --- checks ---------------------------------------
def apart(path: Path, source: str, check: str) -> Any:
    """One check in a process of its own, as it runs for real."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w") as channel:
            json.dump(outcome(path, source, check), channel)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as channel:
        text = channel.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"raised": "the process died"}


def outcome(path: Path, source: str, check: str) -> Any:
    module = types.ModuleType(path.stem)
    # Custom operators look for the module of their functions.
    sys.modules[path.stem] = module
    try:
        # What a check prints must not stand in the JSON.
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, str(path), "exec"), module.__dict__)
            return getattr(module, check)()
    except Exception:  # noqa: BLE001 - whatever it raises is what is asked
        return {"raised": traceback.format_exc()}


def main(paths: list[str]) -> None:
    """On each line of the standard input stand the checks of one of them."""
    replace_device()
    put_libraries()
    found: dict[str, Any] = {}
    for name in paths:
        path = Path(name)
        source = prepared(path)
        checks = sys.stdin.readline().split()
        found[name] = {check: apart(path, source, check) for check in checks}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
