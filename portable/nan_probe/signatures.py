"""The functions that a capture may call, and what each of their arguments may be.

Torch trusts some arguments: `_weight_norm` with too few norms writes out of bounds, the
lowest integer divided by -1 ends the process, a padding decides how much is allocated.
So each index, length, size and word is checked before a stranger's call runs. Standard
library only.
"""

from __future__ import annotations

import math
import re
from collections import namedtuple
from typing import Any, Callable, Dict, Iterable, List, NoReturn, Optional

from .functions import ALLOWED

# `read` gives the numbers of an integer tensor, in order.
Operand = namedtuple("Operand", "dtype shape read")
Dtype = namedtuple("Dtype", "name")
Given = Dict[str, Any]
# Numbers of all operands; of a result, and of what is made on the way to it; a size.
NUMBERS, MOST, SIZE = 4096, 2**22, 4096
RANK = 64
# Other names of the first parameter, by which it may be given.
FIRST = ("self", "A", "x")
EQUATION = re.compile(r"[A-Za-z., ]*(->[A-Za-z. ]*)?")
WORDS = set(
    "none mean sum batchmean fro nuc tanh floor trunc reduced complete r L U "
    "use_mm_for_euclid_dist donot_use_mm_for_euclid_dist "
    "use_mm_for_euclid_dist_if_necessary".split()
)


class Refused(ValueError):
    """What a capture must not have, in words; `code` names its kind."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def refuse(code: str, text: str) -> NoReturn:
    raise Refused(code, text)


def check(
    function: str,
    args: List[Any],
    kwargs: Given,
    is_stranger: bool = False,
    gradient: Optional[Operand] = None,
) -> None:
    """Raises Refused where an argument is none of its kind, or beyond its operand; of
    a stranger's call also where it takes or makes more than anybody needs."""
    given = bound(function, args, kwargs)
    for name, value in given.items():
        if not KINDS.get(name, is_operand)(value):
            said = "is of another kind, or beyond what it may be"
            refuse("value", f"{function}: the argument {name} {said}")
    short = function.rpartition(".")[2]
    if short in CHECKS and not CHECKS[short](given):
        refuse("value", f"{function}: arguments that do not belong to its operands")
    if is_stranger:
        check_amount(short, given, gradient)


def check_amount(short: str, given: Given, gradient: Optional[Operand]) -> None:
    total = sum(map(numbers_of, operands([*given.values(), gradient])))
    if total > NUMBERS:
        refuse("numbers", f"{total} numbers in all its tensors: {NUMBERS} at most")
    for name in SIZES & given.keys():
        if any(one > SIZE for one in integers(given[name])):
            refuse("value", f"{short}: the argument {name} is above {SIZE}")
    made = MADE.get(short, broadcast)(given)
    if made > MOST:
        refuse(
            "value", f"{short} of these operands makes {made} numbers: {MOST} at most"
        )


def bound(function: str, args: List[Any], kwargs: Given) -> Given:
    """Each argument by the name of its parameter."""
    names = ALLOWED.get(function)
    if names is None:
        refuse("function", f"{function[:60]!a} is not among the functions that are run")
    if names[-1] == "operands":
        args = [args[0] if args else None, args[1:]]
    if len(args) > len(names):
        refuse("value", f"{function} with {len(args)} arguments: {len(names)} at most")
    given = dict(zip(names, args))
    for name, value in kwargs.items():
        if name in FIRST and name not in names:
            name = names[0]
        if name not in names or name in given:
            refuse("value", f"{function} with an argument named {name[:60]!a}")
        given[name] = value
    return given


def operands(values: Iterable[Any]) -> List[Operand]:
    found = []
    for value in values:
        if isinstance(value, Operand):
            found.append(value)
        elif isinstance(value, list):
            found += operands(value)
    return found


def unpacked(values: List[Any]) -> List[Any]:
    """Operands one by one, also where they came as one list."""
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def shape_of(value: Any) -> List[int]:
    return list(value.shape) if isinstance(value, Operand) else []


def integers(value: Any) -> List[int]:
    parts = value if isinstance(value, list) else [value]
    return [one for one in parts if isinstance(one, int)]


# --- the kind of one argument, by the name of its parameter ---


