"""What answers are worth: own pastes by record and by cause, and what none explains.

Each score stands twice: as it is, and with the tellers of the paste's own cause taken
out. Evidence is loaded, since "affected" rests on it.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from django.conf import settings

from kb.lookup import symptoms
from kb.lookup.answer import look_up
from kb.models import Record, Symptom
from runner.evidence.folders import load_evidence
from tests.bench.figures import Figure, cpu, figure
from tests.support import log_corpus

SURE = ("exact", "match")
# Messages that end many kinds of mistake: alone they are no record.
SHARED_NODES = (
    *("Exp", "Log", "Addmm", "Mul", "Div", "Sqrt", "Pow", "Mean", "Softmax"),
    *("LogSoftmax", "Sum", "Native_layer_norm", "ScaledDotProductAttention"),
)
Json = dict[str, Any]


class Case(NamedTuple):
    text: str
    env: str
    # Slugs and ids that answer it; none where nobody knows.
    causes: frozenset[str]


def figures() -> list[Figure]:
    load_evidence(settings.ISSUES_DIR)
    cases = list(asked(names_of_records()))
    known = [case for case in cases if case.causes]
    found = [(case, look_up(case.text, case.env)) for case in cases]
    count = len(known)
    without = [(case, without_tellers(case)) for case in known]
    times = [cpu(partial(look_up, case.text, case.env)) for case in cases]
    return [
        figure(f"cause first, {count} pastes", places(found, 1), ""),
        figure("  among three", places(found, 3), "", ">= 0.8"),
        figure("  first, without its own tellers", places(without, 1), ""),
        figure("  among three, without its own tellers", places(without, 3), "",
               ">= 0.6"),
        figure("wrong claims", sum(is_wrong(*one) for one in found), "", "== 0"),
        figure("uncertain answers without first checks",
               sum(map(is_bare, (answer for _case, answer in found))), "", "== 0"),
        figure("sure matches of a node of autograd alone", sure_of_nodes(), "", "== 0"),
        figure("look-up, median", statistics.median(times) * 1000, "ms CPU", "<= 15"),
    ]  # fmt: skip


def names_of_records() -> Mapping[str, frozenset[str]]:
    """By each name of a record all of its names: id, slug, aliases."""
    found: dict[str, frozenset[str]] = {}
    for row in Record.objects.visible().only("slug", "aliases"):
        names = frozenset((row.pk, row.slug, *row.aliases))
        found |= dict.fromkeys(names, names)
    return found


def asked(names: Mapping[str, frozenset[str]]) -> Iterator[Case]:
    for paste in log_corpus.known():
        yield Case(paste.text, "", names[paste.record])
    for paste in log_corpus.unknown():
        yield Case(paste.text, "", frozenset())
    for entry in tomllib.loads((log_corpus.LOGS / "causes.toml").read_text())["case"]:
        cause = entry["cause"]
        causes = names.get(cause, frozenset((cause,))) if cause else frozenset()
        yield Case(entry["text"], entry.get("env", ""), causes)


def without_tellers(case: Case) -> Json:
    """The answer as if the symptoms named no fact that speaks for this cause."""
    with silenced(case.causes):
        return look_up(case.text, case.env)


@contextmanager
def silenced(causes: frozenset[str]) -> Iterator[None]:
    held = symptoms.held

    def silent(entry: Json, symptom: Symptom, *rest: Any) -> symptoms.Cause:
        own = entry["slug"] in causes
        return held(
            {**entry, "when": [], "never": []} if own else entry, symptom, *rest
        )

    with patch.object(symptoms, "held", silent):
        yield


def places(found: Iterable[tuple[Case, Json]], most: int) -> float:
    """The share of known causes among the first `most` candidates."""
    hits = [
        any(is_of(case, item) for item in answer["candidates"][:most])
        for case, answer in found
        if case.causes
    ]
    return statistics.mean(map(float, hits))


def is_of(case: Case, item: Json) -> bool:
    return not case.causes.isdisjoint((item["record"], item["slug"], *item["aliases"]))


def is_wrong(case: Case, answer: Json) -> bool:
    """It is sure of another record, or says that the reader's build shows it."""
    others = [item for item in answer["candidates"] if not is_of(case, item)]
    affected = [item["affected"] or {} for item in others]
    return any(item["confidence"] in SURE for item in others) or any(
        item.get("is_affected") and item["basis"] == "tested_build" for item in affected
    )


def is_bare(answer: Json) -> bool:
    sure = any(item["confidence"] in SURE for item in answer["candidates"])
    return not (sure or answer["first_checks"])


def sure_of_nodes() -> int:
    message = (
        "RuntimeError: Function '{}Backward0' returned nan values in its {}th output."
    )
    answers = [
        look_up(message.format(node, output))
        for node in SHARED_NODES
        for output in (0, 1)
    ]
    return sum(
        item["confidence"] in SURE
        for answer in answers
        for item in answer["candidates"]
    )
