"""Why an environment counts as affected, in sentences of both languages."""

from __future__ import annotations

from kb.languages import Text as _

# {"package": …, "en": …, "zh": …}
Reason = dict[str, str]

SENTENCES = {
    "ran_bug": _("The bug was reproduced with exactly {ran}, on {device}."),
    "ran_clean": _(
        "The repro ran with exactly {ran}, on {device}, and the bug was not seen."
    ),
    "everywhere": _("Its cause is the same on every device, {device} included."),
    "clean_elsewhere": _(
        "The bug was not seen with exactly these versions on {ran}. That run cannot "
        "tell about {device}."
    ),
    "listed_affected": _("{package} {version} is listed in the record as affected."),
    "listed_not_affected": _(
        "{package} {version} is listed in the record as not affected."
    ),
    "range_affected": _("{package} {version} lies in the documented range ({ranges})."),
    "range_not_affected": _(
        "{package} {version} lies outside the documented range ({ranges})."
    ),
    "between_affected": _(
        "{package} {version} was built between two releases that both lie well inside "
        "the documented range ({ranges})."
    ),
    "between_not_affected": _(
        "{package} {version} was built between two releases that both lie well outside "
        "the documented range ({ranges})."
    ),
    "every_version": _("The record counts every version of {package} as affected."),
    "cpu_build": _(
        "{package} {version} is built without GPU support; the bug needs a GPU."
    ),
    "other_build": _(
        "{package} {version} is not built for CUDA; the bug needs {ranges}."
    ),
    "other_gpu": _("The bug needs {ranges}; the GPU is {version}."),
    "series": _(
        "{package} {version} names several releases, and they do not all lie on one "
        "side of the documented range ({ranges}): give the whole version."
    ),
    "unorderable": _(
        "{package} {version} cannot be placed in the documented range ({ranges}): its "
        "version does not say which changes it contains, and it is not listed."
    ),
    "not_listed": _("The record does not mention {package} {version}."),
    "contradicting": _(
        "Your paste names two releases of {package} ({version}); we cannot tell "
        "which one runs."
    ),
    "other_device": _(
        "There is no run and no report for {version}, so we cannot tell whether it "
        "has the bug."
    ),
    "other_code": _("The bug is in code for {ranges}, which {version} does not run."),
    "said_fixed": _(
        "Documented as fixed in {package} {ranges}, and this is {version}. No run "
        "here has confirmed it."
    ),
    "seen_fixed": _(
        "Fixed in {package} {ranges}, and this is {version}. A run with {ran}, on "
        "{device}, did not show the bug."
    ),
    "fixed_elsewhere": _(
        "The fix in {package} {ranges} does not cover {device}. We do not know "
        "whether the bug is still there."
    ),
    "absent": _("{package} is not among the installed packages."),
    "by_hand": _(
        "Builds for CUDA before {ranges} take this path only when it is switched on; "
        "{version} is one."
    ),
    "nobody_knows": _(
        "We do not know whether {package} {version} has it: the record does not "
        "cover {ranges}."
    ),
    "missing": _(
        "The feature with the bug does not exist in {package} {version}; a run on "
        "{ranges} did not find it either."
    ),
    "not_given": _("We do not know which {package} is installed."),
    "nothing_documented": _("The record names no affected versions."),
    "of_code": _("It depends on your code, not on a version: use the test."),
}


def reason(package: str, kind: str, **values: str) -> Reason:
    given = {"version": "", "ranges": "", **values}
    return {"package": package, **SENTENCES[kind].filled(package=package, **given)}
