"""Search and look-up: what they find, and what one takes as the records grow.

Times are processor time of this process, medians of many.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterable
from itertools import islice
from typing import Any

from kb.lookup.answer import look_up
from kb.models import Record
from kb.publishing import saving
from kb.search.index.inverted import Index, current_index
from kb.search.ranking.words import WordMatch, match_words
from kb.search.reading.query import read_query
from tests.bench.figures import Figure, cpu, figure
from tests.support import log_corpus
from tests.support.made_records import CHINESE, make_records
from tests.support.records import save_all

Json = dict[str, Any]
FEW, MANY = 300, 3000
QUESTIONS = (
    "cuDNN SDPA backward NaN", "grad_norm nan loss 0", "gradient lost checkpoint",
    "use_reentrant", "grad_output.strides()", "torch.compile bf16 amax",
    "梯度丢失", "梯度检查点 loss 不下降", "FP8 行量化 NaN", "混合精度 溢出", "RMSNorm",
    "float8 rowwise", "ChunkGSAFunctionBackward", "学习率 warmup nan",
)  # fmt: skip
HOSTILE_SIZE = 200_000
HOSTILE = (
    "a", "[({'\"", "1.5e-3 ", "\x1b[3{0}m\r{0}%|##| 1/9 [00:01<00:02]",
    "RuntimeError: element 0 of tensors does not {0}\n",
    "/a/b.py:{0}: UserWarning: strides {0} of grad_output {0}\n",
    "梯度为 nan，溢出{0}\n", "torch=={0}.1.2 ; a\n", "a.",
)  # fmt: skip


def figures() -> list[Figure]:
    found = answers()
    times, made = {}, iter(make_records(MANY))
    for count in (FEW, MANY):
        save_all(islice(made, count - Record.objects.count()))
        found += growth(count)
        times[count] = whole_look_up()
    few, many = times[FEW] * 1000, times[MANY] * 1000
    return [
        *found,
        figure(f"look-up of a pasted log, {FEW} records", few, "ms CPU", "<= 15"),
        figure(f"look-up of a pasted log, {MANY} records", many, "ms CPU", "<= 50"),
        figure("query of words", asked() * 1000, "ms CPU"),
        figure("slowest of 9 hostile pastes of 200 kB", hostile(), "s CPU", "<= 0.5"),
    ]


# --- what is found ----------------------------------------
def answers() -> list[Figure]:
    known = [(matches(log), record) for log, record in pastes()]
    unknown = [matches(paste.text) for paste in log_corpus.unknown()]
    hit = share(first(found) == record for found, record in known)
    wrong = sum(is_sure(found) and first(found) != record for found, record in known)
    return [
        figure(f"first answer right, {len(known)} logs", hit, "", ">= 0.95"),
        figure("a wrong record called a match", wrong, "", "== 0"),
        figure("unknown errors called a match", share(map(is_sure, unknown)), "",
               "<= 0.06"),
        figure("recall of two Chinese characters against LIKE", recall(), "", "== 1"),
    ]  # fmt: skip


def pastes() -> list[tuple[str, str]]:
    """(log, record) of the logs in tests/logs that show a record."""
    golden = tomllib.loads((log_corpus.LOGS / "golden.toml").read_text())["paste"]
    found = [
        ((log_corpus.LOGS / entry["log"]).read_text(), entry["first"])
        for entry in golden
        # Numbers alone name no record.
        if "first" in entry and entry["log"] != "only-numbers.log"
    ]
    return found + [(paste.text, paste.record) for paste in log_corpus.known()]


def matches(log: str) -> list[Json]:
    """The candidates of an answer, as a reader gets them."""
    found: list[Json] = look_up(log)["candidates"]
    return found


def first(found: list[Json]) -> str | None:
    return found[0]["record"] if found else None


def is_sure(found: list[Json]) -> bool:
    return bool(found) and found[0]["confidence"] in ("exact", "match")


def share(answers: Iterable[bool]) -> float:
    return statistics.mean(map(float, answers))


def recall() -> float:
    """Of words of two characters, the least against titles that LIKE finds."""
    shares = [1.0]
    for word in CHINESE.split():
        rows = Record.objects.visible().filter(title_zh__contains=word)
        truth = set(rows.values_list("pk", flat=True))
        found = {match.record for match in words(word)}
        if truth and len(word) == 2:
            shares.append(len(found & truth) / len(truth))
    return min(shares)


# --- what it takes ----------------------------------------
def growth(count: int) -> list[Figure]:
    """The index of a process that starts, and of one that sees a record change."""
    generation = current_index().generation
    start = cpu(lambda: Index().brought_to(generation))
    record = Record.objects.visible().latest("pk")
    record.title_en = f"Zebra {count}"
    saving.save(record)
    change = cpu(current_index)
    return [
        figure(f"index at the start, {count} records", start, "s CPU",
               "<= 3" if count == FEW else ""),
        figure(f"  after one changed, {count} records", change * 1000, "ms CPU"),
    ]  # fmt: skip


def whole_look_up() -> float:
    logs = [log for log, _record in pastes()]
    for log in logs:  # what a process keeps of records is read once
        look_up(log)
    return statistics.median(cpu(lambda log=log: look_up(log)) for log in logs)


def words(text: str) -> list[WordMatch]:
    return match_words(read_query(text), current_index())


def asked() -> float:
    return statistics.median(cpu(lambda text=text: words(text)) for text in QUESTIONS)


def hostile() -> float:
    """The slowest of texts that are made to be slow to read."""
    slowest = 0.0
    for piece in HOSTILE:
        made = "".join(piece.replace("{0}", str(at)) for at in range(HOSTILE_SIZE))
        took = min(cpu(lambda log=made[:HOSTILE_SIZE]: look_up(log)) for _ in range(2))
        slowest = max(slowest, took)
    return slowest
