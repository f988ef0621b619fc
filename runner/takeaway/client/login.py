"""`doesitnan login`: a token of a site, in a file that only its owner reads.

What it keeps is read by `pipe` (static/doesitnan.py) and sent to that site alone.
"""

import argparse
import getpass
import json
import os
import re
import sys
import urllib.parse
from importlib import import_module
from typing import Any, Dict, List

pipe: Any = import_module("doesitnan.pipe")

# What may stand in a header of HTTP.
TOKEN = re.compile(r"[!-~]{8,500}")
HERE = ("localhost", "127.0.0.1", "::1")


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="doesitnan login",
        description="Keep a token of a site. It is asked for, or read from standard "
        "input; it is never printed. / 保存站点的令牌：由你输入或从标准输入读取，"
        "绝不显示。",
        epilog="Exit status: 0 kept or removed, 2 else. The site becomes the one that "
        "is asked where neither DOESITNAN_SITE nor this copy names one.",
    )
    parser.add_argument(
        "site",
        nargs="?",
        default=pipe.default_site(),
        metavar="URL",
        help="default: $DOESITNAN_SITE / 站点地址",
    )
    parser.add_argument(
        "--remove", action="store_true", help="forget the token / 删除令牌"
    )
    options = parser.parse_args(arguments)
    site = pipe.checked_site(options.site)
    if options.remove:
        return remove(site)
    warn(site)
    token = read_token(site)
    told = pipe.ask(site + "/api/v1/", site=site, token=token)
    if not isinstance(told, dict) or "links" not in told:
        raise pipe.Trouble("%s is no site of this kind" % site)
    kept = pipe.kept()
    tokens = {**kept.get("tokens", {}), site: token}
    write({**kept, "site": site, "tokens": tokens})
    may = "may" if told.get("may_run") else "may not"
    sys.stdout.write("kept in %s; it %s start runs\n" % (pipe.kept_path(), may))
    return 0


def warn(site: str) -> None:
    parts = urllib.parse.urlsplit(site)
    if parts.scheme == "http" and parts.hostname not in HERE:
        sys.stderr.write(
            "doesitnan login: %s is not encrypted: whoever is between reads the token\n"
            % site
        )


def read_token(site: str) -> str:
    if sys.stdin.isatty():
        text = getpass.getpass("Token of %s (dtn_…): " % site)
    else:
        text = sys.stdin.readline()
    if not TOKEN.fullmatch(text.strip()):
        raise pipe.Trouble("that is no token: one begins with dtn_ and has no spaces")
    return text.strip()


def remove(site: str) -> int:
    kept = pipe.kept()
    if kept.get("tokens", {}).pop(site, None) is None:
        raise pipe.Trouble("no token of %s is kept" % site)
    write(kept)
    sys.stdout.write("the token of %s is forgotten here; it stays valid there\n" % site)
    return 0


def write(kept: Dict[str, Any]) -> None:
    """Whole or not at all, and at no moment readable by others."""
    path = pipe.kept_path()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    part = "%s.%d" % (path, os.getpid())
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    os.replace(part, path)
