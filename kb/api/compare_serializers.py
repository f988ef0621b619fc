"""A comparison as the API answers it, from what `kb.releases` found."""

from __future__ import annotations

from rest_framework import serializers

from kb import choices
from kb.api.fields import (
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
from kb.api.serializers import LangUsed, RecordUrlsSerializer, Serializer
from kb.releases.comparison import CHANGES, STANDING_OF_A_RECORD
from kb.versions.affected import BASES
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
