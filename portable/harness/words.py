"""Verdicts in words, English and Chinese."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from .parameters import shown_value
from .values import decode

# Verdict -> shape, English, Chinese.
VERDICT_WORDS = {
    "bug_present": ("✖", "FAIL · bug reproduced", "未通过 · 缺陷已复现"),
    "bug_absent": ("✔", "PASS · bug not seen", "通过 · 未见缺陷"),
    "not_applicable": ("∅", "N/A · cannot apply here", "不适用"),
    "inconclusive": ("▲", "NO VERDICT · {reason}", "无结论 · {reason}"),
    "error": ("▲", "ERROR · no verdict", "出错 · 无结论"),
}
# The same of a model of the bug, where they differ.
MODEL_WORDS = {
    "bug_present": ("◇", "MODEL · mechanism shown", "模型 · 机理重现"),
    "bug_absent": ("◇", "MODEL · mechanism not shown", "模型 · 机理未重现"),
}
# Why there is no verdict: English, Chinese.
MISBEHAVED = {
    "control": ("control misbehaved", "对照异常"),
    "detector_silent": ("detector silent", "检测器未触发"),
    "reference": ("reference misbehaved", "参照异常"),
    "metric": ("metric unusable", "指标不可用"),
}
EXIT_STATUS = (
    "Exit status: 0 no bug seen, 1 bug, 125 not applicable, 2 else.",
    "退出码：0 未见缺陷，1 有此缺陷，125 不适用，2 其他。",
)


def sentences(evidence: Mapping[str, Any]) -> Tuple[str, str]:
    """The verdict in words, English and Chinese."""
    verdict, reason = evidence["verdict"], evidence["reason"]
    words = dict(VERDICT_WORDS)
    if evidence["repro"]["fidelity"] == "mechanism_model":
        words.update(MODEL_WORDS)
    shape, *said = words[verdict]
    en, zh = ("%s %s" % (shape, text) for text in said)
    if verdict == "inconclusive":
        what = MISBEHAVED.get(reason, (reason, reason))
        return en.format(reason=what[0]), zh.format(reason=what[1])
    if evidence["hits"] is not None:
        count = "%d/%d" % (evidence["hits"], evidence["trials"])
        return "%s (%s)" % (en, count), "%s（%s）" % (zh, count)
    return "%s (%s)" % (en, reason), "%s（%s）" % (zh, reason)


def settings_of(evidence: Mapping[str, Any]) -> str:
    """The values of a run that are not the defaults: length=704, dtype=bfloat16."""
    return ", ".join(settings_in(evidence))


def settings_in(evidence: Mapping[str, Any]) -> List[str]:
    given = evidence.get("parameters") or {}
    return ["%s=%s" % (name, shown_value(decode(v))) for name, v in given.items()]


def last_output(evidence: Mapping[str, Any]) -> List[str]:
    """The end of what the last check printed, where there is no verdict on the bug."""
    last = evidence["checks"][-1]
    if evidence["hits"] is not None or not last["log"]["text"]:
        return []
    lines = last["log"]["text"].splitlines()[-20:]
    return ["%s:" % last["name"], *("    " + line for line in lines)]


# --- in the site's wording, which files that are taken away carry as data -----------
def reason_text(words: Mapping[str, Any], reason: Optional[str], lang: str) -> str:
    """A reason in words, e.g. of "crash:SIGSEGV"; "" for none."""
    if not reason:
        return ""
    kind, _, detail = reason.partition(":")
    found = str(words["reasons"].get(kind, {lang: kind})[lang])
    if kind == "limit" and detail in words["limits"]:
        detail = words["limits"][detail][lang]
    if not found or not detail:
        return found or detail
    return found + ("：" if lang == "zh" else ": ") + detail


def sentence(words: Mapping[str, Any], evidence: Mapping[str, Any], lang: str) -> str:
    """What a finished run shows, naming its subject."""
    verdict, device = evidence["verdict"], evidence["device"]
    hits, trials = evidence["hits"] or 0, evidence["trials"] or 0
    judged = verdict in ("bug_present", "bug_absent")
    once = "_once" if judged and trials == 1 else ""
    values = settings_in(evidence)
    template = words["sentences"][verdict + once]
    if judged and evidence["repro"]["fidelity"] == "mechanism_model":
        template = words["model"]
    if judged and values:
        template = words["at_values"][verdict]
    is_gpu = device["name"] and device["class"] != "cpu"
    found: str = template[lang].format(
        k=hits,
        n=trials,
        build=evidence["build"]["raw"],
        device=device["name"] if is_gpu else device["class"],
        reason=reason_text(words, evidence["reason"], lang).rstrip("。."),
        values=("、" if lang == "zh" else ", ").join(values),
    )
    if judged and 0 < hits < trials:
        found += ("" if lang == "zh" else " ") + words["sometimes"][lang]
    return found
