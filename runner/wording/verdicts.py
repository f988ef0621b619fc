"""How verdicts, reasons, outcomes and claims are worded, in both languages.

PASS and FAIL never stand alone, and nothing is said of the bug without a verdict.
Every text has "en" and "zh"; pages take one, the API gives both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kb.choices import LANGS, Fidelity, Verdict
from runner.models import Run

Text = dict[str, str]


def text(en: str, zh: str) -> Text:
    return {"en": en, "zh": zh}


@dataclass(frozen=True)
class Badge:
    """A verdict in its short form: shape, bold word, the rest, (k/n)."""

    shape: str
    shape_css: str
    css: str
    word: str
    rest: str
    counts: str = ""

    def __str__(self) -> str:
        rest = f" · {self.rest}" if self.word and self.rest else self.rest
        gap = " " if self.counts.startswith("(") else ""
        return f"{self.shape} {self.word}{rest}{gap}{self.counts}"


@dataclass(frozen=True)
class Wording:
    """One row of the table: a badge without its counts."""

    shape: str
    shape_css: str
    css: str
    word: Text
    rest: Text
    counted: bool = False

    def badge(self, lang: str, counts: str = "") -> Badge:
        return Badge(
            self.shape,
            self.shape_css,
            self.css,
            self.word[lang],
            self.rest[lang],
            counts if self.counted else "",
        )


NO_WORD = text("", "")
PRESENT = Wording(
    "✖",
    "sh-x",
    "v-fail",
    text("FAIL", "未通过"),
    text("bug reproduced", "缺陷已复现"),
    counted=True,
)
ABSENT = Wording(
    "✔",
    "sh-y",
    "v-pass",
    text("PASS", "通过"),
    text("bug not seen", "未出现缺陷"),
    counted=True,
)
NOT_APPLICABLE = Wording(
    "∅", "sh-n", "v-none", text("N/A", "不适用"), text("cannot apply here", "")
)
ERROR = Wording(
    "▲", "sh-e", "v-error", text("ERROR", "出错"), text("no verdict", "无结论")
)
NO_VERDICT = text("NO VERDICT", "无结论")
INCONCLUSIVE = {
    reason: Wording("▲", "sh-e", "v-error", NO_VERDICT, rest)
    for reason, rest in {
        "control": text("control misbehaved", "对照异常"),
        "detector_silent": text("detector silent", "检测器未触发"),
        "reference": text("reference misbehaved", "参照异常"),
        "metric": text("metric unusable", "指标不可用"),
        "unstable": text("results unstable", "结果不稳定"),
    }.items()
}
MODEL_SHOWN = Wording(
    "◇",
    "sh-m",
    "v-none",
    text("MODEL", "模型"),
    text("mechanism shown", "机理重现"),
    counted=True,
)
MODEL_NOT_SHOWN = Wording(
    "◇",
    "sh-m",
    "v-none",
    text("MODEL", "模型"),
    text("mechanism not shown", "机理未重现"),
    counted=True,
)
UNTESTED = Wording("◌", "sh-u", "v-none", NO_WORD, text("Not tested", "未测试"))
LIKELY = {
    True: Wording(
        "⋯", "sh-i", "v-none", NO_WORD, text("likely affected", "推断受影响")
    ),
    False: Wording(
        "⋯", "sh-i", "v-none", NO_WORD, text("likely not affected", "推断不受影响")
    ),
}

# Every reason of the contract; a detail after the colon is added to the text.
REASONS: dict[str, Text] = {
    "device": text("this needs a CUDA device", "需要 CUDA 设备"),
    "capability": text(
        "this needs a GPU of higher compute capability", "需要计算能力更高的 GPU"
    ),
    "memory": text("this needs a GPU with more memory", "需要显存更大的 GPU"),
    "devices": text("this needs more GPUs", "需要更多 GPU"),
    "stack": text(
        "a package that this repro is about cannot be imported on this build",
        "此构建中无法导入该复现脚本所针对的软件包",
    ),
    "api": text(
        "this build lacks an API that the repro calls",
        "此构建没有复现脚本所调用的接口",
    ),
    "compiler": text(
        "torch.compile cannot compile here; the log names what is missing, "
        "usually g++ and Python's headers",
        "torch.compile 在此无法编译；日志中写明缺少什么，通常是 g++ 和 Python 头文件",
    ),
    "loader": text(
        "DataLoader workers cannot start here", "DataLoader 工作进程在此无法启动"
    ),
    "loopback": text(
        "processes cannot talk over the loopback network here",
        "进程在此无法通过本机回环网络通信",
    ),
    "not_taken": text(
        "torch did not take the code path in question",
        "torch 没有走到相关的代码路径",
    ),
    "said": NO_WORD,
    "control": text(
        "the control, which must be clean, was not", "对照本应无异常，实际并非如此"
    ),
    "detector_silent": text(
        "the detector did not fire on the symptom made by construction",
        "检测器对人为构造的现象没有反应",
    ),
    "reference": text("the reference is not usable", "参照值不可用"),
    "metric": text(
        "an observation is missing or of the wrong type", "观测值缺失或类型不符"
    ),
    "unstable": text(
        "the checks around the trigger changed between runs", "触发前后的检查结果不一致"
    ),
    "raised": text("a check raised an exception", "某项检查抛出异常"),
    "crash": text("a check crashed", "某项检查崩溃"),
    "timeout": text("a check ran past its time limit", "某项检查超过时限"),
    "limit": text("a check ran past a limit", "某项检查超出限额"),
    "no_report": text("a check ended without a report", "某项检查未给出报告就结束了"),
    "channel": text("a check's report was not well-formed", "某项检查的报告格式不正确"),
    "contract": text("the repro breaks the rules for repros", "复现脚本不符合复现规范"),
    "import": text("torch cannot be imported", "无法导入 torch"),
    "build_missing": text("the build's interpreter is gone", "该构建的解释器已不存在"),
    "device_lost": text("the GPU was lost", "GPU 失联"),
    "device_health": text("the GPU reports errors", "GPU 自检报错"),
    "refused": text(
        "it was refused here: not the reviewed source, or the sandbox is too weak",
        "此处拒绝运行：不是经审核的源码，或沙箱强度不足",
    ),
    "lost": text(
        "the worker stopped responding, several times",
        "执行节点多次失联",
    ),
}
LIMITS: dict[str, Text] = {
    "memory": text("memory", "内存"),
    "processes": text("processes", "进程数"),
    "disk": text("disk", "磁盘"),
    "output": text("output", "输出"),
}
SOMETIMES = text("It happens sometimes.", "时有时无。")
SENTENCES: dict[str, Text] = {
    "bug_present": text(
        "The bug happened in {k} of {n} runs on torch {build}, {device}. "
        "This build is affected.",
        "在 torch {build}、{device} 上运行 {n} 次，其中 {k} 次出现该缺陷。"
        "此构建受影响。",
    ),
    "bug_absent": text(
        "The bug did not happen in {n} {runs} on torch {build}, {device}; the detector "
        "self-check passed. Other GPUs or shapes may differ.",
        "在 torch {build}、{device} 上运行 {n} 次均未出现该缺陷，检测器自检正常。"
        "其他显卡或张量形状可能不同。",
    ),
    "not_applicable": text(
        "This cannot apply on torch {build}, {device}: {reason}. "
        "That says nothing about the bug elsewhere.",
        "在 torch {build}、{device} 上不适用：{reason}。这不说明其他环境是否受影响。",
    ),
    "inconclusive": text(
        "The repro ran, but {reason}. This says nothing about the bug.",
        "复现脚本已运行，但{reason}。不能据此判断缺陷是否存在。",
    ),
    "error": text(
        "The repro did not run to the end ({reason}). This says nothing about the bug.",
        "复现脚本未正常结束（{reason}）。不能据此判断缺陷是否存在。",
    ),
}
MODEL_SENTENCE = text(
    "The mechanism showed in {k} of {n} runs on torch {build}, {device}. This is a "
    "model of the mechanism: it does not say whether a build is affected.",
    "在 torch {build}、{device} 上运行 {n} 次，其中 {k} 次重现该机理。"
    "这是机理模型，不能说明某个构建是否受影响。",
)
STATE_SENTENCES: dict[str, Text] = {
    Run.State.QUEUED: text(
        "Waiting for a worker. No verdict yet.", "正在等待执行节点，尚无结论。"
    ),
    Run.State.RUNNING: text("Running. No verdict yet.", "正在运行，尚无结论。"),
    Run.State.CANCELLED: text(
        "Cancelled before the end. No verdict.", "运行中途已取消，无结论。"
    ),
}
REQUEUED = text(
    "Its worker stopped before the end; the run is queued again. No verdict yet.",
    "执行节点中途停止，已重新排队，尚无结论。",
)
OUTCOMES: dict[str, Text] = {
    "bug": text("bug", "出现缺陷"),
    "clean": text("clean", "无异常"),
    "not_applicable": text("not applicable", "不适用"),
    "error": text("error", "出错"),
}
FIRES = text("fires", "触发")
STATES: dict[str, Text] = {
    Run.State.QUEUED: text("queued", "排队中"),
    Run.State.RUNNING: text("running", "运行中"),
    Run.State.FINISHED: text("finished", "已结束"),
    Run.State.CANCELLED: text("cancelled", "已取消"),
}
WORKAROUNDS: dict[str, tuple[str, Text]] = {
    "verified": ("✔", text("Workaround verified", "规避方法已验证")),
    "does_not_help": ("✖", text("Workaround does not help", "规避方法无效")),
    "untested": ("◌", text("Workaround not tested", "规避方法未验证")),
}


ANSWER_CSS: dict[str, str] = {
    Verdict.BUG_PRESENT: "fail",
    Verdict.BUG_ABSENT: "pass",
    Verdict.NOT_APPLICABLE: "",
}


def answer_css(verdict: str) -> str:
    """The class that tints what answers "am I affected"."""
    return ANSWER_CSS.get(verdict, "error")


def counts(hits: int, trials: int, lang: str) -> str:
    """(k/n), in the brackets of the language."""
    return f"（{hits}/{trials}）" if lang == "zh" else f"({hits}/{trials})"


def wording(verdict: str, fidelity: str, reason: str = "") -> Wording:
    model = fidelity == Fidelity.MECHANISM_MODEL
    if verdict == Verdict.BUG_PRESENT:
        return MODEL_SHOWN if model else PRESENT
    if verdict == Verdict.BUG_ABSENT:
        return MODEL_NOT_SHOWN if model else ABSENT
    if verdict == Verdict.NOT_APPLICABLE:
        return NOT_APPLICABLE
    if verdict == Verdict.INCONCLUSIVE:
        return INCONCLUSIVE.get(reason, INCONCLUSIVE["control"])
    return ERROR


def badge(
    verdict: str, hits: int, trials: int, fidelity: str, lang: str, reason: str = ""
) -> Badge:
    """The badge of a verdict; `reason` matters for an inconclusive one only."""
    return wording(verdict, fidelity, reason).badge(lang, counts(hits, trials, lang))


def untested(lang: str) -> Badge:
    return UNTESTED.badge(lang)


def likely(affected: bool, lang: str) -> Badge:
    """Not run: a documented range or tested neighbours say so."""
    return LIKELY[affected].badge(lang)


def reason_text(reason: str | None, lang: str) -> str:
    """A reason in words, e.g. of "crash:SIGSEGV"; "" for none."""
    if not reason:
        return ""
    kind, _, detail = reason.partition(":")
    words = REASONS.get(kind, text(kind, kind))[lang]
    if kind == "limit" and detail in LIMITS:
        detail = LIMITS[detail][lang]
    if not words or not detail:
        return words or detail
    return f"{words}：{detail}" if lang == "zh" else f"{words}: {detail}"


def sentence(
    *,
    verdict: str,
    reason: str | None,
    hits: int,
    trials: int,
    fidelity: str,
    build: str,
    device: str,
    lang: str,
) -> str:
    """What a finished run shows, naming its subject."""
    judged = verdict in (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)
    model = judged and fidelity == Fidelity.MECHANISM_MODEL
    template = MODEL_SENTENCE if model else SENTENCES[verdict]
    found = template[lang].format(
        k=hits,
        n=trials,
        runs="run" if trials == 1 else "runs",
        build=build,
        device=device,
        reason=reason_text(reason, lang).rstrip("。."),
    )
    if judged and 0 < hits < trials:
        found += ("" if lang == "zh" else " ") + SOMETIMES[lang]
    return found


def device_words(device_class: str, name: str | None) -> str:
    """A GPU by its name; a processor is just "cpu"."""
    return name if name and device_class != "cpu" else device_class


def evidence_sentence(body: dict[str, Any]) -> Text:
    """The sentence of an evidence object, in both languages."""
    device = body["device"]
    return {
        lang: sentence(
            verdict=body["verdict"],
            reason=body["reason"],
            hits=body["hits"] or 0,
            trials=body["trials"] or 0,
            fidelity=body["repro"]["fidelity"],
            build=body["build"]["raw"],
            device=device_words(device["class"], device["name"]),
            lang=lang,
        )
        for lang in LANGS
    }


def run_sentence(run: Run) -> Text:
    """The sentence of a run in any state, in both languages."""
    if run.state != Run.State.FINISHED:
        waits_again = run.state == Run.State.QUEUED and run.attempt > 0
        return dict(REQUEUED if waits_again else STATE_SENTENCES[run.state])
    if run.evidence:
        return evidence_sentence(run.evidence.body)
    return {
        lang: sentence(
            verdict=str(run.verdict),
            reason=run.reason,
            hits=run.hits or 0,
            trials=run.trials,
            fidelity=run.repro.fidelity,
            build=run.build.raw,
            device=run.device,
            lang=lang,
        )
        for lang in LANGS
    }


def outcome(check: str, found: str, lang: str) -> str:
    """The outcome of one check in a word; a detector that shows the bug fires."""
    if check == "detector" and found == "bug":
        return FIRES[lang]
    return OUTCOMES[found][lang]


def state(found: str, lang: str) -> str:
    return STATES[found][lang]


def workaround(found: str, lang: str) -> tuple[str, str]:
    """The shape and the words of a workaround's status."""
    shape, words = WORKAROUNDS[found]
    return shape, words[lang]
