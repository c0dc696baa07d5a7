"""The fenced vector write: a vector is stored only for the text that was embedded."""

import math
from collections.abc import Callable
from typing import Any

import neo4j.time
import pytest
from neo4j.spatial import CartesianPoint

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import VectorWrite
from neo4j_queue.text import TextRecipe, content_hash

MATCH_ADA = "MATCH (n:Entity {name: 'Ada'}) "
ADA = {"name": "Ada", "entityType": "person", "observations": ["first"]}


def stored(database: Database, name: str = "Ada") -> dict[str, Any]:
    """Everything on a node, and its labels."""
    row = database.read(
        "MATCH (n:Entity {name: $name}) RETURN properties(n) AS p, labels(n) AS l", name=name
    )[0]
    return {**row["p"], "labels": set(row["l"])}


def test_a_written_vector_is_fresh_and_leaves_the_outbox(
    graph: EntityGraph,
    graph_db: Database,
    write_of: Callable[..., VectorWrite],
    vector_for: Callable[[int], list[float]],
) -> None:
    graph.create_entities([ADA])
    (text,) = graph.read_texts(["Ada"])
    assert (text.fresh, text.deleted, text.text) == (
        False,
        False,
        "Name: Ada\nType: person\nObservations:\n- first",
    )

    assert graph.write_vectors([write_of(text, 3)]) == {("Ada", text.content_hash)}

    node = stored(graph_db)
    now = graph_db.read("RETURN datetime.realtime().epochMillis AS now")[0]["now"]
    assert node.pop("embedded_at") == pytest.approx(now, abs=60_000)
    assert node == {
        **ADA,
        "labels": {"Entity"},
        "embedding": vector_for(3),
        "embedding_model": graph.model,
        "embedding_hash": content_hash(text.text),
    }
    assert graph.read_texts(["Ada"])[0].fresh


@pytest.mark.parametrize(
    "change",
    [
        "SET n.observations = ['first', 'second']",
        "SET n.observations = '[\"first\"]'",
        "REMOVE n.entityType",
        "SET n.validTo = 1",
        "SET n.name = 'Ada Lovelace'",
        "DETACH DELETE n",
        "DETACH DELETE n CREATE (:Entity {name: 'Ada', entityType: 'person', observations: ['other']})",
        "REMOVE n:Entity",
    ],
)
def test_a_change_before_the_write_keeps_the_vector_out(
    graph: EntityGraph, graph_db: Database, write_of: Callable[..., VectorWrite], change: str
) -> None:
    graph.create_entities([ADA])
    (text,) = graph.read_texts(["Ada"])
    graph_db.write(MATCH_ADA + change)

    assert graph.write_vectors([write_of(text, 0)]) == set()

    assert graph_db.read("MATCH (n) WHERE n.embedding IS NOT NULL OR n._lock IS NOT NULL RETURN n") == []


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        "SET n.observations = ['first', 'second']",
        "REMOVE n.entityType",
        "SET n.validTo = 1",
        "SET n.name = 'Ada Lovelace'",
        "DETACH DELETE n",
    ],
)
def test_a_change_that_commits_while_the_write_waits_keeps_the_vector_out(
    graph: EntityGraph,
    graph_db: Database,
    write_of: Callable[..., VectorWrite],
    while_open: Callable[..., Any],
    change: str,
    unique: bool,
    without_constraint: Callable[[], None],
) -> None:
    """Seen to fail with the two writes of `_lock` taken out of the statement. With only `SET` taken out it fails on a
    database that has never seen `_lock`: there, a REMOVE takes no lock.
    """
    if not unique:
        without_constraint()
    graph.create_entities([ADA, {"name": "Bob"}])
    ada, bob = graph.read_texts(["Ada", "Bob"])

    written = while_open(
        MATCH_ADA + change, lambda: graph.write_vectors([write_of(bob, 1), write_of(ada, 0)])
    )

    assert written == {("Bob", bob.content_hash)}
    with_vector = graph_db.read("MATCH (n) WHERE n.embedding IS NOT NULL RETURN n.name AS name")
    assert [row["name"] for row in with_vector] == ["Bob"]
    assert graph_db.read("MATCH (n) WHERE n._lock IS NOT NULL RETURN n") == []


