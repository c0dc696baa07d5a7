"""Programs that write by themselves: which keys changed, which entity is not there and why, and what has no text."""

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from neo4j_queue.database import Database
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import EntityInput
from neo4j_queue.queue import EmbedQueue
from tests.conftest import MakeSettings

NotThere = Callable[[EntityGraph, str], object]
CALLS: list[NotThere] = [
    lambda graph, name: graph.get_entity(name),
    lambda graph, name: graph.get_text(name),
    lambda graph, name: graph.update_entity(name, {"x": 1}),
    lambda graph, name: graph.add_observations(name, ["x"]),
    lambda graph, name: graph.delete_entity(name, soft=True),
    lambda graph, name: graph.create_relations([("there", "KNOWS", name)]),
]


def test_touched_entities_get_a_job_where_their_vector_is_stale(
    queued_graph: EntityGraph, queue: EmbedQueue, graph_db: Database, embed: Callable[..., Any]
) -> None:
    """Seen failing without the mark: a lost job would never be found again."""
    graph_db.write("UNWIND ['a', 'b', 'c'] AS name CREATE (:Entity {name: name})")
    embed("a", "b")
    graph_db.write("MATCH (n:Entity {name: 'b'}) SET n.observations = ['edited']")
    results = queued_graph.touch(["c", "a", "nobody", "b", "c"])
    assert [(result.uid, result.job is not None) for result in results] == [
        ("c", True),
        ("a", False),
        ("b", True),
    ]
    assert {job["entity_uid"] for job in queue.jobs()} == {"b", "c"}
    marked = graph_db.read("MATCH (n:EmbedPending) RETURN n.name AS name ORDER BY name")
    assert [row["name"] for row in marked] == ["b", "c"]


def test_touching_more_than_a_page_and_nothing(queued_graph: EntityGraph, graph_db: Database) -> None:
    graph_db.write("UNWIND range(1, 1100) AS i CREATE (:Entity {name: toString(i)})")
    results = queued_graph.touch(str(at) for at in range(1, 1101))
    assert [result.uid for result in results] == [str(at) for at in range(1, 1101)]
    assert queued_graph.touch([]) == []


def test_a_soft_deleted_entity_is_not_touched(queued_graph: EntityGraph, graph_db: Database) -> None:
    graph_db.write("CREATE (:Entity {name: 'gone', validTo: 1})")
    assert queued_graph.touch(["gone"]) == []
    assert graph_db.read("MATCH (n:EmbedPending) RETURN n") == []


@pytest.mark.parametrize("call", CALLS)
def test_an_entity_that_is_not_there_says_what_is(
    graph: EntityGraph, graph_db: Database, call: NotThere
) -> None:
    """Seen failing with the plain error: nodes that a person sees in the browser were "not found"."""
    graph_db.write(
        "CREATE (:Entity {name: 'there'}), (:Entity {name: 'gone', validTo: 1}), (:Entity {name: 7.0}), "
        "(:Entity {name: 2.5})"
    )
    for name, told in [
        ("gone", "Entity not found: gone (one of that `name` is soft-deleted: it has a `validTo`)"),
        (
            "2.5",
            "Entity not found: 2.5 (its `name` is a number, and only whole ones name entities, "
            "written without a point)",
        ),
        (
            "7.0",
            "Entity not found: 7.0 (its `name` is a number, and only whole ones name entities, "
            "written without a point)",
        ),
        ("nobody", "Entity not found: nobody"),
        ("99999999999999999999", "Entity not found: 99999999999999999999"),
        ("nan", "Entity not found: nan"),
    ]:
        with pytest.raises(EntityNotFound) as caught:
            call(graph, name)
        assert str(caught.value) == told
        assert caught.value.name == name


def test_entities_whose_text_is_empty_are_said_at_the_call(
    graph_db: Database, make_settings: MakeSettings
) -> None:
    """Seen failing without the warning: two nodes that no worker can embed, and not a word."""
    settings = make_settings(
        embed_entity_label="Book", embed_entity_key="isbn", embed_text_properties="title"
    )
    graph = EntityGraph.from_settings(settings, database=graph_db)
    with capture_logs() as lines:
        graph.create_entities(
            [EntityInput("a", "thing", ["wrote the first program"]), {"isbn": "b", "title": " "}]
        )
        graph.create_entities([{"isbn": "c", "title": "On numbers"}])
    (line,) = [line for line in lines if line["event"] == "entities_without_text"]
    assert (line["entities"], line["example"], line["text_properties"]) == (2, "a", ["title"])
