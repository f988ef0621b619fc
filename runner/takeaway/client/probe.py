"""`doesitnan probe`: nan_probe.py, to stand beside the program that trains."""

import argparse
import os
import sys
from typing import List

from . import carried

NAME = "nan_probe.py"
USE = (
    "%s: written. `python nan_probe.py train.py`, or in your program:\n"
    "    import nan_probe\n"
    "    with nan_probe.watch(model) as probe:\n"
    "        ...  # your loop\n"
    "    print(probe.report())\n"
)


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="doesitnan probe",
        description="Write nan_probe.py, which names the op that made the first NaN or "
        "Inf. / 写出 nan_probe.py：指出第一个 NaN 或 Inf 由哪个算子产生。",
        epilog="Exit status: 0 written, 2 not written. If doesitnan is installed "
        "beside torch, use `from doesitnan import nan_probe` without a file.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default=".",
        help="folder of your program; - prints the file / 目标文件夹，- 为打印",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace another file / 覆盖已有文件"
    )
    options = parser.parse_args(arguments)
    text = carried.text_of(NAME)
    if options.folder == "-":
        sys.stdout.write(text)
        return 0
    path = os.path.join(options.folder, NAME)
    if not options.force and os.path.exists(path) and is_other(path, text):
        sys.stderr.write(
            "doesitnan probe: %s is another file: --force replaces it\n" % path
        )
        return 2
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    sys.stdout.write(USE % path)
    return 0


def is_other(path: str, text: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read() != text
