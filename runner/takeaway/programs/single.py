"""`python repro.py`: the one repro that this file carries, run and judged.

Exit status: 0 no bug seen, 1 bug, 125 not applicable, 2 no result or wrong
usage. With --bisect as `git bisect run` reads it: 0 good, 1 bad, 125 skip, 255 stop.
With --bisect-releases: 0 found, 2 else.
"""

import argparse
import importlib
import os
import sys
from typing import Any, List, Sequence

carried: Any = importlib.import_module("carried")
harness: Any = importlib.import_module("portable.harness")
releases: Any = importlib.import_module("releases")

SKIP = 125
STOP = 255  # Above 127 git stops; 2 it would take for "bad".
RELEASES = "with --bisect-releases: "
FLAGS = {
    "--source": "print the reviewed source / 打印源码",
    "--bisect": "use the exit status of git bisect run / 按 git bisect run 的约定退出",
    "--find-fix": "with --bisect: find the commit that fixed the bug / 查找修复提交",
    "--yes": RELEASES + "do not ask before downloading / 下载前不询问",
    "--keep": RELEASES + "keep what was installed / 保留已安装的环境",
}


class Usage(Exception):
    """A command line that cannot be meant."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        raise Usage(message)


def parser_of(repro: Any) -> Parser:
    parser = Parser(
        prog=os.environ.get("DOESITNAN_PROG")
        or "%s-%s.py" % (repro["record"], repro["name"]),
        # A client that was given no record has no title to show.
        description=os.environ.get("DOESITNAN_ABOUT")
        or "%(en)s / %(zh)s" % repro["title"],
        epilog="Exit status: 0 no bug seen, 1 bug, 125 not applicable, 2 no result. "
        "With --bisect: 0 no bug seen, 1 bug, 125 skip, 255 stop. With "
        "--bisect-releases: 0 found, 2 not found.",
    )
    add_options(parser)
    for flag, does in FLAGS.items():
        parser.add_argument(flag, action="store_true", help=does)
    return parser


def add_options(parser: Parser) -> None:
    harness.add_options(parser)
    carried.add_language(parser)
    parser.add_argument(
        "--bisect-releases",
        metavar="A..B",
        help="find the release in which the bug appeared or went away, such as in "
        "2.3..2.8; installs releases in a temporary folder; --json FILE continues "
        "an earlier search / 在各 torch 版本间二分查找",
    )


def read_options(repro: Any, argv: Sequence[str]) -> argparse.Namespace:
    options = parser_of(repro).parse_args(argv)
    if options.find_fix and not options.bisect:
        raise Usage("--find-fix belongs to --bisect")
    if options.bisect and options.bisect_releases:
        raise Usage("--bisect is for git, --bisect-releases for releases: name one")
    if (options.yes or options.keep) and not options.bisect_releases:
        raise Usage("--yes and --keep belong to --bisect-releases")
    return options


def bisect_status(verdict: str, find_fix: bool) -> int:
    """Old is 0 and new is 1; whatever is no verdict on the bug is skipped.

    Looking for the fix, the bug is the old state: `git bisect start --term-old=broken
    --term-new=fixed`.
    """
    present, absent = (0, 1) if find_fix else (1, 0)
    return {"bug_present": present, "bug_absent": absent}.get(verdict, SKIP)


def main(folder: str, argv: List[str]) -> int:
    harness.speak_utf8()
    manifest = carried.read_manifest(folder)
    (repro,) = manifest["repros"]
    try:
        options = read_options(repro, argv)
        if options.source:
            sys.stdout.write(carried.source_of(folder, repro))
            return 0
        if options.bisect_releases:
            return int(releases.bisect(folder, repro, options))
        return report(folder, manifest, repro, options)
    except Usage as error:
        carried.tell("%s" % error)
    except (OSError, harness.ContractError) as error:
        carried.tell("%s-%s: %s" % (repro["record"], repro["name"], error))
    return STOP if "--bisect" in argv else 2


def report(folder: str, manifest: Any, repro: Any, options: Any) -> int:
    if options.json not in (None, "-"):
        open(options.json, "a").close()  # Fail before the run, not after it.
    header = harness.parse_header(carried.source_of(folder, repro))
    evidence = carried.run(
        folder,
        repro,
        options.python,
        options.trials,
        harness.read_settings(header, options.set),
        on_event=progress,
    )
    text = harness.dumps(evidence, indent=2)
    if options.json == "-":
        carried.say(text)
    else:
        if options.json:
            write(options.json, text)
        summarise(manifest, repro, evidence, options.lang)
    verdict = evidence["verdict"]
    if not options.bisect:
        return int(harness.EXIT_CODES[verdict])
    status = bisect_status(verdict, options.find_fix)
    carried.tell("bisect: exit %d (%s)" % (status, verdict))
    return status


def progress(phase: str, text: str) -> None:
    """A line for each check, once it has ended."""
    show = carried.follow if text == "started" else carried.tell
    show("%s · %s" % (phase, text))


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def summarise(manifest: Any, repro: Any, evidence: Any, lang: str) -> None:
    words = manifest["words"]
    carried.say("%s · %s" % (repro["record"], repro["title"][lang]))
    carried.say(dict(zip(carried.LANGS, harness.sentences(evidence)))[lang])
    carried.say("  " + harness.sentence(words, evidence, lang))
    carried.workaround_lines(
        words,
        evidence,
        lang,
        repro["titles"],
        code=repro["code"],
        costs=repro["costs"],
    )
    for line in harness.last_output(evidence):
        carried.say(line)
    upstream = {"en": "upstream: ", "zh": "上游："}[lang]
    carried.say(upstream + str(words["upstream"][repro["upstream"]][lang]))
    if repro["page"]:
        carried.say(repro["page"])
    carried.say(evidence["digest"])
