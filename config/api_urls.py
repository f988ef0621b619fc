"""Addresses of /api/v1/: no language prefix, no trailing slash."""

from django.urls import path, re_path

from config.api_schema import Schema
from kb.api import lookups, views as kb
from kb.api.compare import Compare
from runner.api import captures, files, results, runs as runner, service, sweeps

urlpatterns = [
    path("", service.Service.as_view(), name="api-service"),
    path("records", kb.RecordList.as_view(), name="api-record-list"),
    path(
        "records/<str:record_id>", kb.RecordDetail.as_view(), name="api-record-detail"
    ),
    path(
        "records/<str:record_id>/matrix",
        kb.RecordMatrix.as_view(),
        name="api-record-matrix",
    ),
    path(
        "records/<str:record_id>/affected",
        lookups.RecordAffected.as_view(),
        name="api-record-affected",
    ),
    path(
        "records/<str:record_id>/<str:name>",
        files.SingleFile.as_view(),
        name="api-record-repro",
    ),
    path("doctor.py", files.Doctor.as_view(), name="api-doctor"),
    path("lint.py", files.Linter.as_view(), name="api-linter"),
    path("doesitnan.py", files.UserCommand.as_view(), name="api-user-command"),
    path(
        "doesitnan-<str:version>-py3-none-any.whl",
        files.ClientWheel.as_view(),
        name="api-client-wheel",
    ),
    path(
        "contradictions",
        kb.ContradictionList.as_view(),
        name="api-contradiction-list",
    ),
    path("compare", Compare.as_view(), name="api-compare"),
    path("lookup", lookups.Lookup.as_view(), name="api-lookup"),
    path("builds", results.BuildList.as_view(), name="api-build-list"),
    path("workers", results.WorkerList.as_view(), name="api-worker-list"),
    path("runs", runner.RunList.as_view(), name="api-run-list"),
    path("runs/<str:run_id>", runner.RunDetail.as_view(), name="api-run-detail"),
    path("runs/<str:run_id>/log", runner.RunLog.as_view(), name="api-run-log"),
    path("runs/<str:run_id>/cancel", runner.RunCancel.as_view(), name="api-run-cancel"),
    path("sweeps", sweeps.SweepList.as_view(), name="api-sweep-list"),
    path(
        "sweeps/<str:sweep_id>", sweeps.SweepDetail.as_view(), name="api-sweep-detail"
    ),
    path(
        "sweeps/<str:sweep_id>/cancel",
        sweeps.SweepCancel.as_view(),
        name="api-sweep-cancel",
    ),
    path("captures", captures.CaptureList.as_view(), name="api-capture-list"),
    path(
        "captures/<str:capture_id>",
        captures.CaptureDetail.as_view(),
        name="api-capture-detail",
    ),
    path(
        "captures/<str:capture_id>/delete",
        captures.CaptureDelete.as_view(),
        name="api-capture-delete",
    ),
    path("evidence", results.EvidenceList.as_view(), name="api-evidence-list"),
    path(
        "evidence/<str:digest>",
        results.EvidenceDetail.as_view(),
        name="api-evidence-detail",
    ),
    path("openapi.json", Schema.as_view(), name="api-schema"),
    re_path(r"^.*$", kb.Nowhere.as_view(), name="api-nowhere"),
]
