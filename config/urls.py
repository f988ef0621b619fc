"""Addresses: pages under /en/ and /zh/, neutral permalinks, API, admin."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path, re_path

from config.i18n import i18n_patterns
from kb.pages import views as kb
from runner.pages import views as runner

handler400 = "kb.pages.views.bad_request"

urlpatterns = [
    path("healthz", kb.healthz, name="healthz"),
    path("readyz", runner.readyz, name="readyz"),
    path("metrics", runner.metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("config.api_urls")),
    re_path(r"^(?P<record_id>NAN-\d{4})$", kb.record_neutral, name="record-neutral"),
    path("runs/<uuid:run_id>", runner.run_neutral, name="run-neutral"),
    *i18n_patterns(
        path("login/", LoginView.as_view(template_name="login.html"), name="login"),
        path("logout/", LogoutView.as_view(next_page="front"), name="logout"),
        path("", include("runner.pages.urls")),
        path("", include("kb.release_pages.urls")),
        path("", include("kb.pages.urls")),
    ),
]
