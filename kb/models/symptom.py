"""Symptoms that many causes show alike, and laws of arithmetic that make a NaN."""

from __future__ import annotations

from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from kb.choices import LANGS
from kb.languages import in_each_language


class Explained(models.Model):
    """What has a page of its own besides records; files change it and nothing else."""

    PAGE = ""

    slug = models.SlugField(primary_key=True, max_length=80)
    title_en = models.CharField(max_length=200)
    title_zh = models.CharField(max_length=200)
    summary_en = models.TextField()
    summary_zh = models.TextField()
    modified = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse(self.PAGE, args=[self.slug])

    def text(self, field: str, lang: str) -> str:
        return str(getattr(self, f"{field}_{lang}"))

    def both(self, field: str) -> dict[str, str]:
        return {lang: self.text(field, lang) for lang in LANGS}

    def urls(self) -> dict[str, str]:
        """The page's address in each language."""
        return in_each_language(self.get_absolute_url)


class Symptom(Explained):
    """What people see, what can be behind it, and what tells the causes apart.

    From `fixtures/symptoms/<slug>.toml`.
    """

    PAGE = "symptom-detail"

    # What people call it, in either language.
    words = models.JSONField(default=list)
    # {"text": a line that programs print} or {"when": a predicate over facts}.
    signatures = models.JSONField(default=list)
    # [{"slug": …, "name": {…}, "ask": {…}, "when": […], "never": […], "people": 1}]
    causes = models.JSONField(default=list)

    class Meta:
        ordering = ["slug"]
        verbose_name = _("symptom of many causes")
        verbose_name_plural = _("symptoms of many causes")


class Law(Explained):
    """How arithmetic makes a NaN or an infinity, and what each stable form gives.

    From `fixtures/laws/<slug>/`: what is said of forms is what its run showed.
    """

    PAGE = "law-detail"

    # What the probe calls it (portable.nan_probe.known).
    name = models.CharField(max_length=80, unique=True)
    # The torch and the device class of the run.
    torch = models.CharField(max_length=100)
    device = models.CharField(max_length=20)
    # Nodes of autograd that anomaly mode names for it, such as SqrtBackward.
    nodes = models.JSONField(default=list)
    # {"code": …, "operands": […], "value": […], "gradient": […]}, numbers as texts.
    program = models.JSONField(default=dict)
    # [{"name": …, "text": {…}, "code": …, "outcome": …, "value": …, "gradient": …}]
    forms = models.JSONField(default=list)

    class Meta:
        ordering = ["slug"]
        verbose_name = _("law of arithmetic")
        verbose_name_plural = _("laws of arithmetic")
