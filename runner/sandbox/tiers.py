"""Sandbox tiers: a letter for the isolation of runs, and why it is no better, in words.

A: namespaces, filtered system calls and a cgroup. B: the same without the cgroup.
C: no namespaces, but Landlock and filtered system calls. D: limits only. E: no sandbox,
so nothing is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, NamedTuple

ORDER = "ABCDE"  # strongest first; E is the harness alone
Pair = tuple[str, str]  # English, Chinese
SHARED_ROOT = "shared root"


class Layers(NamedTuple):
    """The sandbox layers of a run. None and False: not in use."""

    namespaces: str | None = None  # "bubblewrap" or "unshare"
    landlock: int | None = None  # the ABI
    seccomp: bool = False
    cgroup: str | None = None  # "v1" or "v2"
    # "own": a user of its own; else that of the worker, SHARED_ROOT where this is root
    # and no namespace is between.
    uid: str = "shared"


class Layer(NamedTuple):
    """A layer: the types of its value in evidence, and what is said where it misses."""

    kinds: type | tuple[type, ...]
    missing: Pair
    remedy: Pair
    tried: bool = False  # by a check of itself from inside: jail/selfcheck.py


class Tier(NamedTuple):
    """The tier of this machine, why it is no better, and what would help."""

    tier: str
    reason_en: str
    reason_zh: str
    remedy_en: str
    remedy_zh: str
    layers: dict[str, Any] = {}


GENERAL: Mapping[str, Pair] = {
    "A": (
        "Isolated: own files, processes and network, filtered system calls, and memory "
        "and processes bounded by the kernel.",
        "完全隔离：独立的文件系统、进程和网络，系统调用受过滤，内存与进程数由内核限制。",
    ),
    "B": (
        "Isolated: own files, processes and network, and filtered system calls. Memory "
        "is watched, not bounded by the kernel.",
        "已隔离：独立的文件系统、进程和网络，系统调用受过滤；内存由监视进程检查，"
        "而非由内核限制。",
    ),
    "C": (
        "Confined: no access to foreign files, to the network or to sockets of the "
        "machine, no shared memory. Other processes and the free space of the disk are "
        "shared.",
        "受限：不能访问其他文件、网络和本机套接字，没有共享内存；但与其他进程共用系统，"
        "也共用磁盘空间。",
    ),
    "D": (
        "Limits only: time, memory, output and file size are bounded and every process "
        "of the run is killed at its end, but not everything is closed off.",
        "仅有限额：时间、内存、输出和单个文件的大小受限，运行结束时其全部进程都会被终止；"
        "但并未完全隔离。",
    ),
    "E": (
        "No sandbox: the harness alone started the checks.",
        "没有沙箱：由 harness 直接启动各项检查。",
    ),
}
# What a tier allows; shown with the remedies.
ALLOWED: Mapping[str, Pair] = {
    "A": ("Any repro may run here.", "任何复现脚本都可以在此运行。"),
    "B": ("Any repro may run here.", "任何复现脚本都可以在此运行。"),
    "C": (
        "Only reviewed repros run here, and none that needs DataLoader workers or a "
        "connection to itself.",
        "此处只运行经过审核的复现脚本，且不运行需要 DataLoader 工作进程或回环网络的"
        "脚本。",
    ),
    "D": (
        "Only reviewed repros run here. Keep secrets out of reach of the user who runs "
        "the worker.",
        "此处只运行经过审核的复现脚本。请勿让运行执行节点的用户能够读到机密文件。",
    ),
    "E": (
        "Run it through the site or manage.py run_repro on Linux for a stronger tier.",
        "在 Linux 上通过本站或 manage.py run_repro 运行可获得更强的隔离。",
    ),
}
# What may be missing, in the order in which it is told.
LAYERS: Mapping[str, Layer] = {
    "namespaces": Layer(
        (str, NoneType),
        ("No namespaces", "没有命名空间"),
        (
            "Install bubblewrap, or allow user namespaces: in a container by a seccomp "
            "profile that permits unshare and mount, on Ubuntu by an AppArmor profile "
            "with userns, elsewhere by sysctl user.max_user_namespaces.",
            "请安装 bubblewrap，或允许用户命名空间：容器中使用允许 unshare 与 mount 的 "
            "seccomp 配置，Ubuntu 上使用带 userns 的 AppArmor 配置，其他系统调整 "
            "sysctl user.max_user_namespaces。",
        ),
        tried=True,
    ),
    "landlock": Layer(
        (int, NoneType),
        ("No Landlock", "没有 Landlock"),
        (
            "Landlock needs Linux 5.13 with landlock among the security modules.",
            "Landlock 需要 Linux 5.13 以上，并在安全模块列表中启用 landlock。",
        ),
        tried=True,
    ),
    "seccomp": Layer(
        bool,
        ("System calls are not filtered", "系统调用未过滤"),
        (
            "Filters need x86_64 or aarch64 and a kernel with CONFIG_SECCOMP_FILTER.",
            "过滤系统调用需要 x86_64 或 aarch64，以及启用 CONFIG_SECCOMP_FILTER "
            "的内核。",
        ),
        tried=True,
    ),
    "cgroup": Layer(
        (str, NoneType),
        ("No cgroup", "没有 cgroup"),
        (
            "Start the worker in a delegated cgroup, such as systemd-run --user "
            "--scope -p Delegate=yes, for memory and processes bounded by the kernel.",
            "请在委派的 cgroup 中启动执行节点（例如 systemd-run --user --scope "
            "-p Delegate=yes），由内核限制内存与进程数。",
        ),
    ),
    "uid": Layer(
        str,
        ("A run is the same user as the worker", "运行与执行节点是同一用户"),
        (
            "A worker started by root, with builds that others can read, gives each "
            "run a user of its own.",
            "由 root 启动执行节点，并使其他用户可读取构建，则每次运行使用独立用户。",
        ),
    ),
}
# In place of LAYERS["uid"]: what such a run reaches would be all of the machine.
ROOT = Layer(
    str,
    ("A run is root, as the worker is", "运行与执行节点同为 root"),
    (
        "Without namespaces such runs are refused. Start the worker as an ordinary "
        "user; or, for a user for each run, have Python, the checkout and the builds "
        "where other users can read them, not below a folder of mode 0700. Only on a "
        "machine that may be thrown away, such as a container or a lent GPU, set "
        "SANDBOX_ALLOW_SHARED_ROOT=1.",
        "没有命名空间时，这样的运行会被拒绝。请以普通用户启动执行节点；或将 "
        "Python、代码目录和构建放在其他用户可读取的位置（不在权限为 0700 的目录之下），"
        "使每次运行使用独立用户。仅当这台机器可以随时丢弃（例如容器或租用的 GPU）时，"
        "才设置 SANDBOX_ALLOW_SHARED_ROOT=1。",
    ),
)
USERS: Mapping[str, Pair] = {
    "own": ("own user", "独立用户"),
    SHARED_ROOT: ("shared root", "与执行节点同为 root"),
}
# What SANDBOX_WITHOUT may name: without bubblewrap there is still unshare, and a user
# of its own is a matter of who starts the worker.
SWITCHES = ("bubblewrap", *(name for name in LAYERS if name != "uid"))


def letter(layers: Layers) -> str:
    """The tier letter of these layers."""
    if not layers.seccomp:
        return "D"
    if layers.namespaces:
        return "A" if layers.cgroup else "B"
    return "C" if layers.landlock else "D"


def reaches(tier: str, required: str) -> bool:
    """Whether `tier` is at least as strong as `required`."""
    return ORDER.index(tier) <= ORDER.index(required)


def describe(layers: Layers, reasons: Mapping[str, str] | None = None) -> Tier:
    """The tier with its missing layers. `reasons`: layer -> the probe's message."""
    tier = letter(layers)
    missing = lacking(layers._asdict())
    return in_words(tier, missing, reasons or {}, layers._asdict())


