"""Addresses below /osv/, as api.osv.dev and its exports have them."""

from django.urls import path

from kb.syndication.osv import views

urlpatterns = [
    path("v1/query", views.query, name="osv-query"),
    path("v1/querybatch", views.query_batch, name="osv-query-batch"),
    path("v1/vulns/<str:name>", views.vulnerability, name="osv-vulnerability"),
    path("PyPI/all.zip", views.export, name="osv-export"),
    path("PyPI/modified_id.csv", views.modified_ids, name="osv-modified"),
]
