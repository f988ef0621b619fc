"""Runs and their logs over REST."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.api.endpoint import (
    Endpoint,
    LangQuery,
    Query,
    answer,
    operation,
    revalidated,
    shown,
)
from kb.api.fields import Choice
from kb.api.paging import PageQuery, listing
from kb.api.views import get_record
from kb.choices import WORKER_DEVICES, Verdict
from kb.languages import current_lang
from kb.models import Record, Repro
from kb.problems import Problem
from portable import harness
from runner import run_sentences
from runner.access import may_operate, requester
from runner.api import jobs, prefer
from runner.api.serializers import RunLogSerializer, RunPageSerializer, RunSerializer
from runner.limits import MAX_TRIALS
from runner.models import Build, Run
from runner.runs import (
    admission,
    joining,
    live_log,
    scheduling,
    submission,
    throttle,
)
from runner.runs.refusals import RunRefused

LOG_PAGE = 1000
MAX_SEQ = 999_999_999
MAX_NAMED = 40
RUN_ID = jobs.id_parameter("run")
PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description="`wait=30`: wait so many seconds, at most 30, for the end of the run. "
    "`Preference-Applied` in the answer says that it was done; a busy site answers "
    "at once.",
    examples=[OpenApiExample("wait", "wait=1")],
)


def get_run(run_id: str) -> Run:
    rows = Run.objects.select_related("repro__record", "evidence", "build")
    return jobs.find(rows, run_id)


def version_of(run_id: str) -> tuple[object, ...]:
    """For ETags: what decides `RunSerializer`, without the evidence itself."""
    run = jobs.find(Run.objects.select_related("repro"), run_id)
    place = scheduling.place_in_queue(run)
    columns = [field.attname for field in Run._meta.concrete_fields]
    # The lease is renewed each second and is not shown.
    shown = [getattr(run, name) for name in columns if name != "lease_until"]
    return (*shown, place, run.repro.fidelity)


class Flag(serializers.BooleanField):
    """A truth value of JSON; 0 or "yes" is none."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


START_PROBLEMS = [
    *("forbidden", "unknown_record", "unknown_repro", "unknown_build"),
    *("invalid_values", "run_refused", "throttled", "busy"),
]


class StartRequest(serializers.Serializer[Any]):
    """What a run and a sweep are of."""

    record = serializers.CharField(max_length=8)
    build = serializers.CharField(
        max_length=61,
        required=False,
        help_text="a slug of /api/v1/builds; else the site's default that can run this",
    )


class RunRequest(StartRequest):
    repro = serializers.CharField(
        max_length=60,
        required=False,
        help_text="else one for this device that needs no further package",
    )
    device = Choice(choices=WORKER_DEVICES, default="cpu")
    trials = serializers.IntegerField(min_value=1, max_value=MAX_TRIALS, required=False)
    parameters = serializers.DictField(
        child=serializers.JSONField(),
        required=False,
        help_text="values of the repro's parameters other than the reviewed ones; "
        "the answer is then about these values, never the record's verdict",
    )
    again = Flag(default=False, help_text="run also where a fresh result exists")


def wanted_repro(record: Record, name: str) -> Repro:
    repro = record.repros.filter(name=name).first()
    if repro is None:
        said = _("%(record)s has no repro named %(name)s.")
        raise Problem("unknown_repro", said % {"record": record.id, "name": name})
    return repro


def wanted_build(slug: str | None, repro: Repro, device: str) -> Build:
    """The named build, or the site's default for this repro."""
    if slug is None:
        build = admission.default_build(repro, device)
        said = _("Nothing is installed here.")
    else:
        build = Build.objects.filter(slug=slug).first()
        said = _("There is no build %s.") % slug
    if build is None:
        raise Problem("unknown_build", f"{said} {known_builds()}")
    return build


def known_builds() -> str:
    """The slugs that a run may name, newest version first."""
    slugs = [build.slug for build in admission.installed_builds()]
    if not slugs:
        return _("Start a worker that has a torch first.")
    return _("Builds here: %s.") % ", ".join(slugs[:MAX_NAMED])


def refusal(error: RunRefused) -> Problem:
    code = error.code if error.code in ("busy", "throttled") else "run_refused"
    return Problem(code, error.detail(current_lang()), wait=error.wait_s or None)


def invalid_values(error: harness.ParameterError, field: str = "parameters") -> Problem:
    """Each parameter at fault by name, with what it may be."""
    found = run_sentences.refused_values(error, current_lang())
    errors = [
        {"pointer": f"/{field}/{name}", "code": "invalid", "detail": text}
        for name, text in found
    ]
    return Problem("invalid_values", ": ".join(found[0]), errors=errors)


class RunQuery(PageQuery):
    record = serializers.CharField(max_length=8, required=False)
    build = serializers.CharField(max_length=61, required=False)
    state = Choice(choices=Run.State.choices, required=False)
    verdict = Choice(choices=Verdict.choices, required=False)


COLUMNS = {
    "record": "repro__record_id",
    "build": "build_id",
    "state": "state",
    "verdict": "verdict",
}


