"""Other ways to find records in the same texts: LIKE, FTS5, trigrams, tantivy."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

WORD = re.compile(r"\w+")
BATCH = 1000


class Text(NamedTuple):
    """A record as text, and its tokens as the site's index has them."""

    record: str
    text: str
    tokens: Mapping[str, int]


class Fts5:
    """SQLite's own full-text search, as it comes: the raw log as an OR of its words."""

    def __init__(self, folder: Path, tokenizer: str, shortest: int) -> None:
        self.shortest = shortest
        self.file = folder / f"{tokenizer}.sqlite3"
        self.database = sqlite3.connect(self.file)
        self.database.execute(
            "CREATE VIRTUAL TABLE peer "
            f"USING fts5 (record UNINDEXED, text, tokenize='{tokenizer}')"
        )

    def add(self, texts: Iterable[Text]) -> None:
        rows = [(text.record, text.text) for text in texts]
        self.database.executemany("INSERT INTO peer VALUES (?, ?)", rows)
        self.database.commit()

    def search(self, log: str) -> list[str]:
        words = dict.fromkeys(WORD.findall(log))
        quoted = [f'"{word}"' for word in words if len(word) >= self.shortest]
        rows = self.database.execute(
            "SELECT record FROM peer WHERE text MATCH ? ORDER BY rank LIMIT 10",
            [" OR ".join(quoted)],
        )
        return [record for (record,) in rows]

    def size(self) -> int:
        """Bytes of the file: the index and the copy of the texts that it keeps."""
        return self.file.stat().st_size


class Like:
    """A scan for the last line of the log, or for a word."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "like.sqlite3"
        self.database = sqlite3.connect(self.file)
        self.database.execute("CREATE TABLE peer (record TEXT PRIMARY KEY, text TEXT)")

    def add(self, texts: Iterable[Text]) -> None:
        rows = [(text.record, text.text) for text in texts]
        self.database.executemany("INSERT INTO peer VALUES (?, ?)", rows)
        self.database.commit()

    def having(self, word: str, limit: int = -1) -> list[str]:
        pattern = re.sub(r"([\\%_])", r"\\\1", word)
        rows = self.database.execute(
            "SELECT record FROM peer WHERE text LIKE ? ESCAPE '\\' LIMIT ?",
            [f"%{pattern}%", limit],
        )
        return [record for (record,) in rows]

    def search(self, log: str) -> list[str]:
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        return self.having(last.strip(), 10)

    def size(self) -> int:
        return self.file.stat().st_size


class Tantivy:
    """An index server's engine as a library, with the site's reading of the log."""

    def __init__(self, folder: Path) -> None:
        # A development dependency, for this peer alone.
        import tantivy

        self.tantivy = tantivy
        self.folder = folder / "tantivy"
        self.folder.mkdir()
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("record", stored=True, tokenizer_name="raw")
        builder.add_text_field("tokens", tokenizer_name="whitespace")
        self.schema = builder.build()
        self.index = tantivy.Index(self.schema, path=str(self.folder))
        self.writer = self.index.writer(128_000_000, 1)

    def add(self, texts: Iterable[Text]) -> None:
        for text in texts:
            tokens = " ".join(
                token for token, times in text.tokens.items() for _ in range(times)
            )
            document = self.tantivy.Document(record=text.record, tokens=tokens)
            self.writer.add_document(document)

    def finish(self) -> None:
        self.writer.commit()
        self.writer.wait_merging_threads()
        self.index.reload()

    def search(self, log: str) -> list[str]:
        from kb.search.ranking.logs import log_weights
        from tests.support.log_corpus import read_log

        kinds, query = self.tantivy.Occur, self.tantivy.Query
        terms = [
            (
                kinds.Should,
                query.boost_query(
                    query.term_query(self.schema, "tokens", token), weight
                ),
            )
            for token, weight in log_weights(read_log(log)).items()
        ]
        searcher = self.index.searcher()
        found = searcher.search(query.boolean_query(terms), 10)
        return [searcher.doc(address)["record"][0] for _score, address in found.hits]

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())
