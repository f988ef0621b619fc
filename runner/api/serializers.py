"""Runs, builds and evidence as the API answers them (contract §5 and §8)."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
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
from kb.api.serializers import Json, LangUsed, Serializer, evidence_url, page_of
from kb.choices import WORKER_DEVICES, DeviceClass, Fidelity, Outcome, Verdict
from portable import harness
from runner import run_sentences
from runner.api.evidence_shape import (
    WORKAROUND_RESULTS,
    StoredChecks,
)
from runner.models import Installation, Run
from runner.parameters import values_of
from runner.runs import scheduling

DEVICE = DeviceClass.choices
VERDICT = Verdict.choices
IS_AFFECTED: dict[str, bool] = {Verdict.BUG_PRESENT: True, Verdict.BUG_ABSENT: False}


def api_url(name: str) -> MadeString:
    """The address in the API of what is shown, by its id."""
    return MadeString(lambda row: absolute(reverse(name, args=[row.id])))


def count(**options: Any) -> serializers.IntegerField:
    return number(allow_null=True, **options)


class ReproOfRunSerializer(Serializer):
    name = string(source="repro.name")
    digest = string(source="repro_digest")
    fidelity = word(Fidelity.choices, source="repro.fidelity")


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
    build = string(source="build_slug")
    device = word(DEVICE, source="device_class")
    verdict = word(VERDICT)
    parameters = MadeValues()
    origin = string(help_text="site, repository, or the token that sent it")
    started_at = moment()
    urls = EvidenceUrlsSerializer(source="*")


EvidencePageSerializer = page_of("Evidence", EvidenceItemSerializer)


class EvidenceReceivedSerializer(LangUsed, EvidenceItemSerializer):
    """What was made of evidence that was sent."""


# --- runs -------------------------------------------------------------------------
def is_affected(run: Run) -> bool | None:
    answers_nothing = run.repro.is_model or run.parameters
    return None if answers_nothing else IS_AFFECTED.get(run.verdict or "")


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
    device = word(WORKER_DEVICES)
    state = word(Run.State.choices)
    phase = string(allow_blank=True)
    attempt = number()
    position = count(source="place.position")
    eta_s = count(source="place.eta_s")
    joined = FlagOfRequest()
    cached = FlagOfRequest()
    others_waiting = count(
        help_text="in the answer to a cancel: how many others wait, so that the run "
        "goes on; 0 where nobody does and it is cancelled"
    )
    verdict = word(VERDICT, allow_null=True)
    reason = maybe()
    is_affected = MadeFlag(is_affected, allow_null=True)
    hits = count()
    trials = number()
    parameters = MadeValues()
    sentence = MadeText(run_sentences.run_sentence)
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
        vars(instance).setdefault("others_waiting", None)
        return super().to_representation(instance)


RunPageSerializer = page_of("Run", RunSerializer)


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


BuildPageSerializer = page_of("Build", BuildItemSerializer)


class WorkerItemSerializer(Serializer):
    name = string()
    host = string()
    queues = texts()
    devices = serializers.ListField(child=serializers.JSONField())
    tier = NullField()
    slots = number()
    online = serializers.BooleanField()
    last_seen = moment()


WorkerPageSerializer = page_of("Worker", WorkerItemSerializer)
