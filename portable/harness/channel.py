"""What a check reports: frames on its channel, and lines of its log."""

from __future__ import annotations

import codecs
import collections
import json
import re
import secrets
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from .values import (
    CHANNEL_BYTES,
    LINE_COST_BYTES,
    LOG_KEEP_BYTES,
    LOG_LINE_CHARS,
    refuse_constant,
    visible,
)

DEEPEST_FRAME = 20
# Texts, also one without an end, which must not be read again from each quote in it.
_NO_BRACKETS = re.compile(rb'"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|[^\[\]{}"]+')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def too_deep(line: bytes) -> bool:
    """Whether JSON is nested more than DEEPEST_FRAME levels, or a bracket has no end.

    In linear time, whatever the bytes are: each turn takes the innermost level away.
    """
    brackets = _NO_BRACKETS.sub(b"", line).translate(_ONE_KIND)
    for _ in range(DEEPEST_FRAME):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


class ChannelReader:
    """Reads what a child writes to its private descriptor: framed, named, bounded.

    hello, then one result or raised, then end, each line with the nonce. Anything else
    sets `failure`, and nothing after it counts.
    """

    _NEXT = {"start": ("hello",), "hello": ("result", "raised"), "said": ("end",)}

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce
        self.hello: Optional[Dict[str, Any]] = None
        self.messages: List[Dict[str, Any]] = []
        self.failure: Optional[str] = None
        self.ended = False
        self._state = "start"
        self._buffer = b""
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > CHANNEL_BYTES:
            self.failure = "channel"
        if self.failure:
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._take(line)
        if self._buffer and not self._buffer.startswith(b"{"):
            self.failure = "channel"  # No frame begins like this: wait for no end.

    def close(self) -> None:
        """No more bytes will come: half a line is a broken frame."""
        if self._buffer:
            self.failure = "channel"

    def _take(self, line: bytes) -> None:
        message = self._parse(line)
        kind = message.get("t") if message else None
        if message is None or kind not in self._NEXT.get(self._state, ()):
            self.failure = "channel"
        elif kind == "hello":
            self.hello, self._state = message, "hello"
        elif kind == "end":
            self.ended, self._state = True, "end"
        else:
            self.messages.append(message)
            self._state = "said"

    def _parse(self, line: bytes) -> Optional[Dict[str, Any]]:
        # What is nested more deeply than any report is not even looked at: later on,
        # every step down costs a level of our own stack.
        if line.count(b"[") + line.count(b"{") > DEEPEST_FRAME and too_deep(line):
            return None
        try:
            message = json.loads(line.decode(), parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict):
            return None
        nonce = message.pop("n", None)
        if not isinstance(nonce, str) or not secrets.compare_digest(
            nonce.encode("utf-8", "replace"), self.nonce.encode()
        ):
            return None
        is_hello = message.get("t") == "hello"
        if is_hello and not isinstance(message.get("identity"), dict):
            return None
        return message


class LogTail:
    """Output of a check as lines that are safe to show; the middle of a flood is cut.

    Keeps the first and the last 64 KiB. Lines of standard error begin with [stderr].
    `on_line(stream, text)` gets every line as it comes.
    """

    def __init__(self, on_line: Optional[Callable[[str, str], None]] = None) -> None:
        self.on_line = on_line
        self.cost_bytes = 0
        self.cut_bytes = 0
        self._decoders: Dict[str, Any] = {}
        self._partial: Dict[str, str] = {}
        self._head: List[str] = []
        self._head_room = LOG_KEEP_BYTES
        self._tail: Deque[Tuple[str, int]] = collections.deque()
        self._tail_size = 0

    def feed(self, stream: str, data: bytes, final: bool = False) -> None:
        # A line costs us more than its bytes: a flood of empty ones ends sooner.
        self.cost_bytes += len(data) + LINE_COST_BYTES * data.count(b"\n")
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._partial.get(stream, "")
        text += self._decoders[stream].decode(data, final)
        *lines, rest = text.split("\n")
        for line in lines:
            self._pieces(stream, line[:-1] if line.endswith("\r") else line)
        while len(rest) > LOG_LINE_CHARS:
            self._line(stream, rest[:LOG_LINE_CHARS])
            rest = rest[LOG_LINE_CHARS:]
        self._partial[stream] = rest

    def close(self) -> None:
        """Keep the lines that were never ended."""
        for stream in list(self._partial):
            self.feed(stream, b"", final=True)
            if self._partial[stream]:
                self._line(stream, self._partial.pop(stream))

    @property
    def text(self) -> str:
        cut = ["[harness] %d bytes cut here\n" % self.cut_bytes] * bool(self.cut_bytes)
        return "".join(self._head + cut + [line for line, _ in self._tail])

    def note(self, text: str) -> None:
        self._line("harness", text)

    def _pieces(self, stream: str, line: str) -> None:
        for at in range(0, len(line) or 1, LOG_LINE_CHARS):
            self._line(stream, line[at : at + LOG_LINE_CHARS])

    def _line(self, stream: str, text: str) -> None:
        text = visible(text)
        if self.on_line:
            self.on_line(stream, text)
        shown = (text if stream == "stdout" else "[%s] %s" % (stream, text)) + "\n"
        size = len(shown.encode("utf-8"))
        if self._head_room >= size:
            self._head_room -= size
            self._head.append(shown)
            return
        self._head_room = 0
        self._tail.append((shown, size))
        self._tail_size += size
        while self._tail_size > LOG_KEEP_BYTES:
            _, gone = self._tail.popleft()
            self._tail_size -= gone
            self.cut_bytes += gone
