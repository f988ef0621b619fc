"""Pages of releases, below the language's prefix."""

from django.urls import path, re_path
from django.views.decorators.http import conditional_page

from kb.release_pages import views
from kb.release_pages.feeds import ComponentFeed, RecordFeed, ReleaseFeed
from kb.releases.sides import SIDE

urlpatterns = [
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
