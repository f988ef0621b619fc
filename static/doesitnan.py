#!/usr/bin/env python3
"""Ask "Does it NaN?" about the log of a training run, from a pipe.

    python train.py 2>&1 | python doesitnan.py --site URL
    python doesitnan.py --site URL --env train.log
    python doesitnan.py --dry-run train.log      what would be sent, and nothing is

Only the lines that say what went wrong are sent, and only after paths, addresses, user
and host names and keys have been masked on this machine. Exit status: 0 a known issue
matches, 3 only possible ones, 1 none, 2 wrong usage or no answer.

把训练日志接到管道里查询已知问题。只发送说明出错的行，且先在本机遮盖路径、地址、用户名、
主机名和密钥。退出码：0 有匹配，3 仅有可能的匹配，1 没有，2 用法错误或无应答。

Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import argparse
import codecs
import collections
import contextlib
import getpass
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
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

SITE = ""
MATCH, NONE, TROUBLE, POSSIBLE = 0, 1, 2, 3
STATUS = {"exact": MATCH, "match": MATCH, "possible": POSSIBLE, "none": NONE}
TIMEOUT_S = 30
MOST_BYTES = 1000 * 1000
ANSWER_BYTES = 4 * 1024 * 1024

Line = Tuple[int, str]

# --- lines and masks: from kb/lookup/masking.py by `manage.py write_words` ---
# --- which lines ----------------------------------------
HEAD_LINES, TAIL_LINES, MIDDLE_LINES = 1000, 3000, 2000
LINE_CHARS = 4000
BEFORE, AFTER = 2, 4
# In lower case; what a message, a traceback or a bad number has.
TELLS = re.compile(
    r"error|warn|exception|unsupported|overflow|underflow|non-?\s?finite|mismatch|"
    r"traceback|assert|fail|nan(?![a-z])|inf(?<![a-z]inf)(?![a-z])|infin|gb\d{4}|"
    r"_status_|xid|misaligned|illegal|does not|not require|not supported|no grad|"
    r"requires_grad|grad_fn|diverge|timeout|timed out|out of memory|empty generator|"
    r"skipp|none of the inputs|triggered internally|nan_probe|raise |version|cuda\d|"
    r"==\d|torch[ =:]|float8|fp8|fp16|bf16|bfloat16|recipe|compil|checkpoint|attention|"
    r"sdpa|cudnn|inductor|autocast|deepspeed|溢出|不匹配|未定义|失败|断言|报错|梯度|损失|显存"
)
ZERO_METRIC = re.compile(
    r"(?:loss|norm)\S{0,12}\s{0,4}[:=]?\s{0,4}['\"]?0(?:\.0+)?(?![\d.])"
)
FRAME = re.compile(r'File "[^"]+", line \d+|\.py:\d+|Cell In')
NOT_LETTERS = re.compile(r"[\W\d_]+")


def tells(line: str) -> bool:
    low = line.lower()
    return bool(TELLS.search(low) or ZERO_METRIC.search(low) or FRAME.search(line))


def kept_lines(lines: Iterable[Line]) -> list[Line]:
    """The ends of a log and what complains between them; memory is bounded."""
    kept: list[Line] = []
    middle: list[Line] = []
    kinds: set[str] = set()
    tail: collections.deque[Line] = collections.deque()
    for line in lines:
        if len(kept) < HEAD_LINES:
            kept.append(line)
            continue
        tail.append(line)
        if len(tail) > TAIL_LINES:
            old = tail.popleft()
            kind = NOT_LETTERS.sub("", old[1])[:400]
            if len(middle) < MIDDLE_LINES and kind not in kinds and tells(old[1]):
                kinds.add(kind)
                middle.append(old)
    return kept + middle + list(tail)


def key_lines(kept: list[Line]) -> list[Line]:
    """The lines that tell, with a few around them: long messages are wrapped."""
    wanted: set[int] = set()
    seen: dict[str, int] = collections.defaultdict(int)
    for at, (_, line) in enumerate(kept):
        if not tells(line):
            continue
        # A loss of nan in every step says no more than in some.
        kind = NOT_LETTERS.sub("", line)[:400]
        seen[kind] += 1
        if seen[kind] <= 5:
            wanted.update(range(max(0, at - BEFORE), min(len(kept), at + AFTER + 1)))
    return [kept[at] for at in sorted(wanted)]


def within(lines: list[Line], most: int = MOST_BYTES) -> list[Line]:
    """As many as there is room for: the first third and the last of too many."""
    size = sum(len(text.encode("utf-8", "replace")) + 1 for _, text in lines)
    while size > most and len(lines) > 1:
        cut = len(lines) // 3
        lines = lines[:cut] + lines[cut + max(1, len(lines) // 10) :]
        size = sum(len(text.encode("utf-8", "replace")) + 1 for _, text in lines)
    return lines


# --- what is masked ----------------------------------------
PACKAGES = re.compile(r".*?(?:site|dist)-packages[/\\]")
ROOTS = re.compile(
    r".*?[/\\](?=(?:torch|aten|c10|transformers|deepspeed|fla|triton)[/\\])"
)
SOURCE = re.compile(r"[\w.-]+\.(?:py|pyx|cpp|cc|cu|cuh|h|hpp|so)\Z")
QUOTED = re.compile(r'(?<=File ")[^"]+(?=")')
# The one folder that likes to have a space in it.
HOME = re.compile(r"[A-Za-z]:[/\\]Users[/\\][^/\\:*?\"<>|\n]{1,60}(?=[/\\])")
PATH = re.compile(
    r"(?<![\w.:/\\<-])(?:[A-Za-z]:(?=[/\\])|~\w*(?=[/\\])|\.{1,2}(?=[/\\]))?"
    r"[/\\][^\s'\":,;()\[\]{}=<>|]+"
)
ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\">)]+", re.IGNORECASE)
KNOWN_SITES = re.compile(r"https?://(?:docs\.|dev-discuss\.)?pytorch\.org/")
KEYS = re.compile(
    r"\b(?:hf_|sk-|pk-|gh[opsu]_|github_pat_|glpat-|xox[abps]-|AKIA|ASIA|AIza|dtn_|npm_|"
    r"pypi-|eyJ)[\w.~+/=-]{8,}"
)
# name = value, whichever the spelling: AWS_SECRET_ACCESS_KEY, hfToken, "api-key".
NAMED = re.compile(
    r"(?i)(?<!\w)([\w.-]*(?:secret|passw|passphrase|pwd|token|credential|private|auth|"
    r"(?:api|access|account|client|encryption|license|signing|ssh)[_.-]?key|user|login|"
    r"owner|entity|organi[sz]ation|\borg|tenant)[\w.-]*)"
    r"(['\"\]]*\s*(?:=>|:=|[:=])\s*)"
    r"((?:bearer|basic)\s+\S+|\"[^\"]*\"|'[^']*'|[^\s'\",;)}\]]+)"
)
FLAG = re.compile(
    r"(?i)((?:^|\s)--?[\w-]*(?:secret|passw|passphrase|pwd|token|credential|private|auth|"
    r"key|user|login|owner|entity|org)[\w-]*\s+)(?!-)(\"[^\"]*\"|'[^']*'|\S+)"
)
# Of these names the value says who somebody is; "UserWarning: " is none of them.
PERSON = re.compile(
    r"(?i)(?:.*[_.-])?(?:user|login|owner|author|entity|org|organi[sz]ation|tenant)"
    r"(?:[_-]?(?:name|id))?"
)
# What models read is no secret: pad_token, tokenizer.model_max_length, 4096 tokens.
TEXT_TOKEN = re.compile(
    r"(?i)tokeni[sz]|(?:^|[_.-])(?:pad|eos|bos|unk|sep|cls|mask|image|special|num|max|min|"
    r"n|total|input|output|new|prompt|completion|per|text)[_-]?tokens?(?:$|[_.-])"
)
NUMBER = re.compile(r"[\d.,eE+-]+[kKMB]?")
SECRET = re.compile(
    r"(?i)secret|passw|passphrase|pwd|credential|private|auth(?:orization)?(?![a-z])|"
    r"(?:api|access|account|client|encryption|license|signing|ssh)[_.-]?key|token"
)
SAID = re.compile(
    r"(?i)(\b(?:password|passphrase|secret|(?:api|access|secret|private)[ _-]key|"
    r"credentials?)s?\s+(?:is|was|are)\s+|(?:密码|口令|密钥|令牌|用户名?|账号|帐号|组织名?)"
    r"\s*[是为：:=]\s*)[^\s'\",;，。]+"
)
LOGGED_IN = re.compile(
    r"(?i)\b((?:logged|signed) in (?:as|to|with):?\s+|\b(?:as|by|for|of) user:?\s+)"
    r"[^\s(),;]+(?:\s*\([^)]*\))?"
)
NETRC = re.compile(r"(?i)\bmachine\s+\S+\s+(?:login|password)\s.*")
PUBLIC_KEY = re.compile(
    r"\bssh-(?:rsa|dss|ed25519)\s+\S+(?:\s+\S+)?|\becdsa-sha2\S*\s+\S+.*"
)
# A line of a key file, and nothing else.
KEY_LINE = re.compile(r"^\s*[A-Za-z0-9+/]{24,}={0,2}\s*$")
BEARER = re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{8,}")
# Names of kernels are as long, but have underscores; names of functions few digits.
LONG_KEY = re.compile(
    r"(?<![\w/+.-])(?=(?:[A-Za-z+/]*\d){3})(?=[\d+/]*[A-Za-z])[A-Za-z0-9+/]{32,}={0,2}(?!\w)"
)
MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
IP = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}(?![\w:])"
)
HOST = re.compile(
    r"(?<![\w./-])[A-Za-z0-9][\w-]*(?:\.[\w-]+)*"
    r"\.(?:local|localdomain|internal|lan|corp|intra|com|net|org|edu|cn|cloud)(?![\w.(-])"
)
JOURNAL = re.compile(
    r"^(\w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT\S+ )[\w.-]+(?= \S+\[\d+\]:)"
)
RANK_HOST = re.compile(r"(?<=\[)(?=[\w.-]*[A-Za-z])[\w.-]+(?=:\d{1,7}\])")
POD = re.compile(r"(?<=\[pod/)[\w./-]+(?=\])")
CONTROL = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
COMMON_NAMES = {
    "root",
    "user",
    "users",
    "ubuntu",
    "admin",
    "runner",
    "jovyan",
    "nobody",
}


def named_shown(found: re.Match[str]) -> str:
    """The name, and the value only where it tells of neither a secret nor a person."""
    name, between, value = found.groups()
    kind = SECRET.search(name)
    is_text = TEXT_TOKEN.search(name) or NUMBER.fullmatch(value)
    if kind and kind.group().lower() == "token" and is_text:
        return found.group()
    return (
        name + between + "masked" if kind or PERSON.fullmatch(name) else found.group()
    )


def path_shown(path: str) -> str:
    """What of a path says nothing of its owner: the part below the package."""
    for below in (PACKAGES, ROOTS):
        found = below.match(path)
        if found:
            keep = "/_/site-packages/" if below is PACKAGES else "/_/"
            return keep + path[found.end() :].replace("\\", "/")
    name = re.split(r"[/\\]", path)[-1]
    return "/_/" + (name if SOURCE.match(name) else "_")


def address_shown(found: re.Match[str]) -> str:
    known = KNOWN_SITES.match(found.group())
    return found.group() if known else "https://masked.invalid/"


def quoted_shown(found: re.Match[str]) -> str:
    path = found.group()
    # "<string>", "<frozen importlib>": no file. train.py: no folder.
    bare = path.startswith("<") or not re.search(r"[/\\]", path)
    return path if bare else path_shown(path)


class Masks:
    """Masks what belongs to this machine and its user; `count`: how often."""

    def __init__(self, names: Iterable[str]) -> None:
        self.count = 0
        own = sorted({n for n in names if len(n) > 2 and n.lower() not in COMMON_NAMES})
        self.own = own and re.compile(
            r"(?<!\w)(?:%s)(?!\w)" % "|".join(map(re.escape, own))
        )

    def apply(self, line: str) -> str:
        line = CONTROL.sub(" ", line[:LINE_CHARS])
        for pattern, shown in (
            (KEY_LINE, "masked"),
            (NETRC, "masked"),
            (PUBLIC_KEY, "masked"),
            (NAMED, named_shown),
            (FLAG, r"\1masked"),
            (SAID, r"\1masked"),
            (LOGGED_IN, r"\1user"),
            (BEARER, "Bearer masked"),
            (KEYS, "masked"),
            (ADDRESS, address_shown),
            (MAIL, "user@host"),
            (JOURNAL, r"\1host"),
            (RANK_HOST, "host"),
            (POD, "_/_"),
            (QUOTED, quoted_shown),
            (HOME, "/_"),
            (PATH, lambda found: path_shown(found.group())),
            (IP, "0.0.0.0"),
            (HOST, "host"),
            (LONG_KEY, "0"),
            (self.own, "user"),
        ):
            if pattern:
                masked = pattern.sub(shown, line)
                self.count += masked != line
                line = masked
        return line


# --- packages that records speak of ----------------------------------------
ASKED_PACKAGES = (
    "torch torchvision torchaudio torchtitan torchao torchtune triton numpy "
    "transformers accelerate peft trl datasets deepspeed lightning pytorch-lightning "
    "flash-attn flash-linear-attention fla-core xformers apex transformer-engine "
    "bitsandbytes megatron-core llamafactory ms-swift vllm timm diffusers"
).split()


# --- end of lines and masks ---


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


def kept_path() -> str:
    """Where `doesitnan login` keeps its tokens: {"site": …, "tokens": {site: …}}."""
    home = os.path.join(os.path.expanduser("~"), ".config")
    at = os.environ.get("APPDATA") or os.environ.get("XDG_CONFIG_HOME") or home
    return os.path.join(at, "doesitnan", "sites.json")


def kept() -> Dict[str, Any]:
    try:
        with open(kept_path(), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        text = "%s cannot be read (%s): delete it, and log in again"
        raise Trouble(text % (kept_path(), type(error).__name__)) from error
    return found if isinstance(found, dict) else {}


def default_site() -> str:
    return os.environ.get("DOESITNAN_SITE") or SITE or str(kept().get("site", ""))


def checked_site(site: str) -> str:
    """The address without a slash at its end. Raises Trouble for what is none."""
    if not site.startswith(("https://", "http://")):
        raise Trouble("name the site: --site https://… or DOESITNAN_SITE")
    return site.rstrip("/")


def token_of(site: str) -> str:
    """What this site is shown: its kept token, or DOESITNAN_TOKEN for DOESITNAN_SITE.

    Never another site's. "" where there is none.
    """
    found = kept().get("tokens", {}).get(site, "")
    if os.environ.get("DOESITNAN_SITE", "").rstrip("/") == site:
        found = os.environ.get("DOESITNAN_TOKEN") or found
    if found and not re.fullmatch("[!-~]+", found):
        raise Trouble("DOESITNAN_TOKEN is no token: it has spaces or other signs")
    return str(found)


def ask(
    url: str, body: Optional[Dict[str, Any]] = None, site: str = "", token: str = ""
) -> Any:
    """The site's answer. `site`: whose token goes with it. Raises Trouble."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    token = token or (token_of(site) if site else "")
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        if token:
            # Not for where a redirect leads.
            request.add_unredirected_header("Authorization", "Bearer " + token)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(ANSWER_BYTES).decode("utf-8"))
    except urllib.error.HTTPError as error:
        raise Trouble("%s: %s" % (url, problem_of(error))) from error
    except (OSError, ValueError) as error:
        text = "%s: no answer: %s; is this the address of the site, and does it run?"
        raise Trouble(text % (url, error)) from error


