"""`doctor.py --machine`: what `portable/known_answers.py` found, in words.

Exit status: 1 an answer was wrong, 2 the checks did not end, else 0.
"""

import collections
import importlib
import json
import os
import subprocess
from typing import Any, Dict, List

carried: Any = importlib.import_module("carried")

RIGHT = {
    "en": "%(device)s %(check)s: right %(repeated)d times (%(dtypes)s)",
    "zh": "%(device)s %(check)s：%(repeated)d 次全部正确（%(dtypes)s）",
}
WRONG = {
    "en": "%(device)s %(check)s %(dtype)s: wrong %(faults)d times of %(repeated)d; "
    "first in %(wrong)d of %(of)d numbers: at %(at)s %(got)d, not %(expected)d",
    "zh": "%(device)s %(check)s %(dtype)s：%(repeated)d 次中有 %(faults)d 次出错；"
    "首次有 %(wrong)d/%(of)d 个数不对：%(at)s 处是 %(got)d，应为 %(expected)d",
}
CLEAN = {
    "en": "No fault in %d repetitions. A fault that is rare or needs heat can be "
    "missed: give it more seconds while the machine trains.",
    "zh": "%d 次重复中没有错误。罕见或只在高温下出现的故障可能漏掉："
    "请在训练时用更长的秒数再测。",
}
FAULTY = {
    "en": "This machine computes wrong numbers: suspect the card, its memory, power or "
    "driver before your model.",
    "zh": "这台机器算错了：先怀疑显卡、显存、供电或驱动，再怀疑模型。",
}
ENDED = {
    "en": "The checks ended with status %d before they were done.",
    "zh": "检查没有做完，以状态 %d 结束。",
}


def examine(folder: str, options: Any) -> int:
    """Run the checks under the Python that has the torch, and tell what they found."""
    path = os.path.join(folder, "portable", "known_answers.py")
    command = [options.python, path, str(options.machine)]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8")  # noqa: S603
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if not rows:
        carried.tell(ENDED[options.lang] % done.returncode)
        return 2
    for line in lines(rows, options.lang):
        carried.say(line)
    return done.returncode


def lines(rows: List[Dict[str, Any]], lang: str) -> List[str]:
    """What was right, in a line for each device and check, then what was wrong."""
    right: Dict[Any, List[Any]] = collections.OrderedDict()
    for row in rows:
        if not row["faults"]:
            right.setdefault((row["device"], row["check"]), []).append(row)
    told = [
        RIGHT[lang]
        % {
            "device": device,
            "check": check,
            "repeated": sum(row["repeated"] for row in same),
            "dtypes": ", ".join(row["dtype"] for row in same),
        }
        for (device, check), same in right.items()
    ]
    faulty = [row for row in rows if row["faults"]]
    told += [WRONG[lang] % dict(row["first"], **row) for row in faulty]
    return [
        *told,
        FAULTY[lang] if faulty else CLEAN[lang] % sum(row["repeated"] for row in rows),
    ]
