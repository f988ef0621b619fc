"""Runs, builds and evidence as the API answers them (contract §5 and §8)."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from kb.addresses import absolute, page_urls
from kb.api.fields import (
    MadeFlag,
    MadeMaybe,
    MadeString,
    MadeText,
    NullField,
    maybe,
    moment,
    number,
    string,
    texts,
    word,
)
from kb.api.serializers import Json, LangUsed, Serializer, evidence_url
from kb.choices import DeviceClass, Fidelity, Outcome, Verdict
from runner import badges, harness
from runner.models import Installation, Run
from runner.parameters import values_of
from runner.runs import scheduling

WORKAROUND_RESULTS = ("verified", "does_not_help", "untested")
DEVICE = DeviceClass.choices
VERDICT = Verdict.choices
IS_AFFECTED: dict[str, bool] = {Verdict.BUG_PRESENT: True, Verdict.BUG_ABSENT: False}


def count(**options: Any) -> serializers.IntegerField:
    return number(allow_null=True, **options)


# --- the evidence object ----------------------------------------------------------
# Answered as it is stored: what it says stands under its digest, so it is never
# written anew. These say what is in it.
class ReproOfRunSerializer(Serializer):
    name = string(source="repro.name")
    digest = string(source="repro_digest")
    fidelity = word(Fidelity.choices, source="repro.fidelity")


class CheckLogSerializer(Serializer):
    text = string(allow_blank=True)
    cut_bytes = number()


class KilledSerializer(Serializer):
    """A check that was killed from outside, and for that reason started again."""

    by = word([("oom", "oom"), ("signal", "signal")])
    after_s = serializers.FloatField()


class CheckSerializer(Serializer):
    """One check in one process. Not finite: {"$float": "nan" | "inf" | "-inf"}."""

    name = string()
    trial = number()
    outcome = word(Outcome.choices)
    reason = maybe()
    observations = serializers.DictField(child=serializers.JSONField())
    duration_s = serializers.FloatField(allow_null=True)
    cpu_s = serializers.FloatField(allow_null=True)
    peak_mib = serializers.FloatField(allow_null=True)
    exit = count()
    served = string(required=False, help_text="warm: by a fork of a parent; or cold")
    log = CheckLogSerializer()
    killed = KilledSerializer(many=True, required=False)


class DeviceOfRunSerializer(Serializer):
    name = maybe()
    capability = maybe()
    driver = maybe()
    uuid = maybe(required=False)
    count = number()

    def get_fields(self) -> Any:
        """With `class`, which is a word of Python."""
        return {"class": word(DEVICE), **super().get_fields()}


class BuildOfRunSerializer(Serializer):
    slug = string()
    raw = string()
    dist = maybe()
    git = maybe()
    cuda = maybe()
    hip = maybe()
    cudnn = maybe()
    python = maybe()
    platform = maybe()
    packages = serializers.DictField(child=maybe())


class LayersSerializer(Serializer):
    """The layers of the sandbox; null and false: not in use."""

    namespaces = maybe()
    landlock = count(help_text="the ABI")
    seccomp = serializers.BooleanField()
    cgroup = maybe()
    uid = string(help_text="own or shared with the worker")


class LimitsSerializer(Serializer):
    timeout_s = serializers.FloatField()
    memory_mib = count()
    processes = count()
    file_mib = number(required=False, allow_null=True)
    layers = LayersSerializer(required=False)


class VariantSerializer(Serializer):
    """Control, trigger and workarounds at the values of one variant."""

    parameters = serializers.DictField(child=serializers.JSONField())
    checks = CheckSerializer(many=True)
    workarounds = serializers.DictField(child=word(WORKAROUND_RESULTS))


class EvidenceSerializer(Serializer):
    """One immutable evidence object, under the digest of its content."""

    schema = string()
    digest = string()
    record = maybe()
    state = word(["finished"])
    repro = ReproOfRunSerializer()
    build = BuildOfRunSerializer()
    device = DeviceOfRunSerializer()
    verdict = word(VERDICT)
    reason = maybe()
    is_affected = serializers.BooleanField(allow_null=True)
    hits = count()
    trials = number()
    checks = CheckSerializer(many=True)
    workarounds = serializers.DictField(child=word(WORKAROUND_RESULTS))
    refuted = serializers.DictField(child=word(Outcome.choices))
    tier = maybe()
    served = maybe()
    limits = LimitsSerializer()
    telemetry = serializers.JSONField()
    harness = number(help_text="protocol of the harness that drove the checks")
    started_at = moment()
    duration_s = serializers.FloatField()
    origin = string(required=False, help_text="as sent; the receiver keeps its own")
    parameters = serializers.DictField(
        child=serializers.JSONField(),
        required=False,
        help_text="values other than the reviewed ones: no verdict of the record",
    )
    variants = serializers.DictField(
        child=VariantSerializer(),
        required=False,
        help_text="the code of the workarounds at other values, by variant",
    )


@extend_schema_field(CheckSerializer(many=True))
class StoredChecks(serializers.JSONField):
    """The checks of an evidence object, as they stand in it."""


# --- lists of evidence ------------------------------------------------------------
class NamedReproSerializer(Serializer):
    name = string(source="repro_name")
    digest = string(source="repro_digest")


class EvidenceUrlsSerializer(Serializer):
    html = MadeText(lambda evidence: page_urls("evidence-detail", evidence.short))
    evidence = MadeString(lambda evidence: evidence_url(evidence.digest))


class MadeValues(serializers.DictField):
    """Values other than the reviewed ones; {} for these."""

    child = serializers.JSONField()

    def get_attribute(self, instance: Any) -> Json:
        return dict(harness.encode(values_of(instance.parameters)))


class EvidenceItemSerializer(Serializer):
    digest = string()
    record = maybe(source="record_id")
    repro = NamedReproSerializer(source="*")
    build = string(source="build_id")
    device = word(DEVICE, source="device_class")
    verdict = word(VERDICT)
    parameters = MadeValues()
    origin = string(help_text="site, repository, or the token that sent it")
    withdrawn = serializers.BooleanField(
        help_text="taken back by a maintainer: it counts for nothing"
    )
    signed_by = MadeMaybe(
        lambda row: row.signed_by or None,
        help_text="fingerprint of the SSH key, registered for its origin, that signed "
        "the digest",
    )
    signature = MadeMaybe(
        lambda row: row.signature or None, help_text="SSHSIG, armored"
    )
    started_at = moment()
    urls = EvidenceUrlsSerializer(source="*")


class EvidencePageSerializer(LangUsed):
    items = EvidenceItemSerializer(many=True)
    next = maybe()


class EvidenceReceivedSerializer(LangUsed, EvidenceItemSerializer):
    """What was made of evidence that was sent."""


# --- runs -------------------------------------------------------------------------
def is_affected(run: Run) -> bool | None:
    answers_nothing = run.repro.is_model or run.parameters
    return None if answers_nothing else IS_AFFECTED.get(run.verdict or "")


def api_url(name: str) -> MadeString:
    return MadeString(lambda run: absolute(reverse(name, args=[run.id])))


class RunUrlsSerializer(Serializer):
    html = MadeText(lambda run: page_urls("run-detail", run.id))
    run = api_url("api-run-detail")
    log = api_url("api-run-log")
    cancel = api_url("api-run-cancel")
    evidence = MadeMaybe(
        lambda run: run.evidence_id and evidence_url(run.evidence_id),
        help_text="once there is some",
    )


class FlagOfRequest(serializers.BooleanField):
    """How the run came to answer a request; false where nobody asked for it."""

    def get_attribute(self, instance: Run) -> bool:
        return bool(self.context.get(str(self.field_name), False))


class RunSerializer(LangUsed):
    """`state` is how far it is; `verdict` stays null until it is finished."""

    id = serializers.UUIDField()
    record = string(source="repro.record_id")
    repro = ReproOfRunSerializer(source="*")
    build = string(source="build_id")
    device = word(DEVICE)
    state = word(Run.State.choices)
    phase = string(allow_blank=True)
    attempt = number()
    position = count(source="place.position")
    eta_s = count(source="place.eta_s")
    joined = FlagOfRequest()
    cached = FlagOfRequest()
    verdict = word(VERDICT, allow_null=True)
    reason = maybe()
    is_affected = MadeFlag(is_affected, allow_null=True)
    hits = count()
    trials = number()
    parameters = MadeValues()
    sentence = MadeText(badges.run_sentence)
    checks = StoredChecks(source="stored.checks")
    workarounds = serializers.DictField(
        child=word(WORKAROUND_RESULTS), source="stored.workarounds"
    )
    refuted = serializers.DictField(
        child=word(Outcome.choices), source="stored.refuted"
    )
    tier = maybe(source="stored.tier")
    served = maybe(source="stored.served")
    worker = NullField()
    created_at = moment()
    started_at = moment(allow_null=True)
    finished_at = moment(allow_null=True)
    evidence = maybe(source="evidence_id")
    urls = RunUrlsSerializer(source="*")

    def to_representation(self, instance: Run) -> Json:
        """With its place in the queue, and `checks` once its evidence is there."""
        place = scheduling.place_in_queue(instance)
        body = instance.evidence.body if instance.evidence else {}
        stored = {"checks": [], "workarounds": {}, "refuted": {}, **body}
        vars(instance).update(place=place, stored=stored)
        return super().to_representation(instance)


class RunPageSerializer(LangUsed):
    items = RunSerializer(many=True)
    next = maybe()


class LogLineSerializer(Serializer):
    seq = number()
    check = string(allow_blank=True, source="check_name")
    stream = string()
    text = string(allow_blank=True)


class RunLogSerializer(Serializer):
    lines = LogLineSerializer(many=True)
    next = number(help_text="`after` of the next request")
    end = serializers.BooleanField(help_text="no more can come")


# --- builds and workers -----------------------------------------------------------
class InstallationItemSerializer(Serializer):
    host = string()
    state = word(Installation.State.choices)
    packages = serializers.DictField(child=maybe())


class HtmlUrlsSerializer(Serializer):
    html = MadeText(lambda build: page_urls("build-detail", build.slug))


# Lists prefetch the installations.
class BuildItemSerializer(Serializer):
    slug = string()
    raw = string()
    dist = NullField()
    git = NullField()
    cuda = NullField()
    hip = NullField()
    cudnn = NullField()
    python = NullField()
    platform = NullField()
    installations = InstallationItemSerializer(many=True)
    urls = HtmlUrlsSerializer(source="*")


class BuildPageSerializer(LangUsed):
    items = BuildItemSerializer(many=True)
    next = maybe()


class WorkerItemSerializer(Serializer):
    name = string()
    host = string()
    queues = texts()
    devices = serializers.ListField(child=serializers.JSONField())
    tier = NullField()
    slots = number()
    online = serializers.BooleanField()
    last_seen = moment()


class WorkerPageSerializer(LangUsed):
    items = WorkerItemSerializer(many=True)
    next = maybe()
