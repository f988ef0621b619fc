"""Package versions named in one line of a list or a log. Pure.

Every expression is linear: what repeats is possessive or bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from kb.environments.images import torch_of_image

VERSION = r"v?\d++(?>(?:\.[0-9A-Za-z]++)+(?:[-+_.!][0-9A-Za-z]++)*)"
NAME = r"[A-Za-z][A-Za-z0-9._-]{0,80}"


@dataclass(frozen=True)
class Package:
    """A package and its version as written.

    `is_sure` is False where the line may be a requirement or about another machine.
    """

    name: str
    version: str
    is_sure: bool = True


TORCH_NAMES = {
    "torch", "pytorch", "torch-version", "pytorch-version", "pytorch-build-version",
    "pytorch-gpu", "pytorch-cpu", "libtorch", "torch-nightly", "pytorch-nightly",
    "nightly", "py-torch", "python-pytorch", "python3-torch",
}  # fmt: skip
ALIASES = {
    "llama-factory": "llamafactory",
    "hugging-face-transformers": "transformers",
    "huggingface-transformers": "transformers",
    "hf-transformers": "transformers",
    "flashattention": "flash-attn",
    "flash-attention": "flash-attn",
    "flash-attention-2": "flash-attn",
    "flashattention2": "flash-attn",
    "flashattention-2": "flash-attn",
    "fla": "flash-linear-attention",
    "fla-core": "flash-linear-attention",
    "transformerengine": "transformer-engine",
    "te": "transformer-engine",
    "megatron-lm": "megatron-core",
    "pytorch-triton": "triton",
    "pytorch-triton-rocm": "triton",
    "torchtriton": "triton",
    "swift": "ms-swift",
    "deepspeed-info": "deepspeed",
}
# What names carry besides the package: "transformers version", "PyTorch 版本".
LABEL = re.compile(
    r"\.__version__$|(?:[-_.\s]version|\s?(?:的)?版本号?)$", re.IGNORECASE
)


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """The package's name as the index writes it: lower case, dashes."""
    name = re.sub(r"[-_.\s]+", "-", LABEL.sub("", name.strip()).lower()).strip("-")
    if name in TORCH_NAMES:
        return "torch"
    return ALIASES.get(name, name)


# Believed in a log too, where "loss: 0.25" looks like "peft: 0.15.0".
WELL_KNOWN_NAMES = """
torch torchvision torchaudio transformers peft datasets tokenizers accelerate trl
deepspeed triton torchao torchtitan flash-attn xformers llamafactory ms-swift unsloth
flash-linear-attention bitsandbytes python vllm lightning pytorch-lightning
megatron-core transformer-engine liger-kernel diffusers
"""
WELL_KNOWN = frozenset(WELL_KNOWN_NAMES.split())
SENTENCE_CHARS = 300
TOOLS = frozenset(("cuda", "cudnn", "nccl", "apex", "mmcv", "rocm", "cann"))
NUMBER = re.compile(r"\d+\.\d*(?:e[-+]?\d+)?", re.IGNORECASE)
# A number of three parts, or with letters in it: no measured value is one.
RELEASE = re.compile(r"\.\w+\.|\d[a-z]|[+!]|[a-z]{2}", re.IGNORECASE)
# Most lines of most logs end here, which is what keeps reading them cheap.
HAS_DIGIT = re.compile(r"\d| @ ")
# Looked for one by one: a pattern that begins anywhere takes ten times as long.
MARKS = (
    *("torch", "transformers", "peft", "dataset", "tokenizers", "accelerate", "trl"),
    *("deepspeed", "triton", "flash", "xformers", "factory", "swift", "unsloth"),
    *("bitsandbytes", "python", "vllm", "lightning", "megatron", "engine", "liger"),
    *("diffusers", "==", "git+", ".whl", "install"),
)

