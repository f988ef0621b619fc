"""`lint PATH…`: applies the rules of all records to files and folders.

The site's command, the hook and the file that users take away begin here, each with its
own rules. Exit status: 0 nothing was found, 1 something was, 2 wrong usage or a file
that could not be read.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import functools
import io
import os
import stat
import sys
import tokenize
from typing import Any, Dict, Iterator, List, Sequence

from kb.rules import baseline
from kb.rules.cache import Cache, usual_folder
from kb.rules.findings import MOST_CHARS, SEVERITIES, Unreadable, find, lines_of
from kb.rules.formats import WRITERS, Checked
from kb.rules.patterns import Rule
from kb.rules.settings import Settings, WrongUse, check_records, read_settings

NONE, FOUND, WRONG = 0, 1, 2
# With fewer files starting other processes takes longer than it saves.
FEW_FILES = 60
SKIPPED = ("__pycache__", "node_modules", "site-packages", "tests", "test")
# What only tests run, nobody trains; named itself it is read.
TESTS = ("test_*.py", "*_test.py", "conftest.py")
Json = Dict[str, Any]
HELP = {
    "paths": "files and folders; - is standard input / 文件和文件夹；- 为标准输入",
    "format": "of the output / 输出格式",
    "output": "write the output there / 写入文件",
    "select": "only these records: NAN-0015,NAN-0016 / 仅查这些记录",
    "ignore": "all but these records / 忽略这些记录",
    "exclude": "skip these paths: a,b/*.py / 跳过这些路径",
    "stdin-filename": "name of the file that - stands for / 标准输入的文件名",
    "baseline": "report only what is not in this file / 只报告基线之外的",
    "write-baseline": "write all findings of today there / 写入基线文件",
    "cache-dir": "where findings are kept / 缓存目录",
    "no-cache": "read every file again / 不用缓存",
    "severity": "at least this severe / 最低严重程度",
    "config": "your pyproject.toml / 指定 pyproject.toml",
    "list": "only list the rules / 仅列出规则",
    "jobs": "processes at a time / 并行进程数",
    "lang": "language of the output / 输出语言",
}


def parser_of(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Look for traps of known training failures in Python source. "
        "Nothing is run or sent. / 在 Python 源码中查找已知训练故障的写法，"
        "不运行、不上传。",
        epilog="Exit status: 0 nothing found, 1 something found, "
        "2 wrong usage or a file that could not be read.",
    )
    add = functools.partial(add_to, parser)
    add("paths", nargs="*", metavar="PATH")
    add("--format", choices=list(WRITERS), default="text")
    add("--output", metavar="FILE")
    add("--select", metavar="IDS")
    add("--ignore", metavar="IDS")
    add("--exclude", metavar="PATTERNS")
    add("--stdin-filename", metavar="NAME")
    add("--baseline", metavar="FILE")
    add("--write-baseline", metavar="FILE")
    add("--cache-dir", metavar="FOLDER", default=usual_folder())
    add("--no-cache", action="store_true")
    add("--severity", choices=SEVERITIES)
    add("--config", metavar="FILE")
    add("--list", action="store_true")
    add("--jobs", type=int, default=0, metavar="N")
    add("--lang", choices=("en", "zh"), default=language())
    return parser


def add_to(parser: argparse.ArgumentParser, name: str, **options: Any) -> None:
    parser.add_argument(name, help=HELP[name.strip("-")], **options)


def language() -> str:
    return "zh" if os.environ.get("LANG", "").startswith("zh") else "en"


def main(rules: List[Json], argv: Sequence[str], prog: str = "lint.py") -> int:
    """Raises SystemExit(2), as argparse does, for arguments that it does not know."""
    parser = parser_of(prog)
    options = parser.parse_args(argv)
    try:
        settings = chosen(options)
        ruled = {rule["record"] for rule in rules}
        if unknown := sorted({*(settings.select or ())} - ruled):
            raise WrongUse("no rule is of %s; --list shows them" % ", ".join(unknown))
        if options.list:
            every = settings._replace(severity=settings.severity or "note")
            wanted = [x for x in rules if every.wants(x["record"], x["severity"])]
            sys.stdout.write(listing(wanted, options.lang))
            return NONE
        if not options.paths:
            raise WrongUse("name at least one file or folder")
        return check(rules, settings, options)
    except WrongUse as error:
        sys.stderr.write("%s: %s\n" % (prog, error))
        return WRONG


def chosen(options: argparse.Namespace) -> Settings:
    """The project's settings, and what the command line says instead."""
    first = next((path for path in options.paths if path != "-"), "")
    first = first or options.stdin_filename or "."
    folder = first if os.path.isdir(first) else os.path.dirname(first) or "."
    settings = read_settings(options.config, folder)
    for name in ("select", "ignore"):
        given = getattr(options, name)
        if given is not None:
            names = [part.strip() for part in given.split(",") if part.strip()]
            check_records(names)
            both = {"select": settings.select, "ignore": settings.ignore, name: names}
            settings = settings._replace(select=both["select"], ignore=both["ignore"])
    if options.severity:
        settings = settings._replace(severity=options.severity)
    if options.exclude:
        more = [part.strip() for part in options.exclude.split(",") if part.strip()]
        settings = settings._replace(exclude=[*settings.exclude, *more])
    return settings


def listing(rules: List[Json], lang: str) -> str:
    lines = [
        "%s %s %s: %s"
        % (rule["record"], rule["severity"], rule["name"], rule["message"][lang])
        for rule in rules
    ]
    return "".join(line + "\n" for line in lines)


