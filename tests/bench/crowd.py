"""A site with many records and runs, to time pages on: `python -m tests.bench.crowd N`.

N records, ten verdicts and as many runs of each. Prints one JSON object: page -> CPU
seconds of this process for one request. DATA_DIR names an empty folder, or one that
was filled so before; `--fill` stops there.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from itertools import combinations, cycle, islice
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

from tests.bench.figures import cpu

ROUNDS = 15
RELEASES = ("1.13.1", "2.1.2", "2.3.1", "2.5.1", "2.6.0", "2.8.0", "2.10.0", "2.11.0")
RELEASES += ("2.12.0", "2.13.0")
CHECKS = ("control", "detector", "trigger", "workaround_off")
CHUNK = 500
SOURCE = "x = 1\n" * 500
WORKAROUND = {
    "name": "off",
    "kind": "code",
    "apply": "off()",
    "cost": {"en": "None.", "zh": "无。"},
}


def main(count: int) -> dict[str, float]:
    found = {name: seconds(path) for name, path in pages(prepared(count)).items()}
    page, api = "/en/compare/{}...{}/", "/api/v1/compare?from={}&to={}"
    return {
        **found,
        "comparison, each of another pair": seconds(*comparisons(page, 0)),
        "comparison over the API, each of another pair": seconds(*comparisons(api, 1)),
        "comparison with nothing in memory, without its page": first_comparison(),
    }


def prepared(count: int) -> list[str]:
    """The ids of the records, which are made unless they are there."""
    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    from kb.models import Record

    known = Record.objects.values_list("pk", flat=True).order_by("pk")
    return list(known) if known.count() >= count else fill(count)


def pages(records: list[str]) -> dict[str, str]:
    """One address of each kind; those of a record are of one in the middle."""
    from kb.models import Record
    from runner.models import Evidence, Run

    one = records[len(records) // 2]
    run = Run.objects.filter(repro__record=one).latest("created_at")
    evidence = Evidence.objects.filter(record=one).latest("started_at")
    return {
        "front": "/en/",
        "records": "/en/records/",
        "records, filtered": "/en/records/?verdict=bug_present&group=component",
        "records, last page": "/zh/records/?page=9999",
        "search": "/en/search/?q=gradient",
        "matrix": "/en/matrix/",
        "matrix, flips only": "/en/matrix/?show=flips&device=cpu",
        "matrix of a record": f"/en/matrix/?record={one}",
        "matrix as JSON": "/en/matrix/?format=json",
        "comparison": "/en/compare/2.5.1...2.13.0/",
        "comparison over the API": "/api/v1/compare?from=2.5.1&to=2.13.0",
        "release": "/en/releases/2.6.0/",
        "claims": "/en/claims/",
        "claims, refuted": "/zh/claims/?state=refuted",
        "contradictions": "/en/contradictions/",
        "builds": "/en/builds/",
        "build": "/en/builds/2.6.0-cpu/",
        "workers": "/en/workers/",
        "health": "/en/health/",
        "feed": "/en/feed.atom",
        "record": Record.objects.get(pk=one).get_absolute_url(),
        "run": run.get_absolute_url(),
        "evidence": evidence.get_absolute_url(),
    }


def comparisons(address: str, turn: int) -> list[str]:
    """So many pairs that none is compared a second time, other ones each turn."""
    pairs = combinations(reversed(RELEASES), 2)
    several = islice(pairs, turn * (ROUNDS + 1), (turn + 1) * (ROUNDS + 1))
    return [address.format(last, first) for first, last in several]


def first_comparison() -> float:
    """What `manage.py compare` asks, whose process has compared nothing yet."""
    from kb.releases import comparison, documented, sides, verdicts

    kept = (
        *(documented.facts_of_all, comparison.whole, comparison.judged_on),
        *(verdicts.on_build, verdicts.workarounds_on),
    )

    def compare() -> None:
        for cached in kept:
            cached.cache_clear()
        before, after = sides.find("2.5.1"), sides.find("2.13.0")
        assert before and after
        comparison.compare(before, after)

    compare()
    return statistics.median(cpu(compare) for _ in range(ROUNDS))


def seconds(*paths: str) -> float:
    from django.test import Client

    client = Client(SERVER_NAME="localhost")
    turns = cycle(paths)

    def get() -> None:
        path = next(turns)
        answer = client.get(path)
        if answer.status_code != 200:
            raise SystemExit(f"{path} answered {answer.status_code}")

    get()
    return statistics.median(cpu(get) for _ in range(ROUNDS))


# --- rows ----------------------------------------
def fill(count: int) -> list[str]:
    """The ids of `count` records, each with its repro, claims, runs and findings."""
    from kb.findings import standings
    from kb.models import Claim, Finding, Repro
    from runner.models import Build, Evidence, Run
    from tests.bench import corpus
    from tests.support.records import save_all  # after django.setup()

    Build.objects.bulk_create(
        Build(slug=f"{release}-cpu", raw=f"{release}+cpu") for release in RELEASES
    )
    ids: list[str] = []
    made = corpus.records(count)
    while chunk := list(islice(made, CHUNK)):
        for at, record in enumerate(chunk, len(ids)):
            # Ids of the corpus keep clear of the shipped ones, and some have no page.
            record.pk = f"NAN-{at:04d}"
            record.workarounds = [WORKAROUND]
        save_all(chunk)
        repros = Repro.objects.bulk_create(map(repro_of, chunk))
        Claim.objects.bulk_create(claim for row in chunk for claim in claims_of(row))
        rows = [row for repro in repros for row in verdicts_of(repro)]
        Evidence.objects.bulk_create(evidence for evidence, _run, _found in rows)
        Run.objects.bulk_create(run for _evidence, run, _found in rows)
        Finding.objects.bulk_create(row for _, _, found in rows for row in found)
        ids += [record.pk for record in chunk]
    standings.refresh_all()
    return ids


@cache
def shipped_body() -> dict[str, Any]:
    """An evidence object as runs write them, which the rows' own facts replace."""
    folder = settings.ISSUES_DIR / "checkpoint-reentrant-lost-grad" / "evidence"
    body: dict[str, Any] = json.loads((folder / "repro-2.13.0-cpu.json").read_text())
    return body


