"""What varies from run to run in a message, masked; and the key that remains.

Every expression here is linear in the text: a run of characters can be entered at
one place only, and what follows it is bounded or possessive.
"""

from __future__ import annotations

import hashlib
import re

# Raised whenever a change here gives other fingerprints for the same message.
ALGORITHM = 4

MASK = "<*>"
QUOTES = dict.fromkeys((0x22, 0x60, 0xB4, 0x2018, 0x2019, 0x201C, 0x201D), "'")
VARIABLE = re.compile(
    r"""
      https?://[^\s'">)]++                              # addresses
    | (?<!\w)0x[0-9a-fA-F]++                            # pointers
    | (?<![\w-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}
    | torch\.Size\(\[[\d,\s]{0,400}+\]\)                # shapes
    | [\[(][\d,\s]{1,400}+[\])]
    | \b(?:cuda|npu|xpu|mps|hpu|hip):\d++               # devices
    | (?<![\w.:/\\])(?:[A-Za-z]:|\.{1,2})?[/\\][^\s'":,;()]++   # paths
    | (?<![\w.])v?\d++(?>(?:\.\d++)*)[\w+.]{0,60}+(?:\s?%)? # numbers, versions, sizes
    | (?<=\.)\d++(?=\.)                                 # layers.33.q_proj
    """,
    re.VERBOSE,
)
# Units that stand apart from their number.
UNIT = re.compile(
    r"<\*>(?:/(?:it|s)| ?(?:[KMGT]i?B|bytes|ms|us|sec(?:onds)?|s|it/s|s/it))(?!\w)"
)
# at::Half became c10::Half between two releases; it is the same message.
NAMESPACE = re.compile(
    r"(?<![\w:])(?>(?:(?:at|c10d?|torch|caffe2|std|native|cuda|autograd|jit|impl|detail"
    r"|headeronly)"
    r"::)+)(?=\w)"
)
# The digits of SdpaBackward0 count overloads: releases differ in them.
OVERLOAD = re.compile(r"(?<=Backward)\d{1,3}(?!\w)")
FILLING = re.compile(
    r"""
      <class\ '[^'>]{0,200}+'>
    | (?<![\w.])torch\.(?:b?float|u?int|half|double|complex|bool|short|long|q)\w*+
    | (?<![\w.])torch\.(?:cuda\.|xpu\.|hpu\.)?[A-Z]\w{0,20}?Tensor(?!\w)
    | (?<![\w.])\w++(?>(?:\.(?:\w++|<\*>)){2,})         # dotted names of 3 parts up
    """,
    re.VERBOSE,
)
SPACES = re.compile(r"\s+")
# Classes that releases and languages use for one and the same message: a C++ warning
# has no Python class, CUDA errors got their own after years as RuntimeError.
FAMILIES = {
    "warning": "warning",
    "userwarning": "warning",
    "futurewarning": "warning",
    "deprecationwarning": "warning",
    "runtimewarning": "warning",
    "acceleratorerror": "runtimeerror",
    "outofmemoryerror": "runtimeerror",
    "_linalgerror": "runtimeerror",
    "linalgerror": "runtimeerror",
    "distbackenderror": "runtimeerror",
    "distnetworkerror": "runtimeerror",
    "diststoreerror": "runtimeerror",
    "error": "runtimeerror",
}


def normalised(message: str) -> str:
    """Quotes unified, C++ namespaces and overload numbers dropped."""
    text = message.translate(QUOTES)
    if "::" in text:
        text = NAMESPACE.sub("", text)
    return OVERLOAD.sub("", text) if "Backward" in text else text


def masked(message: str) -> str:
    """The message with what varies replaced by `<*>`, quotes and spaces unified."""
    text = VARIABLE.sub(MASK, normalised(message))
    return SPACES.sub(" ", UNIT.sub(MASK, text)).strip()


def letters(message: str) -> str:
    """What identifies a masked message: its letters, without the usual fillings."""
    text = FILLING.sub(" ", message).replace(MASK, " ")
    return "".join(filter(str.isalpha, text)).lower()


def family(class_name: str) -> str:
    """The class by which messages are compared, in lower case."""
    name = class_name.lower()
    return FAMILIES.get(name, name)


def fingerprint(class_name: str, message_letters: str) -> str:
    """Sixteen hex digits; equal for the same message with other fillings."""
    key = f"{family(class_name)}|{message_letters}"
    # A key, not a signature: sha1 is what the stored fingerprints are.
    digest = hashlib.sha1(key.encode("utf-8", "replace"), usedforsecurity=False)
    return digest.hexdigest()[:16]
