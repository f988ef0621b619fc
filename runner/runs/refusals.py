"""Why a run is refused and what would help, in both languages."""

from __future__ import annotations

from datetime import timedelta

from kb.languages import Text


class RunRefused(Exception):
    """No run was queued; `detail` says why and what would help.

    `wait_s`: seconds after which a retry makes sense; 0 where waiting does not help.
    """

    def __init__(
        self, code: str, sentences: dict[str, str], *, wait_s: int = 0
    ) -> None:
        super().__init__(sentences["en"])
        self.code = code
        self.sentences = sentences
        self.wait_s = wait_s

    def detail(self, lang: str) -> str:
        return self.sentences[lang]


class Refusal(Text):
    """A sentence whose `{names}` are given when a run is refused."""

    def refusal(self, code: str, *, wait_s: int = 0, **names: object) -> RunRefused:
        sentences = self.filled(own_gpu=OWN_GPU, **names)
        return RunRefused(code, sentences, wait_s=wait_s)


_ = Refusal
OWN_GPU = _(
    "Run the repro on your own GPU with the single-file script, or start a worker on a "
    "machine with one."
)
CPU_ONLY = _("This repro runs on the CPU. Choose the device cpu.")
NO_DEVICE = _("No worker with a GPU serves torch {raw}. {own_gpu}")
WITHDRAWN = _(
    "Every GPU that could run torch {raw} is paused or quarantined: {reason}. An "
    "operator can release it in the admin."
)
CAPABILITY = _(
    "The repro needs compute capability {needed}; the GPUs online have {have}. "
    "{own_gpu}"
)
MEMORY = _(
    "The repro needs a GPU with {needed} GiB of memory; the largest online has {have} "
    "GiB. {own_gpu}"
)
DEVICES = _(
    "The repro needs {needed} such GPUs in one machine; the machines online have at "
    "most {have}. {own_gpu}"
)
PAUSED = _(
    "Every worker that serves torch {raw} is paused by an operator. Choose another "
    "build, or ask the operator to resume one."
)
OFFLINE = _(
    "The worker that serves torch {raw} was last seen {ago} ago. Choose another build, "
    "or start it again with: manage.py worker"
)
BROKEN = _(
    "torch {raw} is installed, but cannot be used: {reason}. Its page shows the full "
    "message. To check again, run: manage.py builds scan"
)
NO_INSTALLATION = _(
    "torch {raw} is not installed on any machine of this site. Add it with: manage.py "
    "builds add {raw}"
)
REPRO_GONE = _("This repro was withdrawn a moment ago. Load its record's page again.")
QUEUE_FULL = _("Too many runs are waiting. Try again when some have finished.")
OWN_QUEUE_FULL = _(
    "{count} runs of yours are waiting already. Try again when some have finished, or "
    "cancel one."
)
TOO_OFTEN = _(
    "You have started {count} runs within an hour, which is the limit here. You may "
    "start another one in {minutes} min."
)
TOO_MANY_BUILDS = _(
    "That is {asked} runs, and you may start {left} more within this hour. Choose "
    "fewer builds, or wait."
)
SWEEP_DEVICE = _("Sweeps run on the CPU, and this repro needs a GPU.")
SWEEPS_FULL = _("Too many sweeps are waiting. Try again when one has finished.")
OWN_SWEEPS_FULL = _(
    "{count} sweeps of yours have not finished yet. Try again when one has, or cancel "
    "one."
)
CAPTURE_TIER = _(
    "Captures run only in a strong sandbox (tier A or B). The workers with torch "
    "{raw} have tier {tier}. {remedy}"
)
CAPTURES_FULL = _("Too many captures are waiting. Try again when one has finished.")
CAPTURE_KNOWN = _(
    "You have sent this capture for these builds already: {address}. Choose others to "
    "run it there, too."
)


def duration(span: timedelta) -> dict[str, str]:
    """A rough span in words, such as "3 h"."""
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 60:
        return _("{count} min").filled(count=minutes)
    if minutes < 48 * 60:
        return _("{count} h").filled(count=minutes // 60)
    return _("{count} days").filled(count=minutes // 1440)
