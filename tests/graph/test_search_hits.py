"""What a hit says of its entity: stale or not, without a vector, whatever other programs did to it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from neo4j import Record
from neo4j.exceptions import Neo4jError

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings

FIRST = [1.0, *[0.0] * 255]


def search(graph: EntityGraph, query: str = "loom", **given: Any) -> Any:
    return graph.search(query, strict=True, embed=lambda _: FIRST, **given)


def stale(graph: EntityGraph, mode: str) -> dict[str, bool]:
    return {hit.uid: hit.stale for hit in search(graph, mode=mode)}


@pytest.fixture
def looms(graph: EntityGraph, embed: Callable[..., Any]) -> EntityGraph:
    graph.create_entities([{"name": name, "observations": ["loom"]} for name in "abc"])
    embed("a", "b", "c")
    return graph


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize(
    "change",
    [
        "SET n.observations = ['loom, edited by plain Cypher']",
        "SET n:EmbedPending",
        "SET n.embedding_hash = 'of another text'",
        "REMOVE n.embedding_hash",
    ],
)
def test_a_vector_of_another_text_is_stale(
    looms: EntityGraph, graph_db: Database, change: str, mode: str
) -> None:
    graph_db.write(f"MATCH (n:Entity {{name: 'b'}}) {change}")
    assert stale(looms, mode) == {"a": False, "b": True, "c": False}


@pytest.mark.parametrize("change", ["REMOVE n.embedding", "SET n.embedding_model = 'another'"])
def test_what_has_no_vector_of_the_model_is_stale_where_words_find_it(
    looms: EntityGraph, graph_db: Database, change: str
) -> None:
    graph_db.write(f"MATCH (n:Entity {{name: 'b'}}) {change}")
    assert stale(looms, "semantic") == {"a": False, "c": False}
    assert stale(looms, "hybrid") == {"a": False, "b": True, "c": False}


@pytest.mark.parametrize(
    "vector",
    [
        *("[1.0, 2.0]", "[x IN range(1, 300) | 1.0]", "[x IN range(1, 256) | 0.0]", "'a text'", "7", "true"),
        *("[x IN range(1, 256) | 0.0 / 0.0]", "[x IN range(1, 256) | 'x']", "[x IN range(1, 256) | 1]", "[]"),
        *("[x IN range(1, 256) | 1.0e300]", "[x IN range(1, 5000) | 1.0]", "point({x: 1.0, y: 2.0})"),
    ],
)
@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_a_vector_that_another_program_damaged_is_no_error(
    looms: EntityGraph, graph_db: Database, vector: str, mode: str
) -> None:
    """D8: wider than the index, wrong, of no numbers; the others are found all the same."""
    graph_db.write(f"MATCH (n:Entity {{name: 'b'}}) SET n.embedding = {vector}")
    answer = search(looms, mode=mode)
    assert {"a", "c"} <= {hit.uid for hit in answer}
    assert all("embedding" not in hit.properties for hit in answer)
    assert "b" in {hit.uid for hit in answer} or mode == "semantic"


def test_a_key_that_two_nodes_share_is_two_hits(
    graph: EntityGraph, graph_db: Database, without_constraint: Any
) -> None:
    without_constraint()
    graph_db.write(
        "UNWIND ['loom one', 'loom two'] AS text CREATE (:Entity {name: 'same', observations: [text]})"
    )
    answer = search(graph, mode="keyword")
    assert sorted(hit.properties["observations"][0] for hit in answer) == ["loom one", "loom two"]
    assert [hit.uid for hit in answer] == ["same", "same"]


def test_a_soft_deleted_entity_is_found_by_no_half(looms: EntityGraph, graph_db: Database) -> None:
    """D8."""
    graph_db.write("MATCH (n:Entity {name: 'a'}) SET n.validTo = datetime()")
    looms.delete_entity("b", soft=True)
    for mode in ("semantic", "keyword", "hybrid"):
        assert [hit.uid for hit in search(looms, mode=mode)] == ["c"]


def test_an_answer_is_a_sequence_of_its_hits_and_json(looms: EntityGraph) -> None:
    answer = search(looms, limit=2)
    assert (len(answer), list(answer), answer[0]) == (2, list(answer.hits), answer.hits[0])
    data = answer.as_dict()
    assert list(data) == ["search_type", "fallback_reason", "coverage", "hits"]
    assert list(data["hits"][0]) == [
        *("entity", "score", "semantic", "keyword", "found_by", "stale", "labels", "properties"),
    ]
    assert data["coverage"] == {
        "entities": 3,
        "pending": 0,
        "vector_index": "entity_embeddings",
        "text_index": "entity_embeddings_text",
        "cut": False,
    }


@pytest.mark.parametrize(("hides", "found"), [("archived", ["b", "c"]), ("", ["a", "b", "c"])])
def test_the_property_that_hides_entities_is_that_of_the_settings(
    looms: EntityGraph, graph_db: Database, make_settings: MakeSettings, hides: str, found: list[str]
) -> None:
    """A neighbour: another property, or none."""
    graph_db.write("MATCH (n:Entity {name: 'a'}) SET n.archived = 1")
    graph_db.write("MATCH (n:Entity {name: 'b'}) SET n.validTo = 1")
    other = EntityGraph.from_settings(make_settings(embed_deleted_property=hides), database=graph_db)
    for mode in ("semantic", "keyword", "hybrid"):
        assert sorted(hit.uid for hit in search(other, mode=mode)) == found


def test_many_threads_search_at_once(looms: EntityGraph) -> None:
    """A neighbour: what the first search keeps for the others."""
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: search(looms), range(160)))
    assert all({hit.uid for hit in answer} == {"a", "b", "c"} for answer in answers)


class Guarded(Database):
    """The real database, for a user that may not look which indexes there are."""

    def ask(self, query: str, *, timeout_s: float, **parameters: Any) -> list[Record]:
        if "SHOW INDEXES" in query:
            raise Neo4jError._hydrate_neo4j(code="Neo.ClientError.Security.Forbidden", message="not for you")
        return super().ask(query, timeout_s=timeout_s, **parameters)


def test_a_user_that_may_not_look_at_indexes_searches_those_of_the_settings(
    looms: EntityGraph, graph_db: Database, settings: Settings
) -> None:
    """Seen failing without the look for that code: the error of the server."""
    with Guarded(graph_db.address) as guarded:
        graph = EntityGraph.from_settings(settings, database=guarded)
        assert search(graph).search_type == "hybrid"