# Chinese writes names without a space before them, and its own commas behind.
NEW_WORD = r"(?<![A-Za-z0-9_./=:@-])"
CHINESE_COMMA = re.compile("[，；。、]")
PINNED = re.compile(
    rf"{NEW_WORD}({NAME})(?:\[[\w,. -]{{0,80}}\])?(\s?)={{2,3}}\s?"
    r"(v?\d[^\s;#,'\"`\\)\]，；。、）]*+)"
)
AT_URL = re.compile(
    rf"(?:-\s)?({NAME})(?:\[[\w,.-]*\])?\s?@\s?((?:https?|file|git\+\w+|ssh|hg\+\w+):\S++)"
)
SOURCE = r"(?:git|hg|svn)\+[^\s#;'\"]++"
FROM_SOURCE = re.compile(
    rf"(?:-e\s|--editable[\s=]|-\s|pip3?\sinstall\s(?:-\S+\s)*|^)['\"]?({SOURCE})"
    r"(?:#(?:[^\s&]*&)?egg=([\w.-]++))?"
)
# pip writes it above "-e /workspace/pytorch".
EDITABLE_NOTE = re.compile(
    rf"#\s?Editable\s[\w\s]{{3,40}}+\(({NAME})={{2,3}}([^\s()]++)\)", re.IGNORECASE
)
WHEEL = re.compile(
    r"(?<![\w.%-])([A-Za-z][\w.]{0,60})-(\d[\w.+!%]{0,80})(?:-\d\w{0,20})?"
    r"-(?:cp|py|pp)[\w.]{1,40}-[\w.]{1,30}-[\w.]{1,80}\.whl"
)
CONDA_FILE = re.compile(
    rf"/(?:linux|osx|win|noarch)[\w-]{{0,12}}/({NAME}?)-(\d[^-/\s]*+)-[\w.]{{1,80}}"
    r"\.(?:tar\.bz2|conda)"
)
INSTALLED = re.compile(r"Successfully installed (.++)")
SATISFIED = re.compile(
    rf"Requirement already satisfied: ({NAME})[^\s]* in \S+ (?:\(from [^()]*+\) )?"
    rf"\(({VERSION})\)"
)
# A branch of pipdeptree.
BRANCH = re.compile(rf"({NAME}) \[required: [^\[\]]{{1,80}} installed: ({VERSION})\]")
DASHED = re.compile(r"(\S{1,80})-(\d\S*+)")
# "torch  2.5.1", and what is put after it: a build, a channel, a path, a summary.
COLUMNS = re.compile(
    rf"({NAME})(?: \(!\))?[ \t]+({VERSION}|\d++)"
    r"((?:[ \t]+(?![/+&]\s)[^\s|,;，]++){0,3}|[ \t]{2,}[A-Za-z][^|]*+)[ \t]*"
)
CONDA_PIN = re.compile(
    rf"(?:-\s+)?(?:[\w./-]{{1,60}}::)?({NAME})={{1,2}}(\d[^\s=]*+)(=[\w.]++)?"
)
# "- PyTorch version (GPU?): 2.5.1 (True)", "PyTorch 版本：2.5.1", "torch … 2.5.1".
WORDS = rf"{NAME}(?:[ ][A-Za-z][\w.-]{{0,40}}){{0,3}}?"
NAMED = re.compile(
    rf"[-*•·\s>`'\"|\[({{]*+(?:\d{{1,2}}[.)、]\s)?[`'\"*]*+({WORDS})[`'\"*]*+"
    r"(?:\s?version|\s?ver\.?|\s?(?:的)?版本号?)?(?:\s*+[(（][^()（）]{0,40}[)）])?"
    r"(?:\s?version)?[`'\"*]*+(?:\s*+[:：=\uff1d|]{1,2}|[\s.]*\.{4,}|\s*->|\sis\s|[为是])\s*+"
    rf"[\[`'\"*=]*+({VERSION})(?![A-Za-z0-9_/%])",
    re.IGNORECASE,
)
# Labels whose value no record's range could use.
NOT_USED = re.compile(
    r"""
    [-*\s]*+
    (?: Collecting[ ]environment[ ]information | OS | Is[ ][\w ]{2,30} | Clang[ ]version
      | GCC[ ]version | CMake[ ]version | Libc[ ]version | Python[ ]platform | Platform
      | CUDA[ ]runtime[ ]version | CUDA_MODULE_LOADING[ ]set[ ]to
      | (?:CUDA|ROCM)[ ]used[ ]to[ ]build[ ]PyTorch
      | (?:CUDA|GPU|MPS|XPU)[ ]available | (?:GPU|XPU)[ ]models[ ]and[ ]configuration
      | N(?:vidia|VIDIA)[ ]driver[ ]version | (?:Driver|CUDA|ROCm)[ ][Vv]ersion
      | cuDNN[ ]version | HIP[ ]runtime[ ]version
      | MIOpen[ ]runtime[ ]version | Versions[ ]of[ ]relevant[ ]libraries
      | Caching[ ]allocator[ ]config | Using[ ][\w ,/-]{3,60}\? | System[ ]RAM
      | (?:Huggingface|Tensorflow|Flax|Jax|JaxLib)[ _]?[\w ]{0,20}(?:\([^()]*+\))?
        (?=\s*+:\s*not[ ]installed)
      | Summary | Home-page | Author(?:-email)? | License(?:-Expression)? | Location
      | Requires | Required-by | Editable[ ]project[ ]location | Installer
      | (?:torch|deepspeed)[ ]install[ ]path | torch[ ](?:cuda|hip)[ ]version
      | nvcc[ ]version | deepspeed[ ]wheel[ ]compiled[ ]w
      | shared[ ]memory[ ]\(/dev/shm\)
      | CUDA[ ]?版本 | 操作系统 | 系统 | 驱动(?:版本)? | 显存 | 内存
    ) (?:\s?\([^()]{0,40}\))? \s*+ (?:[:：.?]|$)
    """,
    re.VERBOSE,
)
# Without a sign between: only for what is surely a package.
BESIDE = re.compile(
    rf"{NEW_WORD}({NAME})(?:\s?(?:version|nightly|stable|版本号?))?\s?[ =vV-]?\s?"
    rf"({VERSION})(?![A-Za-z0-9_/%])",
    re.IGNORECASE,
)
# torch-2.5.1, torch/2.5.1, py-torch@2.5.1, PyTorch2.5.1+cu121.
GLUED = re.compile(
    rf"{NEW_WORD}((?:py-?)?torch|transformers|deepspeed|accelerate|peft|trl|vllm|python)"
    rf"(?:[-@/]|\s?v)?({VERSION})(?![A-Za-z0-9_/%])",
    re.IGNORECASE,
)
# As Ultralytics says it at the head of its logs.
DASHED_TORCH = re.compile(
    r"\storch-(\d++\.\d++\.\d++(?:(?:a|rc|\.dev|\.post)\d++)?(?:\+[\w.]++)?)(?=\s)"
)
NAME_AND_VERSION = re.compile(rf"Name: ({NAME}) Version: ({VERSION})")
JSON_PAIR = re.compile(
    r"\"name\"\s?:\s?\"([\w.-]{1,80})\"[^{}]{0,600}?\"version\"\s?:\s?\"([^\"]{1,120})\""
)
TABLE_PIN = re.compile(
    rf"['\"]?({NAME})['\"]?\s?=\s?\{{[^}}]*?version\s?=\s?\"=*({VERSION})\""
)
# A log may name versions that it requires or recommends. Words are looked for one by
# one, as `MARKS` are.
WISHES = (
    *("requir", "minimum", "at least", "expect", "should", "need", "upgrad"),
    *("downgrad", "recommend", "support", "since", "until", "before", "after"),
    *("older", "newer", "fixed", "incompatib", "conflict", "~=", "!="),
    *("要求", "需要", "建议", "推荐", "升级", "降级", "至少", "最低", "以上", "以下"),
    *("之前", "之后", "修复", "支持", "不兼容", "正式版", "最后版本"),
)
ENVIRONMENT = re.compile(
    r"[-*#>\s]*(?:[\u4e00-\u9fff]{0,4}(?:环境|版本)(?:信息|配置|说明)?|env(?:ironment)?|versions?)"
    r"\**\s*[:：]\s*(\S.+)",
    re.IGNORECASE,
)
SAVED = re.compile(r"\"\w+_version\"")
MARKER = re.compile(
    r";\s*(?:python_version|sys_platform|platform_|os_name|implementation)"
)
# "ok with deepspeed==0.10.2", where another version fails.
WORKED = re.compile(
    r"\b(?:ok|okay|fine|works?|worked|working|no (?:problem|issue|error)s?)"
    rf" (?:with|in|on|under) {NAME}(?:\s?==\s?|\s)v?\d",
    re.IGNORECASE,
)
NOT_THERE = re.compile(rf"[<>]=?\s?\d|(?i:{WORKED.pattern})")
SEPARATOR = re.compile(
    r"\s*[,，、;；|]\s*|\s+[/+&]\s+|\s+(?:and|with|和|与)\s+|。|\.\s+"
)
DEEPSPEED = re.compile(rf"DeepSpeed info: version=({VERSION})")
# "xFormers was built for: PyTorch 2.3.1+cu121 with CUDA 1201 (you have 2.4.1+cu121)"
YOU_HAVE = re.compile(rf"({NAME})\s+{VERSION}[^()\n]{{0,30}}\(you have ({VERSION})\)")
NOT_A_PACKAGE = re.compile(
    r"driver|sys|platform|os|gcc|clang|glibc|libc|cmake|nvcc|ubuntu|debian|linux|kernel"
    r"|windows|macos|release|build|version|name|docker|image|nvidia|gpu|step|epoch|loss",
    re.IGNORECASE,
)


