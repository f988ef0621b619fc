"""Search measured in one database: `python -m tests.bench.database RECORDS WHAT`.

WHAT is alone, peers (beside other engines) or growth. Prints one JSON object.
DATA_DIR or DATABASE_URL names the database, which must be empty; tests.bench.search
starts this once for SQLite and once for PostgreSQL.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

from tests.bench.figures import cpu, share_of
from tests.bench.peers import Fts5, Like, Tantivy, Text

CHUNK = 500
GENERATED_LOGS, UNKNOWN_LOGS = 100, 300
# Of the slow peers only so many logs are timed.
SLOW = 15
WORDS = [
    "梯度", "溢出", "显存", "精度", "编译", "数值", "损失", "掩码", "权重", "填充",
    "微调", "训练", "激活", "衰减", "动量", "量化", "舍入", "推理", "步幅", "检查",
]  # fmt: skip
QUESTIONS = (
    "cuDNN SDPA backward NaN", "grad_norm nan loss 0", "gradient lost checkpoint",
    "use_reentrant", "grad_output.strides()", "torch.compile bf16 amax",
    "梯度丢失", "梯度检查点 loss 不下降", "FP8 行量化 NaN", "混合精度 溢出", "RMSNorm",
    "float8 rowwise", "ChunkGSAFunctionBackward", "学习率 warmup nan", "GB0123",
)  # fmt: skip
# Ids have four digits.
WITH_ADDRESS = 10_000
HOSTILE_SIZE = 200_000
HOSTILE = {
    "one word": "a",
    "error lines": "RuntimeError: element 0 of tensors does not {0}\n",
    "brackets": "[({'\"",
    "numbers": "1.5e-3 ",
    "warnings": "/a/b.py:{0}: UserWarning: strides {0} of grad_output {0}\n",
    "Chinese": "梯度为 nan，溢出{0}\n",
    "versions": "torch=={0}.1.2 ; a\n",
    "escapes": "\x1b[3{0}m\r{0}%|##| 1/9 [00:01<00:02]",
}


def main(count: int, what: str) -> dict[str, Any]:
    call_command("migrate", verbosity=0, interactive=False)
    call_command("load_records", stdout=sys.stderr)
    found: dict[str, Any] = {"index_s": fill(count), "records": count}
    found["index_bytes"] = index_bytes()
    found |= accuracy()
    found |= times(count)
    with tempfile.TemporaryDirectory() as folder:
        if what == "peers":
            found |= beside_peers(Path(folder))
            found["hostile_s"] = hostile()
        elif what == "growth":
            like = Like(Path(folder))
            like.add(peer_texts())
            found |= recall(like)
    return found


def fill(count: int) -> float:
    """Seconds to store and index the corpus, beside the records that are there."""
    from kb.models import Record
    from tests.bench import corpus
    from tests.support.records import save_all  # after django.setup()

    begin = time.perf_counter()
    rows = corpus.records(count - Record.objects.count())
    making = 0.0
    while chunk := timed_list(rows, CHUNK):
        making += chunk[0]
        if not chunk[1]:
            break
        save_all(chunk[1])
    return time.perf_counter() - begin - making


def timed_list(rows: Iterator[Any], size: int) -> tuple[float, list[Any]]:
    begin = time.perf_counter()
    found = list(islice(rows, size))
    return time.perf_counter() - begin, found


def index_bytes() -> int:
    """What the index takes in the database, its own indexes included."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT SUM(pgsize) FROM dbstat WHERE name IN "
                "(SELECT name FROM sqlite_master WHERE tbl_name LIKE 'kb_search%%')"
            )
        else:
            cursor.execute(
                "SELECT SUM(pg_total_relation_size(oid)) FROM pg_class "
                "WHERE relkind = 'r' AND relname LIKE 'kb_search%%'"
            )
        return int(cursor.fetchone()[0])


