"""Writes `kb.models.standing`: what follows from the findings of a record."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from django.db import transaction
from django.db.models import Count, Q

from kb.choices import JUDGED, ClaimState, Fidelity, Publication
from kb.findings import claims, contradictions, remedies, results
from kb.models import Finding, Flip, Record, Standing, TallyState, TestedBuild

CHUNK = 200
VERIFIED = "verified"


def lock() -> None:
    """Serialise the writers of findings and of standings.

    Call it at the start of a transaction that writes findings. Each writer replaces
    rows computed from all findings: of two concurrent ones, one would fail or not be
    counted. It also changes the version counter.
    """
    state = {"generation": secrets.randbits(62)}
    TallyState.objects.update_or_create(pk=1, defaults=state)


def refresh(record: Record, builds: Iterable[str] | None = None) -> None:
    """Compute a record's standing anew, in the transaction that changed something.

    To be called after its findings, claims, repros or the record itself changed.
    `builds`: those whose findings changed; None for all that it was tested on.
    """
    if builds is None:
        builds = record.findings.triggers().values_list("build", flat=True)
    with transaction.atomic():
        write([record.pk])
        count_builds(builds)


def bring_up_to_date() -> int:
    """Write standings that are missing or of an older release; returns how many."""
    missing = Record.objects.visible().filter(standing__contradicted=None)
    ids = list(missing.values_list("pk", flat=True))
    refresh_all(ids)
    return len(ids)


def refresh_all(ids: list[str] | None = None) -> None:
    """The standings of these records, or of all, and every tested build."""
    if ids is None:
        ids = list(Record.objects.values_list("pk", flat=True))
    with transaction.atomic():
        for at in range(0, len(ids), CHUNK):
            write(ids[at : at + CHUNK])
        if ids:
            stored = TestedBuild.objects.values_list("slug", flat=True)
            tested = Finding.objects.triggers().order_by().values_list("build")
            count_builds({*stored, *tested.distinct().values_list("build", flat=True)})


def write(ids: list[str]) -> None:
    """Replace the standings and flips of these records."""
    rows = Record.objects.filter(pk__in=ids).with_everything().defer("html")
    with transaction.atomic():
        lock()
        listed = [row for row in rows if row.publication == Publication.PUBLISHED]
        Standing.objects.filter(record__in=ids).delete()
        Flip.objects.filter(record__in=ids).delete()
        Standing.objects.bulk_create(map(standing_of, listed))
        Flip.objects.bulk_create(flip for row in listed for flip in flips_of(row))


def standing_of(record: Record) -> Standing:
    findings = list(record.findings.all())
    summary = results.summary(findings)
    states = Counter(str(claims.state(row, findings)) for row in record.claims.all())
    return Standing(
        record=record,
        facets=facets_of(record, findings),
        first_bad=summary["first_bad"] or "",
        first_good=summary["first_good"] or "",
        contradicted=len(contradictions.everything(record, findings)),
        **{state: states[state] for state in ClaimState.values},
    )


def facets_of(record: Record, findings: Sequence[Finding]) -> dict[str, list[str]]:
    """The facets of the record, and those that runs and repros add."""
    repros = [repro for repro in record.repros.all() if not repro.is_model]
    judged = (row for row in results.cells(findings) if row.verdict in JUDGED)
    devices = {row.device_class for row in judged}
    statuses = {remedy.status for remedy in remedies.of_record(record, findings)}
    return record.facets() | {
        "device": sorted({repro.device for repro in repros} | devices),
        "workaround": sorted(statuses & {VERIFIED}),
    }


def flips_of(record: Record) -> Iterator[Flip]:
    for flip in results.flips(results.cells(record.findings.all())):
        before, after = flip.before, flip.after
        yield Flip(
            record=record,
            device_class=after.device_class,
            kind=flip.kind,
            before=before.build,
            build=after.build,
            build_raw=after.build_raw,
            observed_at=max(before.observed_at, after.observed_at),
        )


def count_builds(slugs: Iterable[str]) -> None:
    """Count anew on how many published records these builds were tested."""
    builds = sorted(set(slugs))
    triggers = Finding.objects.fresh().triggers().order_by()
    judged = Q(verdict__in=JUDGED) & ~Q(fidelity=Fidelity.MECHANISM_MODEL)
    rows = (
        triggers.filter(build__in=builds, record__in=Standing.objects.values("pk"))
        .values_list("build", "build_raw")
        .annotate(
            records=Count("record", distinct=True),
            verdicts=Count("pk", filter=judged),
        )
    )
    with transaction.atomic():
        TestedBuild.objects.filter(slug__in=builds).delete()
        TestedBuild.objects.bulk_create(
            TestedBuild(slug=slug, raw=raw, records=records, judged=bool(verdicts))
            for slug, raw, records, verdicts in rows
        )
