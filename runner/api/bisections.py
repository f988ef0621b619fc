"""Bisections over REST: which release began a bug, or ended it."""

from __future__ import annotations

from functools import partial
from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.addresses import page_urls
from kb.api.endpoint import Endpoint, LangQuery, answer, operation
from kb.api.fields import MadeMaybe, MadeText, number, string, texts, word
from kb.api.serializers import Serializer
from kb.languages import current_lang
from kb.models import Record
from kb.problems import Problem
from kb.requester import requester
from runner.access import may_install
from runner.api import jobs
from runner.api.runs import refusal, wanted_repro
from runner.bisecting import queue, sentences, steps
from runner.bisecting.search import BAD, GOOD, UNKNOWN
from runner.bisecting.span import SpanError
from runner.models import Bisection
from runner.runs import refusals
from runner.runs.refusals import RunRefused

END_HELP = "a release (2.4.1) or a build (2.4.1-cu121) with a result, or installed here"


class BisectionRequest(serializers.Serializer[Any]):
    record = serializers.CharField(max_length=8)
    repro = serializers.CharField(max_length=60, default="repro")
    good = serializers.CharField(max_length=61, help_text=END_HELP)
    bad = serializers.CharField(max_length=61, help_text=END_HELP)
    install = serializers.BooleanField(
        default=False,
        help_text="install releases that are not here, the ends too, where you may",
    )


class StepSerializer(Serializer):
    """A build that counted. `how`: by known evidence, by a run for this, or not."""

    build = string()
    answer = word([GOOD, BAD, UNKNOWN])
    how = word([steps.EVIDENCE, steps.RUN, steps.NOTHING])
    verdict = MadeMaybe(lambda step: step["verdict"] or None)
    reason = string(allow_blank=True)
    hits = number()
    trials = number()
    evidence = MadeMaybe(lambda step: step["evidence"] or None)
    run = MadeMaybe(lambda step: step["run"] or None)


class BisectionUrlsSerializer(Serializer):
    html = MadeText(lambda row: page_urls("bisection-detail", row.id))
    bisection = jobs.job_url("api-bisection-detail")
    cancel = jobs.job_url("api-bisection-cancel")


class BisectionSerializer(jobs.LongJobSerializer):
    """`before` and `after`: between which builds it turns, once that is found.

    Null also for an end without an answer. `unknown`: builds between without one.
    """

    good = string()
    bad = string()
    install = serializers.BooleanField()
    builds = texts(help_text="what lies between the ends, from the older one")
    asking = MadeMaybe(
        lambda row: row.run.build_id if row.run else None,
        help_text="the build whose run is being waited for",
    )
    steps = StepSerializer(many=True)
    sentence = MadeText(sentences.sentence)
    before = MadeMaybe(lambda row: sentences.answered(row, "before"))
    after = MadeMaybe(lambda row: sentences.answered(row, "after"))
    unknown = texts(source="unknown_between")
    urls = BisectionUrlsSerializer(source="*")


def get_bisection(bisection_id: str) -> Bisection:
    rows = Bisection.objects.filter(record__in=Record.objects.visible())
    return jobs.find(rows.select_related("run"), bisection_id)


def bad_ends(error: SpanError) -> Problem:
    text = error.sentences[current_lang()]
    errors = [
        {"pointer": f"/{name}", "code": "invalid", "detail": text}
        for name in ("good", "bad")
    ]
    return Problem("invalid", text, errors=errors)


def submit(request: Request, data: dict[str, Any]) -> Bisection:
    if data["install"] and not may_install(request.user):
        text = refusals.INSTALLS_NOTHING[current_lang()]
        raise Problem("forbidden", text)
    repro = wanted_repro(data["record"], data["repro"])
    ends = (data["good"], data["bad"])
    try:
        return queue.submit(repro, *ends, requester(request), install=data["install"])
    except SpanError as error:
        raise bad_ends(error) from error
    except RunRefused as error:
        raise refusal(error) from error


class BisectionList(Endpoint):
    @operation(
        "submit_bisection",
        {202: BisectionSerializer},
        query=LangQuery,
        body=BisectionRequest,
        problems=[
            *("forbidden", "unknown_record", "unknown_repro", "run_refused"),
            *("throttled", "busy"),
        ],
        tags=["runs"],
        examples=[
            OpenApiExample(
                "which release began it",
                {"record": "NAN-0009", "good": "2.4.1", "bad": "2.5.1"},
                request_only=True,
            )
        ],
    )
    def post(
        self, request: Request, query: dict[str, Any], body: dict[str, Any]
    ) -> Response:
        """Queue a bisection, or join the active one of the same question.

        Clicks go first. Two of one's own and twenty of all may wait: else 429 or 503.
        """
        return jobs.queued(query, BisectionSerializer, submit(request, body))


class BisectionDetail(Endpoint):
    @operation(
        "get_bisection",
        {200: BisectionSerializer},
        query=LangQuery,
        parameters=[jobs.id_parameter("bisection")],
        problems=["unknown_bisection"],
        tags=["runs"],
    )
    def get(
        self, request: Request, bisection_id: str, query: dict[str, Any]
    ) -> Response:
        """One bisection and its steps so far; poll it until `state` is an end."""
        return answer(query, BisectionSerializer, get_bisection(bisection_id))


class BisectionCancel(Endpoint):
    @jobs.cancelling("bisection", BisectionSerializer)
    def post(
        self,
        request: Request,
        bisection_id: str,
        query: dict[str, Any],
        **_nothing: Any,
    ) -> Response:
        """Cancel: it asks no further build; a run that goes on is kept as evidence."""
        find = partial(get_bisection, bisection_id)
        return jobs.cancel(request, query, BisectionSerializer, find, queue.cancel)
