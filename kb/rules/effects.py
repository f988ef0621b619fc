"""What calls of torch give back, as far as rules ask: type, infinities, object."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional

from kb.rules.parts import is_padding
from kb.rules.values import IGNORED, NOTHING, Event, Value, common_dtype, keyed

# Words for a type of elements, as torch and its methods have them.
DTYPES: Dict[str, str] = {
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
    "double": "float64",
    "float64": "float64",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "bool")},
    "int": "int32",
    "long": "int64",
    "short": "int16",
}
CASTS = ("half", "bfloat16", "float", "double", "long", "int", "bool", "short")
# Give back the object itself, or the same values elsewhere.
SAME = frozenset(
    "to type cuda cpu xpu npu train eval requires_grad_ contiguous to_empty detach "
    "apply share_memory_ pin_memory type_as".split()
)
# Other views or copies of the same elements.
SHAPES = frozenset(
    "view reshape transpose permute unsqueeze squeeze expand expand_as clone flatten "
    "unflatten repeat repeat_interleave movedim swapaxes t chunk split roll flip tril "
    "triu cat concat stack Parameter gather index_select select narrow unbind "
    "broadcast_to masked_fill masked_fill_ where tensor as_tensor full "
    "full_like".split()
)
# Other elements of the same type.
MATHS = frozenset(
    "abs neg exp log log2 log10 log1p sqrt rsqrt pow square sin cos tanh sigmoid relu "
    "softmax log_softmax clamp clamp_min clamp_max clip sum mean amax amin cumsum norm "
    "add add_ sub mul mul_ div matmul mm bmm dropout zeros_like ones_like empty_like "
    "rand_like randn_like nan_to_num nan_to_num_ normalize gelu silu parameters "
    "named_parameters buffers logsumexp linear layer_norm rms_norm embedding".split()
)
FILLED = ("masked_fill", "masked_fill_", "full", "full_like", "where")
# Loading under a type: T5ForConditionalGeneration.from_pretrained(…, torch_dtype=…).
DTYPE_ARGUMENTS = ("dtype", "torch_dtype")


def dtype_named(value: Optional[Value]) -> str:
    """ "float16" of torch.float16, jnp.float16 or "float16"; "" of anything else."""
    if value is None:
        return ""
    word = value.const if isinstance(value.const, str) else ""
    if value.name:
        package, _, word = value.name.rpartition(".")
        if package not in ("torch", "numpy"):
            return ""
    return DTYPES.get(word, "")


def result_of(event: Event) -> Value:
    """The value that the call of an event gives back."""
    event.result = made_by_call(event)
    return event.result


def made_by_call(event: Event) -> Value:
    word = event.name.rpartition(".")[2]
    if event.name == "torch.compile":
        return compiled(event)
    if event.name.startswith("."):
        changed = converted(event, word)
        if changed is not None:
            return changed
    tensors = tensors_of(event, word)
    kept = word in SHAPES or word in MATHS
    value = Value(
        dtype=asked_dtype(event) or (common_dtype(tensors) if kept else ""),
        made=event,
        inputs=event.all_values(),
    )
    if word in SHAPES:
        value.holds = held(event, word, tensors)
    if event.name == "builtins.dict" and not event.args:
        value = keyed(dict(event.kwargs), event.open_kwargs)
    return value


def compiled(event: Event) -> Value:
    """torch.compile(f) is f, called in another way."""
    if not event.args or (event.args[0].node is None and event.args[0].cls is None):
        return Value(made=event, inputs=event.all_values())
    value = event.args[0].alike()
    value.is_compiled = True
    return value


def converted(event: Event, method: str) -> Optional[Value]:
    """Of x.half(), x.to(torch.float16), x.cuda(): x, of that type."""
    owner = event.args[0]
    if method in CASTS and len(event.args) == 1:
        return with_made(owner.alike(DTYPES[method]), event, owner)
    if method not in SAME:
        return None
    named = [*event.args[1:], *event.kwargs.values()]
    found = [dtype for dtype in map(dtype_named, named) if dtype]
    if not found and method in ("to", "type", "type_as"):
        found = [value.dtype for value in named if value.dtype]
        # A type that cannot be read may be another one.
        if not found and any(value.attribute == "dtype" for value in named):
            found = [""]
    return with_made(owner.alike(found[0] if found else None), event, owner)


def with_made(value: Value, event: Event, owner: Value) -> Value:
    """Rules ask what made an object; its conversion did not."""
    value.inputs = (*owner.inputs, *event.args[1:])
    value.const = owner.const
    if event.name == ".detach":
        # The same numbers, but no gradient comes back to them.
        value.ident, value.is_cut = value, True
    elif event.name == ".requires_grad_":
        asked = [*event.args[1:], *event.kwargs.values()]
        value.is_cut = owner.is_cut = any(x.const is False for x in asked)
    return value


def asked_dtype(event: Event) -> str:
    for name in DTYPE_ARGUMENTS:
        if name in event.kwargs:
            return dtype_named(event.kwargs[name]) or event.kwargs[name].dtype
    return ""


def tensors_of(event: Event, word: str) -> List[Value]:
    """The arguments whose type the result has."""
    if word == "where":
        return event.args[1:3] or event.args[:1]
    if word in ("tensor", "as_tensor", "full"):
        return []
    if word == "embedding":
        return event.args[1:2]
    return event.args[:1]


def held(event: Event, word: str, tensors: List[Value]) -> FrozenSet[str]:
    """Which infinities the elements may be among."""
    values = list(tensors)
    if word in ("tensor", "as_tensor"):
        values += event.args[:1]
    elif word in FILLED:
        named = ("value", "fill_value", "other")
        values += event.args[1:]
        values += [event.kwargs[name] for name in named if name in event.kwargs]
    found = NOTHING.union(*(value.holds for value in values))
    # Of padding alone no row is made.
    is_filled = any(map(is_padding, event.args[1:2]))
    return found - {str(IGNORED)} if is_filled else found


def combined(event: Event) -> Value:
    """Of x + y: the type of both, or of one where the other is a number."""
    left, right = event.args
    value = event.result = Value(made=event, inputs=event.args)
    if event.name in ("<", "<=", ">", ">=", "==", "!="):
        value.dtype = "bool"
        return value
    if left.is_known or right.is_known:
        value.dtype = right.dtype if left.is_known else left.dtype
    elif left.dtype == right.dtype:
        value.dtype = left.dtype
    if event.name in ("+", "-"):
        value.holds = left.holds | (right.holds if event.name == "+" else NOTHING)
    elif event.name == "*":
        value.holds = (left.holds | right.holds) & {"min"}
    return value
