"""The index of the API, for people: its operations by subject, made of the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from config import api_schema
from kb.addresses import base_address

SUBJECTS = ("lookup", "records", "claims", "runs", "evidence", "builds", "files")
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Operation:
    """`path` may break after a slash. `summary` is English; the catalogue has more."""

    subject: str
    method: str
    path: SafeString
    summary: str
    needs_token: bool

    def said(self) -> SafeString:
        """The summary in the reader's language, its code marked as such."""
        html = CODE.sub(r"<code>\1</code>", escape(gettext(self.summary)))
        return mark_safe(html)  # noqa: S308


@cache
def operations() -> tuple[Operation, ...]:
    return tuple(listed())


def listed() -> Iterator[Operation]:
    for path, methods in api_schema.document()["paths"].items():
        for method, entry in methods.items():
            yield Operation(
                subject=entry["tags"][0],
                method=method.upper(),
                path=mark_safe(escape(path).replace("/", "/<wbr>")),  # noqa: S308
                summary=" ".join(entry["description"].partition("\n\n")[0].split()),
                needs_token={} not in entry["security"],
            )


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    subjects = [
        (name, gettext(name), [one for one in operations() if one.subject == name])
        for name in SUBJECTS
    ]
    context = {"subjects": subjects, "base": base_address(request)}
    return render(request, "api.html", context)
