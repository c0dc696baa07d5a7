"""A vector of another length than the model's is not found by search: it is stale, whatever its hash says."""

from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.checks.graph_names import unusable
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import Change, Coverage, VectorWrite
from neo4j_queue.names import VectorProperty
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import Scope, sweep
from neo4j_queue.settings import Settings

MERGE = """
MATCH (a:Entity {name: 'a'}), (b:Entity {name: 'b'})
CALL apoc.refactor.mergeNodes([a, b], {properties: 'combine'}) YIELD node
SET node.name = 'a', node.entityType = null RETURN node
"""
DAMAGE = "MATCH (n:Entity {name: 'a'}) SET n.embedding = $there"


@pytest.fixture
def damaged(graph: EntityGraph, graph_db: Database, embed: Callable[..., Any]) -> Callable[[Any], None]:
    """Lets another program write something where the vector of `a` stands."""

    def damage(there: Any) -> None:
        graph.create_entities([{"name": "a"}])
        embed("a")
        graph_db.write(DAMAGE, there=there)

    return damage


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([0.5] * 512, id="twice as long"),
        pytest.param([0.5] * 8, id="shorter"),
        pytest.param([1] * 256, id="whole numbers, which no vector index takes"),
        pytest.param([], id="nothing"),
        pytest.param(7, id="a number"),
        pytest.param("x" * 256, id="a text of that length"),
        pytest.param(["x"] * 256, id="texts"),
    ],
)
def test_what_is_no_vector_of_the_model_is_stale_in_every_reading(
    graph: EntityGraph, graph_db: Database, damaged: Callable[[Any], None], there: Any
) -> None:
    """Seen failing with "there is a value" for "there is a vector"; `size()` alone fails on the number."""
    damaged(there)
    (text,) = graph.read_texts(["a"])
    assert not text.fresh
    assert [page.fresh for page in graph.entities_page()] == [False]
    (wanted,) = graph.read_wanted({"a": [text.version]})
    assert not wanted.fresh
    assert graph.clear_pending(["a"]) == 0
    (result,) = graph.create_entities([{"name": "a"}])
    assert result.change is Change.UNCHANGED
    assert graph.get_entity("a").pending
    assert [page.fresh for page in graph.pending_page()] == [False]


def test_a_vector_that_merged_nodes_left_behind_is_found_by_the_sweep(
    graph: EntityGraph,
    graph_db: Database,
    queue: EmbedQueue,
    embed: Callable[..., Any],
    vector_for: Callable[[int], list[float]],
) -> None:
    """Seen failing with freshness by model and hash: the sweep queued nothing."""
    graph.create_entities([{"name": "a"}, {"name": "b"}])
    embed("a", "b")
    graph_db.write("MATCH (n:Entity) SET n.embedding_hash = 'x', n.embedded_at = 1")
    graph_db.write(MERGE)
    (text,) = graph.read_texts(["a"])
    graph_db.write("MATCH (n:Entity) SET n.embedding_hash = $hash", hash=text.content_hash)
    assert graph_db.read("MATCH (n:Entity) RETURN size(n.embedding) AS n")[0]["n"] == 2
    sweep(graph, queue, Scope.ALL)
    assert [job["entity_uid"] for job in queue.jobs()] == ["a"]


def test_a_damaged_vector_is_copied_to_nobody(graph: EntityGraph, damaged: Callable[[Any], None]) -> None:
    """Seen failing with the width alone: NaN and zero vectors were copied to every entity of the text."""
    for there in ([float("nan")] * 256, [0.0] * 256, [float("inf")] + [0.0] * 255, [0.5] * 512, [], 7, "x"):
        damaged(there)
        (text,) = graph.read_texts(["a"])
        assert graph.copies([text.content_hash]) == {}


def test_another_vector_property_is_used_throughout(
    graph_db: Database, settings: Settings, graph: EntityGraph, vector_for: Callable[[int], list[float]]
) -> None:
    two = VectorProperty("v2", "v2_model", "v2_hash", "v2_at", "v2_truncated")
    other = EntityGraph(graph_db, graph.recipe, "m2", dimensions=256, vector=two)
    graph.create_entities([{"name": "a"}])
    (text,) = graph.read_texts(["a"])
    write = VectorWrite("a", text.source, text.content_hash, vector_for(0), truncated=True)
    assert other.write_vectors([write])
    found = graph_db.read("MATCH (n:Entity) RETURN keys(n) AS keys")[0]["keys"]
    assert set(found) == {"name", *two.properties}
    assert other.read_texts(["a"])[0].fresh
    assert not graph.read_texts(["a"])[0].fresh
    assert other.read_wanted({"a": [text.version]})[0].known
    assert other.copies([text.content_hash]) == {text.content_hash: vector_for(0)}
    assert other.coverage() == Coverage(entities=1, fresh=1, stale=0, missing=0)
    assert graph.coverage() == Coverage(entities=1, fresh=0, stale=0, missing=1)
    assert [page.uid for page in graph.get_entities_without_embeddings()] == ["a"]
    assert other.get_entities_without_embeddings() == []
    assert "v2" not in other.get_entity("a").properties
    assert other.remove_vectors([text])
    assert set(graph_db.read("MATCH (n:Entity) RETURN keys(n) AS keys")[0]["keys"]) == {"name"}


def test_doctor_counts_vectors_that_search_never_finds(
    graph: EntityGraph, graph_db: Database, settings: Settings, damaged: Callable[[Any], None]
) -> None:
    """Seen failing without the look: all was well, and one entity was never found."""
    assert unusable(graph_db, settings) == []
    for there in ([0.5] * 8, 7, "x", None):
        damaged(there)
        (line,) = unusable(graph_db, settings)
        assert line.startswith(
            "1 of the first 1,000 vectors of :Entity are no vectors of 256 numbers, such as a:"
        )
        assert "enqueue --all" in line
