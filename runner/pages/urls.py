"""Pages of builds, runs and evidence, below the language's prefix."""

from __future__ import annotations

from django.urls import path, re_path

from kb.records.facts import BUILD_SLUG
from runner.pages import views
from runner.pages.captures import views as captures
from runner.pages.jobs import views as jobs

RECORD, CAPTURE = r"^(?P<record_id>NAN-\d{4})/", "captures/<uuid:capture_id>/"

urlpatterns = [
    path("matrix/", views.matrix, name="matrix"),
    path("builds/", views.build_list, name="build-list"),
    re_path(
        rf"^builds/(?P<slug>{BUILD_SLUG})/$", views.build_detail, name="build-detail"
    ),
    path("workers/", views.worker_list, name="worker-list"),
    path("health/", views.health_page, name="health"),
    re_path(f"{RECORD}runs/$", jobs.run_create, name="run-create"),
    path("runs/<uuid:job_id>/", jobs.run_detail, name="run-detail"),
    path("runs/<uuid:job_id>/status/", jobs.run_status, name="run-status"),
    path("runs/<uuid:job_id>/cancel/", jobs.run_cancel, name="run-cancel"),
    re_path(f"{RECORD}sweeps/$", jobs.sweep_create, name="sweep-create"),
    path("sweeps/<uuid:job_id>/", jobs.sweep_detail, name="sweep-detail"),
    path("sweeps/<uuid:job_id>/status/", jobs.sweep_status, name="sweep-status"),
    path("sweeps/<uuid:job_id>/cancel/", jobs.sweep_cancel, name="sweep-cancel"),
    path("captures/", captures.send, name="capture-create"),
    path(CAPTURE, captures.detail, name="capture-detail"),
    path(f"{CAPTURE}status/", captures.status, name="capture-status"),
    path(f"{CAPTURE}capture.json", captures.file, name="capture-file"),
    path(f"{CAPTURE}github.md", captures.github, name="capture-github"),
    path(f"{CAPTURE}runs/", captures.run, name="capture-run"),
    path(f"{CAPTURE}delete/", captures.delete, name="capture-delete"),
    re_path(
        r"^evidence/(?P<short>[0-9a-f]{12})/$",
        views.evidence_detail,
        name="evidence-detail",
    ),
]
