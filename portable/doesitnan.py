#!/usr/bin/env python3
"""Look up the log of a training run in "Does it NaN?", from a pipe.

    python train.py 2>&1 | python doesitnan.py --site URL
    python doesitnan.py --site URL --env train.log
    python doesitnan.py --dry-run train.log      prints what would be sent

It masks paths, addresses, user and host names and keys on this machine, then sends only
the lines that tell of a failure. Exit status: 0 a known issue matches, 3 only possible
ones, 1 none, 2 wrong usage or no answer.

把训练日志接到管道里查询已知问题。只发送说明出错的行，且先在本机遮盖路径、地址、用户名、
主机名和密钥。退出码：0 有匹配，3 仅有可能的匹配，1 没有，2 用法错误或无应答。

Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import getpass
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Iterator, List, Optional

from portable.answer import markdown, plain, report, say, word
from portable.masking import (
    ASKED_PACKAGES,
    LINE_CHARS,
    Line,
    Masks,
    kept_lines,
    key_lines,
    within,
)

SITE = ""
MATCH, NONE, TROUBLE, POSSIBLE = 0, 1, 2, 3
STATUS = {"exact": MATCH, "match": MATCH, "possible": POSSIBLE, "none": NONE}
TIMEOUT_S = 30
ANSWER_BYTES = 4 * 1024 * 1024


def own_names() -> List[str]:
    """User and host names of this machine."""
    found = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")]
    # A container's user need not have a name.
    with contextlib.suppress(KeyError, OSError, ImportError):
        found.append(getpass.getuser())
    host = socket.gethostname()
    return [*found, host, host.partition(".")[0]]


# --- what is installed ----------------------------------------


# Run by another Python: this file is read, and its folder is not searched for modules.
OF_ANOTHER = (
    "import runpy, sys; sys.path[:] = filter(None, sys.path); "
    "sys.stdout.write(runpy.run_path(sys.argv[1])['installed']())"
)


def installed() -> str:
    """Versions of the packages that records speak of, and the GPUs."""
    from importlib import metadata  # Python 3.8

    lines = []
    for name in ASKED_PACKAGES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = torch_version() if name == "torch" else ""
        if version:
            lines.append("%s==%s" % (name, version))
    return "\n".join(lines + gpu_lines())


def installed_for(python: str) -> str:
    """What `installed` says under another Python. Raises Trouble."""
    call = [python, "-B", "-c", OF_ANOTHER, os.path.abspath(__file__)]
    try:
        done = subprocess.run(
            call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Trouble("%s does not tell its packages: %s" % (python, error)) from error
    return done.stdout.decode("utf-8", "replace")


def torch_version() -> str:
    """Of a torch that no package manager of Python knows, without importing it."""
    import importlib.util

    spec = importlib.util.find_spec("torch")
    if not spec or not spec.origin:
        return ""
    try:
        with open(
            os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8"
        ) as file:
            found = re.search(r"__version__ = ['\"]([\w.+-]+)", file.read())
    except OSError:
        return ""
    return found.group(1) if found else ""


def gpu_lines() -> List[str]:
    tool = shutil.which("nvidia-smi")
    if not tool:
        return []
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, stdout=subprocess.PIPE, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    names = done.stdout.decode("utf-8", "replace").splitlines()
    return ["GPU %d: %s" % (at, name.strip()) for at, name in enumerate(names)]


# --- the site ----------------------------------------
class Trouble(Exception):
    """No answer; the text says why and what to do."""


def default_site() -> str:
    return os.environ.get("DOESITNAN_SITE") or SITE


def checked_site(site: str) -> str:
    """The address without a slash at its end. Raises Trouble for what is none."""
    if not site.startswith(("https://", "http://")):
        raise Trouble("name the site: --site https://… or DOESITNAN_SITE")
    return site.rstrip("/")


def token_of(site: str) -> str:
    """DOESITNAN_TOKEN for the site that DOESITNAN_SITE names, and "" for any other."""
    if os.environ.get("DOESITNAN_SITE", "").rstrip("/") != site:
        return ""
    found = os.environ.get("DOESITNAN_TOKEN", "")
    if found and not re.fullmatch("[!-~]+", found):
        raise Trouble("DOESITNAN_TOKEN is not a token: it has spaces or other signs")
    return found


def ask(url: str, body: Optional[Dict[str, Any]] = None, site: str = "") -> Any:
    """The site's answer. `site`: whose token goes with it. Raises Trouble."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    token = token_of(site) if site else ""
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        if token:
            # Not for where a redirect leads.
            request.add_unredirected_header("Authorization", "Bearer " + token)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(ANSWER_BYTES).decode("utf-8"))
    except urllib.error.HTTPError as error:
        raise Trouble("%s: %s" % (url, problem_of(error))) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        text = "%s: no answer: %s; is this the address of the site, and does it run?"
        raise Trouble(text % (url, error)) from error


def problem_of(error: urllib.error.HTTPError) -> str:
    """What the site says is wrong (RFC 9457)."""
    try:
        told = json.loads(error.read(ANSWER_BYTES).decode("utf-8"))
        title, detail = told["title"], told["detail"]
        return plain(detail if detail.startswith(title) else title + ". " + detail)
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return "HTTP %d; is this the address of the site?" % error.code


