"""`doesitnan compare A B`: what an upgrade of torch brings, as the site's runs show."""

import argparse
import json
import os
import re
import urllib.parse
from importlib import import_module
from typing import Any, Dict, List, Optional

from . import carried

pipe: Any = import_module("doesitnan.pipe")

BRINGS_SOMETHING, NOTHING_TO_COMPARE = 1, 125
JUDGED = ("fixed", "new", "same", "differs")
# torch==2.5.1, and `pip list`'s columns.
PACKAGE = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:===?|\s)\s*(\d[\w.+!-]*)\s*")
NOTHING_IN_COMMON = {
    "en": "No record was judged on both %s and %s.",
    "zh": "没有任何记录在 %s 与 %s 上都有定论。",
}
LEFT_OUT = {
    "en": "Left out, as %s is not in the list: %s",
    "zh": "清单中没有 %s，故略去：%s",
}
UNSETTLED = {
    "en": "The list does not tell (%s): %s",
    "zh": "清单无法说明（%s）：%s",
}
Json = Dict[str, Any]


def main(arguments: List[str]) -> int:
    options = parser_of().parse_args(arguments)
    site = pipe.checked_site(options.site)
    env = read_environment(options.env) if options.env else None
    found = whole(site, options, env)
    try:
        if options.json:
            pipe.say(json.dumps(found, indent=1, ensure_ascii=False))
        else:
            report(found, options.lang)
        return status_of(found["counts"])
    except (KeyError, TypeError, AttributeError) as error:
        raise pipe.Trouble(
            "%s: an answer of another form: %r" % (site, error)
        ) from error


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="doesitnan compare",
        description="What the second release or build of torch brings, by runs of the "
        "site. / 第二个 torch 版本或构建会带来什么（以站点的实测为准）。",
        epilog="Exit status: 0 nothing new, 1 a bug that the first side does not show, "
        "by runs on both, 125 no record was judged on both, 2 else.",
    )
    side = "a release (2.5.1), a build (2.5.1-cu124) or a version / 版本或构建"
    parser.add_argument("before", metavar="FROM", help=side)
    parser.add_argument("after", metavar="TO", help=side)
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="only this / 仅此设备"
    )
    parser.add_argument(
        "--env",
        metavar="FILE",
        help="only what can concern this pip freeze, of which the versions of packages "
        "that records speak of are sent / 只看与此 pip freeze 有关的",
    )
    parser.add_argument("--json", action="store_true", help="print data / 输出 JSON")
    parser.add_argument(
        "--site",
        default=pipe.default_site(),
        metavar="URL",
        help="default: $DOESITNAN_SITE / 站点地址",
    )
    parser.add_argument(
        "--lang",
        choices=["en", "zh"],
        default="zh" if os.environ.get("LANG", "").startswith("zh") else "en",
    )
    return parser


def read_environment(path: str) -> str:
    """Lines of the file about packages that records speak of; others stay here.

    Raises pipe.Trouble where there is none.
    """
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = file.read().splitlines()
    found = []
    for line in lines:
        package = PACKAGE.match(line)
        if package and canonical(package.group(1)) in pipe.ASKED_PACKAGES:
            found.append("%s==%s" % package.groups())
    if not found:
        raise pipe.Trouble(
            "%s names no version of a package that records speak of, such as torch: "
            "give what `pip freeze` prints" % path
        )
    return "\n".join(found)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def whole(site: str, options: argparse.Namespace, env: Optional[str]) -> Json:
    """The comparison with all of its pages in one. Raises pipe.Trouble."""
    asked = {"from": options.before, "to": options.after, "limit": "200"}
    if options.device:
        asked["device"] = options.device
    address = "%s/api/v1/compare?%s" % (site, urllib.parse.urlencode(asked))
    body = None if env is None else {"env": env}
    found: Json = pipe.ask(address, body, site=site)
    try:
        more = found["next"]
        while more:
            query = urllib.parse.urlsplit(str(more)).query
            page = pipe.ask("%s/api/v1/compare?%s" % (site, query), body, site=site)
            found["items"] += page["items"]
            more = page["next"]
        found["next"] = None
    except (KeyError, TypeError) as error:
        raise pipe.Trouble(
            "%s: an answer of another form: %r" % (site, error)
        ) from error
    return found


def status_of(counts: Json) -> int:
    if not any(counts[name] for name in JUDGED):
        return NOTHING_TO_COMPARE
    return BRINGS_SOMETHING if counts["new"] else 0


def report(found: Json, lang: str) -> None:
    names = found["from"]["name"], found["to"]["name"]
    pipe.say("torch %s → %s" % tuple(map(pipe.plain, names)))
    pipe.say(pipe.plain(found["sentence"][lang]))
    if status_of(found["counts"]) == NOTHING_TO_COMPARE:
        pipe.say(NOTHING_IN_COMMON[lang] % tuple(map(pipe.plain, names)))
    installed = found.get("installed") or {}
    for said, key in ((LEFT_OUT, "left_out"), (UNSETTLED, "unsettled")):
        for name, records in installed.get(key, {}).items():
            several = ", ".join(map(pipe.plain, records))
            pipe.say(said[lang] % (pipe.plain(name), several))
    changes(found["items"], lang)
    pipe.say("\n" + pipe.plain(found["html"][lang]))


def changes(items: List[Json], lang: str) -> None:
    titles = carried.everything()["changes"]
    told = ""
    for item in items:
        if item["change"] != told:
            told = item["change"]
            pipe.say("\n" + titles.get(told, {lang: pipe.plain(told)})[lang])
        title = pipe.plain(item["title"][lang])
        pipe.say("  %s  %s" % (pipe.plain(item["record"]), title))
        if item["workaround"]:
            pipe.say("    " + pipe.plain(item["workaround"]))
        for said in item["said"]:
            values = tuple(
                pipe.plain(json.dumps(said[side], ensure_ascii=False))
                for side in ("before", "after")
            )
            pipe.say("    %s: %s → %s" % (pipe.plain(said["name"]), *values))
