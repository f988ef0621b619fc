"""Look-ups over REST: a pasted log, and whether environments are affected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils.translation import gettext_lazy
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.api.endpoint import Endpoint, answer, operation
from kb.api.fields import Choice
from kb.api.lookup_serializers import (
    LookupAnswerSerializer,
    PartSerializer,
    RecordAffectedSerializer,
)
from kb.api.views import RECORD_ID, get_record
from kb.choices import LANGS
from kb.lookup import answer as lookup
from kb.lookup.slots import slot
from kb.problems import Problem
from kb.search.reading.parts import MAX_PARTS, Kind, Part


@extend_schema_field(OpenApiTypes.STR)
class PastedText(serializers.Field[str, Any, str, Any]):
    """Any text, also with NUL bytes and lone surrogates in it."""

    default_error_messages = {"invalid": gettext_lazy("Must be text.")}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class LookupRequest(serializers.Serializer[Any]):
    log = PastedText(default="", help_text="any part of a log; 1 MiB with `env`")
    env = PastedText(default="", help_text="pip freeze, collect_env, or versions")
    parts = serializers.ListField(
        child=PartSerializer(),
        default=list,
        max_length=MAX_PARTS,
        help_text="parts of `query.parts` that are to be read as another kind",
    )
    lang = Choice(choices=LANGS, allow_null=True, default=None)


class Lookup(Endpoint):
    reads_by_post = True

    @operation(
        "look_up",
        {200: LookupAnswerSerializer},
        body=LookupRequest,
        problems=["empty_paste", "invalid_values", "busy"],
        tags=["lookup"],
        examples=[
            OpenApiExample(
                "a warning, and the torch it was seen with",
                {
                    "log": "UserWarning: cuDNN SDPA backward got "
                    "grad_output.strides() != output.strides()",
                    "env": "torch==2.5.0",
                    "lang": "en",
                },
                request_only=True,
            )
        ],
    )
    def post(
        self, request: Request, query: dict[str, Any], body: dict[str, Any]
    ) -> Response:
        """Known issues of a pasted log and environment; nothing is stored."""
        with slot(body["log"], body["env"]), refused_pastes():
            found = lookup.look_up(body["log"], body["env"], parts_of(body))
        return answer(body, LookupAnswerSerializer, found)


def parts_of(body: dict[str, Any]) -> list[Part]:
    return [
        Part(Kind(part["kind"]), part["first"], part["last"]) for part in body["parts"]
    ]


class AffectedRequest(serializers.Serializer[Any]):
    env = PastedText(help_text="pip freeze, collect_env, or versions")
    lang = Choice(choices=LANGS, allow_null=True, default=None)


class RecordAffected(Endpoint):
    reads_by_post = True

    @operation(
        "get_record_affected",
        {200: RecordAffectedSerializer},
        body=AffectedRequest,
        parameters=[RECORD_ID],
        problems=["empty_paste", "invalid_values", "unknown_record", "busy"],
        tags=["lookup"],
        examples=[
            OpenApiExample(
                "a version of torch", {"env": "torch==2.5.1"}, request_only=True
            )
        ],
    )
    def post(
        self,
        request: Request,
        record_id: str,
        query: dict[str, Any],
        body: dict[str, Any],
    ) -> Response:
        """Whether an environment is affected by one record; nothing is stored."""
        record = get_record(record_id)
        with slot(body["env"]), refused_pastes():
            found = lookup.affected_by(record, body["env"])
        return answer(body, RecordAffectedSerializer, found)


@contextmanager
def refused_pastes() -> Iterator[None]:
    """What cannot be read, as the problem that says so."""
    try:
        yield
    except lookup.EmptyPaste as error:
        code = "invalid_values" if error.is_binary else "empty_paste"
        raise Problem(code, str(error)) from error
    except lookup.PasteTooLarge as error:
        raise Problem("too_large", str(error)) from error
