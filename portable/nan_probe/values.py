"""What tensors hold, in which memory, and what an op does with them."""

from __future__ import annotations

import math
from collections import namedtuple

import torch

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# Stand-ins for tensors, which have no numbers.
UNREAL = ("FakeTensor", "FunctionalTensor")
UNREADABLE = (RuntimeError, NotImplementedError, TypeError)
norms = getattr(torch, "_foreach_norm", None)
# `lowest`: infinite it is at the lower end only.
Facts = namedtuple("Facts", "dtype shape device nan inf total highest lowest")


def tensors(values):
    """Every tensor in nested tuples, lists and mappings, in order."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors(value)
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors(value)
    elif hasattr(values, "__dataclass_fields__"):
        yield from tensors(vars(values))


def numbers(values):
    if isinstance(values, float):
        yield values
    elif isinstance(values, dict):
        yield from numbers(list(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from numbers(value)


def plain_values(value):
    """The numbers of a tensor as torch can sum them; None where it has none."""
    if not (value.is_floating_point() or value.is_complex()) or value.is_meta:
        return None
    if type(value).__name__ in UNREAL or value.is_quantized or value.is_nested:
        return None
    value = value.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout != torch.strided:
        value = value._values() if value.is_sparse else value.values()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.float() if value.element_size() == 1 else value


def is_finite(value):
    """One pass where all is well: a sum is quicker than looking at each number.
    None of what cannot be read."""
    try:
        plain = plain_values(value)
        if plain is None or plain.numel() == 0:
            return True
        wide = torch.float64 if plain.dtype == torch.float64 else torch.float32
        if math.isfinite(plain.sum(dtype=wide).item()):
            return True
        return bool(torch.isfinite(plain).all())
    except UNREADABLE:
        return None


def is_bad(value):
    return is_finite(value) is False


def has_nan(value):
    return bool(torch.isnan(plain_values(value)).any())


def quick_facts(value):
    """`facts_of` in one pass where all is finite."""
    plain = plain_values(value)
    if plain.numel() and plain.dtype in (torch.float32, torch.float64, torch.bfloat16):
        ends = [float(one) for one in plain.aminmax()]
        if all(map(math.isfinite, ends)):
            return facts(value, 0, 0, plain.numel(), max(map(abs, ends)), False)
    return facts_of(value)


def facts_of(value):
    plain = plain_values(value)
    nan, inf = int(torch.isnan(plain).sum()), int(torch.isinf(plain).sum())
    lowest = bool(inf) and not bool((plain == math.inf).any())
    finite = plain.nan_to_num(0.0, 0.0, 0.0)
    highest = float(finite.abs().max()) if plain.numel() else 0.0
    return facts(value, nan, inf, plain.numel(), highest, lowest)


def facts(value, *rest):
    return Facts(str(value.dtype), list(value.shape), str(value.device), *rest)


def described(facts):
    ends = limit(facts.dtype)
    text = f"{facts.dtype} {facts.shape} |x| up to {facts.highest:.4g}"
    if facts.highest > ends / 10:
        text += f", {facts.highest / ends:.0%} of its range"
    text += f", nan {facts.nan}" * bool(facts.nan)
    return text + f", inf {facts.inf}" * bool(facts.inf)


def limit(dtype):
    kind = getattr(torch, dtype.rpartition(".")[2])
    return torch.finfo(kind).max if kind.is_floating_point else math.inf


def checksum(value):
    """The sum of a tensor's bits as integers."""
    plain = plain_values(value).contiguous()
    return int(plain.view(INTEGERS[plain.element_size()]).sum(dtype=torch.int64))


def storage_of(value):
    if hasattr(value, "to_local"):
        value = value.to_local()
    try:
        if hasattr(value, "untyped_storage"):
            return value.untyped_storage().data_ptr()
        return value.storage().data_ptr()
    except UNREADABLE:
        return id(value)  # a tensor without storage


def is_whole(value):
    """Whether it is all of its storage: what is not finite there is gone then."""
    if not hasattr(value, "untyped_storage"):
        return value.numel() == len(value.storage())
    size = value.numel() * value.element_size()
    return size >= value.untyped_storage().nbytes()


# --- a step, looked at for little: one look at a few numbers ---


