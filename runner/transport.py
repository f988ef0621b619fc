"""`kbfs://`: a message queue in a folder, and publishing that never blocks.

Kombu's own `filesystem://` lets readers see half-written files. Here a rename both
publishes and takes a message, so that it is complete and taken exactly once:

    <folder>/queues/<queue>/<time>-<id>.msg   queued, oldest first
    <folder>/tmp/                             being written
    <folder>/taken/                           being read
    <folder>/bad/                             unreadable, kept for inspection
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections import defaultdict, deque
from pathlib import Path
from queue import Empty
from typing import Any

from celery import current_app
from django.conf import settings
from kombu.exceptions import ChannelError, KombuError
from kombu.transport import virtual

log = logging.getLogger(__name__)

QUEUE = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}")
WAKE = "runner.wake"
# A click waits at most twice this long for a broker that hangs.
BROKER_SECONDS = 0.5
# The circuit breaker of this process stays open this long after a failure.
BROKER_PAUSE_S = 5.0
TIMEOUTS: dict[str, dict[str, float]] = {
    "amqp": {"read_timeout": BROKER_SECONDS, "write_timeout": BROKER_SECONDS},
    "redis": {
        "socket_timeout": BROKER_SECONDS,
        "socket_connect_timeout": BROKER_SECONDS,
    },
}


class Channel(virtual.Channel):
    """One reader or writer of the folder named by the connection's URL."""

    supports_fanout = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.folder = Path("/") / (self.connection.client.virtual_host or "")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("queues", "tmp", "taken", "bad"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        # Cached listings: to list a long queue again for each message is quadratic.
        self.listed: defaultdict[str, deque[Path]] = defaultdict(deque)

    def waiting(self, queue: str) -> list[Path]:
        """The messages of a queue, oldest first."""
        try:
            return sorted(self._queue_folder(queue).glob("*.msg"))
        except FileNotFoundError:
            return []

    def _queue_folder(self, queue: str) -> Path:
        if not QUEUE.fullmatch(queue):
            raise ChannelError(f"{queue!r} is not a queue name.")
        return self.folder / "queues" / queue

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        self._queue_folder(queue).mkdir(mode=0o700, exist_ok=True)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self._queue_folder(queue).is_dir()

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self._new_queue(queue)
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex}.msg"
        draft = self.folder / "tmp" / name
        draft.write_text(json.dumps(message), encoding="utf-8")
        draft.replace(self._queue_folder(queue) / name)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        paths = self.listed[queue]
        if not paths:
            paths.extend(self.waiting(queue))
        while paths:
            path = paths.popleft()
            taken = self.folder / "taken" / path.name
            try:
                path.rename(taken)
            except FileNotFoundError:
                continue  # another worker was faster
            message = self._read(taken)
            if message is not None:
                taken.unlink()
                return message
            log.warning("Unreadable message set aside: %s", path.name)
            taken.replace(self.folder / "bad" / path.name)
        raise Empty

    def _read(self, path: Path) -> dict[str, Any] | None:
        """The message in a file; None if malformed, which must not stop the worker."""
        try:
            message = json.loads(path.read_bytes())
            properties = message["properties"]
            encoding = properties.get("body_encoding")
            self.decode_body(message["body"], encoding)  # type: ignore[no-untyped-call]
            properties["delivery_info"], properties["delivery_tag"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return message if isinstance(message.get("headers"), dict) else None

    def _size(self, queue: str) -> int:
        return len(self.waiting(queue))

    def _purge(self, queue: str) -> int:
        paths = self.waiting(queue)
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)


class Transport(virtual.Transport):
    """Polls the folder; serves one machine, not a network file system."""

    Channel = Channel
    # Bindings are names only and equal in every connection of the process.
    global_state = virtual.BrokerState()  # type: ignore[no-untyped-call]
    driver_type = driver_name = "kbfs"
    polling_interval = 0.1

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)  # type: ignore[no-untyped-call]
        self.state = self.global_state

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {}  # no host, no port

    def driver_version(self) -> str:
        return "1"


def queue_name(queue: str) -> str:
    """The name of a queue at the broker, which several sites may share."""
    return settings.QUEUE_PREFIX + queue


class Breaker:
    """A circuit breaker: no connection attempts for a while after a failed one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_until = 0.0

    def allows(self) -> bool:
        with self._lock:
            return time.monotonic() >= self._open_until

    def note(self, *, answered: bool) -> None:
        with self._lock:
            pause = 0.0 if answered else BROKER_PAUSE_S
            self._open_until = time.monotonic() + pause


breaker = Breaker()


def publish(queue: str, task: str = WAKE) -> bool:
    """Wake a worker of this queue. Never raises and never waits for long.

    A lost wake-up costs a delay, not a run: workers look for queued runs
    themselves. Returns whether the broker took the message.
    """
    if not breaker.allows():
        return False
    url = current_app.conf.broker_write_url or current_app.conf.broker_url
    scheme = str(url).partition(":")[0].replace("rediss", "redis")
    connection = current_app.connection_for_write(
        connect_timeout=BROKER_SECONDS, transport_options=TIMEOUTS.get(scheme)
    )
    broker_errors = (
        KombuError,
        OSError,
        *connection.connection_errors,
        *connection.channel_errors,
    )
    try:
        # Not from the pool, whose connections are retried for seconds.
        with connection:
            connection.ensure_connection(max_retries=0)
            current_app.send_task(
                task,
                args=[queue],
                queue=queue_name(queue),
                retry=False,
                connection=connection,
            )
    except broker_errors as error:
        log.warning("No wake-up for %s: %s", queue, error)
        breaker.note(answered=False)
        return False
    breaker.note(answered=True)
    return True
