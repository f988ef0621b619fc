"""Where a webhook may lead, and a connection to exactly the address that was checked.

Without WEBHOOKS_PRIVATE: https only, and no address of a private network, so that
nobody reaches through this site what stands beside it. The name is resolved once and
that address is connected to, so that no second answer of a name server counts.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

TIMEOUT_S = 10.0
PORTS = {"https": 443, "http": 80}
# Prefixes that carry an IPv4 address to it: NAT64 and 6to4.
CARRIERS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "2002::/16")))


class Unreachable(Exception):
    """Why nothing may be sent or was taken; names no address and no secret."""


@dataclass(frozen=True)
class Target:
    """The parts of a webhook's address; `path` with its query."""

    scheme: str
    host: str
    port: int
    path: str


def target(address: str) -> Target:
    """Raises Unreachable where the address cannot be one of a webhook."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise Unreachable("the address cannot be read") from error
    if parts.scheme not in PORTS or not parts.hostname:
        raise Unreachable("the address does not begin with https:// and a host")
    if parts.scheme != "https" and not settings.WEBHOOKS_PRIVATE:
        raise Unreachable("only https is allowed (WEBHOOKS_PRIVATE=1 allows http)")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Unreachable("the address holds a user, a password or a #fragment")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not (path.isascii() and path.isprintable()) or " " in path:
        raise Unreachable("the address has characters that must be percent-encoded")
    return Target(parts.scheme, parts.hostname, port or PORTS[parts.scheme], path)


def resolve(where: Target) -> str:
    """The address to connect to. Raises Unreachable where one of the host's is not
    public, for a name server that mixes them means no good.
    """
    try:
        found = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable("the host has no address") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not settings.WEBHOOKS_PRIVATE and not all(map(is_public, addresses)):
        raise Unreachable(
            "the host has a private address (WEBHOOKS_PRIVATE=1 allows that)"
        )
    return addresses[0]


def is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if address.version == 6:
        if address.ipv4_mapped:
            return is_public(str(address.ipv4_mapped))
        if any(address in network for network in CARRIERS):
            return False
    odd = address.is_multicast or address.is_reserved
    return address.is_global and not (odd or getattr(address, "is_site_local", False))


class PinnedConnection(http.client.HTTPConnection):
    """To one address, whatever its host is called; TLS checks the host's name."""

    def __init__(self, where: Target, address: str) -> None:
        super().__init__(where.host, where.port, timeout=TIMEOUT_S)
        self.where, self.address = where, address

    def connect(self) -> None:
        sock = socket.create_connection((self.address, self.port), TIMEOUT_S)
        if self.where.scheme == "https":
            context = ssl.create_default_context()
            sock = context.wrap_socket(sock, server_hostname=self.where.host)
        self.sock = sock