def test_a_renaming_that_commits_while_the_write_waits_keeps_the_vector_out_when_the_text_has_no_key(
    graph: EntityGraph,
    graph_db: Database,
    write_of: Callable[..., VectorWrite],
    while_open: Callable[..., Any],
) -> None:
    """The plan may keep the key from before the wait in a cache; the write of the lock must empty it."""
    graph.recipe = TextRecipe.of_properties("entityType")
    graph.create_entities([ADA])
    (text,) = graph.read_texts(["Ada"])
    assert (
        while_open(MATCH_ADA + "SET n.name = 'Eve'", lambda: graph.write_vectors([write_of(text)])) == set()
    )
    assert "embedding" not in stored(graph_db, "Eve")


def test_an_edit_that_commits_while_the_write_waits_is_seen_by_the_exact_fence_too(
    graph: EntityGraph,
    graph_db: Database,
    write_of: Callable[..., VectorWrite],
    while_open: Callable[..., Any],
) -> None:
    """Numbers are judged by the client under the lock. Seen to fail with the two writes of
    `_lock` taken out of graph/lock_sources.
    """
    graph.create_entities([{"name": "Ada", "entityType": 1.5}])
    (text,) = graph.read_texts(["Ada"])
    assert (
        while_open(MATCH_ADA + "SET n.entityType = 2.5", lambda: graph.write_vectors([write_of(text, 0)]))
        == set()
    )
    assert "embedding" not in stored(graph_db)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        True,
        ["a", "b"],
        [],
        1,
        1.5,
        math.nan,
        [math.nan, 1.0],
        [1, 2],
        neo4j.time.DateTime(2024, 1, 2, 3, 4, 5, 6),
        neo4j.time.Date(2024, 1, 2),
        neo4j.time.Duration(months=1, nanoseconds=3),
        CartesianPoint((1.0, 2.0)),
        b"\x00\x01",
    ],
    ids=str,
)
def test_every_value_type_passes_its_own_fence(
    graph: EntityGraph, graph_db: Database, write_of: Callable[..., VectorWrite], value: Any
) -> None:
    graph_db.write("CREATE (:Entity {name: 'Ada', entityType: $value})", value=value)
    (text,) = graph.read_texts(["Ada"])
    assert graph.write_vectors([write_of(text, 0)]) == {("Ada", text.content_hash)}
    assert graph.read_texts(["Ada"])[0].fresh


def test_a_time_in_a_zone_passes_its_own_fence(
    graph: EntityGraph, graph_db: Database, write_of: Callable[..., VectorWrite]
) -> None:
    """The driver reads it as another value than the server compares equal."""
    graph_db.write("CREATE (:Entity {name: 'Ada', entityType: datetime('2024-01-02T03:04:05Z')})")
    (text,) = graph.read_texts(["Ada"])
    assert graph.write_vectors([write_of(text, 0)]) == {("Ada", text.content_hash)}


@pytest.mark.parametrize(("before", "after"), [(1, 1.0), ([math.nan, 1.0], [math.nan, 2.0])])
def test_a_value_that_cypher_finds_equal_or_incomparable_is_another_text_by_its_spelling(
    graph: EntityGraph, graph_db: Database, write_of: Callable[..., VectorWrite], before: Any, after: Any
) -> None:
    graph_db.write("CREATE (:Entity {name: 'Ada', entityType: $value})", value=before)
    (text,) = graph.read_texts(["Ada"])
    graph_db.write(MATCH_ADA + "SET n.entityType = $value", value=after)
    assert graph.write_vectors([write_of(text, 0)]) == set()


def test_one_batch_with_texts_and_numbers_writes_both(
    graph: EntityGraph, embed: Callable[..., set[tuple[str, str]]]
) -> None:
    graph.create_entities([ADA, {"name": "Pi", "entityType": 3.14}])
    assert {uid for uid, _ in embed("Ada", "Pi")} == {"Ada", "Pi"}


