"""Pages of kept answers, below the language's prefix."""

from django.urls import path, re_path

from kb.models.shared import ID_CHARS
from kb.sharing import views

ANSWER = rf"^a/(?P<answer_id>[\w-]{{{ID_CHARS}}})/"
urlpatterns = [
    path("a/", views.preview, name="answer-preview"),
    path("a/keep/", views.keep, name="answer-keep"),
    re_path(rf"{ANSWER}$", views.shared_answer, name="shared-answer"),
    re_path(rf"{ANSWER}delete/$", views.delete, name="shared-answer-delete"),
]
