"""Watches one started check to its end or its limit."""

from __future__ import annotations

import os
import secrets
import selectors
import time
from typing import Callable, Optional

from .channel import ChannelReader, LogTail
from .process import Ended, Process, process_failure, processor_limit_s
from .spec import CheckSpec, Report
from .values import OUTPUT_BYTES


def watch(
    process: Process,
    spec: CheckSpec,
    *,
    served: str = "cold",
    on_line: Optional[Callable[[str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
) -> Report:
    """Release a started check, watch it to its end or its limit, report what was seen.

    Closes `process`. Never raises for what the check does. `on_line(stream, text)` gets
    its output as it comes; `cancelled()` is called about ten times a second.
    """
    return _Watch(process, spec, on_line, cancelled).run(served)


class _Watch:
    """One started check, from its release to its Report."""

    POLL_S = 0.1  # memory and cancellation
    TURN_S = 0.05  # where nothing tells of the end
    LAST_TURN_S = 0.002  # once it said that it is at its end

    def __init__(
        self,
        process: Process,
        spec: CheckSpec,
        on_line: Optional[Callable[[str, str], None]],
        cancelled: Optional[Callable[[], bool]],
    ) -> None:
        self.process = process
        self.spec = spec
        self.nonce = secrets.token_hex(16)
        self.channel = ChannelReader(self.nonce)
        self.log = LogTail(on_line)
        self.cancelled = cancelled
        self.failure: Optional[str] = None
        self.started = time.monotonic()
        self.next_poll = self.next_look = self.started + self.POLL_S
        self.selector = selectors.DefaultSelector()

    def run(self, served: str) -> Report:
        try:
            self._open()
            ended = self.process.poll()
            while ended is None:
                self._pump(self._patience())
                ended = self.process.poll()
                if ended is None:
                    self._enforce()
            duration_s = time.monotonic() - self.started
            hit = self.process.limit_hit()
            killed_by = self._killed_by(ended)
            if ended.refused:
                self.log.note(ended.refused)
        finally:
            self.process.kill()
            self._drain()
            self.process.close()
        return Report(
            messages=self.channel.messages,
            hello=self.channel.hello,
            failure=self._failure(ended, hit) or ("lost" if killed_by else None),
            exit=ended.status,
            duration_s=duration_s,
            cpu_s=ended.cpu_s,
            peak_mib=ended.peak_mib,
            log_text=self.log.text,
            cut_bytes=self.log.cut_bytes,
            served=served,
            killed_by=killed_by,
        )

    def _killed_by(self, ended: Ended) -> str:
        spent = ended.cpu_s >= processor_limit_s(self.spec)  # which kills as well
        return "" if self.failure or spent else self.process.killed_by()

    def _failure(self, ended: Ended, hit: Optional[str]) -> Optional[str]:
        if ended.refused:
            return "refused"
        if hit == "limit:memory":
            return hit  # Also where only a part of the check was killed.
        found = self.failure or process_failure(self.channel, ended.status)
        if found is None and self.channel.messages[0]["t"] == "result":
            told = self.channel.messages[0].get("trial", self.spec.trial)
            return None if told == self.spec.trial else "channel"
        if self.failure in ("lost", "limit:output"):
            return found
        # What the kernel enforced is why it failed, whatever came after.
        return hit or found

    def _open(self) -> None:
        pipes = [
            (self.process.channel_fd, "channel"),
            (self.process.stdout_fd, "stdout"),
            (self.process.stderr_fd, "stderr"),
        ]
        for pipe, name in pipes:
            os.set_blocking(pipe, False)
            self.selector.register(pipe, selectors.EVENT_READ, name)
        if self.process.end_fd >= 0:
            self.selector.register(self.process.end_fd, selectors.EVENT_READ, "end")
        self.process.write_nonce(self.nonce)

    def _patience(self) -> float:
        """Seconds until something has to be looked at."""
        now = time.monotonic()
        wait_s = min(self.next_poll, self.started + self.spec.timeout_s) - now
        if self.process.end_fd < 0:
            turn_s = self.LAST_TURN_S if self.channel.ended else self.TURN_S
            wait_s = min(wait_s, turn_s)
        return max(wait_s, 0.0) + 0.0005

    def _pump(self, timeout_s: float) -> bool:
        """Read what is there; whether there was anything."""
        got = False
        for key, _ in self.selector.select(timeout_s):
            if key.data == "end":
                continue
            try:
                data = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            got = got or bool(data)
            if not data:
                self.selector.unregister(key.fileobj)
            elif key.data == "channel":
                self.channel.feed(data)
            else:
                self.log.feed(key.data, data)
        return got

    def _enforce(self) -> None:
        now = time.monotonic()
        if now - self.started > self.spec.timeout_s:
            self._stop("timeout")
        elif self.channel.failure:
            self._stop(self.channel.failure)
        elif self.log.cost_bytes > OUTPUT_BYTES:
            self._stop("limit:output")
        elif now >= self.next_poll:
            self.next_poll = now + self.POLL_S
            if self.cancelled and self.cancelled():
                self._stop("lost")
            elif now >= self.next_look:
                self._look(now)

    def _look(self, now: float) -> None:
        if self.process.memory_mib() > self.spec.memory_mib:
            self._stop("limit:memory")
        # Where looking is dear, look less often: a machine that stalls makes it so.
        cost_s = time.monotonic() - now
        self.next_look = now + max(self.POLL_S, 10 * cost_s)

    def _stop(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.process.kill()

    def _drain(self) -> None:
        """Take what still lies in the pipes; never wait for a writer that is left."""
        for _ in range(64):
            if not self._pump(0):
                break
        self.channel.close()
        self.log.close()
        self.selector.close()
