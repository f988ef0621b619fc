"""A paste as the front page sends it: two boxes, and a file in place of the first.

What the page shows of how its parts were read comes back with a reader's corrections.

What is over the limit of a look-up is not refused but read by its telling lines, as
`manage.py lookup` reads a log of any size; `static/paste.js` does so before it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple, cast

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import (
    MemoryFileUploadHandler,
    TemporaryFileUploadHandler,
)
from django.http import HttpRequest, QueryDict

from kb.languages import Text as _
from kb.lookup.paste import MAX_BYTES
from kb.search.reading.lines import (
    HEAD_LINES,
    LINE_CHARS,
    TAIL_LINES,
    select_stream_lines,
    size,
)
from kb.search.reading.parts import MAX_PARTS, Kind, Part

MAX_UPLOAD = 64 * 1024 * 1024
DRAIN_BYTES = 32 * 1024 * 1024
TORCH_CHARS = 200
TORCH_LINE = "torch=="
VERSION = re.compile(r"\d+\.\d")
LABELS = {
    Kind.LOG: _("log"),
    Kind.TRACEBACK: _("traceback"),
    Kind.METRICS: _("metrics"),
    Kind.TENSOR: _("printed tensor"),
    Kind.PROBE: _("nan_probe report"),
    Kind.CODE: _("code"),
    Kind.CONFIG: _("configuration"),
    Kind.ENVIRONMENT: _("package list"),
    Kind.WORDS: _("words"),
}
# What a reader may say instead; the others are kinds of logs.
CHOICES = (Kind.LOG, Kind.CODE, Kind.WORDS, Kind.CONFIG, Kind.ENVIRONMENT)
KINDS = {kind.value for kind in Kind}
SHOWN = 12
CORRECTION = re.compile(r"(\d{1,7})-(\d{1,7})=([a-z]{1,20})")


@dataclass(frozen=True)
class Pasted:
    """`is_part`: more was sent, and these are the lines that tell."""

    log: str
    env: str
    is_part: bool = False


class LimitedFile(TemporaryFileUploadHandler):
    """A larger file waits in the system's folder for such and goes with the request."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        if start + len(raw_data) > MAX_UPLOAD:
            raise RequestDataTooBig(f"The file is over {MAX_UPLOAD} bytes.")
        super().receive_data_chunk(raw_data, start)
        return None


def read(request: HttpRequest) -> Pasted:
    """What was sent, small enough for a look-up. Raises RequestDataTooBig."""
    request.upload_handlers = [MemoryFileUploadHandler(request), LimitedFile(request)]
    log, env = request.POST.get("log", ""), named_environment(request.POST)
    is_part = bool(request.POST.get("part"))
    room = MAX_BYTES - size(env)
    file = request.FILES.get("file")
    if file is not None:
        text = telling_lines(cast("BinaryIO", file), room)
        return Pasted(text, env, is_part=(file.size or 0) > room)
    if size(log) > room > 0:
        stream = BytesIO(log.encode("utf-8", "replace"))
        return Pasted(telling_lines(stream, room), env, is_part=True)
    return Pasted(log, env, is_part)


def drain(request: HttpRequest) -> None:
    """Read the rest: a browser that is still sending would see a broken connection."""
    left = DRAIN_BYTES
    while left > 0:
        chunk = request.read(min(left, 65536))
        if not chunk:
            return
        left -= len(chunk)


def named_environment(sent: QueryDict) -> str:
    """What the form says is installed: `env`, and what was added before it.

    A version stands for torch; commas part what was added: "2.6.0+cu124, RTX 4090".
    """
    env, added = sent.get("env", ""), sent.get("torch", "").strip()[:TORCH_CHARS]
    words = [word.strip() for word in added.replace("，", ",").split(",")]
    torch = "\n".join(
        f"{TORCH_LINE}{word}" if VERSION.match(word) else word for word in words if word
    )
    return f"{torch}\n{env}" if torch and env else torch or env


def telling_lines(stream: BinaryIO, room: int) -> str:
    """The lines of a log that complain, and its ends, in at most `room` bytes.

    No more of them than a look-up reads of a paste: the end makes room for what
    complains. Where they are still too much, all are cut alike.
    """
    lines = [line for _number, line in select_stream_lines(stream).lines]
    excess = max(0, len(lines) - HEAD_LINES - TAIL_LINES)
    lines = lines[:-TAIL_LINES] + lines[-TAIL_LINES:][excess:]
    text, chars = "\n".join(lines), LINE_CHARS
    while size(text) > room and chars > 1:
        chars //= 2
        text = "\n".join(line[:chars] for line in lines)
    return text


# --- its parts ----------------------------------------------------------------------
class Choice(NamedTuple):
    """A button: what it sends, and its words."""

    value: str
    label: str


class ShownPart(NamedTuple):
    first: int
    last: int
    label: str
    choices: list[Choice]


def corrections_of(values: Iterable[str]) -> list[Part]:
    """What a form says of parts, as "1-12=code"; anything else is left out."""
    found = map(CORRECTION.fullmatch, list(values)[: 2 * MAX_PARTS])
    return [
        Part(Kind(match[3]), int(match[1]), int(match[2]))
        for match in found
        if match and match[3] in KINDS
    ]


def shown_parts(parts: Iterable[Mapping[str, Any]]) -> list[ShownPart]:
    return [
        ShownPart(
            part["first"],
            part["last"],
            str(LABELS[Kind(part["kind"])]),
            [
                Choice(f"{part['first']}-{part['last']}={kind}", str(LABELS[kind]))
                for kind in CHOICES
                if kind != part["kind"]
            ],
        )
        for part in list(parts)[:SHOWN]
    ]