def problem_of(error: urllib.error.HTTPError) -> str:
    """What the site says is wrong (RFC 9457)."""
    try:
        told = json.loads(error.read(ANSWER_BYTES).decode("utf-8"))
        return plain("%s. %s" % (told["title"], told["detail"]))
    except (ValueError, KeyError, TypeError, OSError):
        return "HTTP %d" % error.code


def plain(text: Any) -> str:
    """On one line, without what a terminal would obey."""
    return CONTROL.sub("?", " ".join(str(text).split())).replace("\x1b", "?")


# --- words: from kb/wording.py by `manage.py write_words` ---
WORDS = {
    "exact": (
        "exact match",
        "逐字吻合",
    ),
    "match": (
        "match",
        "吻合",
    ),
    "possible": (
        "possible",
        "可能",
    ),
    "verified": (
        "verified",
        "已证实",
    ),
    "does_not_help": (
        "does not help",
        "无效",
    ),
    "untested": (
        "untested",
        "未验证",
    ),
    "none": (
        "No known issue matches.",
        "没有吻合的已知问题。",
    ),
    "leads": (
        "Leads, which are no match:",
        "线索（不是匹配）：",
    ),
    "several": (
        "Several causes look like this; what tells them apart:",
        "有多种原因会呈现这一症状，区分方法如下：",
    ),
    "also": (
        "Other known issues that affect this environment: %s",
        "影响此环境的其他已知问题：%s",
    ),
    "reproduce": (
        "Reproduce it here:",
        "在本机复现：",
    ),
    "name_torch": (
        "With --env the answer is about the torch that is installed here.",
        "加上 --env，回答就针对本机安装的 torch。",
    ),
    "tested": (
        "affected: run on this exact build",
        "受影响：已在相同构建上实测",
    ),
    "likely": (
        "likely affected",
        "推断受影响",
    ),
    "not_tested": (
        "bug not seen: run on this exact build",
        "未出现缺陷：已在相同构建上实测",
    ),
    "not_likely": (
        "likely not affected",
        "推断不受影响",
    ),
    "unknown": (
        "affected or not: unknown",
        "是否受影响：未知",
    ),
}
# --- end of the words ---


