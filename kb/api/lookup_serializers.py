"""A look-up as the API answers it (contract §6), from what `kb.lookup.answer` found."""

from __future__ import annotations

from rest_framework import serializers

from kb import choices
from kb.api.fields import TextField, maybe, number, string, texts, word
from kb.api.serializers import (
    WORKAROUND_STATES,
    DiagnosisSerializer,
    FixVersionSerializer,
    LangUsed,
    RecordUrlsSerializer,
    Serializer,
)
from kb.findings import remedies
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


class WhyMatchedSerializer(Serializer):
    line = number()
    pasted = string(allow_blank=True)
    signature = string()


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


class EnvironmentAnswerSerializer(Serializer):
    """`id`: as it was sent. `affecting`: the records that affect the environment."""

    id = string(allow_blank=True)
    env = PastedEnvironmentSerializer()
    affecting = texts()


class EnvironmentsAnswerSerializer(Serializer):
    """In the order of what was sent."""

    items = EnvironmentAnswerSerializer(many=True)


class RemedySerializer(Serializer):
    name = string()
    kind = word(choices.WORKAROUND_KINDS)
    apply = string()
    cost = TextField()
    status = word(WORKAROUND_STATES)
    evidence = maybe()
    seen_on = texts(help_text="of an upgrade: builds without the bug above those with")
    not_executed = word(remedies.REASONS, allow_null=True)


class ReadValueSerializer(Serializer):
    """`line` of the `box` in which `name` has its value, as `pasted`."""

    name = string()
    box = word(("log", "env"))
    line = number()
    pasted = string()


class SuggestedSerializer(Serializer):
    """Values that the paste states for a repro: `parameters` of `POST runs`."""

    repro = string()
    values = serializers.DictField(child=serializers.JSONField())
    read = ReadValueSerializer(many=True)


class MatchSerializer(Serializer):
    record = string()
    title = TextField()
    confidence = word([item.value for item in Confidence])
    score = serializers.FloatField()
    why = WhyMatchedSerializer(many=True)
    affected = AffectedAnswerSerializer()
    workarounds = RemedySerializer(many=True)
    diagnoses = DiagnosisSerializer(many=True)
    fixes = FixVersionSerializer(many=True)
    parameters = SuggestedSerializer(many=True)
    urls = RecordUrlsSerializer()


class TrapSerializer(Serializer):
    """A line of the pasted code that is written as the record's bug needs it."""

    rule = string()
    severity = word(choices.RULE_SEVERITIES)
    line = number()
    pasted = string()


class LeadSerializer(Serializer):
    """A record that speaks of what the paste speaks of: no answer, a place to look.

    `why`: what the rule says that fires on the pasted code, where there is a `trap`.
    """

    record = string()
    title = TextField()
    score = serializers.FloatField()
    words = texts()
    why = TextField()
    trap = TrapSerializer(allow_null=True)
    diagnoses = DiagnosisSerializer(many=True)
    parameters = SuggestedSerializer(many=True)
    urls = RecordUrlsSerializer()


class CauseSerializer(Serializer):
    """`tells`: what tells this record apart from the others with the symptom."""

    record = string()
    title = TextField()
    tells = TextField()
    urls = RecordUrlsSerializer()


class SymptomUrlsSerializer(Serializer):
    html = TextField()


class SymptomShownSerializer(Serializer):
    """What several records show alike, where the paste does not tell which it is."""

    slug = string()
    title = TextField()
    summary = TextField()
    causes = CauseSerializer(many=True)
    urls = SymptomUrlsSerializer()


class LookupAnswerSerializer(LangUsed):
    query = UnderstoodSerializer()
    outcome = word([item.value for item in Confidence])
    matches = MatchSerializer(many=True)
    symptoms = SymptomShownSerializer(many=True)
    leads = LeadSerializer(many=True)
    also_affecting = texts()


class BatchItemSerializer(Serializer):
    """`id`: as it was sent; the answer is that of a look-up of its own."""

    id = string(allow_blank=True)
    answer = LookupAnswerSerializer()


class BatchAnswerSerializer(LangUsed):
    """In the order of what was sent."""

    items = BatchItemSerializer(many=True)