# --- answers ------------------------------------------------------------------------
def pastes() -> list[tuple[str, str]]:
    """(log, record) of the logs in tests/logs that show a record."""
    from tests.support import log_corpus

    folder = log_corpus.LOGS
    golden = tomllib.loads((folder / "golden.toml").read_text())["paste"]
    found = [
        ((folder / entry["log"]).read_text(), entry["first"])
        for entry in golden
        # Numbers alone name no record.
        if "first" in entry and entry["log"] != "only-numbers.log"
    ]
    return found + [(paste.text, paste.record) for paste in log_corpus.known()]


def unknown_pastes() -> list[str]:
    from tests.bench import corpus
    from tests.support import log_corpus

    generated = [log.text for log in corpus.unknown_logs(UNKNOWN_LOGS)]
    return [paste.text for paste in log_corpus.unknown()] + generated


def match(log: str) -> list[Any]:
    from kb.search.index.store import current_store
    from kb.search.ranking.logs import match_log
    from tests.support.log_corpus import read_log

    return match_log(read_log(log), current_store())


def words(text: str) -> list[int]:
    """Numbers of every document about the words, best first."""
    from kb.search.index.store import current_store
    from kb.search.ranking.words import match_words
    from kb.search.reading.query import read_query

    return [found.document for found in match_words(read_query(text), current_store())]


def is_sure(matches: list[Any]) -> bool:
    return bool(matches) and matches[0].confidence.value in ("exact", "match")


def accuracy() -> dict[str, Any]:
    from tests.bench import corpus

    real = [(match(log), record) for log, record in pastes()]
    generated = [(match(log), record) for log, record in corpus.logs(GENERATED_LOGS)]
    unknown = [match(log) for log in unknown_pastes()]
    first = [found[0].record if found else "" for found, _ in real + generated]
    first += [found[0].record if found else "" for found in unknown]
    return {
        "real": len(real),
        "hit_real": share(is_first(found, record) for found, record in real),
        "hit_generated": share(is_first(found, record) for found, record in generated),
        "wrong": sum(
            is_sure(found) and not is_first(found, record)
            for found, record in real + generated
        ),
        "false_alarms": share(map(is_sure, unknown)),
        "first": first + [top_record(text) for text in questions()],
    }


def is_first(found: list[Any], record: str) -> bool:
    return bool(found) and found[0].record == record


def share(answers: Iterable[bool]) -> float:
    return statistics.mean(map(float, answers))


def questions() -> list[str]:
    """Queries of words: by hand, of two characters, and pieces of titles."""
    from tests.bench import corpus

    made_of = corpus.material()
    titles = [corpus.record(number, made_of) for number in range(300, 400)]
    english = [" ".join(row.title_en.split()[2:8]) for row in titles]
    return [*QUESTIONS, *WORDS, *english, *(row.title_zh[10:22] for row in titles)]


def top_record(text: str) -> str:
    from kb.models import SearchDocument

    found = words(text)
    if not found:
        return ""
    return SearchDocument.objects.get(pk=found[0]).record_id


# --- times --------------------------------------------------------------------------
def fresh_logs() -> list[str]:
    """Logs to time: none was looked up before, so that no cache knows them."""
    from tests.bench import corpus

    return [log.text for log in corpus.logs(corpus.TARGETS)[GENERATED_LOGS:]]


def times(count: int) -> dict[str, float]:
    from kb.lookup.answer import look_up

    # What the bench itself holds is no part of what is timed.
    gc.collect()
    gc.freeze()
    logs = fresh_logs()
    asked = [cpu(lambda log=log: match(log)) for log in logs]
    # Records beyond those with an address cannot be shown.
    shown = logs if count <= WITH_ADDRESS else []
    whole = [cpu(lambda log=log: look_up(log)) for log in shown] or [0.0]
    short = [cpu(lambda word=word: words(word)) for word in WORDS for _ in range(5)]
    texts = [cpu(lambda text=text: words(text)) for text in questions()]
    return {
        "log_p50": statistics.median(asked),
        "log_p95": share_of(asked, 0.95),
        "lookup_p50": statistics.median(whole),
        "han_p95": share_of(short, 0.95),
        "words_p50": statistics.median(texts),
    }


