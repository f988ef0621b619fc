"""Reader of package lists and environment reports, line by line. Pure."""

from __future__ import annotations

import re

from kb.environments.hardware import device_named, gpu_names
from kb.environments.package_lines import (
    JSON_PAIR,
    NOT_USED,
    PINNED,
    VERSION,
    Package,
    packages_in_list,
    packages_in_log,
    packages_of,
)

MAX_LINES = 4000
LINE_CHARS = 1000
BARE = re.compile(VERSION, re.IGNORECASE)
# What only torch calls itself: 2.5.1+cu124, 2.6.0a0+df5bbc0, 2.8.0.dev20250404.
TORCH_LIKE = re.compile(
    r"[\[('\"\s]*+\d\.\d{1,2}\.\d(?:\.dev\d{8})?(?:\+(?:cu|cpu|rocm|xpu)|a0|\.dev\d{8})"
)
FIRST = re.compile(rf"[\[('\"\s]*+({VERSION})", re.IGNORECASE)
OUTPUT = re.compile(r"^Out\[\d+\]:\s*")
ATTRIBUTE = re.compile(
    r"(?:\b([A-Za-z]\w*+)\.__version__|torch\.(?:version\.)?(cuda|hip|version)\b)"
)
VALUE = re.compile(rf"(?:{VERSION}|\d++|True|False|None|N/A)")
COLLECTED = re.compile(r"\[ ?(?:pip3?|conda) ?\]\s+(.++)")
# What precedes a line: a quotation's sign, the branches of uv's and pipdeptree's trees.
BEFORE = re.compile(r"^\s*(?:(?:>\s)+|[│├└][│├└─\s]*+(?=[A-Za-z]))")
NO_INFORMATION = re.compile(
    r"\s*+(?:\#.*+|[-=+|\s:]*+|Package\s++Version.*+|```.*+|>>>.*+|\.\.\.\s.*+"
    r"|import\s\w.*+|from\s\w++\simport.*+|print\(.*+|<\/?(?:details|summary|pre|code).*+"
    r"|Copy-and-paste\s.*+|name:\s.*+|channels:|dependencies:|prefix:\s.*+|-\s*pip:?"
    r"|-\s(?:conda-forge|defaults|nvidia|pytorch(?:-nightly)?|nodefaults)"
    r"|--\S.*+|-[rifec]\s.*+|\\|[\[\](){},]*+|.*\snot\sinstalled(?:\s\(NA\))?\.?"
    r"|\[(?:pip3?|conda)\]\sCould\snot\scollect|via\s.*+|\S*\$\s.*+|Installed\s\d.*+"
    r"|\|.*\||=+\s.*\s=+|nvidia-smi.*+|GPU:?|(?:Currently\s)?Load(?:ing|ed)\s.*+|Using\sPython\s.*+"
    r"|(?:pip3?|uv|conda|python3?|docker|module|source|export)\s.*+)\s*+"
)
GPU_LABEL = re.compile(
    r"[-*•·|\s]*+(?:\d+[.)]\s)?\**"
    r"(?:GPUs?(?: type| name| \d[\d,]*+| models?[^:：]{0,40})?"
    r"|(?:Device|Graphics card|Hardware|Accelerator)s?(?: name| type)?"
    r"|显卡(?:型号)?|GPU\s?(?:型号|卡|类型)|硬件(?:环境)?|卡型)\**\s*+[:：=|]",
    re.IGNORECASE,
)
DRIVER_ROW = re.compile(
    r"\|\s++\d++\s++((?:NVIDIA|Tesla|GeForce|Quadro|A\d|H\d)[\w ./-]{2,40}?)"
    r"(?:\.{3})?\s{2,}"
)
LISTED_GPU = re.compile(r"GPU \d++: (.{3,60}?) \(UUID: ")
# In characters; a longer line is prose that mentions a GPU.
GPU_CHARS = 70
COMPLAINT = re.compile(r"(?:Error|Exception|Warning|报错)\b", re.IGNORECASE)
# In lower case; a line with one of these may name GPUs anywhere.
ALL_GPUS = ("num gpus =", "get_device_name", "torch.cuda.get_device")

