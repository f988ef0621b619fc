"""The full-text index in SQLite: FTS5 tables that only know which rows have a token.

Without contents, columns and positions (detail=none) they are a third of what they
would be with them; ranking needs none of these. Every token is quoted, so that
nothing of a query is an operator.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from django.db import connection

from kb.search.index.documents import COLUMNS, FACETS, Contents, Row

TABLES = {"any": "kb_searchany", "title": "kb_searchtitle", "sign": "kb_searchsign"}
# Parts of one statement; SQLite takes 500.
AT_ONCE = 100
AMONG = " WHERE id IN (SELECT value FROM json_each(%s))"

# In two steps: an upsert would take a new number for every known token.
RAISE = """
UPDATE kb_searchterm SET
    documents = documents + json_extract(given.value, '$[1]'),
    signs = signs + json_extract(given.value, '$[2]')
FROM json_each(%s) AS given
WHERE token = json_extract(given.value, '$[0]') RETURNING token, id
"""
ADD = """
INSERT INTO kb_searchterm (token, documents, signs)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),
    json_extract(value, '$[2]')
FROM json_each(%s)
WHERE json_extract(value, '$[0]') NOT IN (SELECT token FROM kb_searchterm)
RETURNING token, id
"""


class SqliteEngine:
    """See kb.search.index.store.Engine."""

    def postings(
        self, tokens: Collection[str], column: str, among: Collection[str] = ()
    ) -> dict[str, list[int]]:
        table = TABLES[column]
        within = f" AND ({' OR '.join(map(quoted, among))})" if among else ""
        # One value instead of many rows: Python reads it twice as fast.
        select = "SELECT {}, json_group_array(rowid) FROM {} WHERE {} MATCH %s"
        requested = list(tokens)
        postings: dict[str, list[int]] = {}
        for at in range(0, len(requested), AT_ONCE):
            batch = requested[at : at + AT_ONCE]
            parts = [select.format(n, table, table) for n in range(len(batch))]
            queries = [quoted(token) + within for token in batch]
            for n, ids in fetch(" UNION ALL ".join(parts), queries):
                postings[batch[n]] = json.loads(ids)
        return postings

    def terms(self, tokens: list[str]) -> list[tuple[str, int, int, int]]:
        return fetch(
            "SELECT token, id, documents, signs FROM kb_searchterm "
            "WHERE token IN (SELECT value FROM json_each(%s))",
            [as_json(tokens)],
        )

    def with_keys(self, keys: list[str]) -> list[tuple[str, int]]:
        return fetch(
            "SELECT key, document_id FROM kb_searchkey "
            "WHERE key IN (SELECT value FROM json_each(%s))",
            [as_json(keys)],
        )

    def documents(self, ids: list[int]) -> list[Row]:
        select = f"SELECT {COLUMNS} FROM kb_searchdocument"  # noqa: S608
        return fetch(select + AMONG, [as_json(ids)])

    def facets(self, documents: list[int] | None) -> list[tuple[int, str, str]]:
        if documents is None:
            return fetch(FACETS, [])
        among = " WHERE d.id IN (SELECT value FROM json_each(%s))"
        return fetch(FACETS + among, [as_json(documents)])

    def add(self, contents: Mapping[int, Contents]) -> None:
        insert("INSERT INTO {0} (rowid, tokens) VALUES (%s, %s)", contents)

    def remove(self, contents: Mapping[int, Contents]) -> None:
        # A contentless FTS5 table needs the tokens of a row to delete it.
        delete = "INSERT INTO {0} ({0}, rowid, tokens) VALUES ('delete', %s, %s)"
        insert(delete, contents)

    def clear(self) -> None:
        with connection.cursor() as cursor:
            for table in TABLES.values():
                cursor.execute(
                    f"INSERT INTO {table} ({table}) VALUES ('delete-all')"  # noqa: S608
                )

    def count(self, counts: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        rows = as_json([(token, *numbers) for token, numbers in counts.items()])
        return dict(fetch(RAISE, [rows]) + fetch(ADD, [rows]))

    def contents(self) -> dict[str, dict[int, set[str]]]:
        return {column: vocabulary(table) for column, table in TABLES.items()}


def vocabulary(table: str) -> dict[int, set[str]]:
    """Every token of each row."""
    tokens: dict[int, set[str]] = defaultdict(set)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE VIRTUAL TABLE temp.kb_searchvocabulary "
            f"USING fts5vocab (main, {table}, instance)"
        )
        try:
            cursor.execute("SELECT doc, term FROM temp.kb_searchvocabulary")
            for document, token in cursor.fetchall():
                tokens[document].add(token)
        finally:
            cursor.execute("DROP TABLE temp.kb_searchvocabulary")
    return dict(tokens)


def fetch(statement: str, values: list[str]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def insert(statement: str, contents: Mapping[int, Contents]) -> None:
    """Execute the statement for each row of each table, which is its {0}."""
    with connection.cursor() as cursor:
        for column, table in TABLES.items():
            cursor.executemany(statement.format(table), rows_for(column, contents))


def rows_for(column: str, contents: Mapping[int, Contents]) -> list[tuple[int, str]]:
    lists = {pk: sorted(document.column(column)) for pk, document in contents.items()}
    return [(pk, " ".join(tokens)) for pk, tokens in lists.items() if tokens]


def quoted(token: str) -> str:
    """A token, or the beginning of tokens, as FTS5 takes it literally."""
    start = token.removesuffix("*")
    text = start.replace('"', '""')
    return f'"{text}"' + ("*" if start != token else "")


def as_json(values: Collection[object]) -> str:
    return json.dumps(values, ensure_ascii=False)
