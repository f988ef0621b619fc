"""What stands at /api/v1/: where everything is, and what this site allows."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.addresses import absolute
from kb.api.endpoint import Endpoint, answer, operation
from kb.api.fields import maybe, number, string, texts
from kb.choices import LANGS
from kb.lookup.paste import MAX_BYTES
from runner import access
from runner.runs import admission

NAME = "Does it NaN?"
LINKS = {
    "records": "api-record-list",
    "lookup": "api-lookup",
    "compare": "api-compare",
    "contradictions": "api-contradiction-list",
    "builds": "api-build-list",
    "workers": "api-worker-list",
    "runs": "api-run-list",
    "captures": "api-capture-list",
    "evidence": "api-evidence-list",
    "doctor": "api-doctor",
    "client": "api-user-command",
    "client_wheel": "api-client-wheel",
    "openapi": "api-schema",
    "osv_query": "osv-query",
}
# Any version leads to the one that there is.
ARGUMENTS = {"api-client-wheel": ["0"]}


class ServiceLimits(serializers.Serializer[Any]):
    """`runs_per_hour`: of one requester; `paste_bytes`: log and environment."""

    paste_bytes = number()
    runs_per_hour = number()
    queued_per_requester = number()


class ServiceSerializer(serializers.Serializer[Any]):
    name = string()
    languages = texts()
    default_build = maybe(help_text="where a run goes that names no build")
    may_run = serializers.BooleanField(help_text="whether you may start runs")
    limits = ServiceLimits()
    links = serializers.DictField(child=string())


class Service(Endpoint):
    @operation("get_service", {200: ServiceSerializer}, tags=["files"])
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """All addresses of the API, and what this site lets you do."""
        builds = admission.by_preference()
        found = {
            "name": NAME,
            "languages": list(LANGS),
            "default_build": builds[0].slug if builds else None,
            "may_run": access.may_run(request.user),
            "limits": {
                "paste_bytes": MAX_BYTES,
                "runs_per_hour": settings.RUNS_PER_HOUR,
                "queued_per_requester": settings.QUEUED_PER_REQUESTER,
            },
            "links": {
                name: absolute(reverse(view, args=ARGUMENTS.get(view)))
                for name, view in LINKS.items()
            },
        }
        return answer(query, ServiceSerializer, found)
