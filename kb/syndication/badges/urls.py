"""Addresses of badges; the same without a language, for `?lang=` chooses it."""

from django.urls import re_path

from kb.syndication.badges import views

RECORD = r"^(?P<record_id>NAN-\d{4})"
urlpatterns = [
    re_path(rf"{RECORD}/releases\.svg$", views.of_releases, name="badge-releases"),
    re_path(rf"{RECORD}/(?P<build>[-\w.]{{1,61}})\.svg$", views.on_build, name="badge"),
    re_path(rf"{RECORD}\.svg$", views.of_version, name="badge-of-version"),
]
