"""Captures of a stranger who means harm: name -> (its text, what becomes of it).

What becomes of it is the code of the refusal, or HELD: it runs, and ends with an answer
or with torch's own error, nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from portable.nan_probe.schema import KIND, LARGEST, VERSION, digest_of

Json = dict[str, Any]
F = "torch.nn.functional."
HELD = "held"
AFTER_LOWEST, HIGHEST = -(2**31), 2**31 - 1


def capture(function: Any = "torch.log", *args: Any, **rest: Any) -> Json:
    """A whole capture of a call; `rest`: kwargs, gradient, fields in place of its."""
    call = {"function": function, "args": list(args) or [tensor(0.0)]}
    call["kwargs"] = rest.pop("kwargs", {})
    call["gradient"] = rest.pop("gradient", None)
    found = {
        "kind": KIND,
        "version": VERSION,
        "call": call,
        "aten": "aten.log.default",
        "direction": "forward",
        "value": "inf",
        "law": "log of 0",
        "class": "mathematics",
        "heals": [],
        "does_not_heal": [],
        "environment": dict.fromkeys(("torch", "python", "system", "machine"), "2.13"),
        **rest,
    }
    return {**found, "digest": digest_of(found)}


def tensor(*values: Any, shape: Any = ..., dtype: Any = "float32", **rest: Any) -> Json:
    shape = [len(values)] if shape is ... else shape
    numbers = [one.hex() if isinstance(one, float) else one for one in values]
    held = {"dtype": dtype, "shape": shape, "strides": dense(shape), "values": numbers}
    return {"tensor": held | rest}


def dense(shape: Any) -> list[int]:
    found, step = [], 1
    for size in reversed(shape if isinstance(shape, list) else []):
        found.append(step)
        step *= size if isinstance(size, int) else 1
    return found[::-1]


def zeros(*shape: int, dtype: str = "float32") -> Json:
    count = 1
    for size in shape:
        count *= size
    zero: Any = 0 if "int" in dtype else 0.0
    return tensor(*[zero] * count, shape=list(shape), dtype=dtype)


def listed(*values: Any) -> Json:
    return {"list": list(values)}


def labels(*values: int) -> Json:
    return tensor(*values, dtype="int64")


def texts() -> Iterator[tuple[str, str | bytes, str]]:
    """What is no capture, or not a whole one."""
    whole = json.dumps(capture())
    yield "nothing", "", "truncated"
    yield "cut off", whole[:-40], "truncated"
    yield "two of them", whole + whole, "truncated"
    yield "no text", b"\x80\x81" + whole.encode(), "encoding"
    yield "utf-16", whole.encode("utf-16"), "encoding"
    yield "half of a character", whole.encode() + b"\xe4", "encoding"
    yield "a lone surrogate", whole.replace("2.13", "\\ud800"), "field"
    yield "nul", "\0" * 1000, "truncated"
    yield "too large", whole + " " * LARGEST, "size"
    yield "too large in bytes", '"' + "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 400_000, "size"
    yield "1 MiB of brackets", "[" * LARGEST, "field"
    yield "1 MiB of objects", '{"a":' * (LARGEST // 5), "field"
    yield "1 MiB of digits", "9" * LARGEST, "value"
    yield "digits as the version", in_place("version", 10**308), "value"
    yield "an exponent", whole.replace('"version": 1', '"version": 1e308'), "value"
    yield "NaN as JSON", whole.replace('"version": 1', '"version": NaN'), "value"
    yield "the version as a truth", in_place("version", True), "version"
    yield "another version", in_place("version", 2), "version"
    yield "a list", json.dumps([capture()]), "kind"
    yield "another kind", in_place("kind", "evidence"), "kind"
    yield "a field twice", whole.replace('{"kind"', '{"kind": 1, "kind"'), "field"
    yield "a method twice", whole.replace('"kwargs": {}', TWICE), "field"
    yield "changed", whole.replace("2.13", "2.12"), "digest"
    yield "no digest", in_place("digest", None), "field"
    yield "250,000 lists", json.dumps(capture(aten=[[]] * 250_000)), "field"
    for text in ("<b>x</b>", "log(x)" * 90, "log(x\n)", ["log(x)"]):
        yield f"a slice, {text!r:.9}", json.dumps(capture(slice=text)), "field"
    yield "wide", whole.replace('"args": [', '"args": [' + "[]," * 200_000), "field"


TWICE = '"kwargs": {"dim": 0, "dim": 1}'


def in_place(name: str, value: Any) -> str:
    return json.dumps(capture() | {name: value})


def deep(depth: int) -> Any:
    found: Any = 0
    for _ in range(depth):
        found = {"list": [found]}
    return found


def fields() -> Iterator[tuple[str, Json, str]]:
    """Fields that are not there, too many, or of another type."""
    yield "an unknown field", capture(repro="import os"), "field"
    yield "an unknown field of a call", capture(call={"code": "1"}), "field"
    yield "a call that is a list", capture(call=[]), "field"
    yield "a call that is null", capture(call=None), "field"
    yield "a law with lines", capture(law="log of 0\n```\nrm"), "field"
    yield "a law that hides", capture(law="log\N{RIGHT-TO-LEFT OVERRIDE}"), "field"
    yield "a long law", capture(law="0" * 1000), "field"
    yield "a class of its own", capture(**{"class": "<b>"}), "field"
    yield "heals as a text", capture(heals="a"), "field"
    yield "heals with code", capture(heals=[{"__class__": "os"}]), "field"
    yield "an environment", capture(environment={"torch": 1}), "field"
    yield "counts", capture(shrunk={"from": -1, "to": 1, "tries": 1}), "field"
    yield "args as an object", capture(call=calling(args={})), "field"
    yield "kwargs as a list", capture(call=calling(kwargs=[])), "field"
    yield "10,000 arguments", capture(call=calling(args=[0] * 10_000)), "field"
    yield "100 names", capture(kwargs={f"a{n}": 0 for n in range(100)}), "field"


def calling(**rest: Any) -> Json:
    call: Json = capture()["call"]
    return call | rest


def names() -> Iterator[tuple[str, Json, str]]:
    """Functions that open files, trust indices, or reach for Python itself."""
    pool, index = zeros(1, 1, 4, 4), labels(10**6)
    for function, *args in (
        ("torch.from_file", "/etc/passwd", False, 8),
        ("torch.ops.aten.from_file", "/etc/passwd"),
        ("aten.from_file", "/etc/passwd"),
        ("torch.load", "/etc/passwd"),
        ("torch.save", zeros(1), "/etc/passwd"),
        ("torch.ops.aten.max_pool2d_with_indices_backward", pool, pool, index),
        ("torch._segment_reduce_backward", zeros(2), zeros(2), zeros(2), "max"),
        ("torch.segment_reduce", zeros(2), "max"),
        ("torch.embedding_dense_backward", zeros(1, 2), labels(10**7), 3, -1, False),
        ("torch._ctc_loss", zeros(2, 1, 3), labels(10**6), labels(2), labels(1)),
        (F + "embedding", labels(10**7), zeros(3, 2)),
        (F + "max_unpool2d", pool, index, 2),
        ("torch.as_strided", zeros(1), listed(4096), listed(1)),
        ("torch.Tensor.set_", zeros(1)),
        ("torch.Tensor.resize_", zeros(1), 10**9),
        ("torch.Tensor.data_ptr", zeros(1)),
        ("torch.Tensor.__class__", zeros(1)),
        ("torch.Tensor.__reduce__", zeros(1)),
        ("torch.Tensor.__reduce_ex__", zeros(1), 2),
        ("torch.Tensor.__init__.__globals__", zeros(1)),
        ("torch.Tensor.numpy", zeros(1)),
        ("torch.os.system", "touch touched"),
        ("torch.hub.load", "a/b", "c"),
        ("torch.log ", zeros(1)),
        ("torch.\N{LATIN SMALL LETTER L}o\N{FULLWIDTH LATIN SMALL LETTER G}", zeros(1)),
        ("torch.\N{CYRILLIC SMALL LETTER A}bs", zeros(1)),
        ("__import__('os').system('touch touched')", zeros(1)),
        ("", zeros(1)),
        (None, zeros(1)),
        (["torch.log"], zeros(1)),
        ({"torch.log": 1}, zeros(1)),
        (True, zeros(1)),
        (0, zeros(1)),
    ):
        yield f"calls {function!a}"[:60], capture(function, *args), "function"
    for name in ("out", "layout", "device", "memory_format", "__class__", "self.x"):
        yield f"names {name}", capture(kwargs={name: zeros(1)}), "value"
    yield "names code", capture(kwargs={"x);print(1": 1}), "value"
    yield "names nothing", capture(kwargs={"": 1}), "value"
    yield "names itself twice", capture(kwargs={"self": zeros(1)}), "value"
    yield "a device", capture("torch.Tensor.to", zeros(1), "cuda"), "value"
    yield "a device by name", moved({"device": "cuda"}), "value"
    yield "a layout by name", moved({"layout": "torch.sparse_coo"}), "value"


def moved(kwargs: Json) -> Json:
    return capture("torch.Tensor.to", zeros(1), kwargs=kwargs)


def tensors() -> Iterator[tuple[str, Json, str]]:
    """Types, shapes, strides and numbers that no tensor of ours has."""
    for dtype in ("Tensor", "quint8", "qint32", "complex32", "bits8", "uint64", "load"):
        yield (
            f"of type {dtype}",
            capture("torch.log", tensor(0.0, dtype=dtype)),
            "value",
        )
    for dtype in (None, 1, ["float32"], {"a": 1}, "__class__"):
        yield f"of type {dtype!a}", capture("torch.log", tensor(dtype=dtype)), "value"
    for shape in (
        [-1],
        [True],
        ["1"],
        [[1]],
        [(1.5e0).hex()],
        [4097],
        [10**9, 0],
        [2**17],
    ):
        yield f"shape {shape}", capture("torch.log", tensor(0.0, shape=shape)), "value"
    for shape in (None, 1, {}, "11", [1] * 13):
        yield (
            f"shape {shape!a}",
            capture("torch.log", tensor(0.0, shape=shape)),
            "field",
        )
    yield "a product of sizes", shaped([4096] * 12, [1] * 12), "numbers"
    yield "an empty one of large sizes", shaped([4096, 4096, 0], [0, 0, 0]), "numbers"
    yield "fewer numbers than sizes", shaped([4], [1]), "value"
    yield "strides of 0", shaped([2], [0], 2), "value"
    yield "strides that overlap", shaped([2, 2], [1, 1], 4), "value"
    yield "strides that overflow", shaped([2, 2], [2**62, 1], 4), "value"
    yield "strides below 0", shaped([2], [-1], 2), "value"
    yield "strides for another rank", shaped([2], [1, 1], 2), "value"
    yield "strides that are none", shaped([2], [None], 2), "value"
    yield "strides as a text", shaped([1], "1"), "field"  # type: ignore[arg-type]
    for number in NUMBERS:
        one = tensor(number, shape=[1])
        yield f"the number {str(number)[:24]!a}", capture("torch.log", one), "value"
    for dtype, number in (
        *(("int64", HIGHEST + 1), ("int64", AFTER_LOWEST), ("int32", AFTER_LOWEST)),
        *(("int64", True), ("int64", None), ("uint8", -1), ("int8", 128)),
        *(("bool", 1), ("bool", "True"), ("float16", "nan:7c00"), ("float16", "nan:1")),
        *(("float32", "nan:17fc00000"), ("float8_e5m2", "nan:7f"), ("bool", None)),
    ):
        one = tensor(number, dtype=dtype)
        yield f"{dtype} of {number!a}", capture("torch.log", one), "value"
    yield "a complex of one part", capture("torch.log", part([["0x0.0p+0"]])), "value"
    yield "a complex of three", capture("torch.log", part([[], [], []])), "field"
    yield "a complex of texts", capture("torch.log", part(["00", "00"])), "value"
    yield "5,000 numbers", shaped([5, 1000], [1000, 1], 5000), "numbers"
    half = zeros(2100)
    yield "5,000 numbers in two", capture("torch.add", half, half), "numbers"
    rest = capture("torch.add", zeros(4096), 1, gradient=zeros(4096))
    yield "half of them as a gradient", rest, "numbers"


NUMBERS = (
    "nan:zz",
    "nan:",
    "nan:-1",
    "nan:7f800000",
    "nan:" + "f" * 999,
    "nan",
    "inf ",
)
NUMBERS += (
    "infinity",
    "1.5",
    "0x1.8",
    "0x1.0p+99999",
    "0x1.0p+9999",
    "0x" + "f" * 9999,
)
NUMBERS += ("0x1.0p+0\n", "\N{FULLWIDTH DIGIT ONE}", "", None, [], {}, 0, True)  # type: ignore[assignment]


def shaped(shape: list[int], strides: list[Any], count: int = 1) -> Json:
    return capture("torch.log", tensor(*[0.0] * count, shape=shape, strides=strides))


def part(values: list[Any]) -> Json:
    return tensor(shape=[1], dtype="complex64", values=values)


def arguments() -> Iterator[tuple[str, Json, str]]:
    """Arguments of allowed functions by which memory would be left or filled."""
    x, image, one = zeros(2, 3), zeros(1, 1, 4, 4), zeros(1, 1, 1, 1)
    yield "labels beyond", capture(F + "cross_entropy", x, labels(0, 10**6)), "value"
    yield "labels below", capture(F + "nll_loss", x, labels(-1, 0)), "value"
    yield "labels of no scores", capture(F + "nll_loss", 3, labels(0)), "value"
    for said, target, *lengths in (
        ("class beyond the scores", labels(5, 1, 1), [4, 4], [2, 1]),
        ("more labels than there are", labels(1, 1, 1), [4, 4], [2, 2]),
        ("more time than there is", labels(1, 1, 1), [5, 4], [2, 1]),
        ("no time at all", labels(1, 1, 1), [0, 4], [2, 1]),
        ("lengths of one in a batch of two", labels(1, 1), [4], [2]),
        ("a length below 0", labels(1, 1, 1), [4, 4], [4, -1]),
    ):
        given = (zeros(4, 2, 3), target, *(listed(*one) for one in lengths))
        yield f"ctc: {said}", capture(F + "ctc_loss", *given), "value"
        yield f"ctc in torch: {said}", capture("torch.ctc_loss", *given), "value"
    few = capture("torch._weight_norm", zeros(8, 4), zeros(1, 1), 0)
    yield "fewer norms than rows", few, "value"
    none = capture("torch._weight_norm", zeros(0, 1), zeros(0, 1), 0)
    yield "norms of nothing", none, "value"
    yield "norms along no dimension", capture("torch._weight_norm", x, x, 9), "value"
    yield "padding", capture(F + "conv2d", one, one, None, 1, 4096), "value"
    yield "a huge padding", capture(F + "conv2d", one, one, None, 1, 10**9), "value"
    yield "padding below 0", capture(F + "conv2d", one, one, None, 1, -1), "value"
    yield "dilation", dilated(4096), "value"
    yield "no groups", capture(F + "conv2d", image, one, kwargs={"groups": 0}), "value"
    yield "no groups of a norm", capture(F + "group_norm", image, 0), "value"
    yield "a window of nothing", capture(F + "avg_pool2d", image, 0), "value"
    yield "a step of nothing", capture(F + "avg_pool2d", image, 2, 0), "value"
    yield "a truth as a size", capture(F + "avg_pool2d", image, True), "value"
    yield "a size of 10^7", capture(F + "avg_pool1d", x, 10**7), "value"
    yield (
        "a long response",
        capture(F + "local_response_norm", zeros(1, 2000), 4096),
        "value",
    )
    three = [zeros(1000, 1, 1), zeros(1, 1000, 1), zeros(1, 1, 1000)]
    yield "10^9 by broadcasting", capture("torch.addcmul", *three), "value"
    yield "10^9 by a sum", capture("torch.einsum", "i,j,k->ijk", *EACH), "value"
    yield "10^9 by dots", capture("torch.einsum", "...,...,...", *three), "value"
    yield "scores of attention", capture(F + SDPA, *three), "value"
    yield "all pairs of rows", capture("torch.corrcoef", zeros(4096, 1)), "value"
    yield "a whole factor", capture("torch.linalg.svd", zeros(4096, 1)), "value"
    yield "an equation of code", capture("torch.einsum", "i->i;import os", x), "value"
    yield "an equation of lists", capture("torch.einsum", x, listed(0, 1)), "value"
    yield "a word of its own", capture(F + "mse_loss", x, x, kwargs=WORD), "value"
    yield "a text as operand", capture("torch.add", x, "/etc/passwd"), "value"
    yield "an index of a dimension", capture("torch.sum", x, 10**6), "value"
    yield "the lowest integer", capture("torch.fmod", labels(1), AFTER_LOWEST), "value"
    yield "10^308", capture("torch.add", x, 10**308), "value"
    yield "a list in a list in a list", capture("torch.sum", x, deep(9)), "value"
    yield (
        "two tags",
        capture("torch.add", x, {"float": "0x0.0p+0", "list": []}),
        "value",
    )
    yield "no tag", capture("torch.add", x, {}), "value"
    yield "a plain list", capture("torch.add", x, [1]), "value"
    yield "an unknown tag", capture("torch.add", x, {"eval": "1"}), "value"
    yield "a float as an object", capture("torch.add", x, {"float": {}}), "value"
    yield "a gradient as a number", capture("torch.log", x, gradient=1), "value"
    yield "places, no numbers", capture("torch.where", x), "value"


EACH = [zeros(1000)] * 3
SDPA = "scaled_dot_product_attention"
WORD = {"reduction": "__class__"}


def dilated(by: int) -> Json:
    signal, filters = zeros(1, 1, 100), zeros(1, 1, 100)
    return capture(F + "conv1d", signal, filters, None, 1, "same", by)


def ordinary() -> Iterator[tuple[str, Json, str]]:
    """Odd, but harmless: they run, and end with an answer or an error of torch."""
    x, image = zeros(2, 3), zeros(1, 1, 4, 4)
    for name, found in {
        "log of 0": capture(),
        "a dimension beyond the rank": capture("torch.softmax", x, 9),
        "nothing at all": capture("torch.mean", zeros(0)),
        "the maximum of nothing": capture("torch.amax", zeros(0, 3), 0),
        "NaN of all bits": capture("torch.log", tensor("nan:ffffffff")),
        "a signalling NaN": capture("torch.log", tensor("nan:7f800001")),
        "the other zero": capture("torch.reciprocal", tensor(-0.0)),
        "shapes that do not fit": capture("torch.matmul", x, x),
        "a gradient that does not fit": capture("torch.log", x, gradient=zeros(7)),
        "no gradient to have": capture("torch.log", labels(1), gradient=zeros(1)),
        "division by 0 of integers": capture("torch.fmod", labels(HIGHEST), 0),
        "a divisor of 0": capture(F + "avg_pool2d", image, 2, kwargs=NO_DIVISOR),
        "classes ignored": capture(F + "cross_entropy", x, labels(-100, -100)),
        "classes of no row": capture(F + "cross_entropy", x, labels(0)),
        "another rank of filters": capture(F + "conv2d", x, image),
        "channels that do not fit": capture(F + "group_norm", image, 3),
        "statistics of one": capture(F + "batch_norm", x, zeros(1), zeros(1)),
        "weights of one": capture(F + "layer_norm", x, listed(3), zeros(1)),
        "4 million by two": capture("torch.outer", zeros(2048), zeros(2048)),
        "no argument": capture(call=calling(args=[])),
        "a singular matrix": capture("torch.linalg.inv", zeros(3, 3)),
        "the factors of NaN": capture(
            "torch.linalg.svd", tensor("nan:7fc00000", shape=[1, 1])
        ),
        "a type that old builds lack": capture("torch.Tensor.float", FP8),
        "a result that is none": capture("torch.Tensor.__add__", x, None),
    }.items():
        yield name, found, HELD


NO_DIVISOR = {"divisor_override": 0}
FP8 = tensor("nan:0", dtype="float8_e4m3fn")
KINDS: tuple[Callable[[], Iterator[tuple[str, Json, str]]], ...]
KINDS = (fields, names, tensors, arguments, ordinary)


@cache
def corpus() -> dict[str, tuple[bytes, str]]:
    found: dict[str, tuple[bytes, str]] = {}
    rows = [*texts(), *((n, json.dumps(c), w) for kind in KINDS for n, c, w in kind())]
    for name, text, wanted in rows:
        assert name not in found, name
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        found[name] = data, wanted
    return found
