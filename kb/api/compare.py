"""Two builds or releases compared, over REST, from what `kb.releases` found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb import choices
from kb.addresses import page_urls
from kb.api.endpoint import Endpoint, operation
from kb.api.fields import (
    Choice,
    ColumnsField,
    NullField,
    TextField,
    maybe,
    moment,
    number,
    string,
    texts,
    word,
)
from kb.api.paging import PageQuery, following, page, read_cursor
from kb.api.serializers import LangUsed, RecordUrlsSerializer, Serializer
from kb.models import TestedBuild
from kb.problems import Problem
from kb.releases import sides, words
from kb.releases.comparison import (
    CHANGES,
    STANDING_OF_A_RECORD,
    Comparison,
    compare,
)
from kb.releases.details import shown
from kb.releases.sides import Side
from kb.versions.affected import BASES
from kb.versions.order import tested_builds
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, UNKNOWN

BASIS = ("run", "documented")


class SideSerializer(Serializer):
    """A release with its builds, or one build; without builds nothing was run on it."""

    name = string()
    raw = string()
    is_release = serializers.BooleanField()
    builds = texts()


class CountsSerializer(Serializer):
    """Records by how they stand, then changes of other kinds."""

    fixed = number()
    new = number()
    same = number(help_text="bad_on_both and good_on_both")
    bad_on_both = number()
    good_on_both = number()
    differs = number(help_text="where builds of one release disagree")
    not_tested = number(help_text="not judged on both sides")
    workaround_ceases = number()
    workaround_begins = number()
    behaviour = number()
    likely_new = number(help_text="of those not tested, by documents alone")
    likely_fixed = number()


assert {*CHANGES, *STANDING_OF_A_RECORD} <= set(CountsSerializer().fields)  # noqa: S101


class SeenSerializer(Serializer):
    """A run: of the trigger, or of the workaround that the item names."""

    build = string()
    verdict = word(choices.Verdict.choices)
    outcome = word(choices.Outcome.choices)
    hits = number()
    trials = number()
    origin = string()
    evidence = string()
    observed_at = moment()


class DocumentedSerializer(Serializer):
    answer = word([AFFECTED, NOT_AFFECTED, UNKNOWN])
    basis = word(BASES)


class SideOfItemSerializer(Serializer):
    runs = SeenSerializer(many=True)
    documented = DocumentedSerializer(allow_null=True)


class SaidSerializer(Serializer):
    """An observation beside the verdict; null where it was not made."""

    name = string()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ChangeSerializer(Serializer):
    change = word(CHANGES, source="item.kind")
    basis = serializers.ChoiceField(choices=BASIS)
    record = string(source="record.id")
    title = ColumnsField(source="record.title")
    repro = NullField(source="item.repro")
    device = NullField(source="item.device")
    workaround = NullField()
    before = SideOfItemSerializer()
    after = SideOfItemSerializer()
    said = SaidSerializer(many=True)
    urls = RecordUrlsSerializer(source="record")


# Declared so, as `from` is a word of Python.
ComparisonSerializer = type(
    "ComparisonSerializer",
    (LangUsed,),
    {
        "from": SideSerializer(),
        "to": SideSerializer(),
        "device": NullField(),
        "sentence": TextField(),
        "counts": CountsSerializer(),
        "only_from": number(help_text="of those not tested: judged on `from` alone"),
        "only_to": number(),
        "items": ChangeSerializer(many=True),
        "next": maybe(),
        "html": TextField(),
    },
)
# `from` is a word of Python.
CompareQuery = type(
    "CompareQuery",
    (PageQuery,),
    {
        "from": serializers.CharField(
            max_length=sides.MAX_TYPED,
            required=False,
            help_text="A release (2.5.1), a build (2.5.1-cu124) or a version; "
            "the release tested before `to` where it is missing.",
        ),
        "to": serializers.CharField(
            max_length=sides.MAX_TYPED,
            required=False,
            help_text="The newest release that was tested where it is missing.",
        ),
        "device": Choice(choices=choices.DeviceClass.choices, required=False),
    },
)


class Compare(Endpoint):
    @operation(
        "compare_builds",
        {200: ComparisonSerializer},
        query=CompareQuery,
        problems=["unknown_build", "not_found"],
        tags=["records"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Compare two builds or releases, record by record.

        A release stands for all of its builds. `items` are the changes: by runs on
        both sides, or by a run on `to` where documents speak of `from`; by documents
        alone where they are `likely_…` (basis `documented`).
        """
        return changes(request, query, compared(query))


def changes(request: Request, query: Mapping[str, Any], found: Comparison) -> Response:
    """One page of the changes, with all that is said besides."""
    start = read_cursor(request, query) or 0
    end = start + query["limit"]
    return page(
        query,
        ComparisonSerializer,
        shown(found, found.items(start, end)),
        following(request, end) if end < found.total else None,
        **head_of(found),
    )


def compared(query: Mapping[str, Any]) -> Comparison:
    """Of `from`, `to` and `device`, each of which may be missing."""
    builds = tested_builds()
    after = side(query["to"], builds) if "to" in query else newest(builds)
    before = side(query["from"], builds) if "from" in query else earlier(after, builds)
    return compare(before, after, query.get("device", ""))


def head_of(found: Comparison) -> dict[str, Any]:
    """All that is said of a comparison besides its changes."""
    before, after = found.before, found.after
    return {
        "from": before,
        "to": after,
        "device": found.device,
        "sentence": words.summary(found),
        "counts": found.counts,
        "only_from": found.only_before,
        "only_to": found.only_after,
        "html": page_urls("compare", before.name, after.name),
    }


def side(text: str, builds: list[TestedBuild]) -> Side:
    found = sides.find(text, builds)
    if found is None:
        said = _("“%s” is not a torch build or release that we can compare.")
        raise Problem("unknown_build", said % text[:80])
    return found


def newest(builds: list[TestedBuild]) -> Side:
    known = list(sides.releases(builds).values())
    if not known:
        raise Problem("unknown_build", _("No release was tested: name two builds."))
    return known[-1]


def earlier(after: Side, builds: list[TestedBuild]) -> Side:
    found = sides.previous(after, builds)
    if found is None:
        said = _("No release was tested before %s: name one to compare it with.")
        raise Problem("unknown_build", said % after.name)
    return found
