"""Whole numbers as keys: every call takes them, pages are in their order, and mixtures are named."""

from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import EntityInput, Relation
from neo4j_queue.graph.keys import Place, mixed_keys
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import Scope, sweep
from neo4j_queue.schema import check_graph
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings
from tests.graph.test_pages import operators

GREAT = 9_007_199_254_740_993  # 2**53 + 1: a float would be another number


@pytest.fixture
def numbers(graph_db: Database) -> list[int]:
    """Entities of other programs whose keys are numbers."""
    keys = [-3, 0, 9, 10, 100, GREAT]
    graph_db.write(
        "UNWIND $keys AS key CREATE (:Entity {name: key, observations: ['about ' + key]})", keys=keys
    )
    return keys


def keys_in(graph_db: Database) -> list[Any]:
    return [row["key"] for row in graph_db.read("MATCH (n:Entity) RETURN n.name AS key ORDER BY key")]


def test_every_call_takes_the_number_and_its_text(
    graph: EntityGraph, graph_db: Database, numbers: list[int], embed: Callable[..., Any]
) -> None:
    assert graph.get_entity(9).properties["name"] == 9
    assert graph.get_entity("9").uid == graph.get_entity(9).uid == "9"
    assert graph.get_text(GREAT).text.startswith(f"Name: {GREAT}\n")
    assert [result.uid for result in graph.touch([10, "100", 10])] == ["10", "100"]
    assert graph.touch(0)[0].uid == "0"  # type: ignore[arg-type]
    assert graph.add_observations(-3, ["cold"]) == ["cold"]
    assert graph.delete_observations("-3", ["cold"]) == ["cold"]
    graph.update_entity(0, {"mass": 1})
    graph.create_relations([(9, "BEFORE", 10), Relation("9", "BEFORE", "100")])
    assert embed("9") == {("9", graph.get_text(9).content_hash)}
    assert graph.get_entity(9).embedded
    assert [hit.uid for hit in graph.search("x", embed=lambda _: [1.0] + [0.0] * (graph.dimensions - 1))] == [
        "9"
    ]
    graph.delete_entity(100)
    graph.delete_entity("10", soft=True)
    for gone in (100, "10", 77):
        with pytest.raises(EntityNotFound):
            graph.get_entity(gone)
    assert keys_in(graph_db) == [key for key in numbers if key != 100]


def test_jobs_name_numbers_by_their_text(
    queued_graph: EntityGraph, queue: EmbedQueue, numbers: list[int]
) -> None:
    sweep(queued_graph, queue, Scope.MISSING)
    assert {job["entity_uid"] for job in queue.jobs()} == {str(key) for key in numbers}


def test_creating_keeps_the_kind_of_the_keys(
    graph: EntityGraph, graph_db: Database, numbers: list[int]
) -> None:
    created = graph.create_entities(
        [EntityInput(11), {"name": "12"}, {"name": "9", "mass": 1}, EntityInput("11", "x")]
    )
    assert [(result.uid, str(result.change)) for result in created] == [
        ("11", "created"), ("12", "created"), ("9", "updated"), ("11", "created"),
    ]  # fmt: skip
    assert keys_in(graph_db) == sorted([*numbers, 11, 12])
    graph.update_entity(12, {"name": "13"})
    assert 13 in keys_in(graph_db)
    for refused in ("042", "a text"):
        with pytest.raises(ValueError, match="the keys are whole numbers"):
            graph.create_entities([EntityInput(refused)])
        with pytest.raises(ValueError, match="the keys are whole numbers"):
            graph.update_entity(13, {"name": refused})


def test_a_number_among_texts_is_refused(graph: EntityGraph, graph_db: Database) -> None:
    """As it was before numbers were keys. Guard: the look at the kinds that are there."""
    graph.create_entities([EntityInput("a")])
    with pytest.raises(ValueError, match="the number 7 would be the first one"):
        graph.create_entities([EntityInput(7)])
    graph.create_entities([EntityInput("7")])
    assert keys_in(graph_db) == ["7", "a"]


