"""The functions that a capture may call, with the names of their parameters."""

from __future__ import annotations

LEGACY = "size_average reduce reduction"
IN_CTC = "log_probs targets input_lengths target_lengths blank"
IN_NORM = "input running_mean running_var weight bias"
# Names of parameters, in order, of each function: of torch and of torch.Tensor.
BOTH = {
    "abs acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 "
    "expm1 lgamma log log10 log1p log2 neg reciprocal rsqrt sigmoid sin sinc sinh sqrt "
    "square tan tanh float half double bfloat16 contiguous __neg__ trace det logdet "
    "slogdet inverse corrcoef": "input",
    "atan2 float_power fmod hypot logaddexp logaddexp2 maximum minimum mul multiply "
    "remainder true_divide xlogy __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ "
    "__truediv__ __rtruediv__ __div__ __rdiv__ __pow__ __rpow__ matmul dot "
    "__matmul__": "input other",
    "add sub subtract": "input other alpha",
    "div divide": "input other rounding_mode",
    "addcdiv addcmul": "input tensor1 tensor2 value",
    "pow": "input exponent",
    "clamp": "input min max",
    "lerp": "input end weight",
    "logit": "input eps",
    "where": "condition input other",
    "masked_fill": "input mask value",
    "nan_to_num": "input nan posinf neginf",
    "to": "input dtype non_blocking copy",
    "sum mean nanmean nansum prod": "input dim keepdim dtype",
    "cumsum cumprod": "input dim dtype",
    "logcumsumexp": "input dim",
    "var std var_mean std_mean": "input dim unbiased keepdim correction",
    "norm": "input p dim keepdim dtype",
    "amax amin logsumexp": "input dim keepdim",
    "softmax log_softmax": "input dim dtype",
    "mm bmm": "input mat2",
    "mv": "input vec",
    "outer": "input vec2",
    "addmm": "input mat1 mat2 beta alpha",
    "baddbmm": "input batch1 batch2 beta alpha",
    "einsum": "equation operands",
    "cdist": "x1 x2 p compute_mode",
    "cosine_similarity": "x1 x2 dim eps",
    "dist": "input other p",
    "renorm": "input p dim maxnorm",
    "cov": "input correction fweights aweights",
}
FUNCTIONAL = {
    "softsign logsigmoid tanhshrink sigmoid tanh": "input",
    "relu silu mish selu hardswish": "input inplace",
    "gelu": "input approximate",
    "elu celu": "input alpha inplace",
    "softplus": "input beta threshold",
    "hardtanh": "input min_val max_val inplace",
    "leaky_relu": "input negative_slope inplace",
    "softmax log_softmax softmin": "input dim _stacklevel dtype",
    "normalize": "input p dim eps",
    "layer_norm": "input normalized_shape weight bias eps",
    "rms_norm": "input normalized_shape weight eps",
    "group_norm": "input num_groups weight bias eps",
    "batch_norm": f"{IN_NORM} training momentum eps",
    "instance_norm": f"{IN_NORM} use_input_stats momentum eps",
    "local_response_norm": "input size alpha beta k",
    "linear": "input weight bias",
    "bilinear": "input1 input2 weight bias",
    "mse_loss l1_loss": f"input target {LEGACY} weight",
    "smooth_l1_loss": f"input target {LEGACY} beta",
    "huber_loss": "input target reduction delta weight",
    "kl_div": f"input target {LEGACY} log_target",
    "binary_cross_entropy": f"input target weight {LEGACY}",
    "binary_cross_entropy_with_logits": f"input target weight {LEGACY} pos_weight",
    "poisson_nll_loss": "input target log_input full size_average eps reduce reduction",
    "gaussian_nll_loss": "input target var full eps reduction",
    "cosine_embedding_loss margin_ranking_loss": "input1 input2 target margin "
    + LEGACY,
    "triplet_margin_loss": f"anchor positive negative margin p eps swap {LEGACY}",
    "hinge_embedding_loss": f"input target margin {LEGACY}",
    "soft_margin_loss": f"input target {LEGACY}",
    "cross_entropy": "input target weight size_average ignore_index reduce reduction "
    "label_smoothing",
    "nll_loss": "input target weight size_average ignore_index reduce reduction",
    "ctc_loss": f"{IN_CTC} reduction zero_infinity",
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal "
    "scale enable_gqa",
    "pairwise_distance": "x1 x2 p eps keepdim",
    "avg_pool1d": "input kernel_size stride padding ceil_mode count_include_pad",
    "avg_pool2d": "input kernel_size stride padding ceil_mode count_include_pad "
    "divisor_override",
    "lp_pool1d lp_pool2d": "input norm_type kernel_size stride ceil_mode",
    "glu": "input dim",
    "conv1d conv2d": "input weight bias stride padding dilation groups",
}
LINALG = {
    "norm vector_norm matrix_norm": "input ord dim keepdim dtype",
    "svd": "input full_matrices",
    "svdvals inv": "input",
    "eigh eigvalsh": "input UPLO",
    "qr": "input mode",
    "cholesky": "input upper",
    "pinv": "input rcond hermitian atol rtol",
    "solve": "input B left",
    "solve_ex": "input B left check_errors",
}
SPECIAL = {
    "entr erf erfc erfinv expit expm1 gammaln log1p": "input",
    "log_softmax": "input dim dtype",
    "logit": "input eps",
    "logsumexp": "input dim keepdim",
    "xlogy": "input other",
}
# What torch.nn.utils.weight_norm calls has no public name.
PRIVATE = {"_weight_norm": "input g dim"}
# What of F.ctc_loss torch calls: its reduction is a number.
PRIVATE["ctc_loss"] = f"{IN_CTC} reduction_number zero_infinity"
ALLOWED = {
    f"{place}.{name}": parameters.split()
    for place, table in (
        ("torch", {**BOTH, **PRIVATE}),
        ("torch.Tensor", BOTH),
        ("torch.nn.functional", FUNCTIONAL),
        ("torch.linalg", LINALG),
        ("torch.special", SPECIAL),
    )
    for names, parameters in table.items()
    for name in names.split()
}
# These give several results; a gradient is that of the first.
SEVERAL = {"eigh", "qr", "slogdet", "solve_ex", "std_mean", "svd", "var_mean"}
