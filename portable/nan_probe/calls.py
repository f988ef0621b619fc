"""A call as data: its function by name, its arguments as JSON, and how it is run.

A capture comes from a stranger. So only public functions of a list are called, with
arguments that belong to them (signatures). Gradients come from autograd alone, and
nothing here evaluates text.
"""

from __future__ import annotations

import torch

from .functions import ALLOWED
from .schema import PATTERN
from .signatures import Dtype, Operand, Refused, check

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Missing(LookupError):
    """This build has no such function."""


def name_of(function):
    """The public name under which a build runs it; None for what has none."""
    resolve = getattr(torch.overrides, "resolve_name", None)
    name = resolve(function) if resolve is not None else None
    name = name or getattr(function, "__name__", "")
    name = name.replace("torch._C._nn.", "torch.nn.functional.")
    name = name.replace("torch._C._special.special_", "torch.special.")
    name = name.replace("torch._C._linalg.linalg_", "torch.linalg.")
    if "." not in name:
        places = ("torch.", "torch.nn.functional.", "torch.Tensor.")
        name = next((one + name for one in places if one + name in ALLOWED), name)
    return out_of_place(name)


def out_of_place(name):
    """`div_` as `div`: what it wrote over is kept apart."""
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return plain if plain in ALLOWED else name


def function_of(name):
    found = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            raise Missing(f"torch {torch.__version__} has no {name}")
    return found


# --- values ---


def encoded(value):
    if isinstance(value, torch.Tensor):
        return {"tensor": encoded_tensor(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).partition(".")[2]}
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, (list, tuple)):
        return {"list": [encoded(one) for one in value]}
    raise Refused("value", f"an argument of type {type(value).__name__}")


def encoded_tensor(value):
    value = value.detach().cpu()
    name = str(value.dtype).partition(".")[2]
    flat = value.reshape(-1)
    if value.is_complex():
        numbers = [encoded_numbers(part, "float64") for part in (flat.real, flat.imag)]
    else:
        numbers = encoded_numbers(flat, name)
    return {
        "dtype": name,
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "values": numbers,
    }


def encoded_numbers(flat, name):
    if not flat.is_floating_point():
        return flat.tolist()
    bits = BITS.get(flat.element_size())
    raw = flat.view(bits).tolist() if bits is not None else flat.float().tolist()
    return [
        f"nan:{pattern:x}" if number != number else number.hex()
        for number, pattern in zip(flat.double().tolist(), map(unsigned(flat), raw))
    ]


def unsigned(flat):
    """NaN has many bit patterns: those of this type as a number without a sign."""
    width = 8 * flat.element_size()
    return lambda raw: int(raw) % 2**width if raw == raw else 0


def decoded(value):
    """What `encoded` was given; of what schema has checked."""
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        return decoded_tensor(held)
    if kind == "dtype":
        return dtype_of(held)
    if kind == "float":
        return float.fromhex(held)
    return [decoded(one) for one in held]


def dtype_of(name):
    found = getattr(torch, name, None)
    if found is None:
        raise Missing(f"torch {torch.__version__} has no type {name}")
    return found


def decoded_tensor(held):
    dtype, shape, numbers = dtype_of(held["dtype"]), held["shape"], held["values"]
    if dtype.is_complex:
        half = torch.float32 if dtype == torch.complex64 else torch.float64
        flat = torch.complex(*(decoded_floats(part, half) for part in numbers))
    elif dtype.is_floating_point:
        flat = decoded_floats(numbers, dtype)
    else:
        flat = torch.tensor(numbers, dtype=dtype)
    dense = flat.reshape(shape)
    order = sorted(range(len(shape)), key=lambda at: -held["strides"][at])
    back = sorted(range(len(shape)), key=lambda at: order[at])
    return dense.permute(order).contiguous().permute(back)


def decoded_floats(numbers, dtype):
    """Each NaN with its own bits, where a type has several."""
    found = [PATTERN.fullmatch(one) for one in numbers]
    plain = ["nan" if is_nan else one for is_nan, one in zip(found, numbers)]
    flat = torch.tensor(list(map(float.fromhex, plain)), dtype=torch.float64).to(dtype)
    bits = BITS.get(flat.element_size())
    if bits is not None:
        width = 8 * flat.element_size()
        for at, pattern in enumerate(found):
            if pattern is not None:
                raw = int(pattern.group(1), 16)
                flat.view(bits)[at] = raw - 2**width * (raw >> (width - 1))
    return flat


# --- running ---


def held(value):
    """An argument as signatures.check takes it."""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).partition(".")[2]
        return Operand(name, list(value.shape), lambda: value.reshape(-1).tolist())
    if isinstance(value, torch.dtype):
        return Dtype(str(value))
    return [held(one) for one in value] if isinstance(value, (list, tuple)) else value


class Run:
    """What a call gives: its results, or with a gradient those of its operands."""

    def __init__(self, name, args, kwargs=None, gradient=None):
        self.name, self.args, self.kwargs = name, list(args), dict(kwargs or {})
        self.gradient = gradient

    def __call__(self, args=None, gradient=None):
        args = self.args if args is None else args
        gradient = self.gradient if gradient is None else gradient
        self.check(args)
        function = function_of(self.name)
        if gradient is None:
            with torch.no_grad():
                return flat(function(*args, **self.kwargs))
        args = [leaf(one) for one in args]
        result = flat(function(*args, **self.kwargs))[0]
        wanted = [one for one in args if getattr(one, "requires_grad", False)]
        made = torch.autograd.grad(result, wanted, gradient, allow_unused=True)
        return [one for one in made if one is not None]

    def check(self, args):
        """Raises Refused for indices beyond their operand and the like."""
        named = {name: held(one) for name, one in self.kwargs.items()}
        check(self.name, list(map(held, args)), named)

    def tensors(self):
        return [one for one in self.args if isinstance(one, torch.Tensor)]

    def numbers(self):
        return sum(one.numel() for one in self.tensors())

    def with_args(self, args, gradient):
        return Run(self.name, args, self.kwargs, gradient)


def leaf(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().clone().requires_grad_()
    return value


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [one for one in result if isinstance(one, torch.Tensor)]
