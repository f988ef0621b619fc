"""`doesitnan COMMAND`: which command it is, and what it is called with.

Each of `lookup`, `run`, `doctor`, `lint` and `bisect` is the program that a site
serves as one file, and reads its own arguments; its exit status is this one's.
"""

import os
import re
import subprocess
import sys
from importlib import import_module
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import carried, probe, pythons

# Neighbours in the wheel alone.
pipe: Any = import_module("doesitnan.pipe")
version: Any = import_module("doesitnan.version")

USAGE = 2
# With these a program says something of itself, for which no torch is needed.
OF_ITSELF = ("-h", "--help", "--list", "--source")
# Told here: the probe itself needs torch even for its help.
WATCHING = """usage: doesitnan watch [--capture DIR] [-m] [PYTHON] train.py [ARGUMENT…]

Run your training script and name the op that made the first NaN or Inf.
运行训练脚本，指出第一个 NaN 或 Inf 由哪个算子产生。

  --capture DIR  keep the shrunk call that made it there / 把缩小后的调用存入该文件夹
  -m             the script is named as a module / 以模块名给出脚本

The exit status is the script's own. / 退出码与脚本相同。
"""
# Not of a script: python_train.py.
PYTHON = re.compile(r"python[\d.]*t?(?:\.exe)?")
Arguments = List[str]


class Command(NamedTuple):
    run: Callable[[Arguments], int]
    en: str
    zh: str


def look_up(arguments: Arguments) -> int:
    """--env is about the Python with torch; a tool's own environment has none."""
    if "--env" in arguments:
        arguments = with_torch("lookup", arguments)
    sys.argv[1:] = arguments
    return int(pipe.main())


def run(arguments: Arguments) -> int:
    if any(text.endswith(".json") for text in arguments[:1]):
        return with_probe(of_capture("run", arguments), arguments)
    name, rest = repro_of("run", arguments)
    return carried.start(name, with_torch("run", rest))


def bisect(arguments: Arguments) -> int:
    if any(text.endswith(".json") for text in arguments[:1]):
        return with_probe(of_capture("bisect", arguments), [*arguments, "--bisect"])
    name, rest = repro_of("bisect", arguments)
    if not set(OF_ITSELF) & set(rest):
        if not rest or rest[0].startswith("-"):
            raise carried.Missing("name two releases A..B after it, such as 2.3..2.8")
        rest = ["--bisect-releases", *rest]
    return carried.start(name, rest)


def doctor(arguments: Arguments) -> int:
    return carried.start("doctor.py", with_torch("doctor", arguments))


def lint(arguments: Arguments) -> int:
    as_data = ["--format=json" if text == "--json" else text for text in arguments]
    return carried.start("lint.py", as_data)


def watch(arguments: Arguments) -> int:
    """`watch [OPTION…] [--] [python] train.py …`, under the Python that is named."""
    if arguments[:1] in ([], ["-h"], ["--help"]):
        sys.stdout.write(WATCHING)
        return 0 if arguments else USAGE
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    at = 0  # behind the options, as help shows it, or before them
    while arguments[at : at + 1] and arguments[at].startswith("-"):
        at += 2 if arguments[at] == "--capture" else 1
    name = os.path.basename(arguments[at]) if arguments[at:] else ""
    if PYTHON.fullmatch(name):
        python = arguments[at]
        arguments = arguments[:at] + arguments[at + 1 :]
    else:
        python = pythons.with_torch("watch")
    return with_probe(python, arguments)


def of_capture(command: str, arguments: Arguments) -> str:
    """One with torch, else the first that --python names. Raises pythons.NoTorch."""
    try:
        return pythons.with_torch(command)
    except pythons.NoTorch:
        for at, option in enumerate(arguments):
            name, _, path = option.partition("=")
            path = path or "".join(arguments[at + 1 : at + 2])
            if name == "--python" and pythons.has_torch(path):
                return path
        raise


def with_probe(python: str, arguments: Arguments) -> int:
    """nan_probe.py under a Python that has torch."""
    with carried.laid_out(probe.NAME) as path:
        return subprocess.call([python, path, *arguments])


