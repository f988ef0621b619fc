"""Records and contradictions as the API answers them (contract §7).

`kb.api.endpoint.answer` serializes with the shape that an operation declares, and
OpenAPI is made from the same: a key that is not declared here cannot be answered.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from django.urls import reverse
from rest_framework import serializers

from kb import choices
from kb.addresses import absolute, record_urls
from kb.api.fields import (
    ColumnsField,
    MadeList,
    MadeString,
    NullField,
    TextField,
    maybe,
    moment,
    number,
    string,
    texts,
    word,
)
from kb.choices import LANGS
from kb.findings import claims, contradictions, diagnoses, remedies, results, variants
from kb.models import Claim, Record
from kb.records.articles import split_workarounds
from kb.records.facts import BUILD_STATES
from kb.records.schema import EVENT_KINDS

Json = dict[str, Any]
Serializer = serializers.Serializer[Any]
WORKAROUND_STATES = ("verified", "does_not_help", "untested")
CONTRADICTION_KINDS = ("range", "fix", "claim")


class LangUsed(Serializer):
    lang_used = word(choices.LANGS, required=False, help_text="With ?lang= only.")

    def to_representation(self, instance: Any) -> Json:
        """With `lang_used` at the end of an answer in one language."""
        shown = super().to_representation(instance)
        lang = self.context.get("lang")
        return {**shown, "lang_used": lang} if lang and self is self.root else shown


def page_of(name: str, item: type[Serializer]) -> type[LangUsed]:
    """The envelope of a list (kb.api.paging)."""
    fields = {"items": item(many=True), "next": maybe()}
    return type(f"{name}PageSerializer", (LangUsed,), fields)


class RecordUrlsSerializer(Serializer):
    html = TextField()
    record = string()
    runs = string()

    def to_representation(self, instance: Record | Json) -> Json:
        """Of a record, or of what a look-up made of one."""
        made = record_urls(instance) if isinstance(instance, Record) else instance
        return super().to_representation(made)


class ResultsSerializer(Serializer):
    """Over fresh verdicts; models of a mechanism count for nothing."""

    present = number(help_text="builds that show the bug")
    absent = number()
    first_bad = maybe()
    first_good = maybe()
    last_verified = moment(allow_null=True)

    def to_representation(self, instance: Any) -> Json:
        return super().to_representation(results.summary(instance.all()))


# Lists prefetch the findings: `results` would ask for those of each record.
class RecordItemSerializer(Serializer):
    id = string()
    slug = string()
    depth = word(choices.Depth.choices)
    title = ColumnsField()
    symptom_class = word(choices.SymptomClass.choices)
    upstream = word(choices.Upstream.choices)
    modified_at = moment(source="modified")
    results = ResultsSerializer(source="findings")
    urls = RecordUrlsSerializer(source="*")


class OfArticle(Serializer):
    def get_attribute(self, instance: Record) -> Json:
        """The section of the record's article that the field is named after."""
        name = str(self.source)
        html = {lang: instance.html.get(lang, {}).get(name, "") for lang in LANGS}
        return {"markdown": instance.both(name), "html": html}


class SectionSerializer(OfArticle):
    markdown = TextField()
    html = TextField()


class SymptomSerializer(OfArticle):
    summary = TextField()
    markdown = TextField()
    html = TextField()

    def get_attribute(self, instance: Record) -> Json:
        return {**super().get_attribute(instance), "summary": instance.both("summary")}


class EnvironmentSectionSerializer(OfArticle):
    reported = texts()
    markdown = TextField()
    html = TextField()

    def get_attribute(self, instance: Record) -> Json:
        return {**super().get_attribute(instance), "reported": instance.environment}


class WhatToDoSerializer(OfArticle):
    markdown = TextField()
    html = TextField()

    def get_attribute(self, instance: Record) -> Json:
        found = super().get_attribute(instance)
        texts = found["markdown"].items()
        above = {lang: split_workarounds(text).get("", "") for lang, text in texts}
        return {**found, "markdown": above}


class FixVersionSerializer(Serializer):
    package = string()
    version = string(allow_blank=True, help_text='"": none known')
    kind = word(list(choices.FIX_KINDS))
    devices = texts(required=False, help_text="those it reaches; without it all")