# --- others -------------------------------------------------------------------------
def peer_texts() -> Iterator[Text]:
    """Every record as a reader sees it, and its tokens with their counts."""
    from kb.models import Record
    from kb.search.index.documents import body_of, contents_of
    from kb.search.reading.tokens import fold

    for record in Record.objects.visible().iterator():
        literal = [entry["text"] for entry in record.signatures]
        lines = [*record.both("title").values(), *literal, body_of(record)]
        text = fold("\n".join(lines)).lower()
        yield Text(record.id, text, contents_of(record).weights)


def beside_peers(folder: Path) -> dict[str, Any]:
    like, stock = Like(folder), Fts5(folder, "unicode61", shortest=1)
    trigram, tantivy = Fts5(folder, "trigram", shortest=3), Tantivy(folder)
    texts = list(peer_texts())
    for peer in (like, stock, trigram, tantivy):
        peer.add(texts)
    tantivy.finish()
    found = {
        "text_bytes": sum(len(text.text.encode()) for text in texts),
        "trigram_bytes": trigram.size(),
        "tantivy_bytes": tantivy.size(),
        "like_hit": share(record in like.search(log)[:1] for log, record in pastes()),
        "stock_hit": share(record in stock.search(log)[:1] for log, record in pastes()),
    }
    del texts
    gc.collect()
    gc.freeze()
    return found | recall(like) | side_by_side(like, stock, tantivy)


def recall(like: Like) -> dict[str, float]:
    """Of words of two characters, against every record that LIKE finds."""
    from kb.models import SearchDocument

    names = dict(SearchDocument.objects.values_list("id", "record_id"))
    least, scans = 1.0, []
    for word in WORDS:
        truth = set(like.having(word))
        found = {names[number] for number in words(word)}
        if truth:
            least = min(least, len(found & truth) / len(truth))
        scans += [cpu(lambda word=word: like.having(word)) for _ in range(5)]
    return {"han_recall": least, "like_han_p95": share_of(scans, 0.95)}


def side_by_side(like: Like, stock: Fts5, tantivy: Tantivy) -> dict[str, float]:
    """Each log is asked of all in turn, so that a busy moment meets all alike."""
    logs = fresh_logs()
    for log in logs[-10:]:
        match(log), tantivy.search(log), like.search(log)
    ours, theirs, scans, slow = [], [], [], []
    for at, log in enumerate(logs):
        # Other logs than those of `times`: what a cache may know is cleared.
        forget()
        ours.append(cpu(lambda log=log: match(log)))
        theirs.append(cpu(lambda log=log: tantivy.search(log)))
        scans.append(cpu(lambda log=log: like.search(log)))
        if at < SLOW:
            slow.append(cpu(lambda log=log: stock.search(log)))
    return {
        "beside_p50": statistics.median(ours),
        "tantivy_p50": statistics.median(theirs),
        "like_p50": statistics.median(scans),
        "stock_p50": statistics.median(slow),
    }


def forget() -> None:
    """The documents that are kept unpacked; counts of tokens stay, as on a site."""
    from kb.search.index import store

    store._cache.documents.clear()


def hostile() -> float:
    """The slowest of eight texts of 200 kB, each made to be slow to read."""
    from kb.lookup.answer import look_up

    slowest = 0.0
    for name, piece in HOSTILE.items():
        made = "".join(piece.replace("{0}", str(at)) for at in range(HOSTILE_SIZE))
        took = min(cpu(lambda log=made[:HOSTILE_SIZE]: look_up(log)) for _ in range(2))
        print(f"hostile: {name}: {took:.3f} s", file=sys.stderr)
        slowest = max(slowest, took)
    return slowest


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