def limits(request: Request) -> dict[str, str]:
    """How many runs one may start in an hour, and how many are left (RateLimit)."""
    quota = throttle.quota(requester(request))
    return {
        "RateLimit-Policy": f'"runs";q={quota.limit};w=3600',
        "RateLimit": f'"runs";r={quota.left};t={quota.reset_s}',
    }


class RunList(Endpoint):
    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if request.method == "POST" and response.status_code != 401:
            for name, value in limits(request).items():
                response[name] = value
        return super().finalize_response(request, response, *args, **kwargs)

    @operation(
        "list_runs",
        {200: RunPageSerializer},
        query=RunQuery,
        problems=["not_found"],
        tags=["runs"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Runs, newest first."""
        rows = Run.objects.select_related("repro__record", "evidence", "build")
        asked = {COLUMNS[name]: query[name] for name in COLUMNS if name in query}
        rows, newest = rows.filter(**asked), ("-created_at", "-id")
        return listing(request, query, rows, newest, RunPageSerializer)

    @operation(
        "submit_run",
        {200: RunSerializer, 202: RunSerializer},
        query=LangQuery,
        body=RunRequest,
        parameters=[PREFER],
        problems=START_PROBLEMS,
        tags=["runs"],
        examples=[
            OpenApiExample(
                "once, on a build of the CPU",
                {"record": "NAN-0002", "build": "2.13.0-cpu", "trials": 1},
                request_only=True,
            )
        ],
    )
    def post(
        self, request: Request, query: dict[str, Any], body: dict[str, Any]
    ) -> Response:
        """Submit a run: 202 queued or joined, 200 recent result or waited for.

        The queue, how many runs one may have waiting and how many one may start in an
        hour are limited: 429 and 503 come with Retry-After.
        """
        submitted = submit(request, body)
        run = submitted.run
        waited = prefer.wait_for(run, prefer.wanted(request))
        if waited:
            run = get_run(str(run.id))
        flags = {"joined": submitted.joined, "cached": submitted.cached}
        headers = {"Location": reverse("api-run-detail", args=[run.id])}
        if waited:
            headers["Preference-Applied"] = f"wait={prefer.wanted(request)}"
        over = submitted.cached or (waited and run.is_over)
        if not over:
            headers["Retry-After"] = str(jobs.POLL_S)
        answered = shown(query, RunSerializer, run, **flags)
        return Response(answered, status=200 if over else 202, headers=headers)


def submit(request: Request, data: dict[str, Any]) -> submission.Submitted:
    record = get_record(data["record"])
    name = data.get("repro") or admission.default_repro(record, data["device"])
    repro = wanted_repro(record, name)
    try:
        return submission.submit(
            repro,
            wanted_build(data.get("build"), repro, data["device"]),
            data["device"],
            data.get("trials") or repro.header.get("trials", 1),
            requester=requester(request),
            again=data["again"],
            values=data.get("parameters"),
        )
    except harness.ParameterError as error:
        raise invalid_values(error) from error
    except RunRefused as error:
        raise refusal(error) from error


class RunDetail(Endpoint):
    @operation(
        "get_run",
        {200: RunSerializer},
        query=LangQuery,
        parameters=[RUN_ID, PREFER],
        problems=["unknown_run"],
        tags=["runs"],
    )
    def get(self, request: Request, run_id: str, query: dict[str, Any]) -> Any:
        """One run; poll it until `state` is finished or cancelled, or wait for that."""
        seconds = prefer.wanted(request)
        waited = bool(seconds) and prefer.wait_for(get_run(run_id), seconds)
        response = revalidated(
            request,
            version_of(run_id),
            lambda: answer(query, RunSerializer, get_run(run_id)),
        )
        if waited:
            response["Preference-Applied"] = f"wait={seconds}"
        return response


class LogQuery(Query):
    after = serializers.IntegerField(
        min_value=0, max_value=MAX_SEQ, default=0, help_text="`seq` of the last line"
    )


class RunLog(Endpoint):
    @operation(
        "get_run_log",
        {200: RunLogSerializer},
        query=LogQuery,
        parameters=[RUN_ID],
        problems=["unknown_run"],
        tags=["runs"],
    )
    def get(self, request: Request, run_id: str, query: dict[str, Any]) -> Response:
        """The log lines after a given one; `end` when no more will come."""
        run = get_run(run_id)
        rows = live_log.lines(run, query["after"], LOG_PAGE)
        found = {
            "lines": rows,
            "next": rows[-1].seq if rows else query["after"],
            "end": run.is_over and len(rows) < LOG_PAGE,
        }
        return answer(query, RunLogSerializer, found)


class RunCancel(Endpoint):
    @jobs.cancelling("run", RunSerializer)
    def post(
        self, request: Request, run_id: str, query: dict[str, Any], **_nothing: Any
    ) -> Response:
        """Withdraw your request; if nobody else waits, the run is cancelled.

        A queued one at once, a running one as soon as its worker sees. Where others
        wait, it goes on, and `others_waiting` says so. Operators cancel it for all.
        """
        run = jobs.own(request, get_run(run_id))
        outright = may_operate(request.user)
        others = joining.cancel(run, requester(request), outright=outright)
        if others is None:
            raise jobs.over(get_run(run_id))
        run = get_run(run_id)
        vars(run).update(others_waiting=others)
        return answer(query, RunSerializer, run, status=202)