# Lines that open a report; the group that matched names its kind.
REPORT = re.compile(
    r"(?P<collect_env>Collecting environment information|Is debug build\s*:)"
    r"|(?P<conda>#\s(?:packages in environment at|Name\s{2,}Version)"
    r"|List of packages in environment:|Name\s{2,}Version\s{2,}Build"
    r"|(?:channels|dependencies):\s*$)"
    r"|(?P<freeze>Package\s++Version(?:\s|$)|Copy-and-paste the text below"
    r"|DeepSpeed general environment|\* (?:CUDA|Lightning|Packages):\s*$"
    r"|- `?(?i:transformers|accelerate|diffusers|llamafactory|peft|trl)`? version:"
    r"|\[\[package\]\]|Name: [\w.-]+\s*$)"
)
# A log goes on after a report: these are no part of it.
LOG_AGAIN = re.compile(
    r"Traceback |\s*File \"|[\w.]+(?:Error|Warning|Exception):|\{'|\S*\.py:\d"
    r"|\[?\d{4}-\d\d-\d\d|\[(?:INFO|WARNING|ERROR|rank)"
)
# Sections of collect_env with lines that only look like versions.
CPU_SECTION = re.compile(r"\s*CPU(?: Info)?:?\s*+$")
LIBRARIES = re.compile(r"\s*Versions of relevant libraries")
LOCK = re.compile(
    r"^\[\[package\]\]\s*$|\"version\": \"==|\"lockfileVersion\"", re.MULTILINE
)
PIPENV_PAIR = re.compile(
    r"\"([A-Za-z][\w.-]*+)\":\s*+\{[^{}]*?\"version\":\s?\"={0,3}([^\"]++)\""
)
# Without one of them a text is not searched: that takes as long as reading it.
LOCK_MARKS = ("[[package]]", '"version": "==', '"lockfileVersion"')
NAME_LINE = re.compile(r"\s*\"?(?:[Nn]ame)\"?\s?[:=]\s?\"?([A-Za-z][\w.-]*)\"?,?\s*$")
VERSION_LINE = re.compile(r"\s*\"?[Vv]ersion\"?\s?[:=]\s?\"?=*([^\s\",]+)\"?,?\s*$")
KEY_LINE = re.compile(r"\s*\"([A-Za-z][\w.-]*)\":\s?\{\s*$")
CPU_BUILD = re.compile(
    r"(?:py)?torch(?:-base)?\s+\d\S*\s+(?:\S*_)?cpu_\S*"
    r"|CUDA used to build PyTorch\s*: None"
)
MAC = re.compile(r"[-\s]*(?:OS|(?:Python )?[Pp]latform)\s*: macOS\b")


