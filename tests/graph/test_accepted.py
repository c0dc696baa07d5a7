"""What cannot be stored is refused at the call, with the entry that is to blame."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Database
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
        pytest.param({"name": 7}, "needs a text in `name`, not 7", id="number"),
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