def packages_in_list(line: str, in_report: bool = False) -> Iterator[Package]:
    """Packages in a line of a list, or in a sentence.

    Outside a report a name needs a plausible version: "loss 0.25" is no package.
    """
    if not HAS_DIGIT.search(line):
        return
    explicit = _explicit(line)
    yield from explicit
    if explicit and CHINESE_COMMA.search(line):
        said = in_prose(PINNED.sub("", line)[:SENTENCE_CHARS])
        yield from (package for package in said if is_well_known(package.name))
    if not explicit:
        for package in _listed(line) or in_prose(line[:SENTENCE_CHARS]):
            if in_report or _is_believable(package):
                yield package


def packages_in_log(line: str) -> Iterator[Package]:
    """Packages that a line of a log states as installed, not as wanted or advised."""
    if not HAS_DIGIT.search(line) or not may_name(line):
        return
    packages = _explicit(line, in_log=True)
    if packages or is_wish(line):
        yield from packages
        return
    labelled = ENVIRONMENT.match(line)
    if labelled:
        yield from filter(_is_believable, in_prose(labelled[1][:SENTENCE_CHARS]))
        return
    columns = COLUMNS.fullmatch(line)
    if columns and is_well_known(columns[1]):
        yield Package(columns[1], columns[2])
        return
    parts = SEPARATOR.split(line[:SENTENCE_CHARS])
    beside = [m for m in map(BESIDE.fullmatch, parts) if m and is_well_known(m[1])]
    if len(beside) > 1:  # "torch 2.1.2, peft 0.10.0"
        yield from packages_of(beside)
        return
    for part in parts:
        # "transformers_version" in the configuration of a checkpoint says who saved it.
        if SAVED.match(part):
            continue
        named = NAMED.match(part) or _after_prefix(part)
        if named and is_well_known(named[1]):
            yield Package(named[1], named[2])


