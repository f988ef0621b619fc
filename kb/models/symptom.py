"""Symptoms that many causes show alike."""

from __future__ import annotations

from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from kb.choices import LANGS
from kb.languages import in_each_language


class Symptom(models.Model):
    """What people see, what can be behind it, and what tells the causes apart.

    From `fixtures/symptoms/<slug>.toml`; files change it and nothing else.
    """

    slug = models.SlugField(primary_key=True, max_length=80)
    title_en = models.CharField(max_length=200)
    title_zh = models.CharField(max_length=200)
    summary_en = models.TextField()
    summary_zh = models.TextField()
    # What people call it, in either language.
    words = models.JSONField(default=list)
    # {"text": a line that programs print} or {"when": a predicate over facts}.
    signatures = models.JSONField(default=list)
    # [{"slug": …, "name": {…}, "ask": {…}, "when": […], "never": […], "people": 1}]
    causes = models.JSONField(default=list)
    modified = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["slug"]
        verbose_name = _("symptom of many causes")
        verbose_name_plural = _("symptoms of many causes")

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("symptom-detail", args=[self.slug])

    def text(self, field: str, lang: str) -> str:
        return str(getattr(self, f"{field}_{lang}"))

    def both(self, field: str) -> dict[str, str]:
        return {lang: self.text(field, lang) for lang in LANGS}

    def urls(self) -> dict[str, str]:
        """The page's address in each language."""
        return in_each_language(self.get_absolute_url)