def is_operand(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, Operand))


def is_word(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in WORDS)


def is_number_or_word(value: Any) -> bool:
    return is_word(value) or isinstance(value, (int, float))


def is_dtype(value: Any) -> bool:
    # Tensor.to takes a tensor, too: the type is that of it.
    return value is None or isinstance(value, (Dtype, Operand))


def is_dims(value: Any) -> bool:
    # Beyond the rank they are an ordinary error of torch.
    parts = value if isinstance(value, list) else [value]
    return value is None or all(
        isinstance(one, int) and -RANK <= one <= RANK for one in parts
    )


def is_dims_or_operand(value: Any) -> bool:
    return isinstance(value, (list, Operand))  # have_lengths reads them


def is_size(value: Any, lowest: int = 0) -> bool:
    parts = value if isinstance(value, list) else [value]
    return value is None or all(
        isinstance(one, int) and not isinstance(one, bool) and one >= lowest
        for one in parts
    )


def is_count(value: Any) -> bool:
    return is_size(value, 1)


def is_padding(value: Any) -> bool:
    return is_size(value) or value in ("same", "valid")


def is_equation(value: Any) -> bool:
    return isinstance(value, str) and EQUATION.fullmatch(value) is not None


def are_operands(value: Any) -> bool:
    return isinstance(value, list) and len(operands(value)) == len(unpacked(value)) > 0


SIZES = {"normalized_shape", "size", "kernel_size", "stride", "padding", "dilation"}
SIZES |= {"num_groups", "groups"}
KINDS: Dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("dim", "unbiased"), is_dims),
    **dict.fromkeys(("input_lengths", "target_lengths"), is_dims_or_operand),
    **dict.fromkeys(("blank", "reduction_number"), is_size),
    **dict.fromkeys(("ord", "p"), is_number_or_word),
    **dict.fromkeys(("reduction", "approximate", "rounding_mode"), is_word),
    **dict.fromkeys(("compute_mode", "UPLO", "mode"), is_word),
    **dict.fromkeys(SIZES - {"normalized_shape", "padding"}, is_count),
    "normalized_shape": is_size,
    "padding": is_padding,
    "dtype": is_dtype,
    "equation": is_equation,
    "operands": are_operands,
}


# --- what belongs together: an index to its operand, a length to its dimension ---


def have_classes(given: Given) -> bool:
    """The target names classes that the scores have, or the ignored one."""
    scores, target = given.get("input"), given.get("target")
    if not isinstance(scores, Operand) or not isinstance(target, Operand):
        return False
    if "int" not in target.dtype:
        return True
    classes = ([0, *scores.shape[:1]] if len(scores.shape) < 2 else scores.shape[:2])[
        -1
    ]
    ignored = given.get("ignore_index", -100)
    return all(0 <= one < classes or one == ignored for one in target.read())


def have_norms(given: Given) -> bool:
    """One norm for each row: with fewer torch writes beyond, with none it dies."""
    v, g, dim = given.get("input"), given.get("g"), given.get("dim", 0)
    if not isinstance(v, Operand) or not isinstance(g, Operand) or v.dtype != g.dtype:
        return False
    if 0 in v.shape:
        return False
    if dim == -1:
        return numbers_of(g) == 1
    wanted = [size if at == dim else 1 for at, size in enumerate(v.shape)]
    return isinstance(dim, int) and 0 <= dim < len(v.shape) and list(g.shape) == wanted


def have_lengths(given: Given) -> bool:
    """Of ctc_loss: each length within its dimension, each label within the classes.
    Torch trusts them, and writes behind its memory."""
    scores, target = given.get("log_probs"), given.get("targets")
    if not isinstance(scores, Operand) or not isinstance(target, Operand):
        return False
    is_batch = len(scores.shape) == 3
    if 0 in scores.shape or not (is_batch or len(scores.shape) == 2):
        return False
    count, classes = (scores.shape[1] if is_batch else 1), scores.shape[-1]
    times, places = (
        lengths_of(given.get(name)) for name in ("input_lengths", "target_lengths")
    )
    if len(times) != count or len(places) != count:
        return False
    if not all(1 <= one <= scores.shape[0] for one in times) or min(places) < 0:
        return False
    if len(target.shape) == 2:
        are_there = target.shape[0] == count and max(places) <= target.shape[1]
    else:
        are_there = len(target.shape) == 1 and sum(places) == target.shape[0]
    known = range(classes)
    return (
        are_there
        and target.dtype in ("int64", "int32")
        and given.get("blank", 0) in known
        and given.get("reduction_number", 0) in range(3)
        and all(one in known for one in target.read())
    )


