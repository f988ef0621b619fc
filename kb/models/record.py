"""Records of known training failures, their repros, and what is claimed of them."""

from __future__ import annotations

from functools import lru_cache

from django.db import models
from django.db.models import Value
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from kb.choices import (
    LANGS,
    SECTIONS,
    WORKER_DEVICES,
    AffectedWhen,
    ClaimKind,
    Depth,
    Expects,
    Fidelity,
    Publication,
    SymptomClass,
    Upstream,
)
from kb.languages import in_each_language


class RecordQuerySet(models.QuerySet["Record"]):
    def visible(self) -> RecordQuerySet:
        """What a reader may list: published records."""
        return self.filter(publication=Publication.PUBLISHED)

    def addressable(self) -> RecordQuerySet:
        """What has a page: withdrawn records keep theirs, drafts have none."""
        return self.exclude(publication=Publication.DRAFT)

    def without_prose(self) -> RecordQuerySet:
        """For lists, which show none of the articles."""
        prose = (f"{name}_{lang}" for name in SECTIONS for lang in LANGS)
        return self.defer("html", *prose)

    def with_everything(self) -> RecordQuerySet:
        return self.prefetch_related("repros", "claims", "findings")


class Record(models.Model):
    """One known issue. Facts are stored once; prose once per language.

    Rows change by files only. The JSON columns hold the lists of the same name in
    `issue.toml` (fixtures/issues/<slug>/), validated by `kb.records.files`.
    """

    id = models.CharField(primary_key=True, max_length=8)
    slug = models.SlugField(max_length=80, unique=True)
    publication = models.CharField(
        max_length=10, choices=Publication.choices, default=Publication.DRAFT
    )
    withdrawn_because_en = models.TextField(blank=True)
    withdrawn_because_zh = models.TextField(blank=True)
    depth = models.CharField(
        max_length=5, choices=Depth.choices, default=Depth.FULL, db_default=Depth.FULL
    )
    upstream = models.CharField(max_length=12, choices=Upstream.choices)
    symptom_class = models.CharField(max_length=14, choices=SymptomClass.choices)
    components = models.JSONField(default=list, blank=True)
    aliases = models.JSONField(default=list, blank=True)
    related = models.JSONField(default=list, blank=True)

    title_en = models.CharField(max_length=200)
    title_zh = models.CharField(max_length=200)
    summary_en = models.CharField(max_length=400)
    summary_zh = models.CharField(max_length=400)

    # Markdown of each article section, as in the files.
    symptom_en = models.TextField(blank=True)
    symptom_zh = models.TextField(blank=True)
    environment_en = models.TextField(blank=True)
    environment_zh = models.TextField(blank=True)
    root_cause_en = models.TextField(blank=True)
    root_cause_zh = models.TextField(blank=True)
    workaround_en = models.TextField(blank=True)
    workaround_zh = models.TextField(blank=True)
    fix_en = models.TextField(blank=True)
    fix_zh = models.TextField(blank=True)

    environment = models.JSONField(default=list, blank=True)
    affected_when = models.CharField(
        max_length=3, choices=AffectedWhen.choices, default=AffectedWhen.ANY
    )
    # {"devices": […], "why": …}: where its cause holds (kb.choices).
    holds_on = models.JSONField(
        default=dict, blank=True, db_default=Value({}, models.JSONField())
    )
    preconditions = models.JSONField(default=list, blank=True)
    signatures = models.JSONField(default=list, blank=True)
    affected = models.JSONField(default=list, blank=True)
    fixes = models.JSONField(default=list, blank=True)
    workarounds = models.JSONField(default=list, blank=True)
    diagnoses = models.JSONField(
        default=list, blank=True, db_default=Value([], models.JSONField())
    )
    sources = models.JSONField(default=list, blank=True)
    # What checks of its repros do, by their names (kb.findings.checks).
    check_titles = models.JSONField(
        default=list, blank=True, db_default=Value([], models.JSONField())
    )

    # What its traps look like in Python source (kb.rules).
    rules = models.JSONField(
        default=list, blank=True, db_default=Value([], models.JSONField())
    )

    # What training does with the bug and without, as it ran (kb.records.curves).
    curve = models.JSONField(
        default=dict, blank=True, db_default=Value({}, models.JSONField())
    )

    # {"en": {"symptom": "<p>…", …, "workarounds": {"name": "<p>…"}}, "zh": …}
    html = models.JSONField(default=dict, blank=True, editable=False)
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)
    # The day on which its text last changed in meaning, or "" (kb.syndication.dates).
    updated = models.CharField(max_length=10, blank=True, db_default="")
    modified = models.DateTimeField(auto_now=True)
    # The language whose text is behind the other's (kb.records.translation).
    outdated = models.CharField(max_length=2, blank=True, editable=False)
    # Of the files that it was loaded from; empty: the next load makes the row anew.
    files_digest = models.CharField(max_length=71, blank=True, editable=False)

    objects = RecordQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        verbose_name = _("record")
        verbose_name_plural = _("records")

    def __str__(self) -> str:
        return f"{self.id} {self.title_en}"

    def get_absolute_url(self) -> str:
        return reverse("record-detail", args=[self.id, self.slug])

    @property
    def is_brief(self) -> bool:
        return self.depth == Depth.BRIEF

    def facets(self) -> dict[str, list[str]]:
        """The values of each facet that the record states, each once."""
        return {
            "symptom": [self.symptom_class],
            "upstream": [self.upstream],
            "component": list(self.components),
            "package": list(dict.fromkeys(row["package"] for row in self.affected)),
        }

    def text(self, field: str, lang: str) -> str:
        """The prose of `field` in "en" or "zh", as stored (may be empty)."""
        return str(getattr(self, f"{field}_{lang}"))

    def both(self, field: str) -> dict[str, str]:
        return {lang: self.text(field, lang) for lang in LANGS}

    def urls(self) -> dict[str, str]:
        """The page's address in each language."""
        return dict(urls_of(self.id, self.slug))


@lru_cache(maxsize=1000)
def urls_of(record: str, slug: str) -> dict[str, str]:
    arguments = [record, slug]
    return in_each_language(lambda: reverse("record-detail", args=arguments))


class Repro(models.Model):
    """Reviewed source of one executable repro; changes by files only."""

    record = models.ForeignKey(Record, models.CASCADE, related_name="repros")
    name = models.CharField(max_length=60)
    source = models.TextField()
    digest = models.CharField(max_length=71, db_index=True)
    fidelity = models.CharField(max_length=16, choices=Fidelity.choices)
    device = models.CharField(max_length=4, choices=WORKER_DEVICES)
    # The parsed header (`Header` of the harness as a dict) and the check names.
    header = models.JSONField(default=dict)
    checks = models.JSONField(default=list)

    class Meta:
        ordering = ["record_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["record", "name"], name="one_repro_name")
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.name}"

    @property
    def is_model(self) -> bool:
        """A model of the mechanism is not the bug and answers nothing."""
        return self.fidelity == Fidelity.MECHANISM_MODEL


class Claim(models.Model):
    """What a source says of a record; its state is computed by `kb.findings.claims`."""

    record = models.ForeignKey(Record, models.CASCADE, related_name="claims")
    cid = models.CharField(max_length=40)
    position = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=10, choices=ClaimKind.choices)
    text_en = models.TextField()
    text_zh = models.TextField()
    source = models.CharField(max_length=40)
    check_ref = models.CharField(max_length=120, blank=True)
    expects = models.CharField(max_length=5, choices=Expects.choices, blank=True)
    builds = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["record_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["record", "cid"], name="one_claim_id")
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.cid}"
