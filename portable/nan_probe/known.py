"""The laws by name, forms that may heal each, and how the triggers of records fail.

Needs no torch. Forms are source, in which `a` and `b` are the first two operands. Each is
tried on the case at hand before it is recommended.
"""

# ruff: noqa: E501

from __future__ import annotations

LOG_OF_ZERO, LOG_OF_NEGATIVE = "log of 0", "log of a negative number"
ZERO_BY_ZERO, BY_ZERO = "0 / 0", "a number / 0"
INF_MINUS_INF, ZERO_TIMES_INF = "inf - inf", "0 * inf"
ROOT_AT_ZERO, SHUT = "root or power at 0, in backward", "softmax of -inf only"
ONE_VALUE, EXP = "variance of one value", "overflow of exp"
PRODUCT, SUM = "overflow of a product or square", "overflow of a sum"
QUOTIENT = "overflow of a quotient"
ROOT_OF_NEGATIVE = "root of a negative number"
EDGE = "acos or asin at 1 or -1, in backward"
NOTHING, CAST = "mean of nothing", "overflow of a cast"
GIVEN = "a number in the code that is not finite"
UNKNOWN = "no law is known for this op"

LOGS = [
    "torch.log(a.clamp_min(torch.finfo(a.dtype).tiny))",
    "torch.log(torch.where(a > 0, a, torch.ones_like(a)))",
]
QUOTIENTS = ["a / (b + 1e-6)", "a / torch.where(b == 0, torch.ones_like(b), b)"]
FORMS = {
    LOG_OF_ZERO: LOGS,
    LOG_OF_NEGATIVE: LOGS,
    ZERO_BY_ZERO: QUOTIENTS,
    BY_ZERO: [
        *QUOTIENTS,
        *LOGS,
        "b / (a + 1e-6)",
        "torch.reciprocal(a + 1e-6)",
        "torch.rsqrt(a + 1e-6)",
    ],
    INF_MINUS_INF: ["a.nan_to_num() - b.nan_to_num()"],
    ZERO_TIMES_INF: ["a * torch.where(a == 0, torch.zeros_like(b), b)"],
    ROOT_AT_ZERO: [
        "torch.sqrt(a + 1e-12)",
        "torch.sqrt(a.clamp_min(1e-12))",
        "torch.pow(a.clamp_min(1e-12), b)",
    ],
    EDGE: [
        "torch.acos(a.clamp(-1 + 2e-6, 1 - 2e-6))",
        "torch.asin(a.clamp(-1 + 2e-6, 1 - 2e-6))",
    ],
    SHUT: [
        "torch.softmax(a.clamp_min(torch.finfo(a.dtype).min), -1)",
        "torch.softmax(a, -1).nan_to_num(0)",
    ],
    ONE_VALUE: ["torch.std(a, unbiased=False)"],
    EXP: ["torch.exp(a - a.amax())", "torch.exp(a.clamp_max(80))"],
    PRODUCT: [],
    QUOTIENT: [],
    ROOT_OF_NEGATIVE: ["torch.sqrt(a.clamp_min(0))"],
    SUM: [],
    CAST: ["a.clamp(-60000, 60000).half()"],
    NOTHING: [],
}


def is_telling(text: str | None) -> bool:
    """One op is no fingerprint: many failures end in the same one."""
    return text is not None and text.count("(") > 1


def known_by(text: str | None, law: str | None) -> tuple[list[str], list[str]]:
    """(records of this very slice, records of this law)."""
    same = [name for name, (of, _) in RECORDS.items() if of == text and is_telling(of)]
    alike = [name for name, (_, of) in RECORDS.items() if of == law != UNKNOWN]
    return same if len(same) == 1 else [], alike


# Record -> its `diagnose_`, the captured functions whose operands answer it, and what
# of them it is given: `a`, `b`, ... are the arguments. Left out is what asks an
# optimizer, or a whole loss.
DIAGNOSES = {
    "NAN-0013": ("all_padding", "softmax", "a"),
    "NAN-0016": ("equal_points", "sqrt", "a.unsqueeze(-1)"),
    "NAN-0022": ("dead_row", "logsumexp", "a, kwargs.get('dim', b)"),
    "NAN-0025": ("zero_base", "pow", "a, b"),
    "NAN-0027": ("target_zero", "kl_div", "b.requires_grad_()"),
    "NAN-0029": (
        "zero_row",
        "weight_norm",
        "torch.nn.ParameterDict({'_v': torch.nn.Parameter(a), '_g': torch.nn.Parameter(b)})",
    ),
    # Shrunk, of a row only what is ruled out is left.
    "NAN-0030": ("zero_probability", "mul", "torch.cat([torch.zeros_like(b), b], -1)"),
    "NAN-0079": (
        "eps_is_zero",
        "normalize",
        "a, kwargs.get('eps', 1e-12), kwargs.get('dim', 1)",
    ),
    "NAN-0088": ("bad_batch", "div truediv", "a / b"),
    "NAN-0097": ("empty_group", "div truediv", "b"),
}

