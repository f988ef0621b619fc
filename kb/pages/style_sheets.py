"""The style sheets: eleven files to be read, sent as one.

A page waits for every sheet before it is drawn, and a browser asks for six files at a
time. `collectstatic` joins them; there is nothing else to build.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.files.base import ContentFile
from whitenoise.storage import (  # type: ignore[import-untyped]
    CompressedManifestStaticFilesStorage,
)

# In the order of their layers.
SHEETS = (
    "css/base.css",
    "css/frame.css",
    "css/controls.css",
    "css/verdicts.css",
    "css/tables.css",
    "css/prose.css",
    "css/pages.css",
    "css/releases.css",
    "css/answer.css",
    "css/record.css",
    "css/print.css",
)
JOINED = "css/site.css"


class JoiningStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Static files as whitenoise keeps them, and JOINED beside its parts."""

    sheets = (JOINED,)

    def post_process(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        paths = args[0]
        self.delete(JOINED)
        self._save(JOINED, ContentFile(b"\n".join(map(self.content, SHEETS))))
        yield from super().post_process(
            {**paths, JOINED: (self, JOINED)}, *args[1:], **kwargs
        )

    def content(self, name: str) -> bytes:
        with self.open(name) as file:
            return bytes(file.read())
