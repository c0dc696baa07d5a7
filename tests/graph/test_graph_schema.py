"""The schema of the graph: made beside the user's data, never at its cost."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.schema import GraphSchema, Report, check_graph, indexes, migrate_graph
from neo4j_queue.settings import Settings

INDEX = "paper_vectors"


@pytest.fixture
def papers(graph_db: Database, make_settings: Callable[..., Settings]) -> Iterator[Callable[..., Settings]]:
    """Settings for a label of its own, whose indexes are gone before and after the test."""

    def settings(**overrides: Any) -> Settings:
        values = {"embed_entity_label": "Paper", "embed_entity_key": "doi", "neo4j_vector_index": INDEX}
        return make_settings(**{**values, **overrides})

    def drop() -> None:
        graph_db.autocommit("MATCH (n) DETACH DELETE n")
        for index in indexes(graph_db).values():
            if index.labels == ["Paper"] or index.properties == ["doi"]:
                kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
                graph_db.autocommit(f"DROP {kind} `{name}` IF EXISTS")

    drop()
    yield settings
    drop()


def names(report: Report) -> set[str]:
    return set(report.created)


def test_everything_is_made_once_and_a_second_time_nothing(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    settings = papers()
    before = check_graph(graph_db, settings)
    assert len(before.problems) == 5
    assert all("neo4j-queue init" in problem for problem in before.problems)

    first = migrate_graph(graph_db, settings)
    assert (first.ok, first.notes) == (True, ())
    assert names(first) == {
        "Paper_doi_key",
        "EmbedPending_doi",
        "Paper_embedding_hash",
        INDEX,
        f"{INDEX}_text",
    }
    there = indexes(graph_db)
    assert {there[name].state for name in first.created} == {"ONLINE"}
    assert there["Paper_doi_key"].constraint == "Paper_doi_key"
    assert there[INDEX].config is not None
    dimensions = GraphSchema.from_settings(settings).dimensions
    assert there[INDEX].config["vector.dimensions"] == dimensions
    assert there[INDEX].config["vector.similarity_function"] == "COSINE"
    assert there[f"{INDEX}_text"].covers("Paper", "doi", "entityType", "observations")

    second = migrate_graph(graph_db, settings)
    assert (second.ok, second.created, second.notes) == (True, (), ())
    assert check_graph(graph_db, settings).ok


def test_several_at_once_all_succeed(graph_db: Database, papers: Callable[..., Settings]) -> None:
    """Seen to fail without the `_CREATED_MEANWHILE` of schema.py: IF NOT EXISTS is judged before the lock."""
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: migrate_graph(graph_db, papers()), range(4)))
    assert [report.problems for report in reports] == [()] * 4
    created = [name for report in reports for name in report.created]
    assert {"Paper_doi_key", "EmbedPending_doi", "Paper_embedding_hash", INDEX, f"{INDEX}_text"} == set(
        created
    )


def test_shared_keys_get_an_index_and_a_note_with_their_number(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    graph_db.write("UNWIND ['a', 'a', 'b', 'b', 'b', 'c'] AS doi CREATE (:Paper {doi: doi})")
    report = migrate_graph(graph_db, papers())
    assert report.ok
    assert ["2 keys of (:Paper {doi}) belong to several entities" in note for note in report.notes] == [True]
    key = indexes(graph_db)["Paper_doi_key"]
    assert (key.type, key.constraint) == ("RANGE", None)

    graph_db.write("MATCH (n:Paper) DETACH DELETE n")
    (note,) = migrate_graph(graph_db, papers()).notes
    assert "drop index `Paper_doi_key` and run neo4j-queue init" in note


def test_entities_that_can_never_be_embedded_are_counted(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    graph_db.write("CREATE (:Paper {doi: 'a'}), (:Paper {doi: 7}), (:Paper)")
    (note,) = migrate_graph(graph_db, papers()).notes
    assert note.startswith("2 :Paper without a text in `doi`")


def test_an_index_of_other_dimensions_is_an_error_with_both_numbers_and_stays(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    migrate_graph(graph_db, papers(neo4j_vector_dimensions=8))
    for look in (migrate_graph, check_graph):
        (problem,) = look(
            graph_db, papers(neo4j_vector_dimensions=16, neo4j_similarity_function="cosine")
        ).problems
        assert "has 8 dimensions, the model gives 16" in problem
    config = indexes(graph_db)[INDEX].config
    assert config is not None
    assert config["vector.dimensions"] == 8


def test_another_similarity_is_an_error(graph_db: Database, papers: Callable[..., Settings]) -> None:
    migrate_graph(graph_db, papers())
    (problem,) = check_graph(graph_db, papers(neo4j_similarity_function="euclidean")).problems
    assert "compares by cosine, NEO4J_SIMILARITY_FUNCTION=euclidean" in problem


def test_indexes_in_the_way_are_named_and_stay(graph_db: Database, papers: Callable[..., Settings]) -> None:
    graph_db.autocommit(
        "CREATE VECTOR INDEX old_vectors FOR (n:Paper) ON n.embedding OPTIONS {indexConfig: "
        "{`vector.dimensions`: 3, `vector.similarity_function`: 'cosine'}}"
    )
    graph_db.autocommit(
        "CREATE FULLTEXT INDEX old_words FOR (n:Paper) ON EACH [n.observations, n.doi, n.entityType]"
    )
    graph_db.autocommit("CREATE INDEX old_key FOR (n:Paper) ON (n.doi)")
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    report = migrate_graph(graph_db, papers())
    assert names(report) == {"EmbedPending_doi", "Paper_embedding_hash"}
    vectors, words = report.problems
    assert "set NEO4J_VECTOR_INDEX=old_vectors" in vectors
    assert "`old_words`" in words
    (key,) = report.notes
    assert "drop index `old_key`" in key
    assert {"old_vectors", "old_words", "old_key"} <= indexes(graph_db).keys()


def test_an_index_of_the_wanted_name_for_something_else_is_an_error(
    graph_db: Database, papers: Callable[..., Settings]
) -> None:
    graph_db.autocommit(f"CREATE INDEX {INDEX} FOR (n:Paper) ON (n.title)")
    graph_db.autocommit(f"CREATE FULLTEXT INDEX {INDEX}_text FOR (n:Paper) ON EACH [n.title]")
    vectors, words = migrate_graph(graph_db, papers()).problems
    assert f"NEO4J_VECTOR_INDEX={INDEX} is a RANGE index" in vectors
    assert "['doi', 'entityType', 'observations']" in words
