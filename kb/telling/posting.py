"""One signed POST to a webhook: it was taken, or the reason why not."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kb.models import Webhook
from kb.telling import reach, signing
from kb.telling.reach import Unreachable

# A receiver that drips its answer must not keep a worker's thread.
LIMIT_S = 20.0
AGENT = "does-it-nan-webhook/1"


def post(webhook: Webhook, message: Mapping[str, Any]) -> int:
    """Send a message (`id` and `type` at least); returns the status, which is 2xx.

    Raises Unreachable for anything else, redirects included: they are not followed.
    """
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": AGENT,
        "X-DoesItNaN-Event": str(message["type"]),
        "X-DoesItNaN-Delivery": str(message["id"]),
        "X-DoesItNaN-Signature": signing.signature(
            webhook.secret, body, int(time.time())
        ),
    }
    where = reach.target(webhook.address)
    connection = reach.PinnedConnection(where, reach.resolve(where))
    try:
        with limited(connection):
            connection.request("POST", where.path, body, headers)
            status = connection.getresponse().status
    except ssl.SSLError as error:
        raise Unreachable(f"TLS: {error.reason or type(error).__name__}") from error
    except TimeoutError as error:
        raise Unreachable("it did not answer in time") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        name = error.strerror if isinstance(error, OSError) else ""
        raise Unreachable(f"connection: {name or type(error).__name__}") from error
    finally:
        connection.close()
    if 300 <= status < 400:
        raise Unreachable(f"it answered {status}; redirects are not followed")
    if not 200 <= status < 300:
        raise Unreachable(f"it answered {status}")
    return status


@contextmanager
def limited(connection: http.client.HTTPConnection) -> Iterator[None]:
    """End the connection after LIMIT_S in all."""

    def end() -> None:
        if connection.sock:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(LIMIT_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