def any_bad(values, seen=None):
    """One wait for all of them; only where that is not finite each is looked at.
    `seen` gets their total where all is well."""
    values = [one.detach() for one in values if is_plain(one)]
    if not values:
        return False
    try:
        found = total(values)
        if math.isfinite(found):
            if seen is not None:
                seen.append(found)
            return False
    except UNREADABLE:
        pass  # of several devices or kinds
    return any(map(is_bad, values))


def total(values):
    """Not finite where a value is not, and sometimes where a sum overflows."""
    if norms is None or len(values) == 1:
        return sum(float(one.float().sum()) for one in values)
    return float(torch.stack([one.float() for one in norms(values)]).sum())


def is_plain(one):
    return (
        isinstance(one, torch.Tensor)
        and one.is_floating_point()
        and one.layout == torch.strided
        and not one.is_meta
        and not one.is_quantized
        and one.element_size() > 1
        and not hasattr(one, "to_local")
    )


def gradients_of(parameters):
    return [one.grad for one in parameters if one.grad is not None]


def weights_of(optimizer):
    return [one for group in optimizer.param_groups for one in group["params"]]


def has_gradient(one):
    """Whether its gradient is more than 0; of what cannot be read, yes."""
    if one.grad is None:
        return False
    try:
        plain = plain_values(one.grad)
        return plain is None or plain.numel() == 0 or bool(plain.any())
    except UNREADABLE:
        return True


def losses_of(result):
    """Of what a step function returned: the loss is a number among it."""
    found = result.get("loss", result) if isinstance(result, dict) else result
    return [one for one in tensors(found) if one.numel() == 1]


# --- ops ---

# Of ops, without namespace and overload: memory that nobody wrote yet; constants that
# the caller chose; ops that write over their first argument without reading it.
UNWRITTEN = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"}
UNWRITTEN |= {"new_empty_strided", "resize_", "set_", "_empty_affine_quantized"}
FILLS = {"full", "full_like", "new_full", "fill", "fill_", "masked_fill", "where"}
FILLS |= {"masked_fill_", "scalar_tensor", "constant_pad_nd", "index_fill"}
FILLS |= {"index_fill_", "lift_fresh", "lift_fresh_copy"}
REPLACES = {"copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_", "random_"}
Plan = namedtuple("Plan", "name base writes computes")
# By op.
plans = {}


def plan_of(func):
    """What is to be done about an op; kept for the next time."""
    name, schema = str(func), getattr(func, "_schema", None)
    base = name.split(".")[1] if "." in name else name
    writes, is_view = [], False
    if schema is not None:
        for index, one in enumerate(schema.arguments):
            if one.alias_info is not None and one.alias_info.is_write:
                # `out=` and the like are written over without being read.
                is_read = not one.kwarg_only and base not in REPLACES
                writes.append((index, one.name, is_read))
        returned = [one.alias_info for one in schema.returns]
        is_view = bool(returned) and all(
            info is not None and not info.is_write for info in returned
        )
    is_view = is_view and not base.startswith("lift_fresh")
    computes = not (is_view or base in UNWRITTEN or "c10d" in name.split(".")[0])
    plans[func] = Plan(name, base, writes, computes)
    return plans[func]


def written_to(plan, args, kwargs):
    """(tensor, whether the op reads it, too) of what an op writes to."""
    for index, name, is_read in plan.writes:
        value = args[index] if index < len(args) else kwargs.get(name)
        for one in tensors(value):
            yield one, is_read


# --- calls ---

# By their names these look as if they wrote.
READING = ("__invert__", "__int__", "__index__", "__iter__")


def is_writing(name, kwargs):
    """Whether a function writes to its first argument, by its name."""
    if name.startswith("__"):
        return name == "__setitem__" or (name[2] == "i" and name not in READING)
    return name.endswith("_") or bool(kwargs.get("inplace"))


def weight_of(call, weights):
    """The weight that a call without a gradient writes to, by its storage."""
    name = getattr(call.function, "__name__", "")
    if call.held is None or not is_writing(name, call.kwargs):
        return None
    storage = storage_of(call.args[0])
    return storage if storage in weights else None


def is_weight(made):
    return any(one.is_leaf and one.requires_grad for one in made)


def place_of(one):
    if one.layout != torch.strided:
        return id(one)
    return one.data_ptr(), one.dtype, one.shape, one.stride()


def size_of(one):
    return one.numel() * one.element_size()
