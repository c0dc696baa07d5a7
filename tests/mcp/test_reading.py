"""The tools that look: the same answers as the library and the command line give, without a vector (D8)."""

import json
from typing import Any

import pytest
from neo4j.time import Date

from neo4j_queue.reconcile.explain import explain
from tests.mcp.conftest import Agent, World

# --- search_entities (D8) ------------------------------------------------------------------------------------


def test_a_search_gives_the_same_as_the_library_and_no_vector(agent: Agent, world: World) -> None:
    others = {
        "vec": [0.5] * 300,
        "as text": json.dumps([0.25] * 300),
        "born": Date(1815, 12, 10),
        "few": [1.5, 2.5],
    }
    world.graph.create_entities(
        [{"name": "Ada", "observations": ["wrote a program"], **others}, {"name": "Bob"}]
    )
    world.vectors("Ada", "Bob")
    found = agent.answer("search_entities", query="who wrote a program", limit="10")
    expected = world.graph.search("who wrote a program", 10).as_dict()
    assert (found["search_type"], found["fallback_reason"]) == (
        expected["search_type"],
        expected["fallback_reason"],
    )
    assert [hit["entity"] for hit in found["hits"]] == [hit["entity"] for hit in expected["hits"]]
    (ada,) = [hit for hit in found["hits"] if hit["entity"] == "Ada"]
    assert ada["found_by"] == ["semantic", "keyword"]
    for name in ("embedding", "vec", "as text"):
        assert name not in ada["properties"], name
    assert (ada["properties"]["born"], ada["properties"]["few"]) == ("1815-12-10", [1.5, 2.5])
    assert "0.5, 0.5" not in json.dumps(found)
    assert "0.25, 0.25" not in json.dumps(found)


def test_a_search_takes_what_the_command_line_takes(agent: Agent, world: World) -> None:
    world.graph.create_entities([{"name": f"loom {n}", "year": n} for n in range(5)])
    words = agent.answer("search_entities", query="loom", mode="KEYWORD", limit=2)
    assert (words["search_type"], len(words["hits"])) == ("keyword", 2)
    assert words["hits"][0]["stale"] is True
    one = agent.answer("search_entities", query="loom", mode="keyword", where='{"year": 3}')
    assert [hit["entity"] for hit in one["hits"]] == ["loom 3"]
    assert agent.answer("search_entities", query="loom", mode="keyword", labels=["Nothing"])["hits"] == []
    syntax = agent.answer("search_entities", query="name:loom AND 4", lucene=True)
    assert [hit["entity"] for hit in syntax["hits"]] == ["loom 4"]
    assert agent.answer("search_entities", query="title:(a OR [ loom", mode="keyword")["hits"]
    assert agent.answer("search_entities", query="loom", changed_since="2020-01-01")["hits"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({}, "query: Field required"), ({"query": " "}, "the query is blank"), ({"query": 3}, "query")),
        *(({"query": "x", "limit": 0}, "limit"), ({"query": "x", "limit": 1001}, "limit")),
        *(({"query": "x", "limit": "ten"}, "limit"), ({"query": "x", "mode": "magic"}, "mode")),
        *(
            ({"query": "x", "min_score": 2}, "min_score"),
            ({"query": "x", "changed_since": "soon"}, "changed_since"),
        ),
        *(({"query": "name:(", "lucene": True}, "syntax"), ({"query": "x", "where": [1]}, "where")),
        ({"query": "x", "mode": "semantic", "lucene": True}, "no use for Lucene"),
    ],
    ids=repr,
)
def test_a_search_that_cannot_be_meant_says_why(agent: Agent, given: dict[str, Any], said: str) -> None:
    assert said.lower() in agent.refusal("search_entities", **given).lower()


# --- explain_entity ------------------------------------------------------------------------------------------


def test_an_entity_is_explained_as_by_the_command_line(agent: Agent, world: World) -> None:
    world.graph.create_entities([{"name": "Ada", "observations": ["x"]}])
    found = agent.answer("explain_entity", entity_name="Ada")
    expected = explain(world.graph, world.queue, world.settings, "Ada").as_json()
    for moving in ("now", "ready_at"):
        expected.pop(moving), found.pop(moving)
    assert found == json.loads(json.dumps(expected))
    assert found["reason"] == "no_worker"
    assert "text" not in found["text"]
    shown = agent.answer("explain_entity", entity_name="Ada", text=True)
    assert shown["text"]["text"].startswith("Name: Ada\n")
    world.vectors("Ada")
    assert agent.answer("explain_entity", entity_name="Ada")["reason"] == "fresh"


def test_an_entity_that_is_not_there_is_explained_too(agent: Agent, world: World) -> None:
    found = agent.answer("explain_entity", entity_name="Eve")
    assert (found["in_scope"], found["well"], found["reason"]) == (False, False, "not_found")
    assert "entity_name" in agent.refusal("explain_entity")
