"""The shapes of the knowledge base's answers (contract §6 and §7), for OpenAPI.

`kb.publishing.documents` and `kb.lookup.answer` make the answers; a test holds each
against its shape, which is closed there: a key that is not declared here fails.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from kb import choices
from kb.records.facts import BUILD_STATES, EVENT_KINDS
from kb.search.ranking.logs import Confidence
from kb.versions.affected import BASES
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, UNKNOWN

Json = serializers.Serializer[Any]
WORKAROUND_STATES = ("verified", "does_not_help", "untested")
CONTRADICTION_KINDS = ("range", "fix", "claim")


@extend_schema_field({"$ref": "#/components/schemas/Text"})
class TextField(serializers.Field[Any, Any, Any, Any]):
    """{"en": …, "zh": …}, or one text where ?lang= asks for it."""


TEXT = {
    "description": "Both languages; one text where `?lang=` asks for it.",
    "oneOf": [
        {
            "type": "object",
            "properties": {lang: {"type": "string"} for lang in choices.LANGS},
            "required": list(choices.LANGS),
            "additionalProperties": False,
        },
        {"type": "string"},
    ],
}


def word(choices: Any, **options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(choices=choices, **options)


def string(**options: Any) -> serializers.CharField:
    return serializers.CharField(**options)


def maybe(**options: Any) -> serializers.CharField:
    return serializers.CharField(allow_null=True, **options)


def texts(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **options)


class LangUsed(Json):
    lang_used = word(choices.LANGS, required=False, help_text="With ?lang= only.")


# --- records --------------------------------------------------------------------
class RecordUrls(Json):
    html = TextField()
    record = string()
    runs = string()


class Results(Json):
    """Over fresh verdicts; models of a mechanism count for nothing."""

    present = serializers.IntegerField(help_text="builds that show the bug")
    absent = serializers.IntegerField()
    first_bad = maybe()
    first_good = maybe()
    last_verified = serializers.DateTimeField(allow_null=True)


class RecordItem(Json):
    id = string()
    slug = string()
    title = TextField()
    symptom_class = word(choices.SymptomClass.choices)
    upstream = word(choices.Upstream.choices)
    modified = serializers.DateTimeField()
    results = Results()
    urls = RecordUrls()


class Section(Json):
    markdown = TextField()
    html = TextField()


class Symptom(Section):
    summary = TextField()


class EnvironmentSection(Section):
    reported = texts()


class FixVersion(Json):
    package = string()
    version = string(allow_blank=True, help_text='"": none known')
    kind = word(list(choices.FIX_KINDS))


class Workaround(Section):
    name = string()
    kind = word(choices.WORKAROUND_KINDS)
    apply = string()
    needs = string(allow_blank=True)
    cost = TextField()
    status = word(WORKAROUND_STATES)
    status_by_build = serializers.DictField(child=word(WORKAROUND_STATES))
    evidence = maybe()


class Event(Json):
    introduced = string(required=False)
    fixed = string(required=False)
    last_affected = string(required=False)


assert set(EVENT_KINDS) == set(Event().fields)  # noqa: S101


class ListedBuild(Json):
    raw = string()
    state = word(BUILD_STATES)


class AffectedRange(Json):
    """OSV events of one package, and builds that are listed one by one."""

    package = string()
    events = Event(many=True)
    builds = ListedBuild(many=True, required=False)
    source = string()  # type: ignore[assignment]


class Precondition(Json):
    key = word(choices.PRECONDITION_KEYS)
    value = string()
    text = TextField()


class Signature(Json):
    kind = word(choices.SIGNATURE_KINDS)
    text = string()


@extend_schema_serializer(component_name="Claim")
class ClaimShape(Json):
    id = string()
    kind = word(choices.ClaimKind.choices)
    text = TextField()
    source = string()  # type: ignore[assignment]
    state = word(choices.ClaimState.choices)
    evidence = texts()


class Source(Json):
    id = string()
    kind = word(list(choices.SOURCE_KINDS))
    url = string(allow_blank=True)
    title = string()
    date = serializers.DateField(required=False)
    note = TextField(required=False)


class ReproItem(Json):
    name = string()
    fidelity = word(choices.Fidelity.choices)
    device = word(choices.DeviceClass.choices)
    digest = string()
    url = string()


class Contradiction(Json):
    """A documented range, fix or claim, and an execution that shows the opposite."""

    kind = word(CONTRADICTION_KINDS)
    claim = maybe(help_text="id of the claim, for kind `claim`")
    source = maybe(help_text="id of the record's source that documents it")  # type: ignore[assignment]
    build = string()
    device = word(choices.DeviceClass.choices)
    documented = string(help_text="what is documented: affected, 2.5.1, clean")
    observed = string(help_text="the verdict, or the outcome of the claim's check")
    hits = serializers.IntegerField()
    trials = serializers.IntegerField()
    evidence = string()
    sentence = TextField()


@extend_schema_serializer(component_name="Record")
class RecordShape(LangUsed):
    id = string()
    slug = string()
    revision = serializers.IntegerField()
    modified = serializers.DateTimeField()
    publication = word(choices.Publication.choices)
    upstream = word(choices.Upstream.choices)
    symptom_class = word(choices.SymptomClass.choices)
    components = texts()
    title = TextField()
    symptom = Symptom()
    environment = EnvironmentSection()
    root_cause = Section()
    workaround = Workaround(many=True)
    fix = Section()
    fix_version = FixVersion(many=True)
    affected_when = word(choices.AffectedWhen.choices)
    affected = AffectedRange(many=True)
    preconditions = Precondition(many=True)
    signatures = Signature(many=True)
    claims = ClaimShape(many=True)
    contradictions = Contradiction(many=True)
    sources = Source(many=True)
    aliases = texts()
    related = texts()
    repros = ReproItem(many=True)
    results = Results()
    urls = RecordUrls()


class RecordPage(LangUsed):
    items = RecordItem(many=True)
    next = maybe()
    total = serializers.IntegerField(required=False, help_text="of a search only")


class ContradictionItem(Contradiction):
    record = string()
    title = TextField()
    urls = RecordUrls()


class ContradictionPage(LangUsed):
    items = ContradictionItem(many=True)
    next = maybe()


# --- look-up --------------------------------------------------------------------
KeyLine = type(
    "KeyLine",
    (Json,),
    {"line": serializers.IntegerField(), "class": maybe(), "text": string()},
)


class Fingerprints(Json):
    algorithm = serializers.IntegerField()
    values = serializers.ListField(child=maybe())


class Cut(Json):
    lines = serializers.IntegerField()
    bytes = serializers.IntegerField()


class PastedTorch(Json):
    raw = string()
    build = maybe()


class PastedEnvironment(Json):
    torch = PastedTorch(allow_null=True)
    packages = serializers.DictField(child=serializers.CharField())
    gpu = maybe()
    unparsed_lines = serializers.IntegerField()


class Understood(Json):
    """How the paste was understood."""

    took_it_for = texts()
    key_lines = KeyLine(many=True)
    facets = texts()
    fingerprints = Fingerprints()
    cut = Cut()
    env = PastedEnvironment()


class WhyMatched(Json):
    line = serializers.IntegerField()
    pasted = string(allow_blank=True)
    signature = string()


@extend_schema_serializer(component_name="Reason")
class ReasonShape(Json):
    package = string()
    en = string()
    zh = string()


class AffectedAnswer(Json):
    answer = word((AFFECTED, NOT_AFFECTED, UNKNOWN))
    is_affected = serializers.BooleanField(allow_null=True)
    basis = word(BASES)
    reasons = ReasonShape(many=True)
    unverified_preconditions = texts()


class Remedy(Json):
    name = string()
    apply = string()
    status = word(WORKAROUND_STATES)
    evidence = maybe()


class Match(Json):
    record = string()
    title = TextField()
    confidence = word([item.value for item in Confidence])
    score = serializers.FloatField()
    why = WhyMatched(many=True)
    affected = AffectedAnswer()
    workarounds = Remedy(many=True)
    fix_version = FixVersion(many=True)
    urls = RecordUrls()


class LookupAnswer(LangUsed):
    query = Understood()
    outcome = word([item.value for item in Confidence])
    matches = Match(many=True)
    also_affecting = texts()
