"""Which index a search asks, and what it says of one that it cannot ask."""

from typing import Any

import pytest

from neo4j_queue.errors import Neo4jQueueError, SettingsError, TemporarilyUnavailable
from neo4j_queue.graph.indexes import Index
from neo4j_queue.graph.search_indexes import WantedIndexes

WANTED = WantedIndexes("Book", "embedding", 8, "books", "books_text", ("title", "summary"))


def vectors(**given: Any) -> Index:
    own = {
        "name": "books",
        "type": "VECTOR",
        "properties": ["embedding"],
        "config": {"vector.dimensions": 8},
    }
    return index(**{**own, **given})


def words(**given: Any) -> Index:
    own = {"name": "books_text", "type": "FULLTEXT", "properties": ["summary", "title"], "config": {}}
    return index(**{**own, **given})


def index(**given: Any) -> Index:
    values: dict[str, Any] = {
        "state": "ONLINE",
        "labels": ["Book"],
        "constraint": None,
        "percent": 100.0,
        "failure": "",
    }
    return Index(**{**values, **given})


def test_both_are_asked_where_they_are_there() -> None:
    found = WANTED.among([vectors(), words()])
    assert (found.vectors, found.words, found.any, found.both) == ("books", "books_text", True, True)


def test_other_names_over_the_same_are_asked_and_ours_goes_before() -> None:
    assert WANTED.among([vectors(name="theirs"), words(name="a")]).both
    assert WANTED.among([words(name="a"), words()]).words == "books_text"


@pytest.mark.parametrize(
    ("there", "error", "line"),
    [
        ([], SettingsError, "vector index books is missing: run neo4j-queue init"),
        ([vectors(labels=["Other"])], SettingsError, "vector index books is missing: run neo4j-queue init"),
        (
            [vectors(properties=["other"])],
            SettingsError,
            "vector index books is missing: run neo4j-queue init",
        ),
        ([vectors(type="RANGE")], SettingsError, "vector index books is missing: run neo4j-queue init"),
        (
            [vectors(config={"vector.dimensions": 7})],
            SettingsError,
            "vector index books has 7 dimensions, the model gives 8",
        ),
        (
            [vectors(state="POPULATING", percent=41.7)],
            TemporarilyUnavailable,
            "vector index books is being built: 42 %",
        ),
        (
            [vectors(state="FAILED", failure="out of\n disk")],
            SettingsError,
            "vector index books has failed: out of disk",
        ),
    ],
)
def test_a_vector_index_that_cannot_be_asked_says_why(
    there: list[Index], error: type[Neo4jQueueError], line: str
) -> None:
    """Guard: each of the looks. An index that is being built answers with an error of the server."""
    found = WANTED.among(there).vectors
    assert (type(found), str(found)) == (error, line)


@pytest.mark.parametrize(
    ("there", "error", "line"),
    [
        ([], SettingsError, "full-text index books_text is missing: run neo4j-queue init"),
        (
            [words(labels=["Book", "Other"])],
            SettingsError,
            "full-text index books_text is missing: run neo4j-queue init",
        ),
        (
            [words(properties=["title"])],
            SettingsError,
            "full-text index books_text is over title, not title, summary: run neo4j-queue init --yes",
        ),
        (
            [words(state="POPULATING", percent=0.0)],
            TemporarilyUnavailable,
            "full-text index books_text is being built: 0 %",
        ),
    ],
)
def test_a_full_text_index_that_cannot_be_asked_says_why(
    there: list[Index], error: type[Neo4jQueueError], line: str
) -> None:
    found = WANTED.among(there).words
    assert (type(found), str(found)) == (error, line)


def test_an_index_without_a_width_takes_any_vector() -> None:
    assert WANTED.among([vectors(config={})]).vectors == "books"
