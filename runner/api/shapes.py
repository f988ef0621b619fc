"""The shapes of runs, builds and evidence (contract §5 and §8), for OpenAPI."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from kb.api.shapes import (
    Json,
    LangUsed,
    RecordUrls,
    TextField,
    maybe,
    string,
    texts,
    word,
)
from kb.choices import DeviceClass, Fidelity, Outcome, Verdict
from runner.models import Installation, Run

WORKAROUND_RESULTS = ("verified", "does_not_help", "untested")
STREAMS = ("stdout", "stderr")
DEVICE = DeviceClass.choices
VERDICT = Verdict.choices


def number(**options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(**options)


def count() -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True)


def moment(**options: Any) -> serializers.DateTimeField:
    return serializers.DateTimeField(**options)


# --- evidence -------------------------------------------------------------------
class ReproOfRun(Json):
    name = string()
    digest = string()
    fidelity = word(Fidelity.choices)


class CheckLog(Json):
    text = string(allow_blank=True)
    cut_bytes = number()


class Check(Json):
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
    log = CheckLog()


class DeviceOfRun(Json):
    name = maybe()
    capability = maybe()
    driver = maybe()
    count = number()

    def get_fields(self) -> Any:
        """With `class`, which is a word of Python."""
        return {"class": word(DEVICE), **super().get_fields()}


class BuildOfRun(Json):
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


class Limits(Json):
    timeout_s = serializers.FloatField()
    memory_mib = count()
    processes = count()
    file_mib = number(required=False, allow_null=True)


@extend_schema_serializer(component_name="Evidence")
class EvidenceShape(Json):
    """One immutable evidence object, under the digest of its content."""

    schema = string()
    digest = string()
    record = maybe()
    state = word(["finished"])
    repro = ReproOfRun()
    build = BuildOfRun()
    device = DeviceOfRun()
    verdict = word(VERDICT)
    reason = maybe()
    is_affected = serializers.BooleanField(allow_null=True)
    hits = number()
    trials = number()
    checks = Check(many=True)
    workarounds = serializers.DictField(child=word(WORKAROUND_RESULTS))
    refuted = serializers.DictField(child=word(Outcome.choices))
    tier = maybe()
    served = maybe()
    limits = Limits()
    telemetry = serializers.JSONField()
    harness = number(help_text="protocol of the harness that drove the checks")
    started_at = moment()
    duration_s = serializers.FloatField()
    origin = string(required=False, help_text="as sent; the receiver keeps its own")


class NamedRepro(Json):
    name = string()
    digest = string()


class EvidenceUrls(Json):
    html = TextField()
    evidence = string()


class EvidenceItem(Json):
    digest = string()
    record = maybe()
    repro = NamedRepro()
    build = string()
    device = word(DEVICE)
    verdict = word(VERDICT)
    origin = string(help_text="site, repository, or the token that sent it")
    started_at = moment()
    urls = EvidenceUrls()


class EvidencePage(LangUsed):
    items = EvidenceItem(many=True)
    next = maybe()


class EvidenceReceived(LangUsed, EvidenceItem):
    """What was made of evidence that was sent."""


# --- runs -----------------------------------------------------------------------
class RunUrls(Json):
    html = TextField()
    run = string()
    log = string()
    cancel = string()


@extend_schema_serializer(component_name="Run")
class RunShape(LangUsed):
    """`state` is how far it is; `verdict` stays null until it is finished."""

    id = serializers.UUIDField()
    record = string()
    repro = ReproOfRun()
    build = string()
    device = word(DEVICE)
    state = word(Run.State.choices)
    phase = string(allow_blank=True)
    attempt = number()
    position = count()
    eta_s = count()
    joined = serializers.BooleanField()
    cached = serializers.BooleanField()
    verdict = word(VERDICT, allow_null=True)
    reason = maybe()
    is_affected = serializers.BooleanField(allow_null=True)
    hits = count()
    trials = number()
    sentence = TextField()
    checks = Check(many=True)
    workarounds = serializers.DictField(child=word(WORKAROUND_RESULTS))
    refuted = serializers.DictField(child=word(Outcome.choices))
    tier = maybe()
    served = maybe()
    worker = maybe()
    created_at = moment()
    started_at = moment(allow_null=True)
    finished_at = moment(allow_null=True)
    evidence = maybe()
    urls = RunUrls()


class RunPage(LangUsed):
    items = RunShape(many=True)
    next = maybe()


class LogLine(Json):
    seq = number()
    check = string(allow_blank=True)
    stream = string()
    text = string(allow_blank=True)


@extend_schema_serializer(component_name="RunLog")
class RunLogShape(Json):
    lines = LogLine(many=True)
    next = number(help_text="`after` of the next request")
    end = serializers.BooleanField(help_text="no more can come")


# --- builds, workers, matrix ----------------------------------------------------
class InstallationItem(Json):
    host = string()
    state = word(Installation.State.choices)
    packages = serializers.DictField(child=maybe())


class HtmlUrls(Json):
    html = TextField()


class BuildItem(Json):
    slug = string()
    raw = string()
    dist = maybe()
    git = maybe()
    cuda = maybe()
    hip = maybe()
    cudnn = maybe()
    python = maybe()
    platform = maybe()
    installations = InstallationItem(many=True)
    urls = HtmlUrls()


class BuildPage(LangUsed):
    items = BuildItem(many=True)
    next = maybe()


class WorkerItem(Json):
    name = string()
    host = string()
    queues = texts()
    devices = serializers.ListField(child=serializers.JSONField())
    tier = maybe()
    slots = number()
    online = serializers.BooleanField()
    last_seen = moment()


class WorkerPage(LangUsed):
    items = WorkerItem(many=True)
    next = maybe()


class MatrixCell(Json):
    build = string()
    raw = string()
    device = word(DEVICE)
    verdict = word(VERDICT)
    reason = maybe()
    hits = number()
    trials = number()
    evidence = string()
    observed_at = moment()


class Matrix(LangUsed):
    record = string()
    cells = MatrixCell(many=True)
    urls = RecordUrls()