def lacking(layers: Mapping[str, Any]) -> list[str]:
    """The names of missing layers, as far as they weaken the tier."""
    missing = [name for name in LAYERS if name != "uid" and not layers.get(name)]
    if "namespaces" in missing and layers.get("uid") != "own":
        missing.append("uid")
    return missing


def in_words(
    tier: str,
    missing: Iterable[str],
    reasons: Mapping[str, str],
    layers: dict[str, Any],
) -> Tier:
    reason_en, reason_zh = GENERAL[tier]
    remedy_en, remedy_zh = ALLOWED[tier]
    for name in missing:
        root = name == "uid" and layers.get("uid") == SHARED_ROOT
        layer, why = ROOT if root else LAYERS[name], reasons.get(name, "")
        why = f" ({why})" if why else ""
        reason_en += f" {layer.missing[0]}{why}."
        reason_zh += f"{layer.missing[1]}{why.replace(' (', '（').replace(')', '）')}。"
        remedy_en += f" {layer.remedy[0]}"
        remedy_zh += layer.remedy[1]
    return Tier(tier, reason_en, reason_zh, remedy_en, remedy_zh, layers)


def evidence_tier(tier: str, layers: Mapping[str, Any] | None) -> Tier | None:
    """The tier in evidence; None for an unknown letter.

    Older evidence has no layers, so that only the general description is known.
    """
    if tier not in GENERAL:
        return None
    recorded = layers if isinstance(layers, Mapping) else None
    missing = lacking(recorded) if recorded is not None else []
    return in_words(tier, missing, {}, dict(recorded or {}))


def stored_tier(saved: Mapping[str, Any]) -> Tier | None:
    """A tier that was stored as `Tier._asdict()`; None where it is incomplete."""
    if not isinstance(saved.get("layers"), Mapping) or saved.get("tier") not in GENERAL:
        return None
    a, b, c, d = (str(saved.get(name, "")) for name in Tier._fields[1:-1])
    return Tier(saved["tier"], a, b, c, d, dict(saved["layers"]))


def layer_words(layers: Mapping[str, Any]) -> Pair:
    """The layers in use, in a line."""
    words = [str(layers["namespaces"])] if layers.get("namespaces") else []
    if layers.get("landlock"):
        words.append(f"Landlock {layers['landlock']}")
    if layers.get("seccomp"):
        words.append("seccomp")
    if layers.get("cgroup"):
        words.append(f"cgroup {layers['cgroup']}")
    en, zh = USERS.get(str(layers.get("uid")), ("", ""))
    return (
        " · ".join(filter(None, [*words, en])),
        " · ".join(filter(None, [*words, zh])),
    )


TIERS: Mapping[str, Tier] = {
    name: Tier(name, *GENERAL[name], *ALLOWED[name]) for name in ORDER
}
