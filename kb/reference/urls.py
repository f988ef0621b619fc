"""The API's documentation, below the language's prefix."""

from django.urls import path

from kb.reference import views

urlpatterns = [path("api/", views.api_reference, name="api-reference")]