def packages_of(matches: Iterable[re.Match[str]]) -> list[Package]:
    """From matches whose first groups are a name and a version."""
    return [Package(match[1], match[2]) for match in matches]


def may_name(line: str) -> bool:
    """Whether a line of a log can name a package at all; most cannot."""
    low = line.lower()
    return any(map(low.__contains__, MARKS))


def is_wish(line: str) -> bool:
    """It says which version is wanted, advised or fine, not which is there."""
    low = line.lower()
    return any(word in low for word in WISHES) or bool(NOT_THERE.search(line))


def _after_prefix(part: str) -> re.Match[str] | None:
    """A name and version at the end of what a logger put before it."""
    for prefix in re.finditer(r"(?<=[\s:\]])(?:Py)?[Tt]orch(?= |:|\.__)", part):
        named = NAMED.match(part, prefix.start())
        if named:
            return named
    return None


def is_well_known(name: str) -> bool:
    return canonical(name) in WELL_KNOWN


def _is_believable(package: Package) -> bool:
    if is_well_known(package.name) or canonical(package.name) in TOOLS:
        return True
    version = package.version
    return bool(RELEASE.search(version)) and not NUMBER.fullmatch(version)


def _explicit(line: str, in_log: bool = False) -> list[Package]:
    """Packages in notations that mean nothing else: pins, wheels, pip's own lines."""
    note = EDITABLE_NOTE.match(line)
    if note:
        return [Package(note[1], note[2])]
    if line.startswith("#"):
        return []
    at_url = AT_URL.match(line)
    if at_url:
        return [Package(at_url[1], _version_in(at_url[2]) or at_url[2])]
    source = FROM_SOURCE.match(line)
    if source:
        return [Package(source[2] or _repository(source[1]), source[1])]
    installed = INSTALLED.search(line)
    if installed:
        return packages_of(DASHED.finditer(installed[1]))
    satisfied = SATISFIED.match(line) or BRANCH.match(line)
    if satisfied:
        return [Package(satisfied[1], satisfied[2])]
    packages = _in_log_lines(line) or _in_file_names(line)
    return packages or _pinned(line, in_log)


