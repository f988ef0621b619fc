"""Addresses: pages under /en/ and /zh/, neutral permalinks, API, admin."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.contrib.sitemaps.views import sitemap
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from config import api_page
from config.i18n import i18n_patterns
from kb.pages import views as kb
from kb.syndication import as_markdown, crawlers, strip_picture
from runner.agents.views import Tools
from runner.pages import views as runner

handler400 = "kb.pages.views.bad_request"
handler500 = "kb.pages.faults.answer"

urlpatterns = [
    path("healthz", kb.healthz, name="healthz"),
    path("readyz", runner.readyz, name="readyz"),
    path("metrics", runner.metrics, name="metrics"),
    path("llms.txt", as_markdown.llms, name="llms"),
    path("robots.txt", crawlers.robots, name="robots"),
    path(".well-known/security.txt", crawlers.security, name="security"),
    path("sitemap.xml", sitemap, {"sitemaps": crawlers.SITEMAPS}, name="sitemap"),
    re_path(
        r"^(?P<name>favicon\.ico|apple-touch-icon\.png)$", crawlers.icon, name="icon"
    ),
    path("badge/<slug:record_id>/releases.svg", strip_picture.picture, name="strip"),
    path("admin/", admin.site.urls),
    path("api/", RedirectView.as_view(pattern_name="api-service"), name="api"),
    path("api/v1/", include("config.api_urls")),
    path("mcp", Tools.as_view(), name="mcp"),
    path("osv/", include("kb.syndication.osv.urls")),
    re_path(r"^(?P<record_id>NAN-\d{4})$", kb.record_neutral, name="record-neutral"),
    path("runs/<uuid:run_id>", runner.run_neutral, name="run-neutral"),
    *i18n_patterns(
        path("login/", LoginView.as_view(template_name="login.html"), name="login"),
        path("logout/", LogoutView.as_view(next_page="front"), name="logout"),
        path("api/", api_page.index, name="api-index"),
        path("", include("runner.pages.urls")),
        path("", include("kb.pages.urls")),
        re_path(
            r"^(?P<record_id>NAN-\d{4})/(?:(?P<slug>[-a-z0-9_]+)/)?$",
            runner.record_detail,
            name="record-detail",
        ),
    ),
]
