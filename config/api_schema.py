"""The OpenAPI document of /api/v1/, made when it is asked for: no file has it."""

from __future__ import annotations

from functools import cache
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from kb.api.endpoint import Endpoint, operation
from kb.api.fields import TEXT
from runner.api import rules

DESCRIPTION = """\
Known training failures of PyTorch, what was found by running their repros, and runs.

**Reading** needs no account and is open to pages of other origins
(`Access-Control-Allow-Origin: *`, never with credentials). Every read has an `ETag`;
send it as `If-None-Match` and what has not changed costs a 304.

**Lists** are `{"items": [], "next": url or null}`. Follow `next`: a walk sees each row
once and ends while rows are added. `limit` is 1 to 200.

**Languages**: a text is `{"en": "", "zh": ""}`; `?lang=en` or `?lang=zh` makes it one
text and adds `lang_used`. Titles of problems follow `Accept-Language`.

**Problems** are `application/problem+json` (RFC 9457). `type` and `code` are stable;
`type` is the address of a page below `/en` or `/zh`. A parameter or field that is not
described here is refused by name.

**Running** needs no account where the site allows it. The site limits how many runs
may wait (503), how many of one requester may wait and how many one may start in an hour
(429), each with `Retry-After`. `state` says how far a run is; `verdict` is null until
it is finished.

**Tokens** (`Authorization: Bearer dtn_…`, from an operator of the site) have scopes:
`run` to start and cancel runs, `evidence` to send evidence. A token that is unknown or
expired is refused everywhere.
"""


ABOUT = {
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "contact": {"name": "Whoever runs the site: /.well-known/security.txt"},
}
TAGS = {
    "lookup": "What a pasted log or environment shows.",
    "records": "Known failures: facts, texts, results.",
    "claims": "What sources say beside what runs showed.",
    "runs": "Runs, sweeps and captures: started, followed, ended.",
    "evidence": "What one run observed, by its digest.",
    "builds": "Installations of torch, and the workers that have them.",
    "files": "Programs and documents to take away.",
}
# Bodies whose unknown fields are refused by name (kb.api.endpoint.refuse_unknown).
CLOSED = ("LookupRequest", "AffectedRequest", "RunRequest", "SweepRequest")
PASTED = ("log", "env")
NAMED = {"pattern": "^[a-z][a-z0-9_]*$"}
NO_NUL = r"^[^\u0000]*$"
TRIMMED = r"^[^\u0000]*[^\s\u0000\u001c-\u001f\u0085][^\u0000]*$"


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "runner.api.tokens.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "dtn_…"}


def completed(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """A hook of the generator: what it cannot know of operations and shapes."""
    result["info"] |= {"description": DESCRIPTION, **ABOUT}
    result["servers"] = [{"url": "/", "description": "this site"}]
    result["tags"] = [{"name": name, "description": TAGS[name]} for name in TAGS]
    shapes = result["components"]["schemas"]
    shapes["Text"] = TEXT
    for path in result["paths"].values():
        for method, found in path.items():
            if method == "get":
                found["responses"]["304"] = {"description": "as the client has it"}
            found["security"] = security(rules.RULES[found["operationId"]])
            # A server in front of the application cuts an address off in plain text.
            long = found["responses"]["414"]["content"]
            long["text/plain"] = {"schema": {"type": "string"}}
            if "requestBody" in found:
                found["requestBody"]["required"] = True
            for parameter in found.get("parameters", ()):
                if parameter["in"] == "query":
                    tighten(parameter["name"], parameter["schema"])
    for name in CLOSED:
        shapes[name]["additionalProperties"] = False
        for field in shapes[name]["properties"].items():
            tighten(*field)
    axes = shapes["SweepRequest"]["properties"]["axes"]
    axes |= {"propertyNames": NAMED, "minProperties": 1, "maxProperties": 2}
    axes["additionalProperties"]["pattern"] = TRIMMED
    parameters = shapes["RunRequest"]["properties"]["parameters"]
    parameters["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    parameters["propertyNames"] = NAMED
    clean: dict[str, Any] = plain(result)
    return clean


def tighten(name: str, field: dict[str, Any]) -> None:
    """A text is trimmed, and then it holds something."""
    for schema in (field, field.get("items", {})):
        is_text = schema.get("type") == "string" and not {"enum", "format"} & {*schema}
        if is_text and name not in PASTED:
            schema["pattern"] = NO_NUL if name == "q" else TRIMMED


def security(rule: rules.Rule) -> list[dict[str, list[str]]]:
    if rule is rules.evidence:
        return [{"token": []}]
    return [{}, {"token": []}, {"cookieAuth": []}]


def plain(value: Any) -> Any:
    """Without the marks by which the generator names enumerations.

    A word or null is two types: of one list, generators make three classes.
    """
    if isinstance(value, dict):
        kept = {key: plain(value[key]) for key in value if key != "x-spec-enum-id"}
        if None in kept.get("enum", ()):
            words = [word for word in kept.pop("enum") if word is not None]
            kept["anyOf"] = [{"type": "string", "enum": words}, {"type": "null"}]
            del kept["type"]
        return kept
    return [plain(item) for item in value] if isinstance(value, list) else value


@cache
def document() -> dict[str, Any]:
    """The same on every site: it names no server."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    found: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


class Schema(Endpoint):
    @operation("get_openapi", {200: OpenApiTypes.OBJECT}, tags=["files"])
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """All of these operations as an OpenAPI document."""
        return Response(document())
