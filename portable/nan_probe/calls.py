"""A call as data: its function by name, its arguments as JSON, and how it is run.

Whoever sends a capture is a stranger. So only public functions of a list are called,
each index, length and size is checked against its operands, gradients come from
autograd alone, and nothing here evaluates text.
"""

from __future__ import annotations

import struct

import torch

NUMBERS, SIZE = 4096, 4096
BITS = {"float16": "e", "float32": "f", "float64": "d"}
PREFIXES = ("torch.nn.functional.", "torch.linalg.", "torch.special.", "torch.Tensor.")
ELEMENTWISE = (
    "abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh clamp cos "
    "cosh div digamma erf erfc erfinv exp exp2 expm1 float_power fmod hypot lerp "
    "lgamma log log10 log1p log2 logaddexp logaddexp2 logit maximum minimum mul "
    "multiply divide neg pow reciprocal remainder rsqrt sigmoid sin sinc sinh "
    "sqrt square sub subtract tan tanh true_divide xlogy where masked_fill "
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ "
    "__div__ __rdiv__ __pow__ __rpow__ __neg__ nan_to_num to float half double "
    "bfloat16 contiguous"
)
REDUCTIONS = (
    "sum mean prod var std var_mean std_mean norm amax amin logsumexp softmax "
    "log_softmax cumsum cumprod logcumsumexp nanmean nansum matmul mm bmm addmm "
    "baddbmm dot mv outer einsum __matmul__ cdist cosine_similarity dist renorm "
    "trace det logdet slogdet inverse cov corrcoef"
)
FUNCTIONAL = (
    "relu gelu silu mish elu selu celu softplus softsign logsigmoid hardswish "
    "hardtanh leaky_relu tanhshrink softmin normalize layer_norm rms_norm "
    "group_norm batch_norm instance_norm local_response_norm linear bilinear "
    "mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
    "binary_cross_entropy_with_logits poisson_nll_loss gaussian_nll_loss "
    "cosine_embedding_loss margin_ranking_loss triplet_margin_loss "
    "hinge_embedding_loss soft_margin_loss cross_entropy nll_loss "
    "scaled_dot_product_attention pairwise_distance avg_pool1d avg_pool2d "
    "lp_pool1d lp_pool2d glu sigmoid tanh conv1d conv2d"
)
LINALG = (
    "norm vector_norm matrix_norm svd svdvals eigh eigvalsh qr cholesky inv pinv solve"
)
SPECIAL = (
    "entr erf erfc erfinv expit expm1 gammaln log1p log_softmax logit logsumexp xlogy"
)
ALLOWED = {f"torch.{name}" for name in (ELEMENTWISE + " " + REDUCTIONS).split()}
ALLOWED |= {f"torch.Tensor.{name}" for name in (ELEMENTWISE + " " + REDUCTIONS).split()}
ALLOWED |= {f"torch.nn.functional.{name}" for name in FUNCTIONAL.split()}
ALLOWED |= {f"torch.nn.functional.{name}" for name in ("softmax", "log_softmax")}
ALLOWED |= {f"torch.linalg.{name}" for name in LINALG.split()}
# What torch.nn.utils.weight_norm calls has no public name.
ALLOWED |= {"torch._weight_norm"}
ALLOWED |= {f"torch.special.{name}" for name in SPECIAL.split()}
# Their second argument names classes of the first: below its size, or the ignored one.
WITH_CLASSES = {"cross_entropy", "nll_loss"}


class Refused(ValueError):
    """What such a call must not have, in words."""


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
    if name not in ALLOWED:
        raise Refused(f"{name} is not among the functions that are run")
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
    raise Refused(f"an argument of type {type(value).__name__}")


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
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(flat.element_size())
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
    if not isinstance(value, dict):
        if isinstance(value, list) or (isinstance(value, int) and abs(value) > 2**31):
            raise Refused("a number or list where none may stand")
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        return decoded_tensor(held)
    if kind == "dtype":
        return dtype_of(held)
    if kind == "float":
        return float.fromhex(held)
    if kind == "list":
        return [decoded(one) for one in held]
    raise Refused(f"a value of kind {kind!r}")


def dtype_of(name):
    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise Missing(f"torch {torch.__version__} has no type {name}")
    return found


def decoded_tensor(held):
    dtype, shape = dtype_of(held["dtype"]), held["shape"]
    numbers = held["values"]
    if dtype.is_complex:
        real, imag = ([number_of(one) for one in part] for part in numbers)
        flat = torch.complex(torch.tensor(real).double(), torch.tensor(imag).double())
    elif dtype.is_floating_point:
        flat = torch.tensor([number_of(one) for one in numbers], dtype=torch.float64)
    else:
        flat = torch.tensor(numbers, dtype=dtype)
    count = 1
    for size in shape:
        count *= size
    if count != flat.numel() or count > NUMBERS or min([0, *shape]) < 0:
        raise Refused(f"{flat.numel()} numbers of shape {shape}")
    dense = flat.to(dtype).reshape(shape)
    order = sorted(range(len(shape)), key=lambda at: -held["strides"][at])
    back = sorted(range(len(shape)), key=lambda at: order[at])
    return dense.permute(order).contiguous().permute(back)


def number_of(text):
    if not text.startswith("nan:"):
        return float.fromhex(text)
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48))[0]


# --- running ---


def checked(name, args, kwargs):
    """Refuses indices beyond their operand, and sizes beyond all use."""
    if "out" in kwargs:
        raise Refused("a place to write to")
    short = name.rpartition(".")[2]
    if short in WITH_CLASSES and len(args) > 1 and not args[1].is_floating_point():
        classes = args[0].shape[1 if args[0].dim() > 1 else 0] if args[0].dim() else 0
        ignored = kwargs.get("ignore_index", -100)
        wrong = (args[1] >= classes) | (args[1] < 0)
        if bool((wrong & (args[1] != ignored)).any()):
            raise Refused("a class that the scores do not have")
    for one in numbers_in([args, kwargs]):
        if abs(one) > SIZE:
            raise Refused(f"{one} as a size")


def numbers_in(value):
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from numbers_in(one)
    elif isinstance(value, dict):
        yield from numbers_in(list(value.values()))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


class Run:
    """What a call gives: its results, or with a gradient those of its operands."""

    def __init__(self, name, args, kwargs=None, gradient=None):
        self.name, self.args, self.kwargs = name, list(args), dict(kwargs or {})
        self.gradient = gradient

    def __call__(self, args=None, gradient=None):
        args = self.args if args is None else args
        gradient = self.gradient if gradient is None else gradient
        function = function_of(self.name)
        checked(self.name, args, self.kwargs)
        if gradient is None:
            with torch.no_grad():
                return flat(function(*args, **self.kwargs))
        args = [leaf(one) for one in args]
        result = flat(function(*args, **self.kwargs))[0]
        wanted = [one for one in args if getattr(one, "requires_grad", False)]
        made = torch.autograd.grad(result, wanted, gradient, allow_unused=True)
        return [one for one in made if one is not None]

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