class FrameworkLineSerializer(Serializer):
    """A workaround in the words of a framework; without `evidence` it was not run."""

    framework = word(list(choices.FRAMEWORKS))
    apply = string()
    title = string(help_text="of the documentation or source that it is from")
    url = string()
    status = word(WORKAROUND_STATES)
    evidence = maybe()


class WorkaroundSerializer(Serializer):
    name = string()
    kind = word(choices.WORKAROUND_KINDS)
    apply = string()
    needs = string(allow_blank=True)
    cost = TextField()
    markdown = TextField()
    html = TextField()
    status = word(WORKAROUND_STATES)
    status_by_build = serializers.DictField(child=word(WORKAROUND_STATES))
    holds = serializers.DictField(
        child=serializers.ListField(child=serializers.JSONField()),
        help_text="values of parameters with which its code was executed and helped",
    )
    fails = serializers.ListField(
        child=serializers.DictField(child=serializers.JSONField()),
        help_text="values with which it was executed and did not",
    )
    evidence = maybe()
    seen_on = texts(help_text="of an upgrade: builds without the bug above those with")
    not_executed = word(remedies.REASONS, allow_null=True)
    lines = FrameworkLineSerializer(many=True)


class DiagnosisSerializer(Serializer):
    name = string()
    text = TextField()
    code = string()
    evidence = string()


def evidence_url(digest: str) -> str:
    return absolute(reverse("api-evidence-detail", args=[digest]))


def shown_diagnoses(record: Record) -> list[Json]:
    return diagnoses.of_record(record, record.findings.all())


def workarounds_of(record: Record) -> list[Json]:
    """Each with its own prose, and what the findings show of it."""
    findings = list(record.findings.all())
    texts = {lang: split_workarounds(record.text("workaround", lang)) for lang in LANGS}
    pages = {lang: record.html.get(lang, {}).get("workarounds", {}) for lang in LANGS}
    found = []
    plain = remedies.of_plain_code(findings)
    for remedy in remedies.of_record(record, findings):
        name = remedy.entry["name"]
        shown = {
            "markdown": {lang: texts[lang].get(name, "") for lang in LANGS},
            "html": {lang: pages[lang].get(name, "") for lang in LANGS},
            "status_by_build": claims.workaround_by_build(name, plain),
            **remedy.shown(),
            "lines": [asdict(line) for line in remedy.lines],
            **asdict(variants.reach(name, plain, record.repros.all())),
        }
        found.append({**remedy.entry, **shown})
    return found


class EventSerializer(Serializer):
    introduced = string(required=False)
    fixed = string(required=False)
    last_affected = string(required=False)


assert set(EVENT_KINDS) == set(EventSerializer().fields)  # noqa: S101


class ListedBuildSerializer(Serializer):
    raw = string()
    state = word(BUILD_STATES)


class AffectedRangeSerializer(Serializer):
    """OSV events of one package, and builds that are listed one by one."""

    package = string()
    events = EventSerializer(many=True)
    builds = ListedBuildSerializer(many=True, required=False)
    unknown = EventSerializer(many=True, required=False)
    cuda = string(required=False, help_text="older ones only where switched on")
    source = string()  # type: ignore[assignment]


class HoldsOnSerializer(Serializer):
    devices = texts()
    why = word((*choices.HOLDS_ANYWHERE_BY, *choices.HOLDS_THERE_BY))


class PreconditionSerializer(Serializer):
    key = word(choices.PRECONDITION_KEYS)
    value = string()
    where = string(required=False, help_text="the same in parameters of the repro")
    text = TextField()


class SignatureSerializer(Serializer):
    kind = word(choices.SIGNATURE_KINDS)
    text = string()
    seen = word(choices.SIGNATURE_SEEN, required=False)
    source = string(  # type: ignore[assignment]
        required=False, help_text="id of the source in which a reported line stands"
    )


class JudgedClaim(NamedTuple):
    claim: Claim
    state: str
    evidence: list[str]


class ClaimSerializer(Serializer):
    id = string(source="claim.cid")
    kind = word(choices.ClaimKind.choices, source="claim.kind")
    text = ColumnsField(source="claim.text")
    source = string(source="claim.source")  # type: ignore[assignment]
    state = word(choices.ClaimState.choices)
    evidence = texts()


