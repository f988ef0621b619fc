"""Addresses of badges; the same without a language, for `?lang=` chooses it."""

from django.urls import re_path

from kb.syndication.badges import views

urlpatterns = [
    re_path(
        r"^(?P<record_id>NAN-\d{4})/releases\.svg$",
        views.of_releases,
        name="badge-releases",
    ),
    re_path(
        r"^(?P<record_id>NAN-\d{4})/(?P<build>[-\w.]{1,61})\.svg$",
        views.on_build,
        name="badge",
    ),
    re_path(
        r"^(?P<record_id>NAN-\d{4})\.svg$", views.of_version, name="badge-of-version"
    ),
]
