"""The words of verdicts, reasons, outcomes, claims and answers: their only place.

English stands here, Chinese in the catalogue. PASS and FAIL never stand alone, and
nothing is said of the bug without a verdict. What follows " · " in a badge says what
its first words mean. What the harness says too stands in `portable/harness/words.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import lazystr

from kb.languages import Pair, Text, Text as _, text_in_context as pgettext
from portable.harness import words


class Said(NamedTuple):
    """A text with the shape in front of it, which is the same in both languages."""

    shape: str
    text: Text

    def line(self, lang: str) -> str:
        return f"{self.shape} {self.text[lang]}"


class Meaning:
    """What a badge means without its first words, as a label in the active language."""

    def __init__(self, said: Said) -> None:
        self.text = said.text

    def __str__(self) -> str:
        word, _mark, rest = str(self.text).partition(" · ")
        return rest or word


def pair(english: str, chinese: str) -> Text:
    return Pair(english, chinese=chinese)


def shown(shape: str, english: str, chinese: str) -> Said:
    return Said(shape, pair(english, chinese))


# --- verdicts -----------------------------------------------------------------------
BADGES = {
    **{name: shown(*row) for name, row in words.VERDICT_WORDS.items()},
    "untested": Said("◌", _("Not tested")),
}
MODEL_BADGES = {name: shown(*row) for name, row in words.MODEL_WORDS.items()}
MISBEHAVED = {name: pair(*row) for name, row in words.MISBEHAVED.items()}
LIKELY = {
    True: Said("⋯", _("likely affected")),
    False: Said("⋯", _("likely not affected")),
}
# As choices of a field.
VERDICTS = {
    "bug_present": lazystr(Meaning(BADGES["bug_present"])),
    "bug_absent": lazystr(Meaning(BADGES["bug_absent"])),
    "not_applicable": lazystr(Meaning(BADGES["not_applicable"])),
    "inconclusive": _("no verdict").label,
    "error": _("error").label,
}
SENTENCES = {
    "bug_present": _(
        "The bug happened in {k} of {n} runs on torch {build}, {device}. "
        "This build is affected."
    ),
    "bug_present_once": _(
        "The bug happened in {n} run on torch {build}, {device}. This build is "
        "affected."
    ),
    "bug_absent": _(
        "The bug did not happen in {n} runs on torch {build}, {device}; the detector "
        "self-check passed. Other devices or shapes may differ."
    ),
    "bug_absent_once": _(
        "The bug did not happen in {n} run on torch {build}, {device}; the detector "
        "self-check passed. Other devices or shapes may differ."
    ),
    "not_applicable": _(
        "Not applicable on torch {build}: {reason}. Other environments may still "
        "have the bug."
    ),
    "inconclusive": _(
        "The repro ran, but {reason}. So we cannot tell whether the bug is there."
    ),
    "error": _(
        "The repro did not run to the end ({reason}). So we cannot tell whether the "
        "bug is there."
    ),
}
MODEL_SENTENCE = _(
    "Runs on torch {build}, {device} that showed the mechanism: {k} of {n}. This is a "
    "model of the mechanism: it does not say whether a build is affected."
)
SOMETIMES = _("It happens sometimes.")
# Of a run with other values than those that were reviewed: no verdict of the record.
AT_VALUES = {
    "bug_present": _(
        "Runs with {values} on torch {build}, {device} that had the bug: {k} of {n}. "
        "These are not the reviewed values, so the record's verdict does "
        "not change."
    ),
    "bug_absent": _(
        "Runs with {values} on torch {build}, {device} that had the bug: 0 of {n}. "
        "These are not the reviewed values, so the record's verdict does "
        "not change."
    ),
}

# --- reasons ------------------------------------------------------------------------
# Every reason of the contract; a detail after the colon is added to the text.
REASONS = {
    "device": _("this needs a CUDA device"),
    "capability": _("this needs a GPU of higher compute capability"),
    "memory": _("this needs a GPU with more memory"),
    "devices": _("this needs more GPUs"),
    "stack": _(
        "this Python lacks what the repro tests (`manage.py builds add --with` "
        "installs it)"
    ),
    "api": _("this build lacks an API that the repro calls"),
    "compiler": _(
        "torch.compile cannot compile here; the log names what is missing, "
        "usually g++ and Python's headers"
    ),
    "loader": _("DataLoader workers cannot start here"),
    "loopback": _("processes cannot talk over the loopback network here"),
    "not_taken": _("torch did not take the code path in question"),
    "said": Text(""),
    "control": _("the control, which must be clean, shows the bug"),
    "detector_silent": _("the detector missed a symptom that was made on purpose"),
    "reference": _("the reference is not usable"),
    "metric": _("an observation is missing or of the wrong type"),
    "changed": _("it changes the result"),
    "raised": _("a check raised an exception"),
    "crash": _("a check crashed"),
    "timeout": _("a check ran past its time limit"),
    "limit": _("a check ran past a limit"),
    "no_report": _("a check ended without a report"),
    "channel": _("a check's report was not well-formed"),
    "contract": _("the repro breaks the rules for repros"),
    "import": _("torch cannot be imported"),
    "build_missing": _("the build's interpreter is gone"),
    "device_lost": _("the GPU was lost"),
    "device_health": _("the GPU reports errors"),
    "refused": _(
        "it was refused here: not the reviewed source, or no sandbox good enough"
    ),
    "lost": _("the worker stopped responding, several times"),
}
LIMITS = {
    "memory": pgettext("limit", "memory"),
    "processes": pgettext("limit", "processes"),
    "disk": pgettext("limit", "disk"),
    "output": pgettext("limit", "output"),
}

# --- runs and their checks ----------------------------------------------------------
STATES = {
    "queued": _("queued"),
    "running": _("running"),
    "finished": _("finished"),
    "cancelled": _("cancelled"),
}
STATE_SENTENCES = {
    "queued": _("Waiting for a worker. No verdict yet."),
    "running": _("Running. No verdict yet."),
    "cancelled": _("Cancelled before the end. No verdict."),
}
REQUEUED = _(
    "Its worker stopped before the end; the run is queued again. No verdict yet."
)
MET, FIRES = _("met"), _("fires")
# What one check showed, and what stands in a cell of a matrix beside the shape.
CELLS = {
    "bug": pgettext("matrix cell", "Bug"),
    "clean": pgettext("matrix cell", "No bug seen"),
    "not_applicable": pgettext("matrix cell", "Not applicable"),
    **dict.fromkeys(("inconclusive", "error"), pgettext("matrix cell", "No result")),
}
# The same of a verdict, wherever many stand: a strip, a list, a comparison.
STANDINGS = {"bug_present": CELLS["bug"], "bug_absent": CELLS["clean"], **CELLS}
# In a filter, where both without a result may stand.
VERDICT_BOXES = {"untested": BADGES["untested"].text, "model": _("Model only")}
VERDICT_BOXES |= {**STANDINGS, "error": _("No result: an error")}
# Of a call that somebody sent: it is about the call, and no record's bug.
CAPTURES = {
    "nan": Said("✖", pair("NaN", "NaN")),
    "inf": Said("✖", pair("Inf", "Inf")),
    "finite": Said("✔", pgettext("of a call", "Finite")),
    "not_applicable": Said("∅", CELLS["not_applicable"]),
    "error": Said("▲", CELLS["error"]),
}
# Why it is not finite, by running the call in other ways.
CAPTURE_CLASSES = {
    "mathematics": _(
        "Mathematics · not finite in float64 either: not a bug of the build"
    ),
    "range": _("Range · it exceeds what this type can hold"),
    "kernel": _("Kernel · a bug of this build: the reference is finite"),
    "unstable": _("Unstable · it differs when it is repeated"),
    "input": _("Input · the value came in with the operands"),
    "undecided": _("Undecided · there is no independent reference"),
}
# In which other ways it ran; types keep their names.
CAPTURE_WAYS = {
    **dict.fromkeys(("float64", "float32", "bfloat16"), None),
    "reference": _("Python's own arithmetic"),
    "repeats": _("5 repeats"),
}
CAPTURE_ENDS = {
    "same": _("the same"),
    "differs": _("not the same"),
    "absent": _("it does not run"),
}
# Of evidence that somebody sent.
SENT = {
    "bug_present": Said("◌", _("SENT · bug reproduced by {origin}; not run here")),
    "bug_absent": Said("◌", _("SENT · bug not seen by {origin}; not run here")),
    "other": Said("◌", _("SENT · by {origin}; not run here")),
}
# The same of a workaround on a build that shows the bug.
HELPED = {
    "bug": pgettext("matrix cell", "does not help"),
    "clean": pgettext("matrix cell", "helps"),
}
WORKAROUNDS = {
    "verified": Said("✔", _("Workaround verified")),
    "does_not_help": Said("✖", _("Workaround does not help")),
    "untested": Said("◌", _("Workaround not tested")),
}
# Beside a workaround that is named.
WORKAROUND_STATUSES = {
    "verified": _("verified"),
    "does_not_help": _("does not help"),
    "untested": _("untested"),
}
LINE_NOT_RUN = _("not run here, as documented")
# What the run of a law showed of a form: words of kb.records.laws.OUTCOMES.
LAW_OUTCOMES = {
    "helps": _("finite, and so is its gradient"),
    "no_gradient": _("finite, but its gradient is 0: nothing is learned from there"),
    "changed": _("finite, but other results change too"),
    "not_in_gradient": _("finite, but its gradient is not"),
    "does_not_help": _("still not finite"),
}
HELPS_ON = _("helps on {helped} of {run} builds: {builds}")
# Why a workaround was not executed here.
NOT_EXECUTED = {
    "release": _("not executed: another release, which no check can install"),
    "setting": _("not executed: a setting of a framework"),
    "model": _("not executed in the real program: only in a model of the mechanism"),
    "gpu": _("not executed: it needs a GPU, and nobody has run it on one"),
    "bug_unseen": _("executed only on builds without the bug"),
    "changed": _("executed: it changes the result"),
    "no_result": _("executed without a result: its check ended in an error"),
}
OVER_TIME = Said("◌", _("Not tested · the time limit was reached"))
EXIT_STATUS = pair(*words.EXIT_STATUS)
CONCLUSION = _(
    "Repros run: {total}, in {seconds:.0f} s. Bugs reproduced: {counted}, and {design} "
    "by design. Without a verdict: {none}. Left out: {left_out}. Nothing was uploaded."
)
CLEARS_NO_GPU = _(
    "A run on the CPU does not clear a GPU: the bug may still appear there."
)
# What a check does, where its record does not say it.
CHECKS = {
    "trigger": _("The bug's own repro"),
    "control": _("The same code without the trigger"),
    "detector": _("A symptom made on purpose"),
    "reference": _("An independent reference"),
}
# What came out of a check, behind what it does.
CAME_OUT = {
    ("", "bug"): _("the bug appears"),
    ("", "clean"): _("no bug seen"),
    ("workaround", "bug"): _("the bug is still there"),
    ("workaround", "clean"): _("the bug is gone"),
    ("refuted", "bug"): _("the bug is still there"),
    ("refuted", "clean"): _("no bug seen"),
}
MODELLED = {
    "bug": _("a model shows the mechanism"),
    "clean": _("a model shows no symptom"),
}

# Why a value of a parameter is refused: `PARAMETER_TEXTS` of the harness.
REFUSED_VALUES = {
    "unknown": _("this repro has no such parameter; it has: {names}"),
    "none": _("this repro has no parameters"),
    "choice": _("must be one of {choices}"),
    "whole": _("must be a whole number from {min} to {max}"),
    "number": _("must be a number from {min} to {max}"),
    "memory_mib": _(
        "this run would need about {needed} MiB of memory; the limit is {limit} MiB"
    ),
    "time_s": _("this check would need about {needed} s; the limit is {limit} s"),
    "axis": _(
        "a sweep takes values (64,128), START:STOP:STEP, START:STOP:xFACTOR or "
        "START..STOP"
    ),
    "step": _("the step must be a number above 0, or x and a number above 1"),
    "order": _("the range must start below its end"),
    "twice": _("a value stands twice"),
}

# --- "am I affected": (answer, whether this exact build was run) --------------------
Answer = tuple[str, bool]
ANSWER_BADGES: dict[Answer, Said] = {
    ("affected", True): Said("✖", _("Bug · tested on your exact build")),
    ("not_affected", True): Said("✔", _("No bug seen · tested on your exact build")),
    ("affected", False): Said("⋯", _("Likely affected")),
    ("not_affected", False): Said("⋯", _("Likely not affected")),
}
UNKNOWN_BADGE = Said("◌", _("Unknown: run it"))
# In a terminal, below a record's title.
ANSWERS: dict[Answer, Text] = {
    ("affected", True): _("affected: run on this exact build"),
    ("affected", False): _("likely affected"),
    ("not_affected", True): _("bug not seen: run on this exact build"),
    ("not_affected", False): _("likely not affected"),
}
UNKNOWN_ANSWER = _("not known whether your torch is affected")
NOT_RUN = {
    "affected": _("Not run on exactly torch {build}; documented as affected."),
    "not_affected": _("Not run on exactly torch {build}; documented as not affected."),
    "unknown": _(
        "Not run on exactly torch {build}, and the documents do not decide it."
    ),
}
# Where there is no build to speak of.
ON_DEVICE = {"cuda": _("a GPU"), "cpu": _("a processor")}
# Where the reader has not chosen one.
NEVER_RUN = {
    "affected": _(
        "Nobody has run it here on {device} yet, but documents name affected "
        "versions. Choose your build to see whether it is one of them."
    ),
    "unknown": _(
        "Nobody has run it here on {device} yet, and no affected version of torch is "
        "documented. Choose your build, or run it."
    ),
}

# --- facets of a log: what its name stands for (kb.search.reading.symptom_facets) ---
FACETS = {
    "nan": _("{metric} is NaN"),
    "inf": _("{metric} is infinite"),
    "zero": _("{metric} is exactly 0"),
}
FACET_OF_BACKWARD = _("{function} returned NaN in backward")

# --- look-ups -----------------------------------------------------------------------
CONFIDENCES = {
    "exact": _("exact match"),
    "match": _("match"),
    "possible": _("possible"),
}
FIRST_CHECKS = _("First checks, whatever the cause:")
RULED_OUT = _("Ruled out:")
REPRODUCE = _("Reproduce it here:")
NAME_TORCH = _("With --env, you get the answer for the torch installed here.")


def facet_title(name: str) -> dict[str, str]:
    """ "grad_norm is NaN" for grad_norm_nan; a name of another form as it stands."""
    if name.startswith("nan_in_"):
        return FACET_OF_BACKWARD.filled(function=name.removeprefix("nan_in_"))
    metric, _mark, state = name.rpartition("_")
    if not metric or state not in FACETS:
        return {"en": name, "zh": name}
    return FACETS[state].filled(metric=metric)
