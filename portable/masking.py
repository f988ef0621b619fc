"""Which lines of a log tell of a failure, and what is masked before they are sent.

The pipe client, which users take away, carries it (`runner/takeaway/pipe.py`).
"""

from __future__ import annotations

import collections
import re
from typing import Iterable, Tuple

Line = Tuple[int, str]
MOST_BYTES = 1000 * 1000

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
# A report of nan_probe is sent whole: each row says something else of one finding.
REPORT = re.compile(r"nan_probe \d{1,3}: ")
ROW = re.compile(r" {2}[a-z][a-z_ ,]{1,30}: ")


def tells(line: str) -> bool:
    low = line.lower()
    return bool(TELLS.search(low) or ZERO_METRIC.search(low) or FRAME.search(line))


class Telling:
    """Whether a line tells of a failure, asked of one line after the other."""

    def __init__(self) -> None:
        self.in_report = False

    def __call__(self, line: str) -> bool:
        is_row = self.in_report and ROW.search(line)
        self.in_report = bool(is_row or REPORT.search(line))
        return self.in_report or tells(line)


def kept_lines(lines: Iterable[Line]) -> list[Line]:
    """The ends of a log and what complains between them; memory is bounded."""
    kept: list[Line] = []
    middle: list[Line] = []
    kinds: set[str] = set()
    is_telling = Telling()
    tail: collections.deque[Line] = collections.deque()
    for line in lines:
        if len(kept) < HEAD_LINES:
            kept.append(line)
            continue
        tail.append(line)
        if len(tail) > TAIL_LINES:
            old = tail.popleft()
            kind = NOT_LETTERS.sub("", old[1])[:400]
            tells_one = is_telling(old[1])
            if len(middle) < MIDDLE_LINES and kind not in kinds and tells_one:
                kinds.add(kind)
                middle.append(old)
    return kept + middle + list(tail)


def key_lines(kept: list[Line]) -> list[Line]:
    """The lines that tell, with a few around them: long messages are wrapped."""
    wanted: set[int] = set()
    seen: dict[str, int] = collections.defaultdict(int)
    is_telling = Telling()
    for at, (_, line) in enumerate(kept):
        if not is_telling(line):
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
# What is in the name is looked up ahead, so that each name is read twice at most.
NAMED = re.compile(
    r"(?i)(?<![\w.-])(?=[\w.-]*?(?:secret|passw|passphrase|pwd|token|credential|private|auth|"
    r"(?:api|access|account|client|encryption|license|signing|ssh)[_.-]?key|user|login|"
    r"owner|entity|organi[sz]ation|\borg|tenant|master_addr|rdzv_endpoint|host_?name|node_?list))"
    r"([\w.-]+)"
    r"(['\"\]]*\s*(?:=>|:=|[:=])\s*)"
    r"((?:bearer|basic)\s+\S+|\"[^\"]*\"|'[^']*'|[^\s'\",;)}\]]+)"
)
FLAG = re.compile(
    r"(?i)((?:^|\s)--?[\w-]*(?:secret|passw|passphrase|pwd|token|credential|private|auth|"
    r"key|user|login|owner|entity|org|addr|endpoint)[\w-]*\s+)(?!-)(\"[^\"]*\"|'[^']*'|\S+)"
)
# Of these names the value says who somebody is, or on what machine; "UserWarning: " is
# none of them.
PERSON = re.compile(
    r"(?i)(?:.*[_.-])?(?:user|login|owner|author|entity|org|organi[sz]ation|tenant)"
    r"(?:[_-]?(?:name|id))?|(?:.*_)?(?:master_addr|rdzv_endpoint|host_?name|node_?list)"
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
# Also of a repository: git@host:owner/name.
MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*(?::[\w.~/-]+)?")
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
COMMON_NAMES = set("root user users ubuntu admin runner jovyan nobody".split())


def named_shown(found: re.Match[str]) -> str:
    """The name, and the value only if it reveals neither a secret nor a person."""
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
