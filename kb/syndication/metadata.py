"""What a page says of itself to those who link it: its one address, its picture."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.templatetags.static import static

from kb.addresses import base_address

PICTURE = "card.png"


@dataclass(frozen=True)
class Metadata:
    """`canonical` is "" for what has no address, such as the answer to a paste."""

    canonical: str
    picture: str


def of(request: HttpRequest) -> Metadata:
    """The address without what only changes the view of the same page."""
    base = base_address(request)
    is_page = request.method in {"GET", "HEAD"}
    return Metadata(
        canonical=f"{base}{request.path}" if is_page else "",
        picture=base + static(PICTURE),
    )