class Reader:
    """Packages and GPUs named in a text. `strict` is for logs, which may mislead."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.packages: list[Package] = []
        self.gpus: list[str] = []
        self.device = ""
        self.unparsed = 0
        self.kind: str | None = None
        self.is_cpu_build = self.is_mac = False
        self._in_report = self._in_cpu = self._in_lock = self._ends_at_blank = False
        # Attributes that a command prints; the next lines hold their values.
        self._printed: list[str] = []
        self._name: str | None = None

    def read(self, text: str, stop_at_unparsed: bool = False) -> Reader:
        """Read `text` into the attributes; returns the reader itself."""
        if not self.strict and text.lstrip()[:1] in ("[", "{"):
            self.packages += packages_of(JSON_PAIR.finditer(text))
        if '"version": "==' in text:
            self.packages += packages_of(PIPENV_PAIR.finditer(text))
        self._in_lock = bool(self.packages) or is_lock(text)
        for line in re.split(r"[\r\n]+", text)[:MAX_LINES]:
            self._read_line(BEFORE.sub("", line[:LINE_CHARS], count=1))
            if stop_at_unparsed and self.unparsed:
                break
        return self

    def _read_line(self, line: str) -> None:
        self._follow(line)
        line = line.strip()
        if not line or self._in_cpu:
            return
        self.device = self.device or device_named(line, self.strict)
        understood = self._read_pair(line) or self._in_lock or self._read_values(line)
        if not understood:
            packages, gpus = self._read_packages(line), self._read_gpus(line)
            # Of a log it does not matter: most of its lines describe nothing.
            understood = packages or self.strict or is_of_a_list(line, gpus)
        self.unparsed += not (understood or self._in_report)

    def _follow(self, line: str) -> None:
        """Which report, and which part of it, the line belongs to."""
        bare = line.strip()
        opened = REPORT.match(bare)
        if opened:
            kind = opened.lastgroup
            self.kind = self.kind or kind
            self._in_report, self._ends_at_blank = True, kind != "collect_env"
        elif LOG_AGAIN.match(line) or (self._ends_at_blank and not bare):
            self._in_report = self._in_cpu = False
        if LIBRARIES.match(line):
            self._in_report, self._in_cpu, self.kind = True, False, "collect_env"
        elif CPU_SECTION.match(line) and (self._in_report or not self.strict):
            self._in_cpu = True
        elif COLLECTED.match(line):
            self.kind = self.kind or "collect_env"
        self.is_cpu_build |= bool(CPU_BUILD.match(bare))
        self.is_mac |= bool(MAC.match(bare))

    def _read_pair(self, line: str) -> bool:
        """The name and the version on lines of their own: locks, JSON, pip show."""
        if not (self._in_lock or self._in_report):
            return False
        version = VERSION_LINE.fullmatch(line)
        if version and self._name:
            self.packages.append(
                Package(self._name, version[1], is_sure=not self._in_lock)
            )
            self._name = None
            return True
        name = NAME_LINE.fullmatch(line) or KEY_LINE.fullmatch(line)
        if name:
            self._name = name[1]
        return bool(name)

    def _read_values(self, line: str) -> bool:
        """The output of `print(torch.__version__, torch.version.cuda)`."""
        if self.strict and not self._printed:
            return False
        line = OUTPUT.sub("", line, count=1)
        own = FIRST.match(line) if TORCH_LIKE.match(line) and not self.strict else None
        words = [word for word in re.split(r"[\s,()'\"\[\]]+", line) if word]
        if own and not self._printed:
            words = [own[1]]
        if not all(VALUE.fullmatch(word) for word in words):
            return False
        versions = [word for word in words if BARE.fullmatch(word)]
        names = self._printed or (["torch"] if TORCH_LIKE.match(line) else [])
        if not versions or not names:
            return False
        pairs = list(zip(names, versions, strict=False))
        self.packages += [Package(*pair) for pair in pairs]
        self._printed = self._printed[len(pairs) :]
        return True

    def _read_packages(self, line: str) -> bool:
        collected = COLLECTED.fullmatch(line)
        as_list = not self.strict or self._in_report or bool(collected)
        text = collected[1] if collected else line
        if as_list:
            packages = list(packages_in_list(text, self._in_report or bool(collected)))
        else:
            packages = list(packages_in_log(text))
        self.packages += packages
        if not packages:
            printed = printed_attributes(line)
            self._printed = [
                name for name in printed if name != "version"
            ] or self._printed
            return bool(printed)
        return True

    def _read_gpus(self, line: str) -> bool:
        row = DRIVER_ROW.match(line) or LISTED_GPU.match(line)
        low = line.lower()
        labelled = GPU_LABEL.match(line) or any(map(low.__contains__, ALL_GPUS))
        plain = not self.strict and not COLLECTED.match(line)
        if row:
            self.gpus.append(row[1].strip())
        elif labelled or plain:
            self.gpus += gpu_names(PINNED.sub("", line) if "==" in line else line)
        short = plain and len(line) < GPU_CHARS and "==" not in line
        is_name = short and any(gpu_names(line))
        return bool(row or labelled or is_name)


def is_lock(text: str) -> bool:
    """A lock file of uv, poetry, pipenv or npm's kind, which has names apart."""
    return any(mark in text for mark in LOCK_MARKS) and bool(LOCK.search(text))


def printed_attributes(line: str) -> list[str]:
    """The attributes whose values a command prints; most lines have none."""
    if "__version__" not in line and "torch." not in line:
        return []
    return [name or attribute for name, attribute in ATTRIBUTE.findall(line)]


def is_of_a_list(line: str, names_gpu: bool) -> bool:
    """A line of a list that names no package: a GPU, a heading, a command."""
    if COMPLAINT.search(line):
        return False
    return names_gpu or bool(NOT_USED.match(line) or NO_INFORMATION.fullmatch(line))
