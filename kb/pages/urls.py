"""Pages of the knowledge base, below the language's prefix."""

from django.urls import path, re_path
from django.views.decorators.http import conditional_page

from kb.pages import views
from kb.releases.sides import SIDE
from kb.syndication import as_github, as_markdown
from kb.syndication.cards import views as cards
from kb.syndication.feeds import (
    ChangesFeed,
    ComponentFeed,
    RecordFeed,
    ReleaseFeed,
)

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
    re_path(
        r"^(?P<record_id>NAN-\d{4})/github\.md$",
        as_github.record,
        name="record-github",
    ),
    re_path(
        r"^(?P<record_id>NAN-\d{4})/report-(?P<about>mine|error)\.txt$",
        as_github.report,
        name="record-report",
    ),
    re_path(
        r"^(?P<record_id>NAN-\d{4})(?:/[-a-z0-9_]+)?\.md$",
        as_markdown.record,
        name="record-markdown",
    ),
    re_path(r"^(?P<record_id>NAN-\d{4})/card\.png$", cards.card, name="record-card"),
    path("compare/", views.compare_start, name="compare-start"),
    re_path(
        rf"^compare/(?P<before>{SIDE})\.\.\.(?P<after>{SIDE})/$",
        views.compare,
        name="compare",
    ),
    re_path(
        r"^(?P<record_id>NAN-\d{4})/feed\.atom$",
        conditional_page(RecordFeed()),
        name="record-feed",
    ),
    re_path(
        r"^components/(?P<name>[^/]{1,80})/feed\.atom$",
        conditional_page(ComponentFeed()),
        name="component-feed",
    ),
    re_path(
        rf"^releases/(?P<name>{SIDE})/feed\.atom$",
        conditional_page(ReleaseFeed()),
        name="release-feed",
    ),
    re_path(rf"^releases/(?P<name>{SIDE})/$", views.release, name="release-detail"),
]