def word(key: str, lang: str) -> str:
    return WORDS[key][lang == "zh"] if key in WORDS else plain(key)


def report(found: Dict[str, Any], sent: List[Line], lang: str, site: str) -> None:
    """Beside a match that is sure, what is only possible is a line each."""
    sure = STATUS.get(found["outcome"]) == MATCH
    for match in found["matches"]:
        title = plain(match["title"][lang])
        say("%s  %s  (%s)" % (match["record"], title, word(match["confidence"], lang)))
        if not sure or STATUS.get(match["confidence"]) == MATCH:
            details(match, sent, lang, site)
    if not found["matches"]:
        say(word("none", lang))
    for symptom in found.get("symptoms", []):
        causes(symptom, lang, site)
    leads(found.get("leads", []), sure, lang, site)
    if found["also_affecting"]:
        say(word("also", lang) % ", ".join(map(plain, found["also_affecting"])))


def details(match: Dict[str, Any], sent: List[Line], lang: str, site: str) -> None:
    """Why it matches, whether it affects, what tells if it is yours, what helps."""
    for why in match["why"]:
        say("  %d: %s" % (numbered(why["line"], sent), plain(why["pasted"])[:200]))
    say("  " + word(answer_of(match["affected"]), lang))
    for entry in match["diagnoses"]:
        say("  " + plain(entry["text"][lang]))
        code(entry["code"])
    for entry in match["workarounds"]:
        say("  [%s] %s" % (word(entry["status"], lang), plain(entry["name"])))
        code(entry["apply"])
    say("  " + urllib.parse.urljoin(site, match["urls"]["html"][lang]))
    say("")


