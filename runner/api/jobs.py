"""What runs, sweeps and captures share over REST: ids, 202, and cancelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from kb.api.endpoint import LangQuery, NoBody, Shape, operation, shown
from kb.problems import Problem
from runner.access import may_cancel
from runner.models.job import QueueJob

# What a client had better leave between two looks at one.
POLL_S = 1
Kind = TypeVar("Kind", bound=QueueJob)


def id_parameter(kind: str) -> OpenApiParameter:
    """`run_id` and the like: in an address, a UUID."""
    example = OpenApiExample(kind, "00000000-0000-4000-8000-000000000001")
    return OpenApiParameter(
        f"{kind}_id", OpenApiTypes.UUID, OpenApiParameter.PATH, examples=[example]
    )


def find(rows: QuerySet[Kind], job_id: str) -> Kind:
    """Raises the Problem `unknown_run` and the like."""
    code = f"unknown_{rows.model._meta.model_name}"
    try:
        key = UUID(job_id)
    except ValueError:
        raise Problem(code, _("%s is not an id: it is a UUID.") % job_id) from None
    job = rows.filter(pk=key).first()
    if job is None:
        raise Problem(code, _("Nothing here has the id %s.") % job_id)
    return job


def queued(query: dict[str, Any], shape: Shape, job: Model) -> Response:
    """202: where it is followed, and after how many seconds it is worth asking."""
    location = reverse(f"api-{job._meta.model_name}-detail", args=[job.pk])
    headers = {"Location": location, "Retry-After": str(POLL_S)}
    return Response(shown(query, shape, job), status=202, headers=headers)


def cancelling(kind: str, shape: Shape) -> Callable[[Callable[..., Any]], Any]:
    """Declare the handler of `POST …/{id}/cancel`."""
    return operation(
        f"cancel_{kind}",
        {202: shape},
        query=LangQuery,
        body=NoBody,
        parameters=[id_parameter(kind)],
        problems=["forbidden", f"unknown_{kind}", "run_over"],
        tags=["runs"],
    )


def own(request: Request, job: Kind) -> Kind:
    """Raises the Problem `forbidden` for whom did not ask for it."""
    if not may_cancel(request, job):
        raise Problem("forbidden", _("You do not wait for it; others requested it."))
    return job


def over(job: QueueJob) -> Problem:
    return Problem("run_over", _("It is over: %s.") % job.state)
