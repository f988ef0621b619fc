"""Pages for editors, below the language's prefix; before those of the records."""

from django.urls import re_path

from kb.editor import views

RECORD = r"^(?P<record_id>NAN-\d{4})"
urlpatterns = [
    re_path(rf"{RECORD}/edit/$", views.edit, name="record-edit"),
    re_path(rf"{RECORD}/edit/preview/$", views.show_preview, name="record-preview"),
]