def lengths_of(value: Any) -> List[int]:
    """None where they are no list of integers, nor a tensor of them."""
    if isinstance(value, Operand):
        is_list = value.dtype in ("int64", "int32") and len(value.shape) < 2
        return list(value.read()) if is_list else []
    is_list = all(type(one) is int for one in value or [""])
    return list(value) if is_list else []


CHECKS: Dict[str, Callable[[Given], bool]] = {
    "ctc_loss": have_lengths,
    "cross_entropy": have_classes,
    "nll_loss": have_classes,
    "_weight_norm": have_norms,
    # With less it gives places, which are no numbers.
    "where": lambda given: len(given) == 3,
}


# --- how many numbers a call makes, at most ---


def numbers_of(one: Operand) -> int:
    """As if nothing were empty: what is empty here is a size of the result there."""
    return product(one.shape)


def product(sizes: Iterable[int]) -> int:
    return math.prod(max(1, size) for size in sizes)


def broadcast(given: Given) -> int:
    """Two operands, however they are joined, make less than NUMBERS**2 / 4."""
    return joined(shape_of(one) for one in operands(given.values()))


def joined(shapes: Iterable[List[int]]) -> int:
    every = [shape[::-1] for shape in shapes]
    longest = max(map(len, every), default=0)
    return product(
        max([1, *(one[at] for one in every if at < len(one))]) for at in range(longest)
    )


def square(given: Given) -> int:
    """Of matrices the full factors, of rows all pairs."""
    shape = [1, *shape_of(given.get("input"))]
    return product(shape[:-2]) * max(shape[-2:]) ** 2


def attention(given: Given) -> int:
    """All scores, each with all that it is a sum of."""
    query, key, value, mask = (
        [1, 1, *shape_of(given.get(name)), 1]
        for name in ("query", "key", "value", "attn_mask")
    )
    rows = [[*query[:-2], 1, query[-2]]] + [
        [*one[:-3], 1, *one[-3:-1]] for one in (key, value)
    ]
    return joined([*rows, mask])


def convolved(given: Given) -> int:
    shape, weight = shape_of(given.get("input")), shape_of(given.get("weight"))
    rank = max(1, len(weight) - 2)
    padding, dilation = given.get("padding"), integers(given.get("dilation")) or [1]
    pads = [2 * one for one in integers(padding)] or [0]
    if padding == "same":
        pads = [max(dilation) * one for one in weight[2:]] or [0]
    places = product(size + max(pads) for size in shape[-rank:])
    return product(shape[:-rank][:-1]) * places * product(weight)


def windows(given: Given) -> int:
    return broadcast(given) * max(integers(given.get("size")) or [1])


def contracted(given: Given) -> int:
    sizes: Dict[str, int] = {}
    rest = 1
    terms = given["equation"].replace(" ", "").partition("->")[0].split(",")
    for term, one in zip(terms, operands(given["operands"])):
        before, _, after = term.partition("...")
        shape = list(one.shape)
        named = shape[: len(before)] + shape[len(shape) - len(after) :]
        rest *= product(shape[len(before) : len(shape) - len(after)])
        for letter, size in zip(before + after, named):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return rest * product(sizes.values())


def aligned(given: Given) -> int:
    """Each label and a blank around it, at each time of each of a batch."""
    longest = max(lengths_of(given.get("target_lengths")), default=0)
    return product(given["log_probs"].shape[:-1]) * (2 * longest + 1)


MADE: Dict[str, Callable[[Given], int]] = {
    "ctc_loss": aligned,
    **dict.fromkeys("cov corrcoef svd qr pinv eigh".split(), square),
    "scaled_dot_product_attention": attention,
    "conv1d": convolved,
    "conv2d": convolved,
    "local_response_norm": windows,
    "einsum": contracted,
}
