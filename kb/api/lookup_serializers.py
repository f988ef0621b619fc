"""A look-up as the API answers it (contract §6), from what `kb.lookup.answer` found."""

from __future__ import annotations

from rest_framework import serializers

from kb import choices
from kb.api.fields import TextField, maybe, number, string, texts, word
from kb.api.serializers import (
    WORKAROUND_STATES,
    FixVersionSerializer,
    FrameworkLineSerializer,
    LangUsed,
    RecordUrlsSerializer,
    Serializer,
)
from kb.findings import remedies
from kb.lookup.affecting import GROUPS
from kb.lookup.reasons import RULED_OUT
from kb.search.ranking.log_lines import Confidence
from kb.search.reading.parts import Kind
from kb.versions.affected import BASES
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, UNKNOWN

# Declared so, as `class` is a word of Python.
KeyLineSerializer = type(
    "KeyLineSerializer",
    (Serializer,),
    {"line": number(), "class": maybe(), "text": string()},
)


class FingerprintsSerializer(Serializer):
    algorithm = number()
    values = serializers.ListField(child=maybe())


class CutSerializer(Serializer):
    lines = number()
    bytes = number()


class PastedTorchSerializer(Serializer):
    raw = string()
    build = maybe()


class PastedEnvironmentSerializer(Serializer):
    torch = PastedTorchSerializer(allow_null=True)
    contradicting = texts()
    packages = serializers.DictField(child=serializers.CharField())
    gpu = maybe()
    unparsed_lines = number()


class PartSerializer(Serializer):
    """Lines `first` to `last` of the log, counted from 1, and what they are."""

    kind = word([kind.value for kind in Kind])
    first = number()
    last = number()


class UnderstoodSerializer(Serializer):
    """How the paste was understood."""

    took_it_for = texts()
    parts = PartSerializer(many=True)
    key_lines = KeyLineSerializer(many=True)
    facets = texts()
    fingerprints = FingerprintsSerializer()
    cut = CutSerializer()
    env = PastedEnvironmentSerializer()


class ReasonSerializer(Serializer):
    package = string()
    en = string()
    zh = string()


class AffectedAnswerSerializer(Serializer):
    answer = word((AFFECTED, NOT_AFFECTED, UNKNOWN))
    is_affected = serializers.BooleanField(allow_null=True)
    basis = word(BASES)
    reasons = ReasonSerializer(many=True)
    unverified_preconditions = texts()


class RecordAffectedSerializer(LangUsed):
    record = string()
    env = PastedEnvironmentSerializer()
    affected = AffectedAnswerSerializer()


class RemedySerializer(Serializer):
    name = string()
    kind = word(choices.WORKAROUND_KINDS)
    apply = string()
    cost = TextField()
    status = word(WORKAROUND_STATES)
    evidence = maybe()
    seen_on = texts(help_text="of an upgrade: builds without the bug above those with")
    not_executed = word(remedies.REASONS, allow_null=True)
    line = FrameworkLineSerializer(
        allow_null=True, help_text="of a framework that the paste names"
    )


class TestSerializer(Serializer):
    """Tells yes from no; `code` of at most five lines, or ""."""

    question = TextField()
    code = string(allow_blank=True)


class CandidateSerializer(Serializer):
    """A cause that may be behind the paste; without a `record` it has a name only."""

    record = maybe()
    slug = string()
    aliases = texts()
    title = TextField()
    confidence = word([item.value for item in Confidence])
    lines = serializers.ListField(child=number(), help_text="that it explains")
    because = serializers.ListField(child=TextField())
    affected = AffectedAnswerSerializer(allow_null=True)
    test = TestSerializer()
    workaround = RemedySerializer(allow_null=True, help_text="of a sure match")
    fixes = FixVersionSerializer(many=True)
    urls = RecordUrlsSerializer(allow_null=True)


class NamedFactSerializer(Serializer):
    """`line`: of the log that states it; null: the environment does."""

    fact = string()
    value = string()
    line = number(allow_null=True)


class FirstBadSerializer(Serializer):
    metric = string()
    line = number()


class FiguresSerializer(Serializer):
    """Of each metric [line, value]; a value that is not finite is a text."""

    series = serializers.DictField(child=serializers.JSONField())
    first_bad = FirstBadSerializer(allow_null=True)
    finite_before = number(allow_null=True)


class FactsSerializer(Serializer):
    named = NamedFactSerializer(many=True)
    packages = serializers.DictField(child=serializers.CharField())
    whole_list = serializers.BooleanField(help_text="what it lacks is not installed")
    figures = FiguresSerializer()


# Declared so, as `for` is a word of Python.
FirstCheckSerializer = type(
    "FirstCheckSerializer",
    (Serializer,),
    {
        "name": string(),
        "title": TextField(),
        "text": TextField(),
        "for": string(allow_blank=True, help_text="the trainer that the code is of"),
        "code": string(),
    },
)


class RuledOutSerializer(Serializer):
    reason = word(list(RULED_OUT))
    title = TextField()
    records = texts()
    slugs = texts()


class SymptomUrlsSerializer(Serializer):
    html = TextField()


class SymptomShownSerializer(Serializer):
    """What the paste shows and many causes have."""

    slug = string()
    title = TextField()
    summary = TextField()
    urls = SymptomUrlsSerializer()


class LawShownSerializer(Serializer):
    """How arithmetic made the value: for certain, or it may be."""

    slug = string()
    title = TextField()
    summary = TextField()
    line = number()
    is_certain = serializers.BooleanField()
    urls = SymptomUrlsSerializer()


class AffectingSerializer(Serializer):
    record = string()
    title = TextField()
    fixed_by = texts(help_text="what to upgrade to")
    urls = RecordUrlsSerializer()


class AffectingGroupSerializer(Serializer):
    group = word(list(GROUPS))
    title = TextField()
    records = AffectingSerializer(many=True)


class LookupAnswerSerializer(LangUsed):
    decision = TextField()
    outcome = word([item.value for item in Confidence])
    facts = FactsSerializer()
    laws = LawShownSerializer(many=True, help_text="named where no record is sure")
    candidates = CandidateSerializer(many=True)
    first_checks = FirstCheckSerializer(many=True)
    ruled_out = RuledOutSerializer(many=True)
    symptoms = SymptomShownSerializer(many=True)
    affecting = AffectingGroupSerializer(many=True, help_text="of a list of packages")
    query = UnderstoodSerializer()
