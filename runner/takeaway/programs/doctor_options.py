"""What the doctor can be asked on its command line."""

import argparse
import importlib
import os
import sys
from typing import Any, Dict, List

carried: Any = importlib.import_module("carried")

# Where a project names its torch.
REQUIREMENTS = ("requirements.txt", "pyproject.toml", "setup.py", "environment.yml")
MACHINE_S = 45
FLAGS = {
    "--cuda": "also run repros that need a GPU / 也运行 CUDA 脚本",
    "--quick": "verdicts only, without workarounds and variants / 只求结论",
    "--no-models": "leave out models of a mechanism, which judge no build / "
    "不运行机理模型",
}
Json = Dict[str, Any]


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=os.environ.get("DOESITNAN_PROG") or "doctor.py",
        description="Run every reviewed repro on the torch of this Python. "
        "Nothing is sent anywhere. / 在当前 Python 的 torch 上运行全部已审核的"
        "复现脚本，不上传任何内容。",
        epilog="Exit status: 1 a bug that is not by design was reproduced, 2 something "
        "ended without a verdict, 125 nothing applies here, 130 interrupted, else 0.",
    )
    add_common(parser, "--timeout-s")
    add_choices(parser)
    add_outputs(parser)
    return parser


def add_common(parser: argparse.ArgumentParser, limit: str) -> None:
    """What a kit can be asked, too; `limit` is the name that it gives the time."""
    parser.add_argument(
        "--record",
        action="append",
        metavar="ID",
        help="only this record, e.g. NAN-0002; repeatable / 只运行该记录",
    )
    parser.add_argument(
        limit,
        dest="timeout_s",
        type=float,
        metavar="S",
        help="seconds for all repros; those left get no verdict / 总时限（秒）",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="repros at a time / 并行数"
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="Python with the torch to test / 要测试的解释器",
    )
    carried.add_language(parser)
    parser.add_argument(
        "--list", action="store_true", help="only list what would run / 仅列出"
    )


def add_choices(parser: argparse.ArgumentParser) -> None:
    for flag, does in FLAGS.items():
        parser.add_argument(flag, action="store_true", help=does)
    parser.add_argument(
        "--machine",
        nargs="?",
        type=float,
        const=MACHINE_S,
        metavar="S",
        help="run no repro: test for %d seconds, or S, whether each device computes "
        "known answers; exit 1 if not / 不运行脚本：检验各设备的计算" % MACHINE_S,
    )


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """What is printed and written."""
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the results as JSON, to standard output without FILE; a file is "
        "written again after each repro / 输出 JSON",
    )
    parser.add_argument(
        "--sarif",
        metavar="FILE",
        help="write the bugs found as SARIF 2.1.0 / 输出 SARIF",
    )
    parser.add_argument(
        "--requirements",
        metavar="FILE",
        help="file whose line about torch SARIF points at; default: the first here of "
        "%s / SARIF 所指的依赖文件" % ", ".join(REQUIREMENTS),
    )


def read_options(manifest: Json, argv: List[str]) -> argparse.Namespace:
    parser = parser_of()
    options = parser.parse_args(argv)
    check_common(parser, options, manifest, "--timeout-s")
    if options.sarif and not options.requirements:
        here = [name for name in REQUIREMENTS if os.path.isfile(name)]
        options.requirements = here[0] if here else None
    if options.sarif and not os.path.isfile(options.requirements or ""):
        parser.error(
            "%s is not here: name the file for SARIF with --requirements"
            % (options.requirements or " or ".join(REQUIREMENTS))
        )
    return options


def check_common(
    parser: argparse.ArgumentParser, options: Any, manifest: Json, limit: str
) -> None:
    """Refuse what means nothing in any of the options of `add_common`."""
    known = {repro["record"] for repro in manifest["repros"]}
    options.record = [name.upper() for name in options.record or ()]
    unknown = sorted(set(options.record) - known)
    if unknown:
        parser.error(
            "no repro of %s here; --list shows what there is" % ", ".join(unknown)
        )
    if options.timeout_s is not None and not options.timeout_s > 0:
        parser.error("%s must be above 0" % limit)
    if not 1 <= options.jobs <= 64:
        parser.error("--jobs must be from 1 to 64")
