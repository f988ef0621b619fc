"""A record as text for a thread on GitHub, and reports of readers about a record.

Both stand at an address of their own, to be copied without a script or an account.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_safe

from kb.addresses import base_address, record_or_404
from kb.findings.strip import Range, Run, Strip
from kb.languages import current_lang
from kb.models import Record
from kb.syndication.as_markdown import PLAIN, fence
from kb.syndication.strip_picture import documented_line, sentence, strips_of

# What a reader may report, by its name in the address: a title, and what to fill in.
REPORTS = {
    "mine": (
        gettext_lazy("Was this it?"),
        gettext_lazy(
            "This was my bug: yes / no\ntorch, CUDA and GPU:\nWhat was printed:\n"
            "What helped:"
        ),
    ),
    "error": (
        gettext_lazy("An error in the record"),
        gettext_lazy("What is wrong:\nWhat is right, and how you know:"),
    ),
}


@require_safe
def record(request: HttpRequest, record_id: str) -> HttpResponse:
    found = find(record_id)
    return HttpResponse(text_of(found, base_address(request)), content_type=PLAIN)


@require_safe
def report(request: HttpRequest, record_id: str, about: str) -> HttpResponse:
    """What a report says, to be copied where the site names no repository."""
    title, body = report_of(find(record_id), base_address(request), about)
    return HttpResponse(f"{title}\n\n{body}\n", content_type=PLAIN)


def find(record_id: str) -> Record:
    rows = Record.objects.addressable().defer("html")
    return record_or_404(rows.prefetch_related("findings", "repros"), record_id)


def report_of(record: Record, base: str, about: str) -> tuple[str, str]:
    title, body = REPORTS[about]
    page = base + reverse("record-neutral", args=[record.id])
    return f"{record.id}: {title}", f"{page}\n\n{body}"


def report_address(record: Record, base: str, about: str) -> str:
    """A new issue where the site names its repository, else the text of one."""
    if not settings.REPOSITORY_URL:
        return reverse("record-report", args=[record.id, about])
    title, body = report_of(record, base, about)
    query = urlencode({"title": title, "body": body})
    return f"{settings.REPOSITORY_URL}/issues/new?{query}"


def text_of(record: Record, base: str) -> str:
    """Picture, table of releases, command, evidence; in the active language."""
    return "\n\n".join(block for block in blocks(record, base) if block) + "\n"


def blocks(record: Record, base: str) -> Iterator[str]:
    lang = current_lang()
    strips = strips_of(record)
    page = base + reverse("record-neutral", args=[record.id])
    said = sentence(record, strips) or "; ".join(strip.said for strip in strips)
    picture = base + reverse("strip", args=[record.id])
    query = "?lang=zh" if lang == "zh" else ""
    yield f"**[{record.id}]({page})** · {record.text('title', lang)}"
    yield f"[![{said}]({picture}{query})]({page})"
    if strips:
        head = _("device"), _("Result"), _("Evidence of the newest")
        rows = [("torch", *head), ("---",) * 4, *table(strips, base)]
        yield "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    else:
        yield said
    yield documented_line(record)
    names = [repro.name for repro in record.repros.all()]
    if names:
        path = reverse("api-record-repro", args=[record.id, f"{names[0]}.py"])
        yield _("Run it yourself; exit status 1: bug, 0: no bug seen.")
        yield fence(f"curl -fsS {base}{path} | python -", "sh")


def table(strips: list[Strip], base: str) -> Iterator[tuple[str, ...]]:
    """A row for each range of equal builds."""
    for strip in strips:
        for part in strip.ranges:
            newest = part.runs[-1]
            url = base + reverse("evidence-detail", args=[newest.cell.short])
            proof = f"{newest.label}: [`sha256:{newest.cell.short}`]({url})"
            yield span(part), strip.device.upper(), newest.word, proof


def span(part: Range[Run]) -> str:
    """ "2.0.1 – 2.4.1 (5)": how many builds ran, where it is more than one."""
    if len(part.runs) == 1:
        return part.first.label
    return f"{part.first.label} – {part.runs[-1].label} ({len(part.runs)})"
