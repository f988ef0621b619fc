"""An answer of the site as the pipe client prints it: for a terminal, for an issue.

The client, which users take away, carries it (`runner/takeaway/pipe.py`).
"""

from __future__ import annotations

import re
import sys
import urllib.parse
from typing import Any, Dict, List, Tuple

from portable.masking import CONTROL, Line

# Of kb/wording.py, in English and Chinese, once it is served.
WORDS: Dict[str, Tuple[str, str]] = {}


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def plain(text: Any) -> str:
    """On one line, without what a terminal would obey."""
    return inert(" ".join(str(text).split()))


def inert(text: str) -> str:
    return CONTROL.sub("?", text).replace("\x1b", "?")


# Numbers of lines as the site says them, in either language.
LINES_SAID = re.compile(
    r"\blines? \d{1,9}(?:, \d{1,9})*|\u7b2c \d{1,9}(?:\uff0c\d{1,9})* \u884c"
)


def word(key: str, lang: str) -> str:
    return WORDS[key][lang == "zh"] if key in WORDS else plain(key)


def link(urls: Dict[str, Any], lang: str, site: str) -> str:
    return plain(urllib.parse.urljoin(site, urls["html"][lang]))


def report(found: Dict[str, Any], sent: List[Line], lang: str, site: str) -> None:
    """What decides, each candidate with its test, first checks, what is ruled out."""
    say(numbers_of_file(plain(found["decision"][lang]), sent))
    say("")
    for law in found.get("laws", ()):
        say(plain(law["summary"][lang]))
        say(link(law["urls"], lang, site))
        say("")
    for candidate in found["candidates"]:
        details(candidate, sent, lang, site)
    if found["first_checks"]:
        say(word("checks", lang))
    for check in found["first_checks"]:
        say("  " + plain(check["title"][lang]))
        say("    " + plain(check["text"][lang]))
        code(check["code"])
    for group in found["affecting"]:
        say(plain(group["title"][lang]))
        for row in group["records"]:
            say("  %s  %s" % (plain(row["record"]), plain(row["title"][lang])))
    if found["ruled_out"]:
        say(word("ruled_out", lang))
    for row in found["ruled_out"]:
        slugs = ", ".join(map(plain, row["slugs"]))
        say("  %s: %s" % (plain(row["title"][lang]), slugs))


def details(row: Dict[str, Any], sent: List[Line], lang: str, site: str) -> None:
    """Why, whether it affects, the test that tells yes from no, what helps."""
    name, title = plain(row["record"] or row["slug"]), plain(row["title"][lang])
    say("%s  %s  (%s)" % (name, title, word(row["confidence"], lang)))
    for reason in row["because"]:
        say("  " + numbers_of_file(plain(reason[lang]), sent)[:240])
    if row["affected"]:
        say("  " + word(answer_of(row["affected"]), lang))
    say("  " + plain(row["test"]["question"][lang]))
    if row["test"]["code"]:
        code(row["test"]["code"])
    entry = row["workaround"]
    if entry:
        say("  " + remedy(entry, lang))
        code(entry["apply"])
    if row["urls"]:
        say("  " + link(row["urls"], lang, site))
    say("")


def remedy(entry: Dict[str, Any], lang: str) -> str:
    """A workaround by its status and cost; its name is for authors."""
    en, zh = "What to do now (%s). Cost: %s", "现在怎么做（%s）。代价：%s"
    return (zh if lang == "zh" else en) % (
        word(entry["status"], lang),
        plain(entry["cost"][lang]),
    )


# --- to be posted below an issue -----------------------------
MARKUP = re.compile(r"([\\`*_<>\[\]|#])")


def marked(text: Any) -> str:
    """A text of the site in Markdown, where nothing in it is a mark."""
    return MARKUP.sub(r"\\\1", plain(text))


def markdown(found: Dict[str, Any], sent: List[Line], lang: str, site: str) -> None:
    """The decision, the facts it rests on, the first candidate with test and strip."""
    say("**%s**\n" % marked(numbers_of_file(plain(found["decision"][lang]), sent)))
    facts = found["facts"]
    rows = ["`%s`" % plain(row["value"]) for row in facts["named"]]
    rows += ["%s `%s`" % pair for pair in sorted(facts["packages"].items())]
    if rows:
        say("- " + ", ".join(map(plain, rows)))
    for row in found["candidates"][:1]:
        posted(row, sent, lang, site)


def posted(row: Dict[str, Any], sent: List[Line], lang: str, site: str) -> None:
    for reason in row["because"]:
        say("- " + marked(numbers_of_file(plain(reason[lang]), sent)[:240]))
    name, title = plain(row["record"] or row["slug"]), marked(row["title"][lang])
    url = link(row["urls"], lang, site) if row["urls"] else ""
    say("\n### " + ("[%s](%s) %s" if url else "%s%s %s") % (name, url, title))
    if row["affected"]:
        say("\n" + word(answer_of(row["affected"]), lang))
    say("\n" + marked(row["test"]["question"][lang]))
    fenced(row["test"]["code"])
    entry = row["workaround"]
    if entry:
        say("\n" + marked(remedy(entry, lang)))
        fenced(entry["apply"])
    if row["record"]:
        image = "%s/badge/%s/releases.svg?lang=%s" % (site, name, lang)
        say("\n[![%s](%s)](%s)" % (name, image, url))


def fenced(text: str) -> None:
    if text:
        say("\n```python\n%s\n```" % inert(text.replace("```", "")))


def numbers_of_file(text: str, sent: List[Line]) -> str:
    """Lines by their numbers in the log, of which only a part was sent."""

    def number(found: Any) -> str:
        at = int(found[0])
        return str(sent[at - 1][0] if 0 < at <= len(sent) else at)

    own, quoted, rest = text.partition("\u201c")
    own = LINES_SAID.sub(lambda said: re.sub(r"\d+", number, said[0]), own)
    return own + quoted + rest


def code(text: str) -> None:
    """Code as it is to be pasted, below what it is for."""
    for line in text.splitlines():
        say("      " + inert(line))


def answer_of(affected: Dict[str, Any]) -> str:
    tested = affected["basis"] == "tested_build"
    return {
        ("affected", True): "tested",
        ("affected", False): "likely",
        ("not_affected", True): "not_tested",
        ("not_affected", False): "not_likely",
    }.get((affected["answer"], tested), "unknown")
