"""Reading request bodies of the API without trusting their size or depth."""

import json
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from kb.problems import Problem


def refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


class BoundedJSONParser(BaseParser):
    """Strict JSON, at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        try:
            # Django keeps it then, for a handler that wants the bytes themselves.
            body = getattr(stream, "body", None) or stream.read(limit + 1)
        except RequestDataTooBig:
            body = bytes(limit + 1)
        if len(body) > limit:
            raise Problem("too_large", _("The body is over %d bytes.") % limit)
        try:
            return json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
        except RecursionError as error:
            raise ParseError(_("The JSON is nested too deeply.")) from error
        except ValueError as error:
            raise ParseError(_("Not JSON: %s") % error) from error