def causes(symptom: Dict[str, Any], lang: str, site: str) -> None:
    """What several records show alike, and what tells each of them apart."""
    say(word("several", lang))
    say("  " + plain(symptom["title"][lang]))
    for cause in symptom["causes"]:
        say("  %s  %s" % (cause["record"], plain(cause["title"][lang])))
        say("    " + plain(cause["tells"][lang]))
    say("  " + urllib.parse.urljoin(site, symptom["urls"]["html"][lang]))


def leads(found: List[Dict[str, Any]], short: bool, lang: str, site: str) -> None:
    """Where to look: records that speak of the same, and the code that decides."""
    if found:
        say(word("leads", lang))
    for lead in found:
        say("  %s  %s" % (lead["record"], plain(lead["title"][lang])))
        if short:
            continue
        say("    " + plain(lead["why"][lang]))
        for entry in lead["diagnoses"][:1]:
            say("    " + plain(entry["text"][lang]))
            code(entry["code"])
        say("    " + urllib.parse.urljoin(site, lead["urls"]["html"][lang]))


def code(text: str) -> None:
    """Code as it is to be pasted, below what it is for."""
    for line in text.splitlines():
        say("      " + CONTROL.sub("?", line))


def numbered(line: int, sent: List[Line]) -> int:
    """The line's number in the log, not in what was sent of it."""
    return sent[line - 1][0] if 0 < line <= len(sent) else line


