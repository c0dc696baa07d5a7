"""Semantic search over the vector index."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import VectorWrite


@pytest.fixture
def write_at(graph: EntityGraph) -> Callable[[str, float], None]:
    """Gives an entity a vector that leans by this angle (in degrees) away from the first axis."""

    def write(uid: str, degrees: float) -> None:
        (text,) = graph.read_texts([uid])
        vector = [
            math.cos(math.radians(degrees)),
            math.sin(math.radians(degrees)),
            *[0.0] * (graph.dimensions - 2),
        ]
        assert graph.write_vectors([VectorWrite(uid, text.source, text.content_hash, vector)])

    return write


def along_the_first_axis(dimensions: int) -> Callable[[str], list[float]]:
    return lambda _: [1.0, *[0.0] * (dimensions - 1)]


def test_the_nearest_come_first_with_score_and_properties(
    graph: EntityGraph, write_at: Callable[[str, float], None]
) -> None:
    graph.create_entities(
        [{"name": name, "entityType": "angle"} for name in ("far", "near", "exact", "none")]
    )
    for name, degrees in (("far", 80.0), ("near", 20.0), ("exact", 0.0)):
        write_at(name, degrees)
    hits = graph.search("anything", 2, mode="semantic", embed=along_the_first_axis(graph.dimensions))
    assert [hit.uid for hit in hits] == ["exact", "near"]
    assert hits[0].score == pytest.approx(1.0, abs=1e-3)
    assert hits[0].score > hits[1].score
    assert hits[0].properties["entityType"] == "angle"
    assert "embedding" not in hits[0].properties
    assert len(graph.search("anything", embed=along_the_first_axis(graph.dimensions))) == 3


def test_entities_that_do_not_count_do_not_eat_the_page(
    graph: EntityGraph, graph_db: Database, write_at: Callable[[str, float], None]
) -> None:
    """Seen to fail with `EXTRA = 0` and without the second request: the deleted ones are nearer than all others."""
    names = [f"e{at:02d}" for at in range(60)]
    graph.create_entities([{"name": name} for name in names])
    for at, name in enumerate(names):
        write_at(name, float(at))
    graph_db.write("MATCH (n:Entity) WHERE n.name < 'e25' SET n.validTo = 1")
    graph_db.write(
        "MATCH (n:Entity) WHERE n.name >= 'e25' AND n.name < 'e50' SET n.embedding_model = 'other'"
    )
    hits = graph.search("anything", 5, embed=along_the_first_axis(graph.dimensions))
    assert [hit.uid for hit in hits] == ["e50", "e51", "e52", "e53", "e54"]


def test_a_changed_text_is_found_by_its_old_vector_until_the_new_one_is_there(
    graph: EntityGraph, write_at: Callable[[str, float], None]
) -> None:
    graph.create_entities([{"name": "Ada"}])
    write_at("Ada", 0.0)
    graph.add_observations("Ada", ["changed"])
    (hit,) = graph.search("anything", embed=along_the_first_axis(graph.dimensions))
    assert hit.properties["observations"] == ["changed"]


def test_by_default_the_model_of_the_settings_embeds_the_query(graph: EntityGraph, settings: Any) -> None:
    from neo4j_queue.embedders import open_embedder

    graph.create_entities([{"name": name} for name in ("Ada", "Bob", "Cyd")])
    texts = graph.read_texts(["Ada", "Bob", "Cyd"])
    vectors = open_embedder(settings).embed([text.text for text in texts]).vectors
    graph.write_vectors(
        [VectorWrite(t.uid, t.source, t.content_hash, v) for t, v in zip(texts, vectors, strict=True)]
    )
    bob = next(text for text in texts if text.uid == "Bob")
    assert graph.search(bob.text, 1, mode="semantic")[0].uid == "Bob"


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_is_refused(graph: EntityGraph, query: str) -> None:
    with pytest.raises(ValueError, match="blank"):
        graph.search(query)


def test_an_empty_graph_has_no_hits(graph: EntityGraph) -> None:
    assert graph.search("anything", embed=along_the_first_axis(graph.dimensions)).hits == ()
