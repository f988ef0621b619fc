"""Pages of the knowledge base, below the language's prefix."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path, re_path
from django.views.decorators.http import conditional_page

from kb.pages import views
from kb.releases.sides import SIDE
from kb.syndication import as_github, as_markdown
from kb.syndication.feeds import ChangesFeed, ComponentFeed, RecordFeed


def of_record(rest: str, view: Callable[..., Any], name: str) -> URLPattern:
    """What stands at a record's number and `rest`."""
    return re_path(rf"^(?P<record_id>NAN-\d{{4}}){rest}$", view, name=name)


urlpatterns = [
    path("", views.front, name="front"),
    # Readers ask every hour: what has not changed is not sent again.
    path("feed.atom", conditional_page(ChangesFeed()), name="feed"),
    path("theme/", views.choose_theme, name="theme"),
    path("underway/", views.underway, name="underway"),
    path("records/", views.record_list, name="record-list"),
    path("search/", views.search, name="search"),
    path("lookup/", views.look_up, name="look-up"),
    path("contribute/", views.contribute, name="contribute"),
    path("claims/", views.claim_list, name="claim-list"),
    path("contradictions/", views.contradiction_list, name="contradiction-list"),
    path("symptoms/<slug:slug>/", views.symptom_detail, name="symptom-detail"),
    path("laws/<slug:slug>/", views.law_detail, name="law-detail"),
    path("problems/<slug:slug>/", views.problem_detail, name="problem-detail"),
    of_record(r"/github\.md", as_github.record, "record-github"),
    of_record(r"/report-(?P<about>mine|error)\.txt", as_github.report, "record-report"),
    of_record(r"(?:/[-a-z0-9_]+)?\.md", as_markdown.record, "record-markdown"),
    path("compare/", views.compare_start, name="compare-start"),
    re_path(
        rf"^compare/(?P<before>{SIDE})\.\.\.(?P<after>{SIDE})/$",
        views.compare,
        name="compare",
    ),
    of_record(r"/feed\.atom", conditional_page(RecordFeed()), "record-feed"),
    re_path(
        r"^components/(?P<name>[^/]{1,80})/feed\.atom$",
        conditional_page(ComponentFeed()),
        name="component-feed",
    ),
    re_path(rf"^releases/(?P<name>{SIDE})/$", views.release, name="release-detail"),
]
