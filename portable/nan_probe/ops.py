"""What an op does with its arguments, from its schema and its name."""

from __future__ import annotations

from collections import namedtuple

from .values import tensors

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