def judged_claims(record: Record) -> list[JudgedClaim]:
    findings = list(record.findings.all())
    return [
        JudgedClaim(
            row,
            claims.state(row, findings),
            sorted({used.evidence for used in claims.evidence_for(row, findings)}),
        )
        for row in record.claims.all()
    ]


class SourceSerializer(Serializer):
    id = string()
    kind = word(list(choices.SOURCE_KINDS))
    url = string(allow_blank=True)
    title = string()
    date = serializers.DateField(required=False)
    note = TextField(required=False)


class ReproItemSerializer(Serializer):
    name = string()
    fidelity = word(choices.Fidelity.choices)
    device = word(choices.WORKER_DEVICES)
    digest = string()
    url = MadeString(
        lambda repro: absolute(
            reverse("api-record-repro", args=[repro.record_id, f"{repro.name}.py"])
        )
    )


class ContradictionSerializer(Serializer):
    """A documented range, fix or claim, and an execution that shows the opposite."""

    kind = word(CONTRADICTION_KINDS)
    claim = maybe(help_text="id of the claim, for kind `claim`")
    source = maybe(help_text="id of the record's source that documents it")  # type: ignore[assignment]
    build = string()
    device = word(choices.DeviceClass.choices)
    documented = string(help_text="what is documented: affected, 2.5.1, clean")
    observed = string(help_text="the verdict, or the outcome of the claim's check")
    hits = number()
    trials = number()
    evidence = string()
    sentence = TextField()


# With the record's repros, claims and findings prefetched.
class RecordSerializer(LangUsed):
    id = string()
    slug = string()
    depth = word(
        choices.Depth.choices,
        help_text="brief: symptom says how to tell, root_cause what it is, "
        "workaround what to do",
    )
    what_to_do = WhatToDoSerializer(
        source="workaround", help_text="what stands above the first workaround"
    )
    modified_at = moment(source="modified")
    publication = word(choices.Publication.choices)
    upstream = word(choices.Upstream.choices)
    symptom_class = word(choices.SymptomClass.choices)
    components = texts()
    title = ColumnsField()
    symptom = SymptomSerializer()
    environment = EnvironmentSectionSerializer()
    root_cause = SectionSerializer()
    workarounds = MadeList(workarounds_of, child=WorkaroundSerializer())
    diagnoses = MadeList(shown_diagnoses, child=DiagnosisSerializer())
    fix = SectionSerializer()
    fixes = FixVersionSerializer(many=True)
    affected_when = word(choices.AffectedWhen.choices)
    holds_on = HoldsOnSerializer()
    affected = AffectedRangeSerializer(many=True)
    preconditions = PreconditionSerializer(many=True)
    signatures = SignatureSerializer(many=True)
    claims = MadeList(judged_claims, child=ClaimSerializer())
    contradictions = MadeList(
        lambda record: contradictions.everything(record, record.findings.all()),
        child=ContradictionSerializer(),
    )
    sources = SourceSerializer(many=True)
    aliases = texts()
    related = texts()
    repros = ReproItemSerializer(many=True)
    results = ResultsSerializer(source="findings")
    urls = RecordUrlsSerializer(source="*")


class RecordPageSerializer(LangUsed):
    items = RecordItemSerializer(many=True)
    next = maybe()
    total = number(required=False, help_text="of a search only")


class ContradictionItemSerializer(ContradictionSerializer):
    record = string(source="of.id")
    title = ColumnsField(source="of.title")
    urls = RecordUrlsSerializer(source="of")


ContradictionPageSerializer = page_of("Contradiction", ContradictionItemSerializer)


class MatrixCellSerializer(Serializer):
    build = string()
    raw = string(source="build_raw")
    repro = string()
    device = word(choices.DeviceClass.choices, source="device_class")
    verdict = word(choices.Verdict.choices)
    reason = NullField(source="verdict_reason")
    hits = number()
    trials = number()
    evidence = string()
    evidence_url = MadeString(lambda cell: evidence_url(cell.evidence))
    origin = string(help_text="site: run here; repository: came with the records")
    observed_at = moment()


class MatrixSerializer(LangUsed):
    record = string(source="id")
    cells = MadeList(
        lambda record: results.cells(record.findings.all()),
        child=MatrixCellSerializer(),
    )
    urls = RecordUrlsSerializer(source="*")
