"""The preview of what would be kept, and the page of what was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from kb.lookup import answer as lookup, keeping
from kb.lookup.keeping import Kept
from kb.models import SharedAnswer
from kb.pages.lookup import LookupPage, result_page
from kb.pages.paste.form import Pasted
from kb.pages.paste.parts import corrections_of
from kb.search.reading.parts import MAX_PARTS
from kb.sharing import rows
from kb.sharing.rows import Refusal

LINE_END = "\r\n"


@dataclass(frozen=True)
class PreviewPage:
    """`shown`: the answer that the kept lines give, None where they give none."""

    kept: Kept
    shown: LookupPage | None = None
    refusal: Refusal | None = None
    # More was masked than in what was sent, or less can be kept than was pasted.
    changed: bool = False

    @property
    def until(self) -> datetime:
        return timezone.now() + timedelta(days=settings.SHARED_ANSWER_DAYS)

    @property
    def may_be_kept(self) -> bool:
        """It is what was shown before, and it answers something."""
        return bool(self.shown) and not (self.refusal or self.changed)

    @property
    def status(self) -> int:
        return self.refusal.status if self.refusal else 200


@dataclass(frozen=True)
class SharedPage:
    row: SharedAnswer
    shown: LookupPage | None
    may_delete: bool = False
    token: str = field(default="", repr=False)


def first_preview(request: HttpRequest) -> PreviewPage:
    """Of a paste as the look-up's page holds it.

    Raises EmptyPaste, PasteTooLarge.
    """
    log, env = text_of(request, "log"), text_of(request, "env")
    said = corrections_of(request.POST.getlist("part")[: 2 * MAX_PARTS])
    kept = keeping.of_answer(log, lookup.look_up(log, env, said))
    return preview(kept)


def next_preview(request: HttpRequest, maker: str) -> PreviewPage:
    """Of what a preview's form sends, masked anew."""
    sent = Kept(*(lines_of(request, name) for name in ("log", "env")))
    if sent.is_too_long:
        # Before any work is done on it; it comes back as it is.
        return PreviewPage(sent, refusal=rows.refusal(sent, maker))
    try:
        kept = keeping.of_form(sent.log, sent.env)
    except lookup.EmptyPaste as error:
        return PreviewPage(Kept("", ""), refusal=Refusal(str(error), 400))
    return preview(kept, rows.refusal(kept, maker), changed=kept != sent)


def preview(
    kept: Kept, refusal: Refusal | None = None, *, changed: bool = False
) -> PreviewPage:
    return PreviewPage(kept, shown_of(kept), refusal, changed)


def shown_of(kept: Kept) -> LookupPage | None:
    """The answer as of today; None for lines that give none."""
    if kept.is_empty:
        return None
    try:
        result = lookup.look_up(kept.log, kept.env)
    except (lookup.EmptyPaste, lookup.PasteTooLarge):
        return None
    page = result_page(Pasted(kept.log, kept.env), result, [])
    return page if page.found_anything else None


def text_of(request: HttpRequest, name: str) -> str:
    """A field of a form without what browsers make of line ends."""
    return request.POST.get(name, "").replace(LINE_END, "\n").replace("\r", "\n")


def lines_of(request: HttpRequest, name: str) -> str:
    """The same without what stands at the end of a line or of all and is not seen."""
    lines = text_of(request, name).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def kept_page(request: HttpRequest, row: SharedAnswer) -> SharedPage:
    kept = Kept(row.log, row.env)
    return SharedPage(row, shown_of(kept), rows.may_delete(request, row))