def reproduce(site: str, record: str, language: str) -> None:
    """Tell how to run the record's repros here; without an answer, why not."""
    lines = [word("reproduce", language)]
    try:
        url = "%s/api/v1/records/%s" % (site, urllib.parse.quote(record))
        repros = ask(url, site=site)["repros"]
    except Trouble as error:
        tell(str(error))
        return
    for repro in repros:
        url = urllib.parse.urljoin(site, plain(repro["url"]))
        if re.fullmatch(r"[\w:/.%-]+", url):
            name = "%s-%s.py" % (plain(record), plain(repro["name"]))
            lines.append("curl -fsS %s -o %s && python %s" % (url, name, name))
            lines.append("uv run %s" % url)
    if lines[1:]:
        say("\n  ".join(lines))


# --- command line ----------------------------------------
def tell(text: str) -> None:
    sys.stderr.write("doesitnan: %s\n" % text)


def lines_of(stream: Any, echo: bool) -> Iterator[Line]:
    """Numbered lines of a byte stream; what a bar overwrote is apart on its line."""
    # What a shell of Windows writes to a file.
    is_wide = stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    decoder = codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8")("replace")
    rest, number = "", 0
    for data in iter(lambda: stream.read1(65536), b""):
        text = decoder.decode(data)
        if echo:
            sys.stdout.write(text)
            sys.stdout.flush()
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            number += 1
            for piece in pieces(line):
                yield number, piece
        rest = rest[-16 * LINE_CHARS :]
    for piece in pieces(rest) if rest else ():
        yield number + 1, piece


def pieces(line: str) -> List[str]:
    found = [piece for piece in line.split("\r") if piece.strip()]
    return [piece[:LINE_CHARS] for piece in found[:20] + found[20:][-200:]] or [""]


FLAGS = {
    "--env": "also send package versions / 附上软件包版本",
    "--dry-run": "print what would be sent, send nothing / 只显示将要发送的内容",
    "--all": "send every line, masked, not only the relevant ones / 发送全部行",
    "--json": "print the site's answer / 输出 JSON",
    "--markdown": "print Markdown for an issue, post nothing / 输出 Markdown",
    "--no-echo": "do not repeat the log / 不回显日志",
}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=os.environ.get("DOESITNAN_PROG") or "doesitnan.py",
        description="Name the known PyTorch training failures in a log. / "
        "从日志中找出已知的 PyTorch 训练故障。",
        epilog="Exit status: 0 a match, 3 only possible matches, 1 none, 2 error.",
    )
    add = parser.add_argument
    add(
        "log",
        nargs="?",
        default="-",
        metavar="FILE",
        help="the log; default: standard input / 日志；默认为标准输入",
    )
    add(
        "--site",
        default=default_site(),
        metavar="URL",
        help="address of the site; default: $DOESITNAN_SITE / 站点地址",
    )
    add(
        "--python",
        metavar="PATH",
        help="Python whose packages --env sends; default: this one / --env 所读的 "
        "Python",
    )
    add(
        "--lang",
        choices=["en", "zh"],
        default="zh" if os.environ.get("LANG", "").startswith("zh") else "en",
        help="language of the output / 输出语言",
    )
    for flag, does in FLAGS.items():
        add(flag, action="store_true", help=does)
    return parser


def read_log(options: argparse.Namespace) -> List[Line]:
    if options.log != "-":
        with open(options.log, "rb") as file:
            return kept_lines(lines_of(file, False))
    prints = options.json or options.markdown or options.dry_run
    quiet = options.no_echo or prints
    return kept_lines(lines_of(sys.stdin.buffer, not quiet))


def run(options: argparse.Namespace) -> int:
    site = options.site if options.dry_run else checked_site(options.site)
    masks = Masks(own_names())
    kept = read_log(options)
    telling = kept if options.all else key_lines(kept)
    if kept and not telling:
        tell("no line shows a failure: nothing was sent (--all sends every line)")
        return NONE
    sent = within([(at, masks.apply(text)) for at, text in telling])
    body = {"log": "\n".join(text for _, text in sent), "env": environment(options)}
    if options.dry_run:
        say(body["log"])
        if body["env"]:
            say("--- env\n" + body["env"])
        tell("%d lines, %d masks; nothing was sent" % (len(sent), masks.count))
        return MATCH
    found = ask(site + "/api/v1/lookup", body, site)
    try:
        return show(found, sent, options, site)
    except (KeyError, TypeError, AttributeError) as error:
        raise Trouble("%s: an answer of another form: %r" % (site, error)) from error


def environment(options: argparse.Namespace) -> str:
    """What --env tells; --python alone asks for it as well."""
    if options.python:
        return installed_for(options.python)
    return installed() if options.env else ""


def show(found: Any, sent: List[Line], options: argparse.Namespace, site: str) -> int:
    if options.json:
        say(json.dumps(found, indent=1, ensure_ascii=False))
    elif options.markdown:
        markdown(found, sent, options.lang, site)
    else:
        report(found, sent, options.lang, site)
        records = [row["record"] for row in found["candidates"] if row["record"]]
        if records and not found["query"]["env"]["torch"]:
            say(word("name_torch", options.lang))
        if records:
            reproduce(site, records[0], options.lang)
    return STATUS[found["outcome"]]


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        return run(arguments().parse_args())
    except BrokenPipeError:  # nobody reads on: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Trouble, OSError) as error:
        tell(str(error))
    except KeyboardInterrupt:
        tell("interrupted")
    return TROUBLE


if __name__ == "__main__":
    sys.exit(main())
