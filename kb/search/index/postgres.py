"""The full-text index in PostgreSQL: three tsvector columns with GIN indexes.

No text-search configuration takes part: the lexemes are our tokens as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import connection

from kb.search.index.documents import COLUMNS, FACETS, Contents, Row

VECTORS = {"any": "any_vector", "title": "title_vector", "sign": "sign_vector"}

# In two steps: an upsert would take a new number for every known token.
GIVEN = "unnest(%s::text[], %s::int[], %s::int[]) AS given (token, documents, signs)"
RAISE = f"""
UPDATE kb_searchterm AS known SET
    documents = known.documents + given.documents, signs = known.signs + given.signs
FROM {GIVEN}
WHERE known.token = given.token RETURNING known.token, known.id
"""  # noqa: S608
ADD = f"""
INSERT INTO kb_searchterm (token, documents, signs)
SELECT * FROM {GIVEN}
WHERE NOT EXISTS (SELECT 1 FROM kb_searchterm AS known WHERE known.token = given.token)
RETURNING token, id
"""  # noqa: S608


class PostgresEngine:
    """See kb.search.index.store.Engine."""

    def postings(
        self, tokens: Collection[str], column: str, among: Collection[str] = ()
    ) -> dict[str, list[int]]:
        requested = list(tokens)
        within = f" & ({' | '.join(map(quoted, among))})" if among else ""
        rows = fetch(
            "SELECT ARRAY(SELECT id FROM kb_searchdocument "  # noqa: S608
            f"WHERE {VECTORS[column]} @@ asked.query::tsquery ORDER BY id) "
            "FROM unnest(%s::text[]) WITH ORDINALITY AS asked (query, at) "
            "ORDER BY asked.at",
            [[quoted(token) + within for token in requested]],
        )
        return {token: row[0] for token, row in zip(requested, rows, strict=True)}

    def terms(self, tokens: list[str]) -> list[tuple[str, int, int, int]]:
        return fetch(
            "SELECT token, id, documents, signs FROM kb_searchterm "
            "WHERE token = ANY(%s)",
            [tokens],
        )

    def with_keys(self, keys: list[str]) -> list[tuple[str, int]]:
        return fetch(
            "SELECT key, document_id FROM kb_searchkey WHERE key = ANY(%s)", [keys]
        )

    def documents(self, ids: list[int]) -> list[Row]:
        select = f"SELECT {COLUMNS} FROM kb_searchdocument"  # noqa: S608
        return fetch(select + " WHERE id = ANY(%s)", [ids])

    def facets(self, documents: list[int] | None) -> list[tuple[int, str, str]]:
        if documents is None:
            return fetch(FACETS, [])
        return fetch(f"{FACETS} WHERE d.id = ANY(%s)", [documents])

    def add(self, contents: Mapping[int, Contents]) -> None:
        rows = [
            (
                sorted(document.title),
                sorted(document.sign),
                sorted(document.weights),
                pk,
            )
            for pk, document in contents.items()
        ]
        with connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE kb_searchdocument SET "
                "title_vector = array_to_tsvector(%s::text[]), "
                "sign_vector = array_to_tsvector(%s::text[]), "
                "any_vector = array_to_tsvector(%s::text[]) WHERE id = %s",
                rows,
            )

    def remove(self, contents: Mapping[int, Contents]) -> None:
        """Nothing: the vectors went with their rows."""

    def clear(self) -> None:
        """Nothing, as in `remove`."""

    def count(self, counts: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        columns = [
            list(counts),
            [documents for documents, _signs in counts.values()],
            [signs for _documents, signs in counts.values()],
        ]
        return dict(fetch(RAISE, columns) + fetch(ADD, columns))

    def contents(self) -> dict[str, dict[int, set[str]]]:
        return {
            column: {
                pk: set(tokens)
                for pk, tokens in fetch(
                    f"SELECT id, tsvector_to_array({vector}) "  # noqa: S608
                    "FROM kb_searchdocument",
                    [],
                )
                if tokens
            }
            for column, vector in VECTORS.items()
        }


def fetch(statement: str, values: list[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def quoted(token: str) -> str:
    """A token, or the beginning of tokens, as tsquery takes it literally."""
    start = token.removesuffix("*")
    text = start.replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'" + (":*" if start != token else "")
