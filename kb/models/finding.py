"""Results of runs, one row per check; runner writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db import models

from kb.choices import DeviceClass, Fidelity, Outcome, Verdict


class FindingQuerySet(models.QuerySet["Finding"]):
    def fresh(self) -> FindingQuerySet:
        return self.filter(stale=False)

    def triggers(self) -> FindingQuerySet:
        """One row per verdict: the trigger's."""
        return self.filter(check_name="trigger")

    def that_answer(self) -> FindingQuerySet:
        """Of triggers, workarounds and code that tells whose bug it is: no controls."""
        return self.filter(
            models.Q(check_name="trigger")
            | models.Q(check_name__startswith="workaround_")
            | models.Q(check_name__startswith="diagnose_")
        )

    def diagnoses(self, records: Iterable[str]) -> FindingQuerySet:
        """The checks of these records' code that tells whether a bug is a reader's."""
        rows = self.filter(record__in=list(records))
        return rows.filter(check_name__startswith="diagnose_").order_by("pk")

    def by_record(self) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = defaultdict(list)
        for row in self:
            found[row.record_id].append(row)
        return found

    def of_the_bug(self) -> FindingQuerySet:
        """Without models of the mechanism, which answer nothing."""
        return self.exclude(fidelity=Fidelity.MECHANISM_MODEL)


class Finding(models.Model):
    """What the newest evidence shows for one check on one build and device class.

    Every run leaves a `trigger` row, also where the trigger was never reached,
    so that its verdict has one place.
    """

    record = models.ForeignKey("kb.Record", models.CASCADE, related_name="findings")
    repro = models.CharField(max_length=60)
    fidelity = models.CharField(max_length=16, choices=Fidelity.choices)
    build = models.CharField(max_length=61, db_index=True)
    build_raw = models.CharField(max_length=120)
    device_class = models.CharField(max_length=4, choices=DeviceClass.choices)
    device_name = models.CharField(max_length=120, blank=True)
    check_name = models.CharField(max_length=80)
    outcome = models.CharField(max_length=14, choices=Outcome.choices, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=14, choices=Verdict.choices)
    verdict_reason = models.CharField(max_length=200, blank=True)
    hits = models.PositiveIntegerField(default=0)
    trials = models.PositiveIntegerField(default=0)
    # Of a trigger: what it observed in yes or no and in short texts, alike in each of
    # its trials, as JSON. Null where there is nothing of the kind: a partial index
    # leaves those out, which SQLite takes for no other condition.
    said = models.TextField(blank=True, null=True)  # noqa: DJ001
    # Of a trigger, where there is any: {"packages": {name: version}, "cudnn",
    # "capability"}, the packages being those that the repro asks for.
    made_with = models.JSONField(
        default=dict, blank=True, db_default=models.Value({}, models.JSONField())
    )
    # site or repository: of what somebody sent there are no findings.
    origin = models.CharField(max_length=40)
    stale = models.BooleanField(default=False)
    evidence = models.CharField(max_length=71)
    observed_at = models.DateTimeField()

    objects = FindingQuerySet.as_manager()

    class Meta:
        ordering = ["record_id", "repro", "build", "check_name"]
        indexes = [
            # The verdicts on one build, without reading the rows themselves. No index
            # begins with the check: SQLite would take it for the few rows of a record.
            models.Index(
                name="finding_on_build",
                fields=[
                    *("build", "check_name", "stale", "record"),
                    *("fidelity", "verdict", "observed_at"),
                    *("repro", "device_class", "outcome"),
                ],
            ),
            models.Index(
                name="finding_said",
                fields=["build"],
                condition=models.Q(said__isnull=False),
            ),
            models.Index(name="finding_newest", fields=["observed_at", "check_name"]),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["record", "repro", "build", "device_class", "check_name"],
                name="one_finding",
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.repro}:{self.check_name} on {self.build}"

    @property
    def check_ref(self) -> str:
        """As claims name it: "repro:trigger"."""
        return f"{self.repro}:{self.check_name}"

    @property
    def short(self) -> str:
        """Of its evidence, as in addresses."""
        return self.evidence.removeprefix("sha256:")[:12]

    @property
    def is_model(self) -> bool:
        """Of a model of the mechanism, not of the bug itself."""
        return self.fidelity == Fidelity.MECHANISM_MODEL

    @property
    def is_fresh_verdict(self) -> bool:
        """The trigger's row, which carries the verdict, and still current."""
        return self.check_name == "trigger" and not self.stale
