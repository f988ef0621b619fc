"""GPU names as people and tools write them, and the architecture behind each. Pure.

Compute capabilities are those of NVIDIA's table of CUDA GPUs; gfx names those of
AMD's ROCm hardware table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

# Name as in MODEL (upper case, no spaces) -> compute capability times ten.
CAPABILITY = {
    "K40": 35, "K80": 37, "M40": 52, "M60": 52, "P100": 60, "P4": 61, "P40": 61,
    "V100": 70, "V100S": 70, "GV100": 70, "TITANV": 70, "TITANXP": 61, "TITANX": 61,
    "TITANRTX": 75, "T4": 75, "T4G": 75,
    "T400": 75, "T500": 75, "T550": 75, "T600": 75, "T1000": 75, "T1200": 75,
    "T2000": 75,
    "A100": 80, "A100X": 80, "A800": 80, "A30": 80,
    "A2": 86, "A10": 86, "A10G": 86, "A10M": 86, "A16": 86, "A40": 86,
    "A2000": 86, "A4000": 86, "A4500": 86, "A5000": 86, "A5500": 86, "A6000": 86,
    "L2": 89, "L4": 89, "L20": 89, "L40": 89, "L40S": 89, "L40G": 89,
    "H20": 90, "H100": 90, "H200": 90, "H800": 90, "GH200": 90,
    "B100": 100, "B200": 100, "GB200": 100, "B300": 103, "GB300": 103, "GB10": 121,
    "ORIN": 87, "XAVIER": 72, "THOR": 110,
}  # fmt: skip
# GeForce cards by the first two digits of their number.
GEFORCE = {"10": 61, "16": 75, "20": 75, "30": 86, "40": 89, "50": 120}
# NVIDIA's T series has the chip of the GTX 16 cards.
T_CARDS = "T(?:400|5[05]0|600|1[02]00|2000)"
T_SERIES = re.compile(rf"(?<![\w-]){T_CARDS}(?!\w)")
# Series and number are two words to those who ask for "GTX 16": GTX1660, RTX-5090.
SERIES = re.compile(r"(?<![A-Za-z])([GR]TX)-?(?=\d)", re.IGNORECASE)
GFX = {
    "MI50": "gfx906", "MI60": "gfx906", "MI100": "gfx908", "MI210": "gfx90a",
    "MI250": "gfx90a", "MI250X": "gfx90a", "MI300": "gfx942", "MI300A": "gfx942",
    "MI300X": "gfx942", "MI308X": "gfx942", "MI325X": "gfx942", "MI350X": "gfx950",
    "MI355X": "gfx950", "7900": "gfx1100", "9070": "gfx1201",
}  # fmt: skip
FAMILIES = {
    "pascal": {60, 61, 62}, "volta": {70, 72}, "turing": {75}, "ampere": {80, 86, 87},
    "ada": {89}, "hopper": {90}, "blackwell": {100, 101, 103, 110, 120, 121},
}  # fmt: skip

MODEL = re.compile(
    r"""
    (?: (?<![A-Za-z0-9.+_-]) | (?<=\d[xX]) )
    (?: (?:NVIDIA|AMD|Tesla|GeForce|Instinct|Radeon|Jetson)[ -] ){0,3}
    (?:
      (?P<ada>RTX[ ]?[2456]0[05]0[ ]?Ada)
    | RTX[ ]?PRO[ ]?(?P<pro>\d{4})
    | (?P<titan>TITAN[ ]?(?:RTX|Xp|X|V))(?![A-Za-z])
    | (?P<quadro>Quadro[ ](?:RTX[ ])?\d{4})
    | (?:RTX[ -]?|GTX[ -]?)(?P<geforce>\d{4})(?:[ ]?(?:Ti|SUPER|D|M))?s?(?![0-9A-Za-z])
    | RTX[ -]?(?P<workstation>A\d{4})
    | RX[ ]?(?P<radeon>\d{4})(?:[ ]?XTX?)?
    | (?P<instinct>MI\d{2,3}[AX]?)(?![0-9A-Za-z])
    | (?P<apple>Apple[ ]M\d(?:[ ](?:Pro|Max|Ultra))?)
    | (?P<ascend>(?:Ascend[ -]?|昇腾[ ]?)910[A-Z]?\d?|910B\d?)(?![0-9A-Za-z])
    | (?P<datacenter>
        (?:[ABHLMPV]\d{1,3}[0-9]?[A-Z]?|[TL]4G?|"""
    + T_CARDS
    + r"""|G[BHV]\d{2,3})
      )(?![0-9A-WYZa-wyz]|\.\w)
    | (?P<embedded>Orin|Xavier|Thor)(?![A-Za-z])
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
# 4090, 1660: cards are often called by their number alone, after a word or count.
NUMBER_ONLY = re.compile(
    r"(?:(?<![A-Za-z0-9_.:：/第-])|(?<=[卡号U][:：]))(?:\d{1,2}\s?[x*×张卡块]\s?)?"
    r"([2345]0[5-9]0|16[356]0)(?:\s?Ti)?(?![A-Za-z0-9_.:/-]|\s?(?:MB|MiB|GB|ms|s\b|steps?|epochs?"
    r"|images?|samples?|tokens?|[步个次轮条年万元]|张图|块钱|样本))",
    re.IGNORECASE,
)
AFTER = re.compile(r"[^,;|，；、。()（\n\u3400-\u9fff]{0,30}")
STOP = re.compile(
    r"\s{2,}|\s(?:GPUs?|Driver|Off|On)\b|[.。]\s|\s?[x×*]\s?\d|\s[+/&]\s|\s?[-=]+>|→"
    r"|\sI\b|\s?[\"\u201c\u201d\u2018\u2019`!?？]"
    r"|\s(?!(?:ti|super|laptop|max|mobile|pcie|sxm|ada)\b)[a-z]{2,}\b"
)
GFX_NAME = re.compile(r"(?<!\w)gfx(9\d[0-9a-f]|1\d{3})(?!\w)")
SM = re.compile(
    r"(?<![a-z0-9])(?:sm|compute)[_ ]?(\d{2,3})[af]?(?![0-9])", re.IGNORECASE
)
OR_LATER = re.compile(
    r"(?:>=?|≥|at least|from)\s*(?:sm|compute|\d)|\+|or (?:later|newer|higher)|以上",
    re.IGNORECASE,
)
CAPABLE = re.compile(r"(?<![\w.])(\d{1,2})\.(\d)(?![\w.])")


# A device as programs print and name it, and as people do. Of the CPU only what says
# that there is no other.
DEVICE = re.compile(
    r"(?<![\w./-])(?P<printed>mps|npu|xpu|cuda):\d++(?![\d.])"
    r"|\bdevice(?:_type|_map)?['\"]?\s?[=:]\s?['\"]?(?P<given>mps|npu|xpu|cuda)\b"
    r"|\.to\(\s?['\"](?P<moved>mps|npu|xpu|cuda)\b",
)
SPOKEN_DEVICE = re.compile(
    r"(?P<mps>\bMPS\b|Apple Silicon|\bM[1-5] (?:Pro|Max|Ultra|Mac|MacBook)\b|MacBook)"
    r"|(?P<rocm>\bROCm\s?\d|(?<!\w)MI[23]\d\d[AX]?\b)|(?P<npu>昇腾|\bAscend\b)"
    r"|(?P<cpu>\bCPU[- ]only\b|\bonly (?:on )?(?:the )?CPU\b|\bno GPU\b"
    r"|(?:仅|只)(?:用|使用|有)?\s?CPU|(?:没有|无)\s?(?:GPU|显卡))",
    re.IGNORECASE,
)


def names_of(cards: Collection[str]) -> list[str]:
    """Their own, and that of the series whose chip they have."""
    names = [SERIES.sub(r"\1 ", card) for card in cards]
    return [*names, "GTX 16"] if any(map(T_SERIES.search, cards)) else names


def device_named(line: str, in_log: bool) -> str:
    """cuda, mps, npu, xpu, rocm or cpu, where a line names one; else ""."""
    found = DEVICE.search(line)
    if found:
        return str(found["printed"] or found["given"] or found["moved"])
    spoken = None if in_log else SPOKEN_DEVICE.search(line)
    return str(spoken.lastgroup) if spoken else ""


def gpu_names(text: str) -> Iterator[str]:
    """Every GPU that a line names, with what follows of its name."""
    end = 0
    for match in MODEL.finditer(text):
        if match.start() < end or not _is_card(match):
            continue
        rest = AFTER.match(text, match.end())
        tail = rest[0] if rest else ""
        stop = STOP.search(tail)
        name = match[0] + (tail[: stop.start()] if stop else tail)
        end = match.start() + len(name)
        yield name.strip(" -:.\t'\"`*]").strip()
    if not end:
        for match in NUMBER_ONLY.finditer(text):
            yield match[1]


def _is_card(match: re.Match[str]) -> bool:
    """Whether a short name (B1, L2) is that of a card."""
    name = match["datacenter"]
    return name is None or _model(name) in CAPABILITY


def _model(name: str) -> str:
    """As CAPABILITY has it; "A100s" are several."""
    upper = name.upper().replace(" ", "")
    return upper if upper in CAPABILITY else upper.removesuffix("S")


def architecture(name: str) -> str | None:
    """sm_90, gfx942, mps, ascend; None for an unknown name."""
    gfx = GFX_NAME.search(name)
    if gfx:
        return gfx[0]
    for match in MODEL.finditer(name):
        arch = _architecture(match)
        if arch:
            return arch
    number = NUMBER_ONLY.search(name)
    return f"sm_{GEFORCE[number[1][:2]]}" if number else None


def _architecture(match: re.Match[str]) -> str | None:
    group = match.groupdict()
    if group["apple"]:
        return "mps"
    if group["ascend"]:
        return "ascend"
    if group["instinct"] or group["radeon"]:
        return GFX.get((group["instinct"] or group["radeon"]).upper())
    capability = _capability(group)
    return f"sm_{capability}" if capability else None


def _capability(group: dict[str, str | None]) -> int | None:
    if group["ada"]:
        return 89
    if group["pro"]:
        return 120
    if group["quadro"]:
        return 75 if "RTX" in group["quadro"].upper() else None
    if group["geforce"]:
        number = group["geforce"]
        return GEFORCE.get(number[:2])
    name = (
        group["titan"]
        or group["workstation"]
        or group["datacenter"]
        or group["embedded"]
    )
    return CAPABILITY.get(_model(name)) if name else None


def platform_of(gpus: Iterable[str]) -> str:
    """What torch calls the devices that are none of NVIDIA's: rocm, npu, mps; or ""."""
    archs = {arch for name in gpus if (arch := architecture(name))}
    if not archs or any(arch.startswith("sm_") for arch in archs):
        return ""
    names = {"mps": "mps", "ascend": "npu"}
    return names.get(min(archs), "rocm")


def demanded(value: str) -> tuple[set[str], int | None]:
    """The precondition gpu_arch parsed: architectures, and the lowest sm of a "+".

    "sm_90" is that one; "sm_80+", ">= 8.0" and "Hopper" are understood; of anything
    else both are empty.
    """
    text = value.lower()
    numbers = {int(number) for number in SM.findall(text)}
    numbers |= {int(major + minor) for major, minor in CAPABLE.findall(text)}
    if numbers and OR_LATER.search(text):
        return set(), min(numbers)
    for family, members in FAMILIES.items():
        if re.search(rf"\b{family}\b", text):
            numbers |= members
    named = {f"sm_{number}" for number in numbers}
    return named | {f"gfx{number}" for number in GFX_NAME.findall(text)}, None


def is_cuda_only(value: str) -> bool:
    """Whether only GPUs of NVIDIA can meet `value`."""
    required, lowest = demanded(value)
    return lowest is not None or any(arch.startswith("sm_") for arch in required)


def meets(value: str, gpus: Iterable[str]) -> bool | None:
    """True if one of the GPUs meets `value`, False if none does, None if unknown."""
    required, lowest = demanded(value)
    archs = [architecture(name) for name in gpus]
    if not archs or not (required or lowest):
        return None
    if any(arch and _fits(arch, required, lowest) for arch in archs):
        return True
    return None if None in archs else False


def _fits(arch: str, required: set[str], lowest: int | None) -> bool:
    if lowest is not None:
        return arch.startswith("sm_") and int(arch[3:]) >= lowest
    return arch in required
