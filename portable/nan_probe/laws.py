"""Which law of arithmetic made a value that is not finite, read from its operands."""

from __future__ import annotations

import math

import torch

from .known import (
    BY_ZERO,
    CAST,
    EDGE,
    EXP,
    GIVEN,
    INF_MINUS_INF,
    LOG_OF_NEGATIVE,
    LOG_OF_ZERO,
    NOTHING,
    ONE_VALUE,
    PRODUCT,
    QUOTIENT,
    ROOT_AT_ZERO,
    ROOT_OF_NEGATIVE,
    SHUT,
    SUM,
    UNKNOWN,
    ZERO_BY_ZERO,
    ZERO_TIMES_INF,
)
from .slices import holds, operands_in, plain_name
from .values import numbers

DIVISIONS = {"div", "addcdiv", "weight_norm_interface", "weight_norm", "normalize"}
PRODUCTS = {"mul", "matmul", "mm", "bmm", "dot", "mv", "addmm", "baddbmm", "linear"}
PRODUCTS |= {"einsum", "outer", "addcmul", "addmv", "addr", "convolution"}
SUMS = {"add", "sum", "mean", "cumsum", "sub", "binary_cross_entropy_with_logits"}
LOGS = {"log", "log2", "log10", "logit", "log1p", "xlogy"}
ROOTS = {"sqrt", "rsqrt", "pow", "norm", "vector_norm", "dist", "cdist"}
ROOTS |= {"pairwise_distance", "std", "normalize", "matrix_norm", "float_power"}
SHUTS = {"softmax", "log_softmax", "scaled_dot_product_attention", "softmin"}
EXPS = {"exp", "exp2", "expm1", "sinh", "cosh"}
MEANS = {"mean", "cross_entropy", "nll_loss", "nll_loss_forward", "nll_loss2d_forward"}
OPERATORS = {"truediv": "div", "rtruediv": "div", "matmul": "matmul", "rpow": "pow"}
OPERATORS.update({name: name[1:] for name in ("radd", "rsub", "rmul", "rdiv")})


def law_of(run, results):
    """The law by which `run` gave `results`, one of which is not finite."""
    if not all(map(math.isfinite, numbers([run.args, run.kwargs]))):
        return GIVEN
    short = plain_name(run.name)
    is_division = OPERATORS.get(short, short) == "div"
    kinds = [holds(one, is_division) for one in operands_in(run.args)]
    if short in ("rtruediv", "rdiv"):
        kinds.reverse()
    nan = any(bool(torch.isnan(one).any()) for one in results)
    return law(run.name, kinds, nan, run.gradient is not None)


def law(name, kinds, nan, backward):
    """By the op's name and what its operands hold, in words of slices.holds."""
    name = plain_name(name)
    name = OPERATORS.get(name, name)
    kinds = [*kinds, "", ""]
    if backward:
        return backward_law(name, kinds)
    finite = not {"inf", "-inf", "nan"} & set(kinds)
    if name in LOGS:
        return LOG_OF_NEGATIVE if nan else LOG_OF_ZERO
    if name in DIVISIONS:
        divisor = kinds[2 if name == "addcdiv" else 1 if name == "div" else 0]
        if divisor == "0":
            return ZERO_BY_ZERO if nan else BY_ZERO
        return QUOTIENT if finite and not nan else UNKNOWN
    if name in SHUTS:
        return UNKNOWN if finite or not nan else SHUT
    if name in ("std", "var", "std_mean", "var_mean"):
        return ONE_VALUE if nan and finite else UNKNOWN
    if name in EXPS:
        return EXP
    if name in MEANS and nan and finite:
        return NOTHING
    return of_infinities(name, kinds, nan, finite)


def of_infinities(name, kinds, nan, finite):
    if name in ("solve", "solve_ex"):
        return BY_ZERO if finite else UNKNOWN  # by a pivot
    if name == "ctc_loss":  # no path leads to the target
        return LOG_OF_ZERO if finite and not nan else UNKNOWN
    if name == "mse_loss":
        return PRODUCT if finite else UNKNOWN
    if name in PRODUCTS:
        return PRODUCT if finite else ZERO_TIMES_INF if nan else UNKNOWN
    if name in SUMS:
        return SUM if finite else INF_MINUS_INF if nan else UNKNOWN
    if nan and finite and name in ("sqrt", "rsqrt", "pow"):
        return ROOT_OF_NEGATIVE
    if name in ("reciprocal", "rsqrt"):
        return BY_ZERO if "0" in kinds else UNKNOWN
    if name in ("pow", "float_power"):
        return (BY_ZERO if "0" in kinds else PRODUCT) if finite else UNKNOWN
    is_cast = name in ("to", "to_copy", "half", "bfloat16", "float")
    return CAST if is_cast and finite else UNKNOWN


def backward_law(name, kinds):
    if name in ("norm", "cdist", "std") or (name in ROOTS and "0" in kinds):
        return ROOT_AT_ZERO
    if name in ("acos", "asin"):
        return EDGE
    if name == "atan2" and kinds[:2] == ["0", "0"]:
        return ZERO_BY_ZERO
    if name in ("eigh", "svd") or (name in LOGS | DIVISIONS and "0" in kinds):
        return BY_ZERO
    if name in PRODUCTS:
        return UNKNOWN if {"inf", "-inf", "nan"} & set(kinds) else PRODUCT
    if name in ("logsumexp", "logcumsumexp") and "-inf" in kinds:
        return INF_MINUS_INF
    return UNKNOWN


def all_finite(values):
    return all(bool(torch.isfinite(one).all()) for one in values)
