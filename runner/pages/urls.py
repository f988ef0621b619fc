"""Pages of builds, runs and evidence, below the language's prefix."""

from django.urls import path, re_path

from kb.records.facts import BUILD_SLUG
from runner.pages import views

urlpatterns = [
    path("matrix/", views.matrix, name="matrix"),
    path("builds/", views.build_list, name="build-list"),
    re_path(
        rf"^builds/(?P<slug>{BUILD_SLUG})/$", views.build_detail, name="build-detail"
    ),
    path("workers/", views.worker_list, name="worker-list"),
    path("health/", views.health_page, name="health"),
    re_path(r"^(?P<record_id>NAN-\d{4})/runs/$", views.run_create, name="run-create"),
    path("runs/<uuid:run_id>/", views.run_detail, name="run-detail"),
    path("runs/<uuid:run_id>/status/", views.run_status, name="run-status"),
    path("runs/<uuid:run_id>/cancel/", views.run_cancel, name="run-cancel"),
    re_path(
        r"^(?P<record_id>NAN-\d{4})/sweeps/$", views.sweep_create, name="sweep-create"
    ),
    path("sweeps/<uuid:sweep_id>/", views.sweep_detail, name="sweep-detail"),
    path("sweeps/<uuid:sweep_id>/status/", views.sweep_status, name="sweep-status"),
    path("sweeps/<uuid:sweep_id>/cancel/", views.sweep_cancel, name="sweep-cancel"),
    re_path(
        r"^evidence/(?P<short>[0-9a-f]{12})/$",
        views.evidence_detail,
        name="evidence-detail",
    ),
]
