"""Pages of symptoms, below the language's prefix."""

from django.urls import path

from kb.symptoms import views

urlpatterns = [
    path("symptoms/<slug:slug>/", views.symptom_detail, name="symptom-detail"),
]
