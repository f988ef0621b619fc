"""What is installed, from whatever list of it a reader pastes. Pure.

Understood: pip freeze and pip list, conda list, torch's collect_env, lists such as
"- PyTorch: 2.6.0+cu124", a bare torch version. A version is kept as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

MAX_LINES = 4000
LINE_CHARS = 1000

VERSION = r"v?\d++(?:\.[0-9A-Za-z]++)++(?:[-+_.!][0-9A-Za-z]++)*+"
NAME = r"[A-Za-z][A-Za-z0-9._-]{0,80}"
BARE = re.compile(
    rf"(?:(?:py)?torch(?:\.__version__)?\s*[:=]{{0,2}}\s*)?['\"]?({VERSION})['\"]?",
    re.IGNORECASE,
)
PINNED = re.compile(rf"({NAME})(?:\[[\w,.-]*\])?(\s*)={{2,3}}\s*(v?\d[^\s;#,]*+)")
AT_URL = re.compile(rf"({NAME})(?:\[[\w,.-]*\])? @ (\S++)")
EDITABLE = re.compile(r"-e ((?:git|hg|svn)\+[^\s#]++)#egg=([\w.-]++)")
COLUMNS = re.compile(rf"({NAME})\s+({VERSION})(?:\s+\S+){{0,3}}")
NAMED = re.compile(
    rf"[-*•\s>`'\"]*+({NAME})[`'\"*]*+(?:\s+version)?(?:\s*\([^()]{{0,40}}\))?"
    rf"[`'\"*]*+\s*+[:：=]\s*+[`'\"*]*+({VERSION})(?![\w/])",
    re.IGNORECASE,
)
CONDA_YAML = re.compile(rf"\s*-\s+({NAME})={{1,2}}([^\s=]++)(?:=\S++)?")
COLLECTED = re.compile(r"\[(?:pip3?|conda)\]\s+(.++)")
# Lines of collect_env that say nothing a record's range could use.
NOT_USED = re.compile(
    r"""
    (?: Collecting[ ]environment[ ]information | OS | Is[ ][\w ]{2,30} | Clang[ ]version
      | GCC[ ]version | CMake[ ]version | Libc[ ]version | Python[ ]platform
      | CUDA[ ]runtime[ ]version | CUDA_MODULE_LOADING[ ]set[ ]to
      | (?:CUDA|ROCM)[ ]used[ ]to[ ]build[ ]PyTorch | GPU[ ]models[ ]and[ ]configuration
      | Nvidia[ ]driver[ ]version | cuDNN[ ]version | HIP[ ]runtime[ ]version
      | MIOpen[ ]runtime[ ]version | Versions[ ]of[ ]relevant[ ]libraries
    ) \s*+ (?:[:.]|$)
    """,
    re.VERBOSE,
)
GPU_LABEL = re.compile(
    r"[-*•\s]*+(?:GPU(?: type| \d++| models?[^:]{0,40})?|Device(?: name)?|显卡)"
    r"\s*+[:：]",
    re.IGNORECASE,
)
GPU_NAME = re.compile(
    r"(?<![\w.])(?:NVIDIA )?(?:GeForce )?"
    r"(?:[ABHLVPT]\d{2,3}[A-Z]?|[TL]4|G[BH]\d{3}|RTX ?(?:A|PRO )?\d{4}|MI\d{3}X?)"
    r"(?![\w.])[^,;|\n(]{0,30}"
)
DRIVER_ROW = re.compile(r"\|\s++\d++\s++(NVIDIA [\w ./-]{2,40}?)\s{2,}")
# Sections of collect_env with lines that only look like versions.
CPU_SECTION = re.compile(r"CPU:\s*+$")
LIBRARIES = re.compile(r"Versions of relevant libraries")
TORCH_NAMES = {"pytorch", "torch-version", "pytorch-version", "torch"}
ALIASES = {
    "llama-factory": "llamafactory",
    "hugging-face-transformers": "transformers",
    "flashattention": "flash-attn",
    "flash-attention": "flash-attn",
    "fla": "flash-linear-attention",
}
NO_INFORMATION = re.compile(
    r"\s*+(?:#.*+|[-=\s]*+|Package\s++Version.*+|```\w*+|>>>.*+|import torch.*+)\s*+"
)


@dataclass(frozen=True)
class Environment:
    """Versions as written, by canonical package name; torch's stands apart."""

    torch_raw: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    gpu: str | None = None
    unparsed_lines: int = 0
    # freeze | collect_env | conda; None where nothing was found
    kind: str | None = None

    @property
    def is_given(self) -> bool:
        return bool(self.torch_raw or self.packages)

    def version(self, package: str) -> str | None:
        """The version of `package` as written, None where it was not pasted."""
        name = canonical(package)
        return self.torch_raw if name == "torch" else self.packages.get(name)

    def merged(self, other: Environment) -> Environment:
        """This environment, completed by what only `other` says."""
        return Environment(
            torch_raw=self.torch_raw or other.torch_raw,
            packages={**other.packages, **self.packages},
            gpu=self.gpu or other.gpu,
            unparsed_lines=self.unparsed_lines,
            kind=self.kind or other.kind,
        )


