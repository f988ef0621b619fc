"""The texts of a kit, in both languages."""

from typing import Dict, Tuple

# name -> (English, Chinese)
TEXTS: Dict[str, Tuple[str, str]] = {
    "python": (
        "The kit needs Python 3.10 or newer; --python names the one with the torch to "
        "test.",
        "工具包需要 Python 3.10 或更新版本；要测试的 torch 可用 --python 指定解释器。",
    ),
    "changed": (
        "This copy is damaged: {names} differs. Copy the kit again.",
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
        "This kit was made for torch {torch} and Python {python}: its wheels for "
        "another Python stay unused.",
        "此工具包是为 torch {torch}、Python {python} 制作的：Python 版本不同的 wheel "
        "不会使用。",
    ),
    "done": (
        "Already in {file}, not run again: {done}.",
        "保留 {file} 中的 {done} 个结果，不再重复运行。",
    ),
    "kept": (
        "Left unchanged in {file}, not requested now or of another source: {kept}.",
        "{file} 中另有 {kept} 个结果不在本次范围内或来自其他版本的源码，原样保留。",
    ),
    "unseen": ("no result on this kind of device yet", "此类设备上尚无结果"),
    "decides": ("open questions: {decides}", "待定问题：{decides}"),
    "plan": (
        "To run: {count}, about {total}, in this order.",
        "共 {count} 个复现脚本，约 {total}，按上述顺序运行。",
    ),
    "too_long": (
        "The limit is {given}: what does not fit is left for --resume.",
        "时限只有 {given}：来不及运行的留待 --resume 继续。",
    ),
    "nothing": (
        "There is nothing left to run here.",
        "这里没有需要运行的内容。",
    ),
    "filled": (
        "{file} is not empty: continue it with --resume {file}, or name another file.",
        "{file} 已有内容：用 --resume {file} 从中继续，或换一个文件名。",
    ),
    "no_results": (
        "{file} holds no results of a kit. Name another file.",
        "{file} 不是工具包的结果文件，请换一个文件名。",
    ),
    "elsewhere": (
        "{file} is from another machine or torch ({then}); this is {now}. Keep it, and "
        "name another file for this one.",
        "{file} 来自别的机器或 torch（{then}），而这里是 {now}。请保留该文件，"
        "并为本次运行另取文件名。",
    ),
    "left": (
        "Without a result so far: {left}. Start the kit again with --resume {file}",
        "还有 {left} 个没有结果。请加 --resume {file} 再次启动",
    ),
    "sweeps": (
        "Sweeps of parameters, if time is left: {count}, with at most {cells} cells, "
        "about {total}. --sweeps no leaves them out.",
        "如有剩余时间，再做 {count} 项参数扫描：最多 {cells} 格，约 {total}。"
        "--sweeps no 可略过。",
    ),
    "no_sweeps": (
        "Sweeps of parameters left out: {count}, with at most {cells} cells, about "
        "{total}. To run them, add --sweeps after, or a --budget-s that leaves time.",
        "略过 {count} 项参数扫描（最多 {cells} 格，约 {total}）：如需运行，加 "
        "--sweeps after，或给 --budget-s 留出时间。",
    ),
    "swept": (
        "{name}: bug in {bug} of {cells} cells",
        "{name}：{cells} 格中 {bug} 格出现故障",
    ),
    "unswept": (
        "{name}: unfinished, cells so far: {cells}",
        "{name}：尚未完成，已有 {cells} 格",
    ),
    "sweeps_left": (
        "Unfinished sweeps: {left}. Start the kit again with --resume {file}",
        "还有 {left} 项扫描未完成。请加 --resume {file} 再次启动",
    ),
    "load": (
        "To load the results on the site:\n"
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
