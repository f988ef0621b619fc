"""Pages of releases, below the language's prefix."""

from django.urls import path, re_path

from kb.release_pages import views
from kb.releases.sides import SIDE

urlpatterns = [
    path("compare/", views.compare_start, name="compare-start"),
    re_path(
        rf"^compare/(?P<before>{SIDE})\.\.\.(?P<after>{SIDE})/$",
        views.compare,
        name="compare",
    ),
    path("releases/", views.release_list, name="release-list"),
    re_path(
        rf"^releases/(?P<name>{SIDE})/$", views.release_detail, name="release-detail"
    ),
]
