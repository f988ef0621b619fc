"""`python nan_probe.py train.py ARGUMENTS`: watches an unchanged training script."""

from __future__ import annotations

import argparse
import functools
import os
import runpy
import sys
from multiprocessing.process import BaseProcess

from . import captures
from .catching import HOME, folder_above
from .reports import merged
from .session import Session
from .trainers import Finder

OTHERS = ("multiprocessing.", "concurrent.", "torch.utils.data.")
USE = """python nan_probe.py [options] train.py [arguments of train.py]
       python nan_probe.py CAPTURE [--python PYTHON ...] [--markdown]
       python nan_probe.py --merge LOG [LOG ...]   # the reports of several ranks"""


def parser():
    found = argparse.ArgumentParser(
        prog="nan_probe",
        usage=USE,
        description="Runs a training script and names the op that made the first NaN "
        "or Inf. / 运行训练脚本，指出第一个 NaN 或 Inf 由哪个算子产生。",
        epilog="The exit status is the script's own. / 退出码与脚本相同。",
    )
    found.add_argument(
        "--capture",
        metavar="DIR",
        help="keep the shrunk call that made it there / 把缩小后的调用存入该文件夹",
    )
    found.add_argument(
        "-m",
        dest="module",
        action="store_true",
        help="the script is named as a module / 以模块名给出脚本",
    )
    found.add_argument("script", help="your training script / 你的训练脚本")
    found.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="its arguments / 脚本的参数"
    )
    return found


def main(arguments):
    if arguments[:1] == ["--shrink"]:
        return captures.shrink(*arguments[1:])
    first = arguments[0] if arguments else ""
    if first.endswith(".json") or os.path.isfile(os.path.join(first, "capture.json")):
        return captures.main(arguments)
    if arguments[:1] == ["--merge"]:
        return merge(arguments[1:])
    options = parser().parse_args(arguments)
    session = Session(capture=options.capture)
    follow(session)
    sys.meta_path.insert(0, Finder())
    sys.argv = [options.script, *options.arguments]
    try:
        with session:
            start(options)
    finally:
        if not session.found and not session.gave_way:
            sys.stderr.write(session.report() + "\n")
    return 0


class Watched:
    """What a process runs that the script starts."""

    def __init__(self, target, capture):
        self.target, self.capture = target, capture

    def __call__(self, *args, **named):
        with Session(capture=self.capture):
            return self.target(*args, **named)


def follow(session):
    """Processes of multiprocessing are watched, but for those that read data."""
    if os.path.isfile(HOME) and os.path.basename(HOME) != f"{__package__}.py":
        return  # under another name a process does not find it
    sys.path.append(folder_above())
    start = BaseProcess.start

    @functools.wraps(start)
    def watched(process):
        target = process._target
        if not getattr(target, "__module__", OTHERS[0]).startswith(OTHERS):
            process._target = Watched(target, session.capture)
            session.started += 1
        return start(process)

    BaseProcess.start = watched


def merge(paths):
    """One report of the logs of several ranks; 2 where they hold none."""
    logs = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            logs.append(file.read())
    report = merged(logs)
    sys.stderr.write("" if report else "these logs hold no report of a finding\n")
    print(report or "", end="\n" if report else "")
    return 0 if report else 2


def start(options):
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(options.script))
        runpy.run_path(options.script, run_name="__main__")
