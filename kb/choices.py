"""The closed vocabularies of a record, with their names in both languages."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from kb import wording

# Who made a result, where nobody sent it: this site ran it, or it came with the
# repository, reviewed.
SITE, SHIPPED = "site", "repository"
OUR_ORIGINS = (SITE, SHIPPED)


class Publication(TextChoices):
    DRAFT = "draft", _("Draft")
    PUBLISHED = "published", _("Published")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class Depth(TextChoices):
    """How much a record says; a brief one grows into a full one by adding the rest."""

    FULL = "full", _("full")
    BRIEF = "brief", _("brief")


class Upstream(TextChoices):
    OPEN = "open", _("open")
    FIXED = "fixed", _("fixed")
    BY_DESIGN = "by_design", _("by design")
    NOT_PLANNED = "not_planned", _("not planned")
    UNKNOWN = "unknown", _("unknown")


class SymptomClass(TextChoices):
    NAN_FORWARD = "nan_forward", _("NaN in the forward pass")
    NAN_GRAD = "nan_grad", _("NaN gradient")
    LOST_GRAD = "lost_grad", _("Lost gradient")
    WRONG_GRAD = "wrong_grad", _("Wrong gradient")
    SILENT_WRONG = "silent_wrong", _("Silently wrong result")
    ERROR = "error", _("Error")


class AffectedWhen(TextChoices):
    ANY = "any", _("any package")
    ALL = "all", _("all packages")


class ClaimKind(TextChoices):
    CAUSE = "cause", _("cause")
    RANGE = "range", _("range")
    FIX = "fix", _("fix")
    WORKAROUND = "workaround", _("workaround")
    OTHER = "other", _("other")


class ClaimState(TextChoices):
    """Computed from findings (kb.findings.claims), never stored."""

    VERIFIED = "verified", _("Verified")
    REFUTED = "refuted", _("Refuted by run")
    DISPUTED = "disputed", _("Disputed")
    DOCUMENTED = "documented", _("Documented only")


class Expects(TextChoices):
    BUG = "bug", _("the bug")
    CLEAN = "clean", _("no bug")


class Fidelity(TextChoices):
    UPSTREAM_BUG = "upstream_bug", _("the upstream bug itself")
    REAL_KERNEL = "real_kernel", _("the real kernel")
    MECHANISM_MODEL = "mechanism_model", _("a model of the mechanism")


class DeviceClass(TextChoices):
    """What something ran on."""

    CPU = "cpu", "cpu"
    CUDA = "cuda", "cuda"
    ROCM = "rocm", "rocm"
    XPU = "xpu", "xpu"
    NPU = "npu", "npu"
    MPS = "mps", "mps"


# What repros declare and workers find. The others come with evidence only.
WORKER_DEVICES = DeviceClass.choices[:2]


# Where the cause of a record holds: what torch calls devices, and why there.
ANYWHERE = "any"
DEVICE_NAMES = {
    DeviceClass.CPU.value: "CPU",
    DeviceClass.CUDA.value: "CUDA",
    DeviceClass.ROCM.value: "ROCm",
    DeviceClass.XPU.value: "Intel XPU",
    DeviceClass.NPU.value: "Ascend NPU",
    DeviceClass.MPS.value: "Apple MPS",
}
HOLDS_ON = (ANYWHERE, *DEVICE_NAMES)
# Why the device makes no difference; the record then holds on any.
HOLDS_ANYWHERE_BY = {
    "formula": _("a formula, the same on every device"),
    "type": _("the range or rounding of a data type, the same on every device"),
    "shared": _("code that all devices share, above their kernels"),
    "graph": _("a compiler step that comes before device code"),
}
# Why it does; `seen`: it was seen or reported there, and nobody looked elsewhere.
HOLDS_THERE_BY = {
    "kernel": _("code for these devices alone"),
    "library": _("a library that no other device uses"),
    "seen": _("seen or reported on these; nobody looked elsewhere"),
}


class Outcome(TextChoices):
    """What one check showed (contract: check outcomes)."""

    BUG = "bug", wording.CELLS["bug"].label
    CLEAN = "clean", wording.CELLS["clean"].label
    NOT_APPLICABLE = "not_applicable", wording.CELLS["not_applicable"].label
    ERROR = "error", wording.CELLS["error"].label


class Verdict(TextChoices):
    BUG_PRESENT = "bug_present", wording.VERDICTS["bug_present"]
    BUG_ABSENT = "bug_absent", wording.VERDICTS["bug_absent"]
    NOT_APPLICABLE = "not_applicable", wording.VERDICTS["not_applicable"]
    INCONCLUSIVE = "inconclusive", wording.VERDICTS["inconclusive"]
    ERROR = "error", wording.VERDICTS["error"]


# Those that say whether the bug is there.
JUDGED = (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)
FIX_KINDS = {
    "root_fix": _("cause fixed"),
    "avoided_by_default": _("avoided by default, cause remains"),
    "guarded": _("guarded, cause remains"),
    "removed": _("feature removed"),
}
SIGNATURE_KINDS = ("message", "code", "frame", "facet")
# Those that are a line of a log, and where it was seen.
SIGNATURE_LINES = ("message", "code")
SIGNATURE_SEEN = ("printed", "reported")
RULE_SEVERITIES = ("error", "warning", "note")
WORKAROUND_KINDS = ("code", "env", "config", "upgrade", "downgrade")
# Frameworks in whose words a workaround may stand: trainers of kb/lookup/facts.toml.
FRAMEWORKS = {
    "transformers": "transformers",
    "lightning": "Lightning",
    "accelerate": "Accelerate",
    "deepspeed": "DeepSpeed",
    "llamafactory": "LLaMA-Factory",
}
SOURCE_KINDS = {
    "article": _("article"),
    "report": _("report"),
    "discussion": _("discussion"),
    "fix": _("fix"),
    "docs": _("documentation"),
    "release": _("release"),
}
PRECONDITIONS = {
    "gpu_arch": _("GPU"),
    "dtype": _("data type"),
    "flag": _("setting"),
    "shape": _("shape"),
    "package": _("package"),
    "other": _("condition"),
}
PRECONDITION_KEYS = tuple(PRECONDITIONS)
# What a parameter of a repro may be called: one word for one thing in all records.
PARAMETERS = {
    "batch": _("batch size"),
    "channels": _("channels"),
    "classes": _("classes"),
    "clip": _("clipping norm"),
    "dim": _("features"),
    "dropout": _("dropout probability"),
    "dtype": "dtype",
    "eps": "eps",
    "head_dim": _("head size"),
    "heads": _("heads"),
    "layers": _("layers"),
    "layout": _("memory layout"),
    "length": _("length"),
    "logit": _("logit"),
    "lr": _("learning rate"),
    "momentum": _("momentum"),
    "rows": _("rows"),
    "scale": _("scale of the values"),
    "size": _("size"),
    "steps": _("steps"),
    "vocabulary": _("vocabulary"),
    "width": _("width"),
}
SECTIONS = ("symptom", "environment", "root_cause", "workaround", "fix")
# Those of a brief record: how to tell, what it is, what to do.
BRIEF_SECTIONS = ("root_cause", "symptom", "workaround")
LANGS = ("en", "zh")