def check(rules: List[Json], settings: Settings, options: argparse.Namespace) -> int:
    old = baseline.read(options.baseline) if options.baseline else None
    files = found_in(rules, settings, options)
    if options.write_baseline:
        save(options.write_baseline, baseline.written(files))
        return conclude(files, NONE)
    if old is not None:
        files = baseline.without(files, old)
    text = WRITERS[options.format](files, options.lang)
    if options.output:
        save(options.output, text)
    else:
        sys.stdout.write(text)
    return conclude(files, FOUND if any(file.findings for file in files) else NONE)


def found_in(
    rules: List[Json], settings: Settings, options: argparse.Namespace
) -> List[Checked]:
    """Each file with those findings that the settings want."""
    paths = list(files_of(options.paths, settings.exclude))
    if options.stdin_filename and is_excluded(options.stdin_filename, settings.exclude):
        paths = [path for path in paths if path != "-"]
    cache = "" if options.no_cache else options.cache_dir
    return [
        file._replace(
            path=options.stdin_filename or "-" if file.path == "-" else file.path,
            findings=[
                one
                for one in file.findings
                if settings.wants(one.record, one.rule["severity"])
            ],
        )
        for file in read_all(paths, rules, options.jobs, cache)
    ]


def save(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise WrongUse("%s: %s" % (path, error)) from None


def conclude(files: Sequence[Checked], status: int) -> int:
    """Tells what was not read, and counts; the exit status where all was read."""
    unread = [file for file in files if file.problem]
    for file in unread:
        sys.stderr.write("%s: not read: %s\n" % (file.path, file.problem))
    found = sum(len(file.findings) for file in files)
    sys.stderr.write("findings: %d, files: %d\n" % (found, len(files)))
    return WRONG if unread else status


# --- files --------------------------------------------------------------------------
def files_of(paths: Sequence[str], exclude: Sequence[str]) -> Iterator[str]:
    """Each file once; of folders those that end in .py, and what cannot be listed."""
    seen = set()
    for path in paths:
        if os.path.isdir(path):
            found = below(path, exclude)
        else:
            is_out = path != "-" and is_excluded(path, exclude)
            found = iter([] if is_out else [path])
        for one in found:
            if one not in seen:
                seen.add(one)
                yield one


def below(folder: str, exclude: Sequence[str]) -> Iterator[str]:
    closed: List[OSError] = []
    for here, folders, names in os.walk(folder, onerror=closed.append):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in SKIPPED
            and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
            and not is_excluded(os.path.join(here, name), exclude)
        )
        for name in sorted(names):
            path = os.path.join(here, name)
            if name.endswith(".py") and not is_excluded(path, [*TESTS, *exclude]):
                yield path
    yield from (str(error.filename) for error in closed)


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern means the path or a folder that it lies in."""
    parts = os.path.normpath(path).replace(os.sep, "/").split("/")
    ways = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatch(way, pattern) or fnmatch.fnmatch(way, "*/" + pattern)
        for pattern in (pattern.rstrip("/") for pattern in patterns)
        for way in ways
    )


# --- reading ------------------------------------------------------------------------
COMPILED: List[Rule] = []
CACHES: List[Cache] = []


def compile_rules(rules: List[Json], cache: str) -> None:
    COMPILED[:] = [Rule(rule) for rule in rules]
    CACHES[:] = [Cache(cache, rules)]


def read_all(
    paths: List[str], rules: List[Json], jobs: int, cache: str
) -> List[Checked]:
    """Every file, by several processes where there are many."""
    count = jobs or min(os.cpu_count() or 1, 8)
    if count < 2 or len(paths) < FEW_FILES:
        compile_rules(rules, cache)
        return [read_one(path) for path in paths]
    # Its folder is there before several use it.
    Cache(cache, rules)
    with concurrent.futures.ProcessPoolExecutor(
        count, initializer=compile_rules, initargs=(rules, cache)
    ) as pool:
        return list(pool.map(read_one, paths, chunksize=8))


def read_one(path: str) -> Checked:
    try:
        source = source_of(path)
        beside = os.path.join(os.path.dirname(path), "__init__.py")
        is_alone = path == "-" or not os.path.exists(beside)
        key = source if is_alone else source + "\0"
        findings = CACHES[0].get(key)
        if findings is None:
            findings = find(source, COMPILED, is_alone=is_alone)
            CACHES[0].put(key, findings)
    except (OSError, Unreadable, UnicodeError, SyntaxError) as error:
        text = getattr(error, "strerror", "") or str(error)
        return Checked(path, [], " ".join(text.split()))
    return Checked(path, findings, "", lines_of(source) if findings else ())


def source_of(path: str) -> str:
    """The text in the encoding that its first lines name. Raises what reading does."""
    if path == "-":
        return sys.stdin.read(MOST_CHARS + 1)
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        os.listdir(path)  # The walk could not; this tells why.
    # A pipe or a device has no end.
    if not stat.S_ISREG(mode):
        raise Unreadable("it is no regular file")
    with open(path, "rb") as file:
        # UTF-8 has four bytes a character at most.
        data = file.read(4 * MOST_CHARS + 1)
    if len(data) > 4 * MOST_CHARS:
        raise Unreadable("it has more than %d characters" % MOST_CHARS)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    try:
        return data.decode(encoding)
    except LookupError as error:
        raise Unreadable(str(error)) from None
