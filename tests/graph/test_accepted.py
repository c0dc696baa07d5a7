"""What cannot be stored is refused at the call, with the entry that is to blame."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.accepted import KEY_BYTES
from neo4j_queue.graph.entity_graph import EntityInput
from neo4j_queue.queue import EmbedQueue

HALF = "half \ud83d of it"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        pytest.param({"name": HALF}, r"the `name` 'half \ud83d of it' holds half", id="key"),
        pytest.param({"name": "a", "text": HALF}, "entity 'a': `text` holds half", id="text"),
        pytest.param(EntityInput("a", observations=["x", HALF]), "entity 'a': `observations`", id="list"),
        pytest.param(EntityInput("a", HALF), "entity 'a': `entityType`", id="type"),
        pytest.param({"name": "a", HALF: 1}, "entity 'a': 'half", id="name of a property"),
        pytest.param(
            {"name": "a", "": 1}, "entity 'a': '' cannot be the name of a property", id="empty name"
        ),
        pytest.param({"name": "a", "p\0": 1}, "entity 'a': 'p", id="nul in a name"),
        pytest.param({"name": "x" * 10_000}, "has 10,000 bytes, more than the 8,000", id="long key"),
        pytest.param({"name": "é" * 4_001}, "has 8,002 bytes", id="long in bytes"),
        pytest.param({"name": 7.5}, "needs a text or a whole number in `name`, not 7.5", id="number"),
        pytest.param({"name": "a", "embedding": []}, "entity 'a': written by the vector write", id="ours"),
    ],
)
def test_an_entry_that_cannot_be_stored_is_named_and_nothing_is_written(
    graph: EntityGraph, graph_db: Database, entry: Any, told: str
) -> None:
    """Seen failing without the checks: UnicodeEncodeError or the driver's ClientError, without the entity's name."""
    with pytest.raises(ValueError, match=re.escape(told)) as caught:
        graph.create_entities([{"name": "good"}, entry])
    assert type(caught.value) is ValueError
    assert graph_db.read("MATCH (n:Entity) RETURN n") == []


def test_the_longest_key_can_be_stored_and_queued(queued_graph: EntityGraph, queue: EmbedQueue) -> None:
    uid = "x" * KEY_BYTES
    (result,) = queued_graph.create_entities([{"name": uid}])
    assert result.job is not None
    assert queue.jobs(entity_uid=uid)[0]["status"] == "pending"


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.get_entity(HALF),
        lambda graph: graph.get_text(HALF),
        lambda graph: graph.delete_entity(HALF),
        lambda graph: graph.update_entity(HALF, {"x": 1}),
        lambda graph: graph.add_observations(HALF, ["x"]),
        lambda graph: graph.delete_observations(HALF, ["x"]),
        lambda graph: graph.create_relations([("a", "T", HALF)]),
        lambda graph: graph.add_observations("half", [HALF]),
    ],
)
def test_every_call_says_which_name_the_driver_cannot_send(
    graph: EntityGraph, call: Callable[[EntityGraph], object]
) -> None:
    with pytest.raises(ValueError, match="entity 'half") as caught:
        call(graph)
    assert type(caught.value) is ValueError


@pytest.mark.parametrize(
    "value",
    [{"a": 1}, [["a"]], ["a", 1], 2**70, {1, 2}, ["a", None], [True, 1]],
    ids=["map", "list in a list", "two kinds", "more than 64 bits", "set", "null in a list", "bool and int"],
)
def test_a_value_that_no_property_can_have_is_refused_with_its_entry(
    graph: EntityGraph, value: object
) -> None:
    """Guard: `_unstorable`. Without it the driver's or the server's own error names neither entity nor property."""
    with pytest.raises(ValueError, match="entity 'b': `title`"):
        graph.create_entities([{"name": "a"}, {"name": "b", "title": value}])
    with pytest.raises(EntityNotFound):
        graph.get_entity("a")


@pytest.mark.parametrize("value", [[1, 2.5], [], ["a", "b"], 2**63 - 1, True, None, b"x"])
def test_a_value_that_a_property_can_have_is_taken(graph: EntityGraph, value: object) -> None:
    graph.create_entities([{"name": "a", "title": value}])
    assert graph.get_entity("a").properties.get("title") == value


def test_one_text_is_no_list_of_observations(graph: EntityGraph) -> None:
    """Guard: `checked_observations`; without it each letter was an observation."""
    graph.create_entities([{"name": "a"}])
    with pytest.raises(ValueError, match="observations are a list of texts, not 'abc'"):
        graph.add_observations("a", "abc")
    with pytest.raises(ValueError, match="observations are a list of texts"):
        graph.add_observations("a", ["x", 5])  # type: ignore[list-item]
    assert graph.add_observations("a", ["abc"]) == ["abc"]


def test_one_key_may_be_touched_alone(graph: EntityGraph) -> None:
    graph.create_entities([{"name": "abc"}])
    assert [result.uid for result in graph.touch("abc")] == ["abc"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_search_for_nothing_is_refused(graph: EntityGraph, limit: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        graph.search("x", limit=limit, embed=lambda _: [1.0] * 256)
