"""Captures over REST: one call as data, run on builds; only its address finds it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import RequestDataTooBig
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.addresses import page_urls
from kb.api.endpoint import Endpoint, LangQuery, NoBody, answer, operation
from kb.api.fields import (
    Choice,
    MadeList,
    MadeMaybe,
    MadeText,
    moment,
    string,
    word,
)
from kb.api.serializers import LangUsed, Serializer
from kb.problems import Problem
from portable.nan_probe.schema import KIND, VERSION, digest_of
from runner.access import requester
from runner.api import jobs
from runner.api.runs import known_builds, refusal
from runner.api.serializers import api_url
from runner.captures import keeping, known, matrix, queue
from runner.models import Build, Capture, CaptureRun
from runner.runs.refusals import RunRefused


class CaptureQuery(LangQuery):
    build = serializers.ListField(
        child=serializers.CharField(max_length=61),
        required=False,
        max_length=100,
        help_text="slugs of /api/v1/builds, or `all` that can run it; else the first",
    )


class SentCapture(serializers.Serializer[Any]):
    """capture.json as nan_probe wrote it, at most 1 MiB and 4,096 numbers."""

    kind = Choice(choices=[KIND])
    version = Choice(choices=[1])
    call = serializers.DictField(child=serializers.JSONField())
    digest = serializers.CharField(help_text="of the rest, by which it is checked")


def example() -> dict[str, Any]:
    """The logarithm of -1, as nan_probe keeps it."""
    held = {"dtype": "float32", "shape": [1], "strides": [1], "values": ["-0x1.0p+0"]}
    call = {"function": "torch.log", "args": [{"tensor": held}], "kwargs": {}}
    found = {
        "kind": KIND,
        "version": VERSION,
        "call": {**call, "gradient": None},
        "aten": "aten.log.default",
        "direction": "forward",
        "value": "nan",
        "law": "log of a negative number",
        "class": "mathematics",
        "heals": ["torch.log(a.clamp_min(torch.finfo(a.dtype).tiny))"],
        "does_not_heal": ["in torch.float64"],
        "environment": dict.fromkeys(("python", "system", "machine"), "")
        | {"torch": "2.13.0"},
    }
    return {**found, "digest": digest_of(found)}


class CaptureRunSerializer(Serializer):
    """What the call shows on one build; `found` is {} until it has run."""

    build = string(source="build_id")
    state = word(CaptureRun.State.choices)
    outcome = MadeMaybe(lambda run: run.outcome or None)
    reason = string(allow_blank=True, help_text="of an error, as a run has it")
    found = serializers.DictField(
        child=serializers.JSONField(),
        help_text="counts `total`, `nan`, `inf`; `law`, `class`, `heals`, "
        "`does_not_heal`, each by running it there; `said`; `is_theirs`",
    )


class CaptureUrls(Serializer):
    html = MadeText(lambda capture: page_urls("capture-detail", capture.id))
    capture = api_url("api-capture-detail")
    delete = api_url("api-capture-delete")


def turned(bad: bool) -> MadeMaybe:
    def build_of(capture: Capture) -> str | None:
        run = matrix.first(matrix.runs_of(capture), bad=bad)
        return run.build_id if run else None

    return MadeMaybe(build_of)


class CaptureSerializer(LangUsed):
    """`first_bad`, `first_good`: builds at which it turned, among those that ran."""

    id = serializers.UUIDField()
    digest = string()
    created_at = moment()
    kept_until = moment()
    record = MadeMaybe(
        lambda capture: getattr(known.record_of(capture), "pk", None),
        help_text="whose trigger has the very slice of this capture; what its own "
        "diagnosis says of the operands is each run's `found.is_theirs`",
    )
    first_bad = turned(bad=True)
    first_good = turned(bad=False)
    runs = MadeList(matrix.runs_of, child=CaptureRunSerializer())
    urls = CaptureUrls(source="*")


class CaptureDeleted(Serializer):
    deleted = serializers.BooleanField()


def get_capture(capture_id: str) -> Capture:
    try:
        capture = keeping.find(UUID(capture_id))
    except ValueError:
        capture = None
    if capture is None:
        said = _("There is no capture: they are kept for a week, or until deleted.")
        raise Problem("unknown_capture", said)
    return capture


def wanted_builds(slugs: list[str]) -> list[Build]:
    """Raises Problem for a build that is not installed here."""
    builds = queue.chosen(slugs)
    unknown = set(slugs) - {build.slug for build in builds}
    if unknown and queue.ALL not in slugs:
        said = _("There is no build %s.") % ", ".join(sorted(unknown)[:5])
        raise Problem("unknown_build", f"{said} {known_builds()}")
    if not builds:
        raise Problem("unknown_build", known_builds())
    return builds


def submit(request: Request, query: dict[str, Any]) -> Capture:
    builds = wanted_builds(query.get("build", []))
    try:
        return keeping.keep(request.body, builds, requester(request))
    except RequestDataTooBig as error:
        raise Problem("too_large", str(error)) from error
    except RunRefused as error:
        problem = refusal(error)
        if error.code == "size":
            raise Problem("too_large", str(problem.detail)) from error
        if error.code in (*keeping.REFUSALS, "known"):
            errors = [
                {"pointer": "/", "code": error.code, "detail": str(problem.detail)}
            ]
            said = str(problem.detail)
            raise Problem("capture_refused", said, errors=errors) from error
        raise problem from error


class CaptureEndpoint(Endpoint):
    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        for name, value in keeping.HEADERS.items():
            response[name] = value
        return response


class CaptureList(CaptureEndpoint):
    @operation(
        "submit_capture",
        {202: CaptureSerializer},
        query=CaptureQuery,
        reads_body=SentCapture,
        problems=[
            "forbidden",
            "unknown_build",
            "capture_refused",
            "run_refused",
            "throttled",
            "busy",
        ],
        tags=["runs"],
        examples=[OpenApiExample("a logarithm", example(), request_only=True)],
    )
    def post(self, request: Request, query: dict[str, Any]) -> Response:
        """Send capture.json, the file as it is, to be run on builds of torch.

        It is kept for a week under an address that nothing else names. Sent again for
        other builds, it runs on those, too.
        """
        return jobs.queued(query, CaptureSerializer, submit(request, query))


class CaptureDetail(CaptureEndpoint):
    @operation(
        "get_capture",
        {200: CaptureSerializer},
        query=LangQuery,
        parameters=[jobs.id_parameter("capture")],
        problems=["unknown_capture"],
        tags=["runs"],
    )
    def get(self, request: Request, capture_id: str, query: dict[str, Any]) -> Response:
        """Results of a capture on each build so far, and where they change."""
        return answer(query, CaptureSerializer, get_capture(capture_id))


class CaptureDelete(CaptureEndpoint):
    @operation(
        "delete_capture",
        {200: CaptureDeleted},
        body=NoBody,
        parameters=[jobs.id_parameter("capture")],
        problems=["forbidden", "unknown_capture"],
        tags=["runs"],
    )
    def post(
        self, request: Request, capture_id: str, query: dict[str, Any], **_nothing: Any
    ) -> Response:
        """Delete a capture and its results at once; running checks are stopped."""
        keeping.delete(get_capture(capture_id))
        return answer(query, CaptureDeleted, {"deleted": True})