def test_pages_are_in_the_order_of_numbers(
    graph: EntityGraph, graph_db: Database, numbers: list[int]
) -> None:
    """9 before 10. Seen failing with the places as texts: 10 was never reached after 9."""
    graph_db.write("MATCH (n:Entity) WHERE n.name IN [9, 100] SET n:EmbedPending")
    graph_db.write(
        "CREATE (:Entity {name: 'text'}), (:Entity:EmbedPending {name: 'marked'}), (:Entity {name: 9.5})"
    )
    expected = ["marked", "text", *numbers]
    for limit in (1, 2, 3, 100):
        assert all_of(graph.entities_page, limit) == expected
        assert all_of(graph.pending_page, limit) == ["marked", 9, 100]
        assert (
            all_of(lambda after, limit: graph.get_entities_without_embeddings(limit, after), limit)
            == expected
        )


def all_of(page: Callable[[Place | None, int], Any], limit: int) -> list[Place]:
    found: list[Place] = []
    while texts := page(found[-1] if found else None, limit):
        found += [text.key for text in texts]
        assert len(found) < 100, "it goes around in circles"
    return found


@pytest.mark.parametrize("steps", [1, 2, 3, 50])
def test_a_walk_passes_every_key_once(
    graph: EntityGraph, graph_db: Database, numbers: list[int], steps: int
) -> None:
    graph_db.write("UNWIND ['a', 'b', 'c'] AS key CREATE (:Entity {name: key})")
    found: list[Place] = []
    after: Place | None = None
    for _ in range(50):
        step = graph.walk_entities(after, steps)
        found += [text.key for text in step.texts]
        if (after := step.last) is None:
            break
    assert found == ["a", "b", "c", *numbers]


@pytest.mark.parametrize("after", ["a", 5])
@pytest.mark.parametrize(
    "name", ["entities_page", "missing_page", "pending_page", "missing_pending_page", "key_after"]
)
def test_numbers_are_read_in_order_by_the_index_too(
    graph: EntityGraph, graph_db: Database, name: str, after: Place
) -> None:
    parameters = {
        "until": after,
        "pending": True,
        "limit": 10,
        "skip": 9,
        "properties": ["name"],
        "model": "m",
    }
    plan = operators(graph_db, graph._statement(name), after=after, **parameters)
    assert any("NodeIndexSeekByRange" in op or "NodeUniqueIndexSeekByRange" in op for op, _ in plan), plan
    assert not {"NodeByLabelScan", "AllNodesScan", "Sort", "Top"} & {op for op, _ in plan}, plan


@pytest.mark.parametrize("name", ["key_kinds", "mixed_keys", "why_not"])
def test_the_kinds_of_keys_are_told_by_the_index(graph: EntityGraph, graph_db: Database, name: str) -> None:
    parameters = {"names": [["a"]], "keys": ["a"], "number": 1, "most": 10}
    plan = operators(graph_db, graph._statement(name), **parameters)
    assert not {"NodeByLabelScan", "AllNodesScan"} & {op for op, _ in plan}, plan


def test_a_mixture_is_named_with_the_counts_of_each(
    graph_db: Database, settings: Settings, numbers: list[int]
) -> None:
    assert mixed_keys(graph_db, "Entity", "name") == []
    graph_db.write("UNWIND ['a', '9', '100'] AS key CREATE (:Entity {name: key})")
    lines = mixed_keys(graph_db, "Entity", "name")
    assert lines[0].startswith(
        "the `name` of :Entity is a text at 3 (such as '100') and a whole number at 6: both get vectors"
    )
    assert lines[1].startswith("2 names belong to a text and to a number of :Entity, such as 9:")
    assert mixed_keys(graph_db, "Entity", "name", most=2)[0].count("2 or more") == 2
    assert set(lines) <= set(check_graph(graph_db, settings).notes)
    assert not set(lines) & set(check_graph(graph_db, settings, count_keys=False).notes)


