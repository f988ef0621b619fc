"""Whom a request is counted for: the user, else the address it comes from."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from rest_framework.throttling import BaseThrottle

IPV6_PREFIX = 64  # one household or machine has that many addresses


def requester(request: HttpRequest) -> str:
    """The key that rate limits count under: the user, else the address."""
    if not isinstance(request.user, AnonymousUser):
        return f"user:{request.user.pk}"
    # Behind NUM_PROXIES proxies, the address that the outermost one saw.
    ident = BaseThrottle().get_ident(request)  # type: ignore[arg-type]
    return f"address:{address_key(ident or '')}"


def address_key(text: str) -> str:
    """The key an address is counted under: an IPv4 address, or an IPv6 /64 network."""
    try:
        address = ip_address(text)
    except ValueError:
        return text[:100]
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, IPV6_PREFIX), strict=False))
