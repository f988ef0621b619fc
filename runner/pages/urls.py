"""Pages of builds, runs and evidence, below the language's prefix."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import URLPattern, path, re_path

from kb.records.facts import BUILD_SLUG
from runner.pages import views
from runner.pages.captures import views as captures
from runner.pages.jobs import views as jobs


def started(kind: str) -> Iterator[URLPattern]:
    """Where a form is sent, and what it started is cancelled."""
    what = {"kind": kind}
    forms, one = rf"^(?P<record_id>NAN-\d{{4}})/{kind}s/$", f"{kind}s/<uuid:job_id>/"
    yield re_path(forms, jobs.create, what, name=f"{kind}-create")
    yield path(f"{one}cancel/", jobs.cancel, what, name=f"{kind}-cancel")


def followed(kind: str) -> Iterator[URLPattern]:
    """The page of one, and the part of it that changes."""
    what, one = {"kind": kind}, f"{kind}s/<uuid:job_id>/"
    yield path(one, jobs.detail, what, name=f"{kind}-detail")
    yield path(f"{one}status/", jobs.status, what, name=f"{kind}-status")


def of_captures() -> Iterator[URLPattern]:
    """All that stands below the address of one capture."""
    one = "captures/<uuid:capture_id>/"
    yield path(one, captures.detail, name="capture-detail")
    yield path(f"{one}status/", captures.status, name="capture-status")
    yield path(f"{one}capture.json", captures.file, name="capture-file")
    yield path(f"{one}github.md", captures.github, name="capture-github")
    yield path(f"{one}runs/", captures.run, name="capture-run")
    yield path(f"{one}delete/", captures.delete, name="capture-delete")


urlpatterns = [
    path("matrix/", views.matrix, name="matrix"),
    path("builds/", views.build_list, name="build-list"),
    re_path(
        rf"^builds/(?P<slug>{BUILD_SLUG})/$", views.build_detail, name="build-detail"
    ),
    path("workers/", views.worker_list, name="worker-list"),
    path("health/", views.health_page, name="health"),
    path("runs/<uuid:run_id>/", views.run_detail, name="run-detail"),
    path("runs/<uuid:run_id>/status/", views.run_status, name="run-status"),
    *followed("sweep"),
    path("captures/", captures.send, name="capture-create"),
    *of_captures(),
    *(address for kind in jobs.KINDS for address in started(kind)),
    re_path(
        r"^evidence/(?P<short>[0-9a-f]{12})/$",
        views.evidence_detail,
        name="evidence-detail",
    ),
]
