"""Addresses of /api/v1/: no language prefix, no trailing slash."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from kb import api as kb
from runner import api as runner

urlpatterns = [
    path("records", kb.RecordList.as_view(), name="api-record-list"),
    path(
        "records/<str:record_id>", kb.RecordDetail.as_view(), name="api-record-detail"
    ),
    path(
        "records/<str:record_id>/matrix",
        runner.RecordMatrix.as_view(),
        name="api-record-matrix",
    ),
    path(
        "records/<str:record_id>/<str:name>",
        kb.RecordRepro.as_view(),
        name="api-record-repro",
    ),
    path("lookup", kb.Lookup.as_view(), name="api-lookup"),
    path("builds", runner.BuildList.as_view(), name="api-build-list"),
    path("workers", runner.WorkerList.as_view(), name="api-worker-list"),
    path("runs", runner.RunList.as_view(), name="api-run-list"),
    path("runs/<str:run_id>", runner.RunDetail.as_view(), name="api-run-detail"),
    path("runs/<str:run_id>/log", runner.RunLog.as_view(), name="api-run-log"),
    path("runs/<str:run_id>/cancel", runner.RunCancel.as_view(), name="api-run-cancel"),
    path("evidence", runner.EvidenceList.as_view(), name="api-evidence-list"),
    path(
        "evidence/<str:digest>",
        runner.EvidenceDetail.as_view(),
        name="api-evidence-detail",
    ),
    path("openapi.json", SpectacularJSONAPIView.as_view(), name="api-schema"),
    re_path(r"^.*$", kb.Nowhere.as_view(), name="api-nowhere"),
]
