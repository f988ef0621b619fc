"""Why an environment counts as affected, in sentences of both languages."""

from __future__ import annotations

from kb.languages import Text as _

# {"package": …, "en": …, "zh": …}
Reason = dict[str, str]

SENTENCES = {
    "ran_bug": _("The bug was reproduced on exactly this build, {version}."),
    "ran_clean": _(
        "The repro ran on exactly this build, {version}, and the bug was not seen."
    ),
    "sent_bug": _(
        "{sender} sent a run on exactly this build, {version}, that shows the bug; "
        "it has not been confirmed."
    ),
    "sent_clean": _(
        "{sender} sent a run on exactly this build, {version}, in which the bug was "
        "not seen; it has not been confirmed."
    ),
    "confirmed_bug": _(
        "{sender} sent a run on exactly this build, {version}, that shows the bug; it "
        "is confirmed, and was not made here."
    ),
    "confirmed_clean": _(
        "{sender} sent a run on exactly this build, {version}, in which the bug was "
        "not seen; it is confirmed, and was not made here."
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
    "not_listed": _("The record says nothing of {package} {version}."),
    "contradicting": _(
        "What was pasted names two releases of {package}, {version}: it is not known "
        "which of them runs."
    ),
    "other_device": _(
        "Nothing was run and nothing is reported on {version}: it is not known whether "
        "the bug is there."
    ),
    "said_fixed": _(
        "Said to be fixed in {package} {ranges}; no run here has confirmed it for "
        "{version}."
    ),
    "missing": _(
        "What the bug is in does not exist in {package} {version}; a run on {ranges} "
        "did not find it either."
    ),
    "not_given": _("It is not known which {package} is installed."),
    "nothing_documented": _("The record names no affected versions."),
}


def reason(
    package: str, kind: str, version: str = "", ranges: str = "", sender: str = ""
) -> Reason:
    facts = {"version": version, "ranges": ranges, "sender": sender}
    said = SENTENCES[kind].filled(package=package, **facts)
    return {"package": package, **said}
