"""Sweeps over REST: where a bug happens, over values of one or two parameters."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.addresses import page_urls
from kb.api.endpoint import Endpoint, LangQuery, answer, operation
from kb.api.fields import MadeMaybe, MadeText, moment, number, string, word
from kb.api.serializers import LangUsed, Serializer
from kb.api.views import get_record
from kb.choices import LANGS, WORKER_DEVICES
from kb.languages import current_lang
from kb.models import Record
from kb.problems import Problem
from portable import harness
from runner.access import requester
from runner.api import jobs
from runner.api.runs import (
    START_PROBLEMS,
    StartRequest,
    invalid_values,
    refusal,
    wanted_build,
    wanted_repro,
)
from runner.api.serializers import api_url
from runner.models import Sweep
from runner.runs.jobs import cancel
from runner.runs.refusals import RunRefused
from runner.sweeps import queue, sentences
from runner.sweeps.axes import MOST_CELLS, BadAxes, read_axes
from runner.sweeps.boundary import boundary_of

AXES_HELP = (
    "one or two parameters: `64,128` values, `*` all choices, `64:1024:64` by a step, "
    f"`1:1024:x2` with a factor, `1..4096` the boundary; at most {MOST_CELLS} cells"
)


class SweepRequest(StartRequest):
    repro = serializers.CharField(max_length=60, default="repro")
    axes = serializers.DictField(
        child=serializers.CharField(max_length=2000), help_text=AXES_HELP
    )


def sentence_of(sweep: Sweep) -> dict[str, str]:
    """Where it happens, of the cells that are done."""
    boundary = boundary_of(harness.decode(sweep.cells))
    return {lang: sentences.sentence(boundary, lang) for lang in LANGS}


class SweepUrlsSerializer(Serializer):
    html = MadeText(lambda sweep: page_urls("sweep-detail", sweep.id))
    sweep = api_url("api-sweep-detail")
    cancel = api_url("api-sweep-cancel")


class SweepSerializer(LangUsed):
    """`cells` come as they are done; `digest` is there once all of them are."""

    id = serializers.UUIDField()
    record = string(source="record_id")
    repro = string(source="repro_name")
    device = word(WORKER_DEVICES)
    state = word(Sweep.State.choices)
    reason = string(allow_blank=True, help_text="why it ended before it was complete")
    created_at = moment()
    started_at = moment(allow_null=True)
    finished_at = moment(allow_null=True)
    build = string(source="build_slug")
    axes = serializers.DictField(
        child=serializers.JSONField(),
        source="ordered_axes",
        help_text="`values`, or `between` where the boundary is looked for",
    )
    trials = number()
    cells = serializers.ListField(
        child=serializers.JSONField(),
        help_text="`at` the values, `verdict`, `reason`, `hits`, `trials`",
    )
    sentence = MadeText(sentence_of)
    digest = MadeMaybe(lambda sweep: sweep.digest or None)
    origin = string(help_text="site, repository, or the name of who sent it")
    urls = SweepUrlsSerializer(source="*")


def get_sweep(sweep_id: str) -> Sweep:
    rows = Sweep.objects.filter(record__in=Record.objects.visible())
    return jobs.find(rows, sweep_id)


def submit(request: Request, data: dict[str, Any]) -> Sweep:
    repro = wanted_repro(get_record(data["record"]), data["repro"])
    build = wanted_build(data.get("build"), repro, repro.device)
    try:
        axes = read_axes(harness.parse_header(repro.source), data["axes"])
        return queue.submit(repro, build, axes, requester(request))
    except harness.ParameterError as error:
        raise invalid_values(error, "axes") from error
    except BadAxes as error:
        text = error.said[current_lang()]
        errors = [{"pointer": "/axes", "code": "invalid", "detail": text}]
        raise Problem("invalid_values", text, errors=errors) from error
    except RunRefused as error:
        raise refusal(error) from error


class SweepList(Endpoint):
    @operation(
        "submit_sweep",
        {202: SweepSerializer},
        query=LangQuery,
        body=SweepRequest,
        problems=START_PROBLEMS,
        tags=["runs"],
        examples=[
            OpenApiExample(
                "sizes and dtypes",
                {"record": "NAN-0028", "axes": {"size": "1:16:1", "dtype": "*"}},
                request_only=True,
            )
        ],
    )
    def post(
        self, request: Request, query: dict[str, Any], body: dict[str, Any]
    ) -> Response:
        """Queue a sweep, or join the active one of the same cells.

        Clicks go first. Two of one's own and twenty of all may wait: else 429 or 503.
        """
        return jobs.queued(query, SweepSerializer, submit(request, body))


class SweepDetail(Endpoint):
    @operation(
        "get_sweep",
        {200: SweepSerializer},
        query=LangQuery,
        parameters=[jobs.id_parameter("sweep")],
        problems=["unknown_sweep"],
        tags=["runs"],
    )
    def get(self, request: Request, sweep_id: str, query: dict[str, Any]) -> Response:
        """One sweep and the cells so far; poll it until `state` is an end."""
        return answer(query, SweepSerializer, get_sweep(sweep_id))


class SweepCancel(Endpoint):
    @jobs.cancelling("sweep", SweepSerializer)
    def post(
        self, request: Request, sweep_id: str, query: dict[str, Any], **_nothing: Any
    ) -> Response:
        """Cancel: a queued sweep at once, a running one after its current cell."""
        sweep = jobs.own(request, get_sweep(sweep_id))
        if not cancel(sweep):
            raise jobs.over(get_sweep(sweep_id))
        return answer(query, SweepSerializer, get_sweep(sweep_id), status=202)
