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
from kb.api.lookup_serializers import (
    BatchAnswerSerializer,
    EnvironmentsAnswerSerializer,
    LookupAnswerSerializer,
    PartSerializer,
    RecordAffectedSerializer,
)
from kb.api.views import RECORD_ID, get_record
from kb.choices import LANGS
from kb.lookup import answer as lookup
from kb.lookup.paste import check_size
from kb.problems import Problem
from kb.search.reading.parts import MAX_PARTS, Kind, Part

MAX_ITEMS = 100


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
    lang = serializers.ChoiceField(choices=LANGS, allow_null=True, default=None)


class Lookup(Endpoint):
    reads_by_post = True

    @operation(
        "look_up",
        {200: LookupAnswerSerializer},
        body=LookupRequest,
        problems=["empty_paste"],
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
        with refused_pastes():
            found = lookup.look_up(body["log"], body["env"], parts_of(body))
        return answer(body, LookupAnswerSerializer, found)


def parts_of(body: dict[str, Any]) -> list[Part]:
    return [
        Part(Kind(part["kind"]), part["first"], part["last"]) for part in body["parts"]
    ]


# One of several; a refusal names it by its place.
class Item(serializers.Serializer[Any]):
    id = serializers.CharField(
        default="", allow_blank=True, max_length=100, help_text="comes back as it is"
    )


class LookupItem(Item):
    log = PastedText(default="")
    env = PastedText(default="")


class BatchRequest(serializers.Serializer[Any]):
    items = serializers.ListField(
        child=LookupItem(),
        min_length=1,
        max_length=MAX_ITEMS,
        help_text="all logs and environments together: 1 MiB",
    )
    lang = serializers.ChoiceField(choices=LANGS, allow_null=True, default=None)


class LookupBatch(Endpoint):
    reads_by_post = True

    @operation(
        "look_up_batch",
        {200: BatchAnswerSerializer},
        body=BatchRequest,
        problems=["empty_paste"],
        tags=["lookup"],
        examples=[
            OpenApiExample(
                "two lines",
                {
                    "items": [
                        {"id": "rank 0", "log": "grad_norm: nan"},
                        {"id": "rank 1", "log": "Segmentation fault"},
                    ]
                },
                request_only=True,
            )
        ],
    )
    def post(
        self, request: Request, query: dict[str, Any], body: dict[str, Any]
    ) -> Response:
        """Look-ups of several logs at once; nothing is stored."""
        logs = "".join(item["log"] + item["env"] for item in body["items"])
        with refused_pastes("/items"):
            check_size(logs, "")
        return answer(body, BatchAnswerSerializer, {"items": list(answers_of(body))})


def answers_of(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place, item in enumerate(body["items"]):
        with refused_pastes(f"/items/{place}"):
            found = lookup.look_up(item["log"], item["env"])
        yield {"id": item["id"], "answer": found}


class AffectedRequest(serializers.Serializer[Any]):
    env = PastedText(help_text="pip freeze, collect_env, or versions")
    lang = serializers.ChoiceField(choices=LANGS, allow_null=True, default=None)


class RecordAffected(Endpoint):
    reads_by_post = True

    @operation(
        "get_record_affected",
        {200: RecordAffectedSerializer},
        body=AffectedRequest,
        parameters=[RECORD_ID],
        problems=["empty_paste", "unknown_record"],
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
        with refused_pastes():
            found = lookup.affected_by(record, body["env"])
        return answer(body, RecordAffectedSerializer, found)


class GivenEnvironment(Item):
    env = PastedText(help_text="pip freeze, collect_env, or versions")


class EnvironmentsRequest(serializers.Serializer[Any]):
    items = serializers.ListField(
        child=GivenEnvironment(), min_length=1, max_length=MAX_ITEMS
    )


class Affected(Endpoint):
    reads_by_post = True

    @operation(
        "list_affecting",
        {200: EnvironmentsAnswerSerializer},
        body=EnvironmentsRequest,
        problems=["empty_paste"],
        tags=["lookup"],
        examples=[
            OpenApiExample(
                "two environments",
                {
                    "items": [
                        {"id": "now", "env": "torch==2.5.1"},
                        {"id": "next", "env": "torch==2.13.0"},
                    ]
                },
                request_only=True,
            )
        ],
    )
    def post(
        self, request: Request, query: dict[str, Any], body: dict[str, Any]
    ) -> Response:
        """The records that affect each of several environments; nothing is stored."""
        items = list(affecting_each(body))
        return Response(EnvironmentsAnswerSerializer({"items": items}).data)


def affecting_each(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place, item in enumerate(body["items"]):
        with refused_pastes(f"/items/{place}"):
            found = lookup.all_affecting(item["env"])
        yield {"id": item["id"], **found}


@contextmanager
def refused_pastes(pointer: str = "") -> Iterator[None]:
    """What cannot be read, as the problem that says so.

    `pointer`: where it stands in a body that carries several.
    """
    try:
        yield
    except lookup.EmptyPaste as error:
        raise refused("empty_paste", error, pointer) from error
    except lookup.PasteTooLarge as error:
        raise refused("too_large", error, pointer) from error


def refused(code: str, error: Exception, pointer: str) -> Problem:
    said = str(error)
    where = [{"pointer": pointer, "code": code, "detail": said}] if pointer else []
    return Problem(code, said, errors=where)
