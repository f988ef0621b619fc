"""What agents may ask: the API's own checks, limits and answers, in one language.

Docstrings and descriptions are what a model reads. Each refusal is the API's problem.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.conf import settings
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from pydantic import Field
from rest_framework import serializers
from rest_framework.request import Request

from kb.addresses import base_address, record_urls
from kb.api import compare, lookups
from kb.api.compare import ComparisonSerializer
from kb.api.endpoint import shown
from kb.api.lookup_serializers import (
    LookupAnswerSerializer,
    PastedEnvironmentSerializer,
    RecordAffectedSerializer,
)
from kb.api.views import get_record as visible_record
from kb.languages import DJANGO_LANG
from kb.lookup import answer as lookup
from kb.lookup.slots import slot
from kb.models import Record
from kb.problems import Problem
from kb.releases import details
from kb.syndication import as_markdown
from runner.api import prefer, rules, runs
from runner.api.serializers import RunSerializer
from runner.limits import MAX_WAIT_S
from runner.models.token import Token

Json = dict[str, Any]
MAX_CHANGES = 200

Detail = Annotated[
    Literal["short", "full"],
    Field(description="short: at most 2,000 tokens; full: everything, which is long"),
]
Lang = Annotated[Literal["en", "zh"], Field(description="language of the answer")]
RecordId = Annotated[str, Field(description="id of a record, such as NAN-0008")]
Env = Annotated[
    str,
    Field(
        description="what `pip freeze` or `python -m torch.utils.collect_env` prints, "
        "the name of a container image, or versions such as torch==2.5.1"
    ),
]
Build = Annotated[
    str, Field(description="a release (2.5.1), a build (2.5.1-cu124) or a version")
]
AnyRepro = Annotated[str, Field(description="where a record has several")]
Wait = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        description="seconds to wait for the end of it; a busy site does not wait",
    ),
]


def look_up(
    request: Request,
    log: Annotated[
        str,
        Field(description="any part of a log, traceback, warning, question or code"),
    ] = "",
    env: Env = "",
    detail: Detail = "short",
    lang: Lang = "en",
) -> Json:
    """Find the known PyTorch failures that a log shows: NaN or infinite loss, lost or
    wrong gradients, wrong numbers.

    Paste the warning, traceback or training log as it is, up to 1 MiB together with
    `env`. `decision` says which record explains which line and what stays unexplained.
    At most three `candidates`, best first, each with its reasons, whether `env` is
    affected, and a test that tells yes from no; `first_checks` help whatever the cause.
    No candidate does not mean that there is no bug. Nothing that is pasted is stored.
    """
    with slot(log, env), lookups.refused_pastes():
        found = lookup.look_up(log, env)
    answer = in_one(lang, LookupAnswerSerializer, found)
    return answer if detail == "full" else short(answer)


def short(found: Json) -> Json:
    """The same without what an agent does not need: it pays for each word."""
    first = found["facts"]["figures"]["first_bad"]
    named = found["facts"]["named"]
    return {
        "decision": found["decision"],
        "facts": {
            "named": {f"{row['fact']} {row['value']}": row["line"] for row in named},
            "torch": found["facts"]["packages"].get("torch"),
            "first_bad": first,
        },
        "laws": {row["title"]: row["urls"]["html"] for row in found["laws"]},
        "candidates": [
            {
                **{key: row[key] for key in ("record", "slug", "title", "confidence")},
                "because": row["because"],
                "affected": row["affected"] and row["affected"]["answer"],
                "test": row["test"],
                "workaround": row["workaround"] and row["workaround"]["apply"],
                "url": row["urls"] and row["urls"]["html"],
            }
            for row in found["candidates"]
        ],
        "first_checks": [
            {key: row[key] for key in ("title", "text", "code")}
            for row in found["first_checks"]
        ],
        "ruled_out": {row["reason"]: row["slugs"] for row in found["ruled_out"]},
        "affecting": {
            row["group"]: [one["record"] for one in row["records"]]
            for row in found["affecting"]
        },
    }


def get_record(
    request: Request, record: RecordId, detail: Detail = "short", lang: Lang = "en"
) -> str:
    """Read one record as Markdown: symptom, affected versions, what runs showed on
    which builds of torch, workarounds with the code that was run, cause, sources.
    """
    return whole_record(request, record, lang)


def whole_record(request: Request, record: str, lang: Lang = "en") -> str:
    """One record as Markdown."""
    found = visible_record(record)
    everything = Record.objects.addressable().with_everything().get(pk=found.pk)
    # A terminal has asked no site, so there is no address but the one that is set.
    asked_here = "SERVER_NAME" in request.META
    base = base_address(request) if asked_here else settings.SITE_URL
    return as_markdown.text_of(everything, base, lang)


def list_records(request: Request) -> str:
    """Every record with its title and what it is about, as Markdown."""
    return "\n".join(as_markdown.listed("doesitnan://records/{}")) + "\n"


def check_environment(
    request: Request,
    env: Env,
    record: Annotated[
        str, Field(description="only this record, with reasons; else all of them")
    ] = "",
    detail: Detail = "short",
    lang: Lang = "en",
) -> Json:
    """Say which known failures affect an environment, or whether one of them does.

    Without `record`: `affecting`, the records that affect it by runs on that very build
    or by documented versions. With `record`: affected, not affected or unknown, on
    which basis, with reasons and with what a list of packages cannot tell. Nothing that
    is pasted is stored.
    """
    with slot(env), lookups.refused_pastes():
        if record:
            one = lookup.affected_by(visible_record(record), env)
            return in_one(lang, RecordAffectedSerializer, one)
        found = lookup.all_affecting(env)
    by_id = Record.objects.in_bulk(found["affecting"])
    rows = [by_id[pk] for pk in found["affecting"] if pk in by_id]
    env_read = in_one(lang, PastedEnvironmentSerializer, found["env"])
    if detail == "short":
        titles = {row.pk: shortened(row.text("title", lang)) for row in rows}
        return {"torch": env_read["torch"], "count": len(rows), "affecting": titles}
    return {
        "env": env_read,
        "affecting": [
            {
                "record": row.pk,
                "title": row.text("title", lang),
                "url": record_urls(row)["html"][lang],
            }
            for row in rows
        ],
    }


def shortened(title: str) -> str:
    return Truncator(title).chars(72)


def brief(item: Json) -> str:
    """A change of a comparison, on one line."""
    names = ("change", "basis", "device", "record", "workaround")
    said = " ".join(item[name] for name in names if item[name])
    return f"{said}: {shortened(item['title'])}"


def compare_builds(
    request: Request,
    before: Build = "",
    after: Build = "",
    device: Annotated[
        Literal["", "cpu", "cuda"], Field(description="only runs on this; else on both")
    ] = "",
    limit: Annotated[
        int, Field(ge=1, le=MAX_CHANGES, description="how many changes to list")
    ] = 50,
    detail: Detail = "short",
    lang: Lang = "en",
) -> Json:
    """Say what an upgrade of torch changes: bugs it brings, bugs it fixes, workarounds
    that cease to help.

    Without `after` the newest release that was tested, without `before` the one tested
    before that. `items` are the changes by runs on both sides (`basis` run), then those
    that only documents say (`likely_…`); `total` is their number, `counts` all records.
    """
    asked = {"from": before, "to": after, "device": device}
    query = checked(compare.CompareQuery, {k: v for k, v in asked.items() if v})
    found = compare.compared(query)
    items = details.shown(found, found.items(0, limit))
    body = {"items": items, "next": None, **compare.head_of(found)}
    answered = in_one(lang, ComparisonSerializer, body)
    del answered["next"]
    if detail == "short":
        answered["items"] = [brief(item) for item in answered["items"]]
    return {**answered, "total": found.total}


def run_repro(
    request: Request,
    record: RecordId,
    build: Annotated[
        str, Field(description="a build of this site; else its default that can do it")
    ] = "",
    repro: AnyRepro = "repro",
    device: Literal["cpu", "cuda"] = "cpu",
    parameters: Annotated[
        dict[str, Any] | None,
        Field(description="values of the repro's parameters other than the reviewed"),
    ] = None,
    trials: Annotated[
        int | None,
        Field(description="how often trigger and workarounds run; else as reviewed"),
    ] = None,
    again: Annotated[
        bool, Field(description="run also where a fresh result exists")
    ] = False,
    wait_s: Wait = 0,
    detail: Detail = "short",
    lang: Lang = "en",
) -> Json:
    """Run a record's reviewed repro on a build of torch of the site; takes a token with
    the scope `run`. Only reviewed programs run, never code that is sent.

    Answers with a fresh result, the run that is under way, or a new one. `verdict` is
    null until `state` is finished: ask `get_run` with its `id`.
    """
    require_run_token(request)
    given = {"build": build, "parameters": parameters, "trials": trials}
    body = {name: value for name, value in given.items() if value not in ("", None)}
    body |= {"record": record, "repro": repro, "device": device, "again": again}
    submitted = runs.submit(request, checked(runs.RunRequest, body))
    flags = {"joined": submitted.joined, "cached": submitted.cached}
    return run_shown(str(submitted.run.id), wait_s, lang, **flags)


def get_run(
    request: Request,
    run: Annotated[str, Field(description="the `id` that run_repro answered")],
    wait_s: Wait = 0,
    detail: Detail = "short",
    lang: Lang = "en",
) -> Json:
    """Read a run: how far it is, then its verdict, checks and what they observed."""
    return run_shown(run, wait_s, lang)


def require_run_token(request: Request) -> None:
    """Also where anybody may run by the page: an agent acts for an account."""
    if not isinstance(request.auth, Token):
        said = _("Send a token with the scope run: Authorization: Bearer dtn_…")
        raise Problem("unauthenticated", said)
    rules.run(request)


def run_shown(run_id: str, wait_s: int, lang: str, **flags: bool) -> Json:
    """As it stands once it is over, or `wait_s` seconds are."""
    prefer.wait_for(runs.get_run(run_id), wait_s)
    return in_one(lang, RunSerializer, runs.get_run(run_id), **flags)


def checked(shape: type[serializers.Serializer[Any]], given: Json) -> Json:
    """By the shape that the API checks the same with."""
    form = shape(data=given)
    form.is_valid(raise_exception=True)
    return dict(form.validated_data)


def in_one(lang: str, shape: Any, found: Any, **context: Any) -> Json:
    return dict(shown({"lang": lang}, shape, found, **context))


def django_language(arguments: Json) -> str:
    """The language that sentences of an answer are in."""
    return DJANGO_LANG[arguments.get("lang", "en")]