def answer_of(affected: Dict[str, Any]) -> str:
    tested = affected["basis"] == "tested_build"
    return {
        ("affected", True): "tested",
        ("affected", False): "likely",
        ("not_affected", True): "not_tested",
        ("not_affected", False): "not_likely",
    }.get((affected["answer"], tested), "unknown")


def commands(site: str, record: str) -> List[str]:
    """How to run the record's repros here."""
    told = ask("%s/api/v1/records/%s" % (site, urllib.parse.quote(record)), site=site)
    found = []
    for repro in told["repros"]:
        url = urllib.parse.urljoin(site, plain(repro["url"]))
        if re.fullmatch(r"[\w:/.%-]+", url):
            name = "%s-%s.py" % (plain(record), plain(repro["name"]))
            found.append("curl -fsS %s -o %s && python %s" % (url, name, name))
            found.append("uv run %s" % url)
    return found


# --- command line ----------------------------------------
def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    sys.stderr.write("doesitnan: %s\n" % text)


def lines_of(stream: Any, echo: bool) -> Iterator[Line]:
    """Numbered lines of a byte stream; what a bar overwrote is apart on its line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
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


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=os.environ.get("DOESITNAN_PROG") or "doesitnan.py",
        description="Name the known PyTorch training failures that a log shows. "
        "/ 从日志中找出已知的 PyTorch 训练故障。",
        epilog="Exit status: 0 a match, 3 only possible ones, 1 none, 2 else.",
    )
    parser.add_argument("log", nargs="?", default="-", metavar="FILE")
    parser.add_argument(
        "--site",
        default=default_site(),
        metavar="URL",
        help="address of the site; default: $DOESITNAN_SITE / 站点地址",
    )
    parser.add_argument(
        "--env", action="store_true", help="also send package versions / 附上软件包版本"
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="whose packages --env tells; default: this one / --env 所读的 Python",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be sent, send nothing / 只显示将要发送的内容",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="send every line, masked, and not only those that tell / 发送全部行",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the site's answer / 输出 JSON"
    )
    parser.add_argument(
        "--no-echo", action="store_true", help="do not repeat the log / 不回显日志"
    )
    parser.add_argument(
        "--lang",
        choices=["en", "zh"],
        default="zh" if os.environ.get("LANG", "").startswith("zh") else "en",
    )
    return parser


def read_log(options: argparse.Namespace) -> List[Line]:
    if options.log != "-":
        with open(options.log, "rb") as file:
            return kept_lines(lines_of(file, False))
    quiet = options.no_echo or options.json or options.dry_run
    return kept_lines(lines_of(sys.stdin.buffer, not quiet))


def run(options: argparse.Namespace) -> int:
    site = options.site if options.dry_run else checked_site(options.site)
    masks = Masks(own_names())
    kept = read_log(options)
    telling = kept if options.all else key_lines(kept)
    if kept and not telling:
        tell("no line tells of a failure: nothing was sent (--all sends every line)")
        return NONE
    sent = within([(at, masks.apply(text)) for at, text in telling])
    body = {
        "log": "\n".join(text for _, text in sent),
        "env": environment(options),
    }
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
        return STATUS[found["outcome"]]
    report(found, sent, options.lang, site)
    if found["matches"] and not found["query"]["env"]["torch"]:
        say(word("name_torch", options.lang))
    if found["matches"]:
        lines = commands(site, found["matches"][0]["record"])
        if lines:
            say(word("reproduce", options.lang))
        for line in lines:
            say("  " + line)
    return STATUS[found["outcome"]]


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        return run(arguments().parse_args())
    except (Trouble, OSError) as error:
        tell(str(error))
    except KeyboardInterrupt:
        tell("interrupted")
    return TROUBLE


if __name__ == "__main__":
    sys.exit(main())