def test_a_text_and_a_number_of_one_name_each_get_the_vector_of_their_own_text(
    graph: EntityGraph, graph_db: Database, write_of: Callable[..., Any]
) -> None:
    """Guard: the fence by the text. Both are read under one name, as nodes are that share a key."""
    graph_db.write(
        "CREATE (:Entity {name: 42, observations: ['a number']}), (:Entity {name: '42', observations: ['a text']})"
    )
    texts = graph.read_texts(["42"])
    assert {text.key for text in texts} == {42, "42"}
    graph.write_vectors([write_of(text, axis) for axis, text in enumerate(texts)])
    stored = graph_db.read("MATCH (n:Entity) RETURN n.name AS key, n.embedding_hash AS hash")
    assert {row["key"]: row["hash"] for row in stored} == {text.key: text.content_hash for text in texts}


def test_a_whole_number_stored_as_a_decimal_one_is_that_number(
    graph: EntityGraph,
    queue: EmbedQueue,
    graph_db: Database,
    embed: Callable[..., Any],
    vector_for: Callable[[int], list[float]],
) -> None:
    """Programs in JavaScript store 42 as 42.0, and the server takes the two for equal; 42.5 is no key.

    Guard: `named`, and the comparison with `toIntegerOrNull` in the pages. Without them such a key is "42.0", which is
    found by no look-up.
    """
    graph_db.write(
        "CREATE (:Entity {name: 42.0}), (:Entity {name: 42.5}), (:Entity:EmbedPending {name: 43.0})"
    )
    assert [text.uid for text in graph.entities_page()] == ["42", "43"]
    done = sweep(graph, queue, Scope.ALL)
    assert (done.seen, done.without_key) == (2, 1)
    assert {job["entity_uid"] for job in queue.jobs()} == {"42", "43"}
    assert sweep(graph, queue, Scope.OUTBOX).seen == 1
    assert graph.get_entity(42.0).uid == graph.get_entity("42").uid == "42"  # type: ignore[arg-type]
    assert [str(result.change) for result in graph.create_entities([{"name": 42, "mass": 1}])] == ["updated"]
    assert graph.add_observations(43, ["x"]) == ["x"]
    embed("42", "43")
    assert [hit.uid for hit in graph.search("x", embed=lambda _: vector_for(1))] == ["43", "42"]
    stored = graph_db.read(
        "MATCH (n:Entity) RETURN n.name AS key, n.embedding IS NOT NULL AS has ORDER BY key"
    )
    assert [(row["key"], type(row["key"]), row["has"]) for row in stored] == [
        (42.0, float, True),
        (42.5, float, False),
        (43.0, float, True),
    ]
    with pytest.raises(EntityNotFound, match="is a number, and only whole ones"):
        graph.get_entity("42.5")


def test_another_property_hides_entities(graph_db: Database, make_settings: MakeSettings) -> None:
    graph = EntityGraph.from_settings(make_settings(embed_deleted_property="archived at"), database=graph_db)
    graph.create_entities([{"name": "a", "validTo": 2999}, {"name": "b"}])
    graph.delete_entity("b", soft=True)
    assert [text.uid for text in graph.entities_page()] == ["a"]
    assert graph_db.read("MATCH (n:Entity {name: 'b'}) RETURN n.`archived at` > 0 AS set, n.validTo AS old")[
        0
    ].data() == {"set": True, "old": None}
    with pytest.raises(EntityNotFound, match="it has a `archived at`"):
        graph.get_entity("b")
    with pytest.raises(ValueError, match="archived at"):
        graph.create_entities([{"name": "c", "archived at": 1}])
    graph.create_entities([{"name": "b"}])
    assert graph.coverage().entities == 2


def test_where_no_property_hides_entities_none_is_soft_deleted(
    graph_db: Database, make_settings: MakeSettings
) -> None:
    graph = EntityGraph.from_settings(make_settings(embed_deleted_property=""), database=graph_db)
    graph.create_entities([{"name": "a", "validTo": 1}])
    with pytest.raises(ValueError, match="cannot be soft-deleted: no property hides an entity"):
        graph.delete_entity("a", soft=True)
    assert [text.deleted for text in graph.read_texts(["a"])] == [False]
    assert graph.coverage().entities == 1
    graph.delete_entity("a")
