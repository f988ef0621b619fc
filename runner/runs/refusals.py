"""Why a run is refused and what would help, in both languages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


class RunRefused(Exception):
    """No run was queued; `detail_*` say why and what would help.

    `wait_s`: seconds after which a retry makes sense; 0 where waiting does not help.
    """

    def __init__(
        self, code: str, detail_en: str, detail_zh: str, *, wait_s: int = 0
    ) -> None:
        super().__init__(detail_en)
        self.code = code
        self.detail_en = detail_en
        self.detail_zh = detail_zh
        self.wait_s = wait_s

    def detail(self, lang: str) -> str:
        return self.detail_zh if lang == "zh" else self.detail_en


@dataclass(frozen=True)
class Message:
    """One message in both languages, with the same `{placeholders}`."""

    en: str
    zh: str

    def refusal(self, code: str, *, wait_s: int = 0, **values: object) -> RunRefused:
        en, zh = self.en.format(**values), self.zh.format(**values)
        return RunRefused(code, en, zh, wait_s=wait_s)


OWN_GPU = Message(
    "Run the repro on your own GPU with the single-file script, or start a worker on a "
    "machine with one.",
    "请用单文件脚本在自己的 GPU 上运行，或在有 GPU 的机器上启动执行节点。",
)
CPU_ONLY = Message(
    "This repro runs on the CPU. Choose the device cpu.",
    "该复现脚本在 CPU 上运行，请选择设备 cpu。",
)
NO_DEVICE = Message(
    "No worker with a GPU serves torch {raw}. " + OWN_GPU.en,
    "没有带 GPU 的执行节点提供 torch {raw}。" + OWN_GPU.zh,
)
WITHDRAWN = Message(
    "Every GPU that could run torch {raw} is paused or quarantined: {reason}. An "
    "operator can release it in the admin.",
    "可运行 torch {raw} 的 GPU 均已暂停或隔离：{reason}。管理员可在后台将其恢复。",
)
CAPABILITY = Message(
    "The repro needs compute capability {needed}; the GPUs online have {have}. "
    + OWN_GPU.en,
    "该复现脚本需要计算能力 {needed}，在线 GPU 为 {have}。" + OWN_GPU.zh,
)
MEMORY = Message(
    "The repro needs a GPU with {needed} GiB of memory; the largest online has {have} "
    "GiB. " + OWN_GPU.en,
    "该复现脚本需要显存 {needed} GiB 的 GPU，在线 GPU 最大为 {have} GiB。" + OWN_GPU.zh,
)
DEVICES = Message(
    "The repro needs {needed} such GPUs in one machine; the machines online have at "
    "most {have}. " + OWN_GPU.en,
    "该复现脚本需要同一台机器上有 {needed} 个此类 GPU，在线机器最多有 {have} 个。"
    + OWN_GPU.zh,
)
PAUSED = Message(
    "Every worker that serves torch {raw} is paused by an operator. Choose another "
    "build, or ask the operator to resume one.",
    "提供 torch {raw} 的执行节点均已被管理员暂停。请选择其他构建，或请管理员恢复。",
)
OFFLINE = Message(
    "The worker that serves torch {raw} was last seen {ago} ago. Choose another build, "
    "or start it again with: manage.py worker",
    "提供 torch {raw} 的执行节点上次出现是在 {ago_zh}前。请选择其他构建，或重新启动它："
    "manage.py worker",
)
BROKEN = Message(
    "torch {raw} is installed, but cannot be used: {reason}. Its page shows the whole "
    "message; manage.py builds scan looks again.",
    "torch {raw} 已安装但无法使用：{reason}。完整信息见该构建的页面；"
    "manage.py builds scan 会重新检查。",
)
NO_INSTALLATION = Message(
    "torch {raw} is not installed on any machine of this site. Add it with: manage.py "
    "builds add {raw}",
    "本站没有机器装有 torch {raw}。可以这样添加：manage.py builds add {raw}",
)
QUEUE_FULL = Message(
    "Too many runs are waiting. Try again when some have finished.",
    "等待中的运行过多，请在部分运行结束后再试。",
)
OWN_QUEUE_FULL = Message(
    "{count} runs of yours are waiting already. Try again when some have finished, or "
    "cancel one.",
    "您已有 {count} 个运行在等待。请在部分运行结束后再试，或取消其中一个。",
)
TOO_OFTEN = Message(
    "You have started {count} runs within an hour, which is the limit here. Try again "
    "later.",
    "您在一小时内已启动 {count} 个运行，达到本站上限。请稍后再试。",
)


def duration(span: timedelta) -> tuple[str, str]:
    """A rounded duration in both languages, such as ("3 h", "3 小时")."""
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 60:
        return f"{minutes} min", f"{minutes} 分钟"
    if minutes < 48 * 60:
        return f"{minutes // 60} h", f"{minutes // 60} 小时"
    return f"{minutes // 1440} days", f"{minutes // 1440} 天"