def body_of(record: str, release: str, verdict: str, digest: str) -> dict[str, Any]:
    body = shipped_body()
    build = {**body["build"], "slug": f"{release}-cpu", "raw": f"{release}+cpu"}
    facts = {"record": record, "build": build, "verdict": verdict, "digest": digest}
    # Of its checks the first and no variants: the others would be gigabytes.
    return {**body, **facts, "checks": body["checks"][:1], "variants": {}}


def repro_of(record: Any) -> Any:
    from kb.models import Repro

    return Repro(
        record=record,
        name="repro",
        source=SOURCE,
        digest=f"sha256:{record.pk}",
        fidelity="upstream_bug",
        device="cpu",
        checks=list(CHECKS),
    )


def claims_of(record: Any) -> Iterator[Any]:
    from kb.models import Claim

    for at, check in enumerate(("repro:trigger", "repro:workaround_off", "")):
        yield Claim(
            record=record,
            cid=f"c{at}",
            position=at,
            kind=("cause", "workaround", "fix")[at],
            text_en="What an article says of it.",
            text_zh="文章的说法。",
            source="s-1",
            check_ref=check,
            expects=("bug", "clean", "")[at],
            builds=["*"],
        )


def verdicts_of(repro: Any) -> Iterator[tuple[Any, Any, list[Any]]]:
    """A verdict on every release: bad from one on, mostly, and good from another."""
    from django.utils import timezone

    from kb.models import Finding
    from runner.models import Evidence, Run

    chance = random.Random(repro.digest)
    bad, good = sorted(chance.sample(range(len(RELEASES) + 1), 2))
    helps = chance.random() < 0.7
    now = timezone.now()
    for at, release in enumerate(RELEASES):
        verdict = "bug_present" if bad <= at < good else "bug_absent"
        if chance.random() < 0.1:
            verdict = chance.choice(("not_applicable", "error"))
        bug = verdict == "bug_present"
        moment = now - timedelta(seconds=chance.randrange(10_000_000))
        digest = f"sha256:{chance.getrandbits(256):064x}"
        facts = {"record_id": repro.record_id, "build_id": f"{release}-cpu"}
        evidence = Evidence(
            digest=digest,
            **facts,
            repro_name="repro",
            repro_digest=repro.digest,
            device_class="cpu",
            verdict=verdict,
            origin="site",
            started_at=moment,
            body=body_of(repro.record_id, release, verdict, digest),
        )
        run = Run(
            repro=repro,
            repro_digest=repro.digest,
            build_id=f"{release}-cpu",
            device="cpu",
            trials=1,
            protocol=1,
            state="finished",
            verdict=verdict,
            hits=int(bug),
            evidence=evidence,
            started_at=moment,
            finished_at=moment,
        )
        outcomes = dict.fromkeys(CHECKS, "clean")
        outcomes |= {"detector": "bug", "trigger": "bug" if bug else "clean"}
        outcomes["workaround_off"] = "clean" if helps or not bug else "bug"
        findings = [
            Finding(
                record_id=repro.record_id,
                repro="repro",
                fidelity="upstream_bug",
                build=f"{release}-cpu",
                build_raw=f"{release}+cpu",
                device_class="cpu",
                check_name=check,
                outcome=outcome,
                verdict=verdict,
                hits=int(outcome == "bug"),
                trials=1,
                origin="site",
                evidence=digest,
                observed_at=moment,
            )
            for check, outcome in outcomes.items()
        ]
        yield evidence, run, findings


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    wanted, only_fill = int(sys.argv[1]), sys.argv[2:] == ["--fill"]
    print(json.dumps(prepared(wanted) if only_fill else main(wanted)))