def repro_of(command: str, arguments: Arguments) -> Tuple[str, Arguments]:
    """The carried file that the first argument names, and the other arguments.

    Without a record its help is that of any, without a title. Raises carried.Missing.
    """
    shown = "RECORD[/REPRO]"
    if arguments[:1] in (["-h"], ["--help"]):
        name = carried.names()[0]
        os.environ["DOESITNAN_ABOUT"] = "%s / %s" % COMMANDS[command][1:]
    elif not arguments or arguments[0].startswith("-"):
        raise carried.Missing(
            "name the record first: doesitnan %s NAN-0002 [OPTION…]" % command
        )
    else:
        shown = arguments[0]
        name, arguments = carried.repro(shown), arguments[1:]
    os.environ["DOESITNAN_PROG"] = "doesitnan %s %s" % (command, shown)
    return name, arguments


def with_torch(command: str, arguments: Arguments) -> Arguments:
    """The arguments with the Python that has torch, where they name none.

    Raises pythons.NoTorch.
    """
    if any(text in OF_ITSELF or text.startswith("--py") for text in arguments):
        return arguments
    return ["--python", pythons.with_torch(command), *arguments]


COMMANDS: Dict[str, Command] = {
    "lookup": Command(
        look_up,
        "known failures in a log (a file, or standard input)",
        "从日志（文件或标准输入）中找出已知故障",
    ),
    "run": Command(
        run,
        "run a record's repro, or a capture.json, on the torch of your Python",
        "在你自己的 Python 的 torch 上运行某条记录的复现脚本或 capture.json",
    ),
    "doctor": Command(
        doctor,
        "run every repro on that torch",
        "在该 torch 上运行全部复现脚本",
    ),
    "lint": Command(
        lint,
        "find traps of known failures in Python source",
        "在 Python 源码中查找已知故障的写法",
    ),
    "probe": Command(
        probe.main,
        "write nan_probe.py, which names the op of the first NaN",
        "取得 nan_probe.py：指出第一个 NaN 由哪个算子产生",
    ),
    "watch": Command(
        watch,
        "run an unchanged training script with the probe: doesitnan watch train.py",
        "用探针运行训练脚本，脚本无需改动：doesitnan watch train.py",
    ),
    "bisect": Command(
        bisect,
        "find the releases between which a bug appears or goes away: NAN-0009 2.3..2.8",
        "某条记录的缺陷在哪两个版本之间出现或消失：NAN-0009 2.3..2.8",
    ),
}


def overview() -> str:
    lang = "zh" if os.environ.get("LANG", "").startswith("zh") else "en"
    head = {
        "en": "Known training failures of PyTorch: look up, reproduce, avoid.",
        "zh": "已知的 PyTorch 训练故障：查询、复现、规避。",
    }
    foot = {
        "en": "`doesitnan COMMAND --help` lists options and exit statuses. Only lookup "
        "contacts a site:\nthe one in DOESITNAN_SITE.",
        "zh": "各命令的选项与退出码见 `doesitnan COMMAND --help`。"
        "站点由 DOESITNAN_SITE 指定；\n只有 lookup 需要站点。",
    }
    lines = ["usage: doesitnan COMMAND [OPTION…]", "", head[lang], ""]
    for name, command in COMMANDS.items():
        lines.append("  %-7s %s" % (name, getattr(command, lang)))
    return "\n".join([*lines, "", foot[lang]]) + "\n"


def main(argv: Optional[Arguments] = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0 if arguments else USAGE
    if arguments[0] == "--version":
        sys.stdout.write("doesitnan %s\n" % version.VERSION)
        return 0
    command = COMMANDS.get(arguments[0])
    if command is None:
        sys.stderr.write(
            "doesitnan: unknown command %r; known: %s\n"
            % (arguments[0], ", ".join(COMMANDS))
        )
        return USAGE
    return started(arguments[0], command, arguments[1:])


def started(name: str, command: Command, arguments: Arguments) -> int:
    """The command's exit status; what it lacks is said in a sentence."""
    os.environ["DOESITNAN_PROG"] = "doesitnan %s" % name
    try:
        return command.run(arguments)
    except (carried.Missing, pythons.NoTorch, pipe.Trouble, OSError) as error:
        sys.stderr.write("doesitnan %s: %s\n" % (name, error))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    return USAGE
