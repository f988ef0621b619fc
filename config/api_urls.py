"""Addresses of /api/v1/: no language prefix, no trailing slash."""

from django.urls import path, re_path

from config.api_schema import Schema
from kb.api import lookups, views as kb
from kb.api.compare import Compare
from runner.api import captures, files, results, runs as runner, service, sweeps

# Address, view, name.
ADDRESSES = (
    ("", service.Service, "api-service"),
    ("records", kb.RecordList, "api-record-list"),
    ("records/<str:record_id>", kb.RecordDetail, "api-record-detail"),
    ("records/<str:record_id>/matrix", kb.RecordMatrix, "api-record-matrix"),
    ("records/<str:record_id>/affected", lookups.RecordAffected, "api-record-affected"),
    ("records/<str:record_id>/<str:name>", files.SingleFile, "api-record-repro"),
    ("doctor.py", files.Doctor, "api-doctor"),
    ("lint.py", files.Linter, "api-linter"),
    ("doesitnan.py", files.UserCommand, "api-user-command"),
    ("doesitnan-<str:version>-py3-none-any.whl", files.ClientWheel, "api-client-wheel"),
    ("contradictions", kb.ContradictionList, "api-contradiction-list"),
    ("compare", Compare, "api-compare"),
    ("lookup", lookups.Lookup, "api-lookup"),
    ("builds", results.BuildList, "api-build-list"),
    ("workers", results.WorkerList, "api-worker-list"),
    ("runs", runner.RunList, "api-run-list"),
    ("runs/<str:run_id>", runner.RunDetail, "api-run-detail"),
    ("runs/<str:run_id>/log", runner.RunLog, "api-run-log"),
    ("runs/<str:run_id>/cancel", runner.RunCancel, "api-run-cancel"),
    ("sweeps", sweeps.SweepList, "api-sweep-list"),
    ("sweeps/<str:sweep_id>", sweeps.SweepDetail, "api-sweep-detail"),
    ("sweeps/<str:sweep_id>/cancel", sweeps.SweepCancel, "api-sweep-cancel"),
    ("captures", captures.CaptureList, "api-capture-list"),
    ("captures/<str:capture_id>", captures.CaptureDetail, "api-capture-detail"),
    ("captures/<str:capture_id>/delete", captures.CaptureDelete, "api-capture-delete"),
    ("evidence", results.EvidenceList, "api-evidence-list"),
    ("evidence/<str:digest>", results.EvidenceDetail, "api-evidence-detail"),
    ("openapi.json", Schema, "api-schema"),
)
urlpatterns = [
    *(path(address, view.as_view(), name=name) for address, view, name in ADDRESSES),
    re_path(r"^.*$", kb.Nowhere.as_view(), name="api-nowhere"),
]
