"""Pages of the knowledge base, below the language's prefix."""

from django.urls import path, re_path

from kb import views

urlpatterns = [
    path("", views.front, name="front"),
    path("records/", views.record_list, name="record-list"),
    path("search/", views.search, name="search"),
    path("lookup/", views.look_up, name="look-up"),
    path("claims/", views.claim_list, name="claim-list"),
    path("problems/<slug:slug>/", views.problem_detail, name="problem-detail"),
    re_path(
        r"^(?P<record_id>NAN-\d{4})/(?:(?P<slug>[-a-z0-9_]+)/)?$",
        views.record_detail,
        name="record-detail",
    ),
]