def _in_log_lines(line: str) -> list[Package]:
    """Versions that DeepSpeed, Ultralytics and xFormers log."""
    info, dashed = DEEPSPEED.search(line), DASHED_TORCH.search(line)
    packages = [Package("deepspeed", info[1])] if info else []
    packages += packages_of(YOU_HAVE.finditer(line))
    return [*packages, Package("torch", dashed[1])] if dashed else packages


def _in_file_names(line: str) -> list[Package]:
    """The names of wheels, of conda's packages, of images."""
    wheels = WHEEL.finditer(unquote(line)) if "whl" in line else ()
    files = [*wheels, *CONDA_FILE.finditer(line)]
    if files:
        return packages_of(files)
    image = torch_of_image(line)
    return [Package("torch", image, is_sure=False)] if image else []


def _pinned(line: str, in_log: bool) -> list[Package]:
    sure = not (MARKER.search(line) or WORKED.search(line))
    if in_log:
        match = PINNED.match(line)
        return [Package(match[1], match[3])] if match and not match[2] else []
    if line.startswith("--") and "==" not in line:
        return []
    return [Package(match[1], match[3], sure) for match in PINNED.finditer(line)]


def _version_in(address: str) -> str | None:
    """The version in the name of a wheel or of a source archive."""
    path = unquote(address.partition("#")[0])
    wheel = WHEEL.search(path)
    if wheel:
        return wheel[2]
    archive = re.search(r"/[A-Za-z][\w.-]{0,80}?-(\d[\w.+!]*?)\.(?:tar\.gz|zip)$", path)
    return archive[1] if archive else None


def _repository(address: str) -> str:
    """The package that a repository is named for."""
    path = address.partition("://")[2].split("@")
    # git@host:owner/name and host/owner/name@revision.
    name = next((part for part in path if "/" in part), "")
    return name.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")


def _listed(line: str) -> list[Package]:
    table = TABLE_PIN.match(line)
    if table:
        return [Package(table[1], table[2])]
    pairs = [*JSON_PAIR.finditer(line), *NAME_AND_VERSION.finditer(line)]
    if pairs:
        return packages_of(pairs)
    columns = COLUMNS.fullmatch(line)
    if columns and not NOT_A_PACKAGE.fullmatch(columns[1]):
        return [Package(columns[1], columns[2])]
    conda = CONDA_PIN.fullmatch(line)
    return [Package(conda[1], conda[2])] if conda else []


def in_prose(line: str) -> list[Package]:
    """Packages in bullets, tables and sentences: "torch 2.5.1, CUDA 12.4"."""
    # DeepSpeed names the torch that its wheel was made with, which is not this one.
    sure = not (is_wish(line) or "wheel compiled w" in line)
    packages = []
    whole = NAMED.match(line.replace(" | ", ": ", 1) if line.startswith("|") else line)
    for part in SEPARATOR.split(line):
        if NOT_USED.match(part):
            continue
        packages += [
            Package(name, version, sure)
            for name, version in _named_in(part)
            if not NOT_A_PACKAGE.fullmatch(canonical(name))
        ]
    if (
        not packages
        and whole
        and not NOT_USED.match(line)
        and not NOT_A_PACKAGE.fullmatch(canonical(whole[1]))
    ):
        packages.append(Package(whole[1], whole[2], sure))
    return packages


def _named_in(part: str) -> Iterator[tuple[str, str]]:
    """Names with their versions in a part of a sentence."""
    named = NAMED.match(part) or _after_prefix(part)
    if named:
        # "my torch version is 2.6.0"
        last = named[1].split()[-1]
        yield (named[1] if is_well_known(named[1]) else last), named[2]
        return
    beside = [match for match in BESIDE.finditer(part) if is_well_known(match[1])]
    found = [*beside, *GLUED.finditer(part)]
    yield from ((match[1], match[2]) for match in found)
