"""What a capture.json may hold, checked before anything of it is used.

It comes from a stranger. So each field, name, number and size is compared with a closed
list or a bound. Standard library only: a site checks captures without torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, NoReturn

from . import signatures
from .functions import ALLOWED
from .known import FORMS, GIVEN, UNKNOWN
from .signatures import NUMBERS, Operand, Refused, product, refuse

__all__ = ["KIND", "LARGEST", "NUMBERS", "VERSION", "Refused", "checked", "digest_of"]
KIND, VERSION, LARGEST = "doesitnan-capture", 1, 2**20
# Of what nests: lists in lists of arguments; of what is counted: arguments, a list.
DEPTH, ARGUMENTS, LENGTH, RANK, DIGITS = 4, 24, 64, 12, 18
STRIDE = 2**31
# Bytes of a number and bits of its fraction: those of NaN are told bit by bit.
FLOATS = {"float16": (2, 10), "bfloat16": (2, 7), "float32": (4, 23)}
FLOATS.update(float64=(8, 52), float8_e4m3fn=(1, 3), float8_e5m2=(1, 2))
FLOATS.update(float8_e4m3fnuz=(1, 3), float8_e5m2fnuz=(1, 2))
COMPLEX = {"complex64": "float32", "complex128": "float64"}
# Not the lowest: divided by -1 it ends the process.
LOWEST, HIGHEST = 1 - 2**31, 2**31 - 1
INTEGERS = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1)}
INTEGERS.update(int32=(LOWEST, HIGHEST), int64=(LOWEST, HIGHEST))
DTYPES = {*FLOATS, *COMPLEX, *INTEGERS, "bool"}
NUMBER = re.compile(r"-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}|-?inf")
# An op with what its operands are and hold, as nan_probe.slices tells it.
SLICE = re.compile(r"(backward of )?[a-z0-9_]+\([a-z0-9_(),:.+ -]{0,400}\)")
PATTERN = re.compile(r"nan:([0-9a-f]{1,16})")
CALL = {"function", "args", "kwargs", "gradient"}
ENVIRONMENT = {"torch", "python", "system", "machine"}
FIELDS = {"kind", "version", "call", "aten", "direction", "value", "law", "class"}
FIELDS |= {"heals", "does_not_heal", "environment", "digest"}
DIRECTIONS: tuple[str, ...] = ("forward", "backward", "after backward", "over")
DIRECTIONS += ("optimizer", "before the step")
CLASSES = ("mathematics", "range", "kernel", "unstable", "input", "undecided")
LAWS = (*FORMS, GIVEN, UNKNOWN)
AGAIN = "let nan_probe --capture write it again"


def checked(text: str | bytes) -> dict[str, Any]:
    """The capture that a text is. Raises Refused where it is none, and nothing else."""
    check_size(text)
    try:
        encoded = text.encode() if isinstance(text, str) else text
        found = parsed(encoded.decode("utf-8"))
    except UnicodeError:
        refuse("encoding", f"no text in UTF-8: {AGAIN}")
    check_size(encoded)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        refuse("kind", "no capture: send the capture.json that nan_probe wrote")
    version = found.get("version")
    if version is True or version != VERSION:
        refuse("version", f"of another version than {VERSION}: {AGAIN}")
    check_fields(found)
    check_call(found["call"])
    if found["digest"] != digest_of(found):
        refuse("digest", f"changed since it was written, its digest differs: {AGAIN}")
    return found


def check_size(text: str | bytes) -> None:
    if len(text) > LARGEST:
        refuse("size", "larger than 1 MiB: let nan_probe --capture shrink it first")


def digest_of(capture: dict[str, Any]) -> str:
    text = json.dumps({**capture, "digest": None}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# --- the text ---


def parsed(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=without_duplicates,
            parse_int=small,
            parse_float=no_number,
            parse_constant=no_number,
        )
    except RecursionError:
        refuse("field", f"nested too deeply: {AGAIN}")
    except Refused:
        raise
    except ValueError:
        refuse("truncated", "no whole JSON: send all of the file")


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse("field", f"a field stands there twice: {AGAIN}")
    return found


def small(digits: str) -> int:
    if len(digits) > DIGITS:
        refuse("value", f"an integer of {len(digits)} digits: {DIGITS} at most")
    return int(digits)


def no_number(said: str) -> NoReturn:
    refuse("value", f"{shown(said)} as a number: floats are texts, as float.hex() says")


# --- the fields ---


def check_fields(found: dict[str, Any]) -> None:
    same_names(found, FIELDS, "the capture", may_lack={"shrunk", "slice"})
    for name in ("aten", "digest"):
        is_text(found[name], name)
    for name in ("heals", "does_not_heal"):
        for one in listed(found[name], name, LENGTH):
            is_text(one, name)
    for name, words in (("direction", DIRECTIONS), ("class", CLASSES), ("law", LAWS)):
        one_of(found[name], words, name)
    one_of(found["value"], ("nan", "inf"), "value")
    if "slice" in found and not is_slice(found["slice"]):
        refuse("field", f"slice is none that nan_probe says: {AGAIN}")
    same_names(found["environment"], ENVIRONMENT, "environment")
    for name, one in found["environment"].items():
        is_text(one, f"environment.{name}")
    if "shrunk" in found:
        same_names(found["shrunk"], {"from", "to", "tries"}, "shrunk")
        for name, one in found["shrunk"].items():
            if not is_integer(one) or one < 0:
                refuse("field", f"shrunk.{name} is no count")


def same_names(
    found: Any, names: set[str], place: str, may_lack: set[str] | None = None
) -> None:
    if not isinstance(found, dict):
        refuse("field", f"{place} is no object: {AGAIN}")
    unknown = sorted(found.keys() - names - (may_lack or set()))
    missing = sorted(names - found.keys())
    if unknown or missing:
        said = "an unknown field" if unknown else "lacks a field"
        refuse("field", f"{place}: {said}, {shown((unknown or missing)[0])}: {AGAIN}")


def is_text(found: Any, place: str) -> None:
    if not isinstance(found, str) or len(found) > 200 or not found.isprintable():
        refuse("field", f"{place} is no printable text of 200 characters at most")


def one_of(found: Any, words: tuple[str, ...], place: str) -> None:
    if not isinstance(found, str) or found not in words:
        refuse("field", f"{place} is {shown(found)}, which nan_probe never says")


def listed(found: Any, place: str, most: int) -> list[Any]:
    if not isinstance(found, list) or len(found) > most:
        refuse("field", f"{place} is no list of at most {most}")
    return found


def is_slice(found: Any) -> bool:
    return isinstance(found, str) and SLICE.fullmatch(found) is not None


def is_integer(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def shown(found: Any) -> str:
    """What was sent, short, and in ASCII."""
    text = ascii(found) if isinstance(found, (str, int)) else type(found).__name__
    return text if len(text) <= 60 else text[:57] + "..."


# --- the call ---


def check_call(call: Any) -> None:
    same_names(call, CALL, "call")
    args = listed(call["args"], "call.args", ARGUMENTS)
    kwargs = call["kwargs"]
    if not isinstance(kwargs, dict) or len(kwargs) > ARGUMENTS:
        refuse("field", f"call.kwargs is no object of at most {ARGUMENTS}")
    function = call["function"]
    if not isinstance(function, str) or function not in ALLOWED:
        refuse("function", f"{shown(function)} is not among the functions that are run")
    held = [value_of(one, 0) for one in args]
    named = {name: value_of(one, 0) for name, one in kwargs.items()}
    gradient = value_of(call["gradient"], 0)
    if not (gradient is None or isinstance(gradient, Operand)):
        refuse("value", "call.gradient is neither null nor a tensor")
    signatures.check(function, held, named, is_stranger=True, gradient=gradient)


def value_of(found: Any, depth: int) -> Any:
    """A tagged value as signatures.check takes it."""
    if isinstance(found, int) and not LOWEST <= found <= HIGHEST:
        refuse("value", f"{found} as an argument: {HIGHEST} at most")
    if found is None or isinstance(found, (int, str)):
        return found
    if not isinstance(found, dict) or len(found) != 1:
        refuse("value", f"{shown(found)} where a tagged value belongs")
    ((kind, held),) = found.items()
    if kind == "tensor":
        return tensor_of(held)
    if kind == "dtype":
        return signatures.Dtype(dtype_of(held))
    if kind == "float" and isinstance(held, str):
        return float("nan") if held == "nan" else number_of(held)
    if kind != "list" or depth >= DEPTH:
        refuse("value", f"a value of kind {shown(kind)}, or too deep a list")
    rows = listed(held, "a list of arguments", LENGTH)
    return [value_of(one, depth + 1) for one in rows]


def dtype_of(found: Any) -> str:
    if not isinstance(found, str) or found not in DTYPES:
        refuse("value", f"{shown(found)} is no type of a tensor that is run")
    return found


def tensor_of(held: Any) -> Operand:
    same_names(held, {"dtype", "shape", "strides", "values"}, "a tensor")
    dtype, shape = dtype_of(held["dtype"]), shape_of(held["shape"])
    strides_of(held["strides"], shape)
    count = math.prod(shape)
    parts = [held["values"]]
    if dtype in COMPLEX:
        parts = listed(held["values"], "the values of a complex tensor", 2)
        if len(parts) != 2:
            refuse("value", "a complex tensor without two lists of numbers")
    for part in parts:
        if not isinstance(part, list) or len(part) != count:
            refuse("value", f"a tensor of {count} numbers that does not list them")
        for one in part:
            check_number(one, COMPLEX.get(dtype, dtype))
    return Operand(dtype, shape, lambda: parts[0])


def shape_of(found: Any) -> list[int]:
    shape = listed(found, "a shape", RANK)
    if not all(is_integer(size) and 0 <= size <= NUMBERS for size in shape):
        refuse("value", f"a shape whose sizes are not 0 to {NUMBERS}")
    # An empty tensor is as large as without its zeros: sizes multiply in results.
    count = product(shape)
    if count > NUMBERS:
        refuse("numbers", f"a tensor of {count} numbers: {NUMBERS} at most")
    return shape


def strides_of(found: Any, shape: list[int]) -> None:
    strides = listed(found, "strides", RANK)
    if len(strides) != len(shape) or not all(map(is_integer, strides)):
        refuse("value", "strides that are not one integer for each size")
    if not all(0 <= one < STRIDE for one in strides):
        refuse("value", f"a stride that is not 0 to {STRIDE - 1}")
    if 0 in shape:
        return
    reach = 0
    for stride, size in sorted(zip(strides, shape)):
        if size > 1 and stride <= reach:
            refuse("value", "strides by which numbers of a tensor share memory")
        reach += (size - 1) * stride


def check_number(found: Any, dtype: str) -> None:
    if dtype == "bool":
        is_right = isinstance(found, bool)
    elif dtype in INTEGERS:
        lowest, highest = INTEGERS[dtype]
        is_right = is_integer(found) and lowest <= found <= highest
    elif isinstance(found, str) and found.startswith("nan:"):
        is_right = is_nan(found, *FLOATS[dtype])
    else:
        is_right = isinstance(found, str)
        if is_right:
            number_of(found)
    if not is_right:
        refuse("value", f"{shown(found)} is no number of type {dtype}")


def number_of(text: str) -> float:
    """Of float.hex(); Python's own reader takes more than that."""
    try:
        found = float.fromhex(text) if NUMBER.fullmatch(text) else None
    except OverflowError:
        found = None
    if found is None:
        refuse("value", f"{shown(text)} is no number as float.hex() writes it")
    return found


def is_nan(text: str, size: int, fraction: int) -> bool:
    """Whether the bit pattern in it is a NaN of this type."""
    found = PATTERN.fullmatch(text)
    if found is None:
        return False
    pattern = int(found.group(1), 16)
    if size == 1:
        return pattern == 0  # the type's own: of these the bits are not told
    sign = 1 << (8 * size - 1)
    infinite = sign - (1 << fraction)
    return pattern < 2 * sign and pattern % sign > infinite