def test_two_versions_of_one_entity_in_one_batch_store_the_current_one(
    graph: EntityGraph,
    graph_db: Database,
    write_of: Callable[..., VectorWrite],
    vector_for: Callable[[int], list[float]],
) -> None:
    graph.create_entities([ADA])
    (old,) = graph.read_texts(["Ada"])
    graph.add_observations("Ada", ["second"])
    (new,) = graph.read_texts(["Ada"])
    assert graph.write_vectors([write_of(old, 0), write_of(new, 1)]) == {("Ada", new.content_hash)}
    assert stored(graph_db)["embedding"] == vector_for(1)


def test_nodes_that_share_a_key_each_keep_to_their_own_text(
    graph: EntityGraph,
    graph_db: Database,
    write_of: Callable[..., VectorWrite],
    without_constraint: Callable[[], None],
) -> None:
    without_constraint()
    graph_db.write("UNWIND [1.5, 2.5, 'x', 'y'] AS v CREATE (:Entity {name: 'Ada', entityType: v})")
    texts = graph.read_texts(["Ada"])
    assert len(texts) == 4
    assert len(graph.write_vectors([write_of(texts[0], 0), write_of(texts[1], 1)])) == 2
    assert len(graph.write_vectors([write_of(texts[3], 3)])) == 1
    now = {text.source[1]: text.fresh for text in graph.read_texts(["Ada"])}
    assert now == {text.source[1]: at != 2 for at, text in enumerate(texts)}


def test_a_vector_of_another_length_is_refused_before_anything_is_written(
    graph: EntityGraph, graph_db: Database
) -> None:
    graph.create_entities([ADA])
    (text,) = graph.read_texts(["Ada"])
    with pytest.raises(ValueError, match=f"3 numbers, {graph.dimensions} are needed"):
        graph.write_vectors([VectorWrite(text.uid, text.source, text.content_hash, [1.0, 0.0, 0.0])])
    assert "embedding" not in stored(graph_db)


def test_nothing_to_read_or_write_asks_nothing(graph: EntityGraph) -> None:
    nowhere = EntityGraph(  # a database that would fail
        Database(graph.database.address), TextRecipe.memento(), graph.model, dimensions=graph.dimensions
    )
    nowhere.database.driver = None  # type: ignore[method-assign, assignment]
    assert (nowhere.read_texts([]), nowhere.write_vectors([]), nowhere.clear_pending([])) == ([], set(), 0)


def test_freshness_needs_the_vector_the_hash_and_the_model(
    graph: EntityGraph, graph_db: Database, embed: Callable[..., set[tuple[str, str]]]
) -> None:
    for spoil in ("REMOVE n.embedding", "SET n.embedding_model = 'other'", "SET n.embedding_hash = 'other'"):
        graph.create_entities([ADA])
        embed("Ada")
        assert graph.read_texts(["Ada"])[0].fresh
        graph_db.write(MATCH_ADA + spoil)
        assert not graph.read_texts(["Ada"])[0].fresh


def test_only_fresh_or_soft_deleted_entities_leave_the_outbox_when_asked(
    graph: EntityGraph, graph_db: Database, embed: Callable[..., set[tuple[str, str]]]
) -> None:
    graph.create_entities([{"name": name} for name in ("fresh", "stale", "gone")])
    embed("fresh", "stale")
    graph_db.write("MATCH (n:Entity) SET n:EmbedPending")
    graph_db.write("MATCH (n:Entity {name: 'stale'}) SET n.observations = ['new']")
    graph_db.write("MATCH (n:Entity {name: 'gone'}) SET n.validTo = 1")
    assert graph.clear_pending(["fresh", "stale", "gone", "unknown"]) == 2
    assert [text.uid for text in graph.pending_page()] == ["stale"]


def test_an_edit_while_the_outbox_is_cleared_keeps_the_mark(
    graph: EntityGraph,
    graph_db: Database,
    embed: Callable[..., set[tuple[str, str]]],
    while_open: Callable[..., Any],
) -> None:
    """Seen to fail with the two writes of `_lock` taken out of graph/lock_pending."""
    graph.create_entities([ADA])
    embed("Ada")
    graph_db.write(MATCH_ADA + "SET n:EmbedPending")
    assert while_open(MATCH_ADA + "SET n.entityType = 'x'", lambda: graph.clear_pending(["Ada"])) == 0
    assert [text.uid for text in graph.pending_page()] == ["Ada"]
