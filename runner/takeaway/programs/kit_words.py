"""What a kit says, in both languages."""

from typing import Dict, Tuple

# name -> (English, Chinese)
TEXTS: Dict[str, Tuple[str, str]] = {
    "python": (
        "The kit needs Python 3.10 or newer; --python names the one with the torch to "
        "test.",
        "工具包需要 Python 3.10 或更新版本；要测试的 torch 可用 --python 指定解释器。",
    ),
    "changed": (
        "This copy is not what was made: {names} differs. Copy the kit again.",
        "此副本与制作时不符：{names} 已被改动。请重新复制工具包。",
    ),
    "no_torch": (
        "{python} cannot import torch: nothing was run. --python names another "
        "interpreter.",
        "{python} 无法导入 torch：未运行任何内容。可用 --python 指定其他解释器。",
    ),
    "gpu": (
        "GPU: {name}, capability {capability}, {memory_mib} MiB, driver {driver}, "
        "cuDNN {cudnn}",
        "GPU：{name}，计算能力 {capability}，{memory_mib} MiB，驱动 {driver}，"
        "cuDNN {cudnn}",
    ),
    "device": ("Device: {name} ({class})", "设备：{name}（{class}）"),
    "no_device": (
        "torch sees no {device} here: nothing is run.",
        "torch 在此看不到 {device}：不运行任何内容。",
    ),
    "no_gpu": (
        "torch sees no GPU here: what needs one is left out, the rest is run.",
        "torch 在此看不到 GPU：略过需要 GPU 的脚本，运行其余部分。",
    ),
    "made_for": (
        "This kit was made for torch {torch} and Python {python}: wheels of another "
        "Python stay unused.",
        "此工具包是为 torch {torch}、Python {python} 制作的：Python 版本不同的 wheel "
        "不会使用。",
    ),
    "done": (
        "Kept of {file} and not run again: {done}.",
        "保留 {file} 中的 {done} 个结果，不再重复运行。",
    ),
    "kept": (
        "Stays in {file} as it is, not asked for now or of another source: {kept}.",
        "{file} 中另有 {kept} 个结果不在本次范围内或来自其他版本的源码，原样保留。",
    ),
    "unseen": ("no result on this kind of device yet", "此类设备上尚无结果"),
    "decides": ("open questions: {decides}", "待定问题：{decides}"),
    "plan": (
        "To run: {count}, about {total}, in this order.",
        "共 {count} 个复现脚本，约 {total}，按上述顺序运行。",
    ),
    "too_long": (
        "Only {given} are given: what does not fit is left for --resume.",
        "时限只有 {given}：来不及运行的留待 --resume 继续。",
    ),
    "nothing": (
        "There is nothing left to run here.",
        "这里没有需要运行的内容。",
    ),
    "filled": (
        "{file} holds something already: go on from it with --resume {file}, or name "
        "another file.",
        "{file} 已有内容：用 --resume {file} 从中继续，或换一个文件名。",
    ),
    "no_results": (
        "{file} holds no results of a kit. Name another file.",
        "{file} 不是工具包的结果文件，请换一个文件名。",
    ),
    "elsewhere": (
        "{file} is of another machine or torch ({then}); here is {now}. Keep it, and "
        "name another file for this one.",
        "{file} 来自别的机器或 torch（{then}），而这里是 {now}。请保留该文件，"
        "并为本次运行另取文件名。",
    ),
    "left": (
        "Without a result so far: {left}. Start it again with --resume {file}",
        "还有 {left} 个没有结果。请加 --resume {file} 再次启动",
    ),
    "sweeps": (
        "Then, as far as time goes: {count} sweeps of parameters, at most {cells} "
        "cells, about {total}. --sweeps no leaves them out.",
        "如有剩余时间，再做 {count} 项参数扫描：最多 {cells} 格，约 {total}。"
        "--sweeps no 可略过。",
    ),
    "no_sweeps": (
        "Not asked for: {count} sweeps of parameters, at most {cells} cells, about "
        "{total}: --sweeps after does them too, as does a --budget-s that leaves time.",
        "未要求 {count} 项参数扫描（最多 {cells} 格，约 {total}）：加 --sweeps after，"
        "或 --budget-s 有剩余时间时进行。",
    ),
    "swept": (
        "{name}: bug in {bug} of {cells} cells",
        "{name}：{cells} 格中 {bug} 格出现故障",
    ),
    "unswept": (
        "{name}: not all cells yet, {cells} so far",
        "{name}：尚未完成，已有 {cells} 格",
    ),
    "sweeps_left": (
        "Sweeps without all of their cells: {left}. Start it again with "
        "--resume {file}",
        "还有 {left} 项扫描未完成。请加 --resume {file} 再次启动",
    ),
    "own": (
        "{file} is for you: a site takes no results of a repro on another device yet.",
        "{file} 供你自己使用：站点目前不接收复现脚本在其他设备上的结果。",
    ),
    "load": (
        "To load the answer on the site:\n"
        ".venv/bin/python manage.py load_evidence {file} --origin NAME",
        "在站点上导入结果：\n"
        ".venv/bin/python manage.py load_evidence {file} --origin NAME",
    ),
}


def of(lang: str) -> Dict[str, str]:
    return {name: texts[lang == "zh"] for name, texts in TEXTS.items()}


def period(seconds: float, lang: str) -> str:
    """ "40 s" or "12 min"."""
    if seconds < 90:
        return "%.0f 秒" % seconds if lang == "zh" else "%.0f s" % seconds
    return ("%.0f 分钟" if lang == "zh" else "%.0f min") % (seconds / 60)