def canonical(name: str) -> str:
    """The package's name as the index writes it: lower case, dashes."""
    name = re.sub(r"[-_.\s]+", "-", name.strip().lower())
    if name in TORCH_NAMES:
        return "torch"
    return ALIASES.get(name, name)


def parse_environment(text: str) -> Environment:
    """Every line counts: what is not understood is in `unparsed_lines`."""
    bare = BARE.fullmatch(text.strip()) if len(text) < LINE_CHARS else None
    if bare:
        return Environment(torch_raw=bare[1], kind="freeze")
    return _parse(text, strict=False)


def find_environment(log: str) -> Environment:
    """What a log says of its environment: only lines that say so plainly."""
    return _parse(log, strict=True)


def _parse(text: str, strict: bool) -> Environment:
    packages: dict[str, str] = {}
    gpu: str | None = None
    unparsed = 0
    for line in _lines(text):
        found = _package(line, strict)
        if found:
            packages.setdefault(canonical(found[0]), found[1])
            continue
        named = _gpu(line, strict)
        gpu = gpu or named
        unparsed += not (
            named or NOT_USED.match(line) or NO_INFORMATION.fullmatch(line)
        )
    kind = _kind(text) if packages else None
    torch = packages.pop("torch", None)
    return Environment(torch, packages, gpu, 0 if strict else unparsed, kind)


def _lines(text: str) -> Iterator[str]:
    """Lines with text, without the part of collect_env that describes the CPU."""
    in_cpu = False
    for line in re.split(r"[\r\n]+", text)[:MAX_LINES]:
        in_cpu = not LIBRARIES.match(line) and (in_cpu or bool(CPU_SECTION.match(line)))
        if line.strip() and not in_cpu:
            yield line[:LINE_CHARS]


def _package(line: str, strict: bool) -> tuple[str, str] | None:
    """(name, version) if the line names one. Strict: not from columns."""
    line = line.strip()
    collected = COLLECTED.fullmatch(line)
    if collected:
        line, strict = collected[1], False
    editable = EDITABLE.match(line)
    if editable:
        return editable[2], editable[1]
    at_url = AT_URL.match(line)
    if at_url:
        return at_url[1], wheel_version(at_url[2]) or at_url[2]
    pinned = PINNED.match(line)
    if pinned and not (strict and pinned[2]):
        return pinned[1], pinned[3]
    named = None if NOT_USED.match(line) else NAMED.match(line)
    if named and (not strict or _is_plain(named[1])):
        return named[1], named[2]
    listed = None if strict else COLUMNS.fullmatch(line) or CONDA_YAML.fullmatch(line)
    return (listed[1], listed[2]) if listed else None


def wheel_version(address: str) -> str | None:
    """The version in a wheel's file name, as in …/torch-2.5.0%2Bcu124-cp311-….whl."""
    name = unquote(address.partition("#")[0]).rsplit("/", 1)[-1]
    parts = name.split("-")
    return parts[1] if name.endswith(".whl") and len(parts) >= 5 else None


# In a log "loss: 0.25" looks like "peft: 0.15.0": only these are believed there.
PLAIN_NAMES = """
torch transformers peft datasets tokenizers accelerate trl deepspeed triton torchao
torchtitan flash-attn xformers llamafactory flash-linear-attention bitsandbytes python
"""
PLAIN = frozenset(PLAIN_NAMES.split())


def _is_plain(name: str) -> bool:
    return canonical(name) in PLAIN


def _gpu(line: str, strict: bool) -> str | None:
    row = DRIVER_ROW.match(line)
    if row:
        return row[1].strip()
    labelled = GPU_LABEL.match(line)
    named = GPU_NAME.search(line) if labelled or not strict else None
    return named[0].strip() if named else None


def _kind(text: str) -> str:
    if "Collecting environment information" in text or "[pip3]" in text:
        return "collect_env"
    if re.search(r"Is debug build|GPU models and configuration", text):
        return "collect_env"
    if re.search(r"# packages in environment at|^\s*- (?:conda|defaults)", text):
        return "conda"
    return "freeze"