# Of each record law and slice of its trigger; `python -m tests.probe.slices` writes them.
TABLE = """
NAN-0013 | softmax of -inf only | softmax(baddbmm(masked_fill(zeros_like(x): 0, x, -inf): -inf, x, x): -inf)
NAN-0015 | root of a negative number | sqrt(input: 0)
NAN-0016 | root or power at 0, in backward | backward of sqrt(sum(pow(sub(x, x): 0, 2): 0): 0)
NAN-0022 | inf - inf | backward of logsumexp(add(add(logsumexp(x: -inf, 0): -inf, x): -inf, cat(x, full(-inf): -inf): -inf): -inf, 0)
NAN-0023 | acos or asin at 1 or -1, in backward | backward of acos(x)
NAN-0024 | 0 / 0 | backward of atan2(input: 0, input: 0)
NAN-0025 | root or power at 0, in backward | backward of pow(mul(x, input: 0): 0, x)
NAN-0026 | a number / 0 | backward of eigh(add(mul(eye(): 0): 0, diag_embed(mul(x: 0, 0): 0): 0): 0)
NAN-0027 | a number / 0 | backward of xlogy(softmax(x): 0, softmax(x): 0)
NAN-0028 | variance of one value | std(x)
NAN-0029 | 0 / 0 | weight_norm_interface(fill(x, input: 0): 0, norm(fill(x, input: 0): 0): 0)
NAN-0030 | 0 * inf | mul(exp(log_softmax(masked_fill(x, x, -inf): -inf): -inf): 0, log_softmax(masked_fill(x, x, -inf): -inf): -inf)
NAN-0031 | inf - inf | binary_cross_entropy_with_logits(input: inf, input: 0)
NAN-0033 | log of 0 | ctc_loss(x, x, x, x)
NAN-0034 | mean of nothing | nll_loss_forward(x, x)
NAN-0035 | a number / 0 | div(x, 0)
NAN-0036 | 0 / 0 | addcdiv(x, lerp(x, x): 0, add(div(sqrt(addcmul(x: 0, input: 0, input: 0): 0): 0): 0): 0)
NAN-0040 | overflow of a product or square | mm(x, x)
NAN-0059 | a number / 0 | rsqrt(add(var(x): 0): 0)
NAN-0067 | no law is known for this op | grouped_mm(x, x, x)
NAN-0079 | 0 / 0 | div(fill(x, input: 0): 0, clamp_min(vector_norm(fill(x, input: 0): 0): 0): 0)
NAN-0081 | log of 0 | log(softmax(x): 0)
NAN-0082 | a number / 0 | backward of log(sub(x): 0)
NAN-0083 | overflow of exp | exp(x)
NAN-0088 | 0 / 0 | div(sub(x, x): 0, std(x): 0)
NAN-0091 | overflow of a product or square | mm(x, x)
NAN-0097 | 0 / 0 | div(neg(sum(mul(sub(x: 0, x: 0): 0, x): 0): 0): 0, sum(sub(x: 0, x: 0): 0): 0)
NAN-0098 | 0 / 0 | div(mul(x): 0, add(x, x): 0)
NAN-0100 | overflow of a product or square | backward of addmm(x, x, x)
NAN-0101 | a number / 0 | div(x, input: 0)
NAN-0104 | a number / 0 | solve_ex(x, x)
NAN-0150 | overflow of a cast | to_copy(x)
NAN-0151 | a number / 0 | backward of log(sub(x): 0)
NAN-0156 | 0 / 0 | div(sum(mul(fill(x, input: 0): 0, x): 0): 0, vector_norm(mul(fill(x, input: 0): 0, x): 0): 0)
NAN-0161 | root of a negative number | pow(x, 0.1333)
NAN-0165 | log of 0 | log(div(sub(x, x): 0, x): 0)
NAN-0176 | no law is known for this op | backward of pow(x, 2)
NAN-0177 | softmax of -inf only | softmax(masked_fill(x, x, -inf): -inf)
NAN-0187 | overflow of a product or square | addmm(x, x, x)
"""
RECORDS = {
    record: (text, law)
    for record, law, text in (row.split(" | ") for row in TABLE.split("\n") if row)
}
