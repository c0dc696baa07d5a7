"""Every tool, called by the SDK's client over both transports and both generations of the protocol (D5, D6)."""

from typing import Any

import jsonschema
import pytest

from neo4j_queue.errors import ErrorCategory, Fault, FaultKind
from neo4j_queue.queue.leases import Failure
from tests.mcp.conftest import Agent, World

READING = {
    "search_entities",
    "explain_entity",
    "get_entities_without_embeddings",
    "queue_health",
    "queue_status",
}
DESTRUCTIVE = {"delete_entities", "delete_observations"}
WRITING = DESTRUCTIVE | {
    *("force_generate_embedding", "create_entities", "add_observations", "create_relations", "retry_failed")
}
ADA = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}


def test_the_client_lists_every_tool_with_schemas_and_annotations(agent: Agent) -> None:
    tools = agent.tools()
    assert set(tools) == READING | WRITING
    for name, tool in tools.items():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.description
        assert tool.title
        hints = tool.annotations
        assert hints is not None
        assert hints.read_only_hint is (name in READING), name
        assert hints.destructive_hint is (name in DESTRUCTIVE), name
        assert hints.idempotent_hint is True
        assert hints.open_world_hint is False


def test_the_shapes_of_the_memory_server_are_taken_and_given(agent: Agent, world: World) -> None:
    bob = {"name": "Bob", "entityType": "person", "observations": []}
    created = agent.answer("create_entities", entities=[ADA, bob])
    assert created["entities"] == [ADA, bob]
    assert created["existing"] == []
    assert [job["outcome"] for job in created["jobs"]] == ["created", "created"]
    relation = {"from": "Ada", "to": "Bob", "relationType": "knows"}
    assert agent.answer("create_relations", relations=[relation]) == {"relations": [relation]}
    found = world.graph_db.read("MATCH (a)-[r]->(b) RETURN a.name AS a, type(r) AS r, b.name AS b")
    assert [row.data() for row in found] == [{"a": "Ada", "r": "knows", "b": "Bob"}]
    added = agent.answer(
        "add_observations",
        observations=[{"entityName": "Ada", "contents": ["wrote the first program", "born in London"]}],
    )
    assert added == {"results": [{"entityName": "Ada", "addedObservations": ["born in London"]}]}
    deleted = agent.answer(
        "delete_observations",
        deletions=[
            {"entityName": "Ada", "observations": ["born in London", "never said"]},
            {"entityName": "Eve", "observations": ["x"]},
        ],
    )
    assert deleted == {
        "success": True,
        "message": "Deleted 1 of 3 observations. Not found: Eve",
        "results": [{"entityName": "Ada", "deletedObservations": ["born in London"]}],
        "notFound": ["Eve"],
    }
    assert world.graph.get_entity("Ada").properties["observations"] == ["wrote the first program"]
    gone = agent.answer("delete_entities", entityNames=["Ada", "Eve"])
    assert gone == {
        "success": True,
        "message": "Deleted 1 of 2 entities. Not found: Eve",
        "deleted": ["Ada"],
        "notFound": ["Eve"],
    }
    assert [row["n"] for row in world.graph_db.read("MATCH (n:Entity) RETURN n.name AS n")] == ["Bob"]


def test_an_entity_that_is_there_is_left_as_it_is(agent: Agent, world: World) -> None:
    agent.answer("create_entities", entities=[ADA])
    other = {"name": "Ada", "entityType": "machine", "observations": ["something else"]}
    again = agent.answer("create_entities", entities=[other, {"name": "Bob"}])
    assert (again["existing"], [each["name"] for each in again["entities"]]) == (["Ada"], ["Bob"])
    assert world.graph.get_entity("Ada").properties["observations"] == ADA["observations"]


def test_of_two_entries_with_one_name_the_first_counts(agent: Agent, world: World) -> None:
    created = agent.answer("create_entities", entities=[ADA, {"name": "Ada", "observations": ["other"]}])
    assert [each["name"] for each in created["entities"]] == ["Ada"]
    assert len(created["jobs"]) == 1
    assert world.graph.get_entity("Ada").properties["observations"] == ADA["observations"]
    assert agent.answer("delete_entities", entityNames=["Ada", "Ada"])["deleted"] == ["Ada"]


def test_a_thousand_entities_in_one_call(agent: Agent, world: World) -> None:
    entities = [{"name": f"e{n}", "entityType": "thing", "observations": ["x" * 2_000]} for n in range(1_000)]
    created = agent.answer("create_entities", entities=entities)
    assert created["entities"] == entities
    assert world.queue.status().pending == 1_000
    refused = agent.refusal("create_entities", entities=[*entities, {"name": "one more"}])
    assert "at most 1000" in refused
    relations = [{"from": "e0", "to": f"e{n}", "relationType": "knows"} for n in range(1_000)]
    assert len(agent.answer("create_relations", relations=relations)["relations"]) == 1_000
    names = [f"e{n}" for n in range(1_000)]
    assert len(agent.answer("delete_entities", entityNames=names)["deleted"]) == 1_000


def test_further_properties_are_stored_and_the_librarys_own_are_refused(agent: Agent, world: World) -> None:
    agent.answer("create_entities", entities=[{"name": "Ada", "properties": {"born": 1815, "of note": True}}])
    found = world.graph.get_entity("Ada").properties
    assert (found["born"], found["of note"]) == (1815, True)
    refused = agent.refusal("create_entities", entities=[{"name": "Eve", "properties": {"embedding": [0.1]}}])
    assert "embedding" in refused
    assert "Eve" in refused
    assert agent.refusal("create_entities", entities=[{"name": "Eve", "properties": {"a": {"b": 1}}}])
    assert [row["n"] for row in world.graph_db.read("MATCH (n:Entity) RETURN n.name AS n")] == ["Ada"]


def test_what_is_wrong_with_the_arguments_is_said_in_one_line(agent: Agent) -> None:
    assert (
        agent.refusal("create_entities", entities=[{"entityType": "x"}]) == "entities.0.name: Field required"
    )
    assert "entities" in agent.refusal("create_entities", entities=[])
    assert "extra" in agent.refusal("create_entities", entities=[{"name": "a", "type": "person"}]).lower()
    assert "limt" in agent.refusal("retry_failed", limt=3)
    assert "category" in agent.refusal("retry_failed", category="BAD")
    assert "status" in agent.refusal("retry_failed", status=99)
    for wrong in (0, -1, 1.5, "ten", True):
        assert "limit" in agent.refusal("retry_failed", limit=wrong), wrong
    assert "Unknown tool: read_graph" in agent.refusal("read_graph")
    missing = agent.refusal("create_relations", relations=[{"from": "a", "to": "b", "relationType": "r"}])
    assert missing == "Entity not found: a"


def test_lists_that_a_client_sends_as_text_are_taken(agent: Agent, world: World) -> None:
    created = agent.answer(
        "create_entities", entities='[{"name": "Ada", "observations": "[\\"a\\", \\"b\\"]"}]'
    )
    assert created["entities"] == [{"name": "Ada", "entityType": None, "observations": ["a", "b"]}]
    assert agent.answer("delete_entities", entityNames='["Ada"]')["deleted"] == ["Ada"]


def test_observations_are_added_to_all_entities_or_to_none(agent: Agent, world: World) -> None:
    agent.answer("create_entities", entities=[ADA])
    refused = agent.refusal(
        "add_observations",
        observations=[
            {"entityName": "Ada", "contents": ["new"]},
            {"entityName": "Eve", "contents": ["new"]},
        ],
    )
    assert refused == "Entity not found: Eve"
    assert world.graph.get_entity("Ada").properties["observations"] == ADA["observations"]


# --- force_generate_embedding (D6): every row of the contract ------------------------------------------------


def _specific(answer: dict[str, Any]) -> dict[str, Any]:
    """The fields of the contract; `did` says the same in words."""
    assert answer.pop("did")
    assert set(answer) == {"success", "mode", "entity", "job_id", "outcome"}
    return answer


def test_a_name_makes_exactly_one_job_also_when_a_completed_one_exists(agent: Agent, world: World) -> None:
    world.graph.create_entities([{"name": "Ada"}])
    (job,) = world.queue.jobs()
    first = _specific(agent.answer("force_generate_embedding", entity_name="Ada", limit=500))
    assert first == {
        "success": True, "mode": "specific", "entity": "Ada", "job_id": job["id"], "outcome": "duplicate",
    }  # fmt: skip
    (lease,) = world.queue.lease("w", batches=1).leases
    world.queue.start(lease.token, lease.job_ids)
    world.queue.complete(lease.token, lease.job_ids)
    again = _specific(agent.answer("force_generate_embedding", entity_name="  Ada "))
    assert again == {**first, "outcome": "requeued"}
    assert len(world.queue.jobs()) == 1
    assert world.queue.status().pending == 1


def test_an_unknown_name_is_an_error_with_the_words_of_the_contract(agent: Agent, world: World) -> None:
    assert agent.refusal("force_generate_embedding", entity_name="Eve") == "Entity not found: Eve"
    world.graph.create_entities([{"name": "Old"}])
    world.graph.delete_entity("Old", soft=True)
    assert agent.refusal("force_generate_embedding", entity_name="Old").startswith("Entity not found: Old")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(({}, 10), ({"limit": None}, 10), ({"limit": 3}, 3), ({"limit": "7"}, 7), ({"limit": " 12 "}, 12)),
        *(({"limit": "10"}, 10), ({"limit": 0}, 10), ({"limit": -5}, 10), ({"limit": "many"}, 10)),
        *(({"limit": 2.5}, 10), ({"limit": ""}, 10), ({"limit": [5]}, 10), ({"limit": {"n": 5}}, 10)),
        *(({"limit": 5000}, 1000), ({"limit": "99999999999999999999"}, 1000)),
        *(({"entity_name": ""}, 10), ({"entity_name": "  ", "limit": "4"}, 4), ({"entity_name": None}, 10)),
    ],
    ids=repr,
)
def test_without_a_name_the_limit_is_read_as_the_contract_says(
    agent: Agent, world: World, given: dict[str, Any], meant: int
) -> None:
    world.graph_db.write("UNWIND range(1, 15) AS n CREATE (:Entity {name: 'e' + toString(n)})")
    answer = agent.answer("force_generate_embedding", **given)
    found = min(meant, 15)
    jobs = answer.pop("jobs")
    assert answer == {
        "success": True, "mode": "batch", "limit": meant, "discovered": found, "queued": found,
        "newly_scheduled": found, "failed": 0,
    }  # fmt: skip
    assert [job["outcome"] for job in jobs] == ["created"] * found
    assert {job["job_id"] for job in jobs} == {job["id"] for job in world.queue.jobs(limit=1000)}


def test_an_entity_for_which_no_job_is_possible_is_told_and_the_others_are_queued(
    agent: Agent, world: World
) -> None:
    world.graph_db.write("UNWIND ['a', $long] AS name CREATE (:Entity {name: name})", long="k" * 8_150)
    answer = agent.answer("force_generate_embedding", limit=10)
    assert (answer["discovered"], answer["queued"], answer["failed"]) == (2, 1, 1)
    (refused,) = [job for job in answer["jobs"] if job["outcome"] == "failed"]
    assert refused["job_id"] is None
    assert "bytes" in refused["error"]


def test_an_entity_called_null_or_like_json_is_one_by_name(agent: Agent, world: World) -> None:
    """The SDK's own reading of arguments takes `null` for no name, and would queue a batch."""
    names = ["null", "[1]", '{"a": 1}', "true", "42"]
    world.graph.create_entities([{"name": name} for name in names])
    for name in names:
        answer = agent.answer("force_generate_embedding", entity_name=name)
        assert (answer["mode"], answer["entity"]) == ("specific", name)


# --- get_entities_without_embeddings (D5) --------------------------------------------------------------------


def test_fifty_of_a_thousand_without_a_vector(agent: Agent, world: World) -> None:
    world.graph_db.write(
        "UNWIND range(1, 1000) AS n CREATE (:Entity {name: 'e' + toString(n), observations: ['x']})"
    )
    answer = agent.answer("get_entities_without_embeddings", limit=50)
    assert (answer["limit"], len(answer["entities"])) == (50, 50)
    first = answer["entities"][0]
    assert first["text"].startswith(f"Name: {first['entity']}\n")
    assert len(agent.answer("get_entities_without_embeddings")["entities"]) == 10
    assert len(agent.answer("get_entities_without_embeddings", limit="25")["entities"]) == 25
    assert world.queue.status().total == 0


def test_soft_deleted_embedded_waiting_and_failed_ones_are_passed_over(agent: Agent, world: World) -> None:
    names = ["deleted", "embedded", "waits", "failed"]
    world.graph.create_entities([{"name": name} for name in names])
    world.graph.delete_entity("deleted", soft=True)
    world.vectors("embedded")
    (lease,) = world.queue.lease("w", batches=1).leases
    started = world.queue.start(lease.token, lease.job_ids).jobs
    fault = Fault(ErrorCategory.PERMANENT, FaultKind.ITEM, "BadText", "refused")
    world.queue.fail(lease.token, [Failure(job, fault) for job in started if job.entity_uid == "failed"])
    world.queue.release(lease.token, [job.id for job in started if job.entity_uid == "waits"])
    world.graph_db.write("UNWIND range(1, 30) AS n CREATE (:Entity {name: 'other' + toString(n)})")
    found = agent.answer("get_entities_without_embeddings", limit=100)["entities"]
    assert sorted(each["entity"] for each in found) == sorted(f"other{n}" for n in range(1, 31))
    assert agent.answer("retry_failed", category="transient") == {"retried": 0}
    assert agent.answer("retry_failed", reason="PERMANENT_ERROR", limit="5") == {"retried": 1}


# --- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "quoted" `back` \\slashes\\',
        "👩‍👩‍👧‍👦 naïve ﬀ ﷽",
        "k" * 8_000,
        "two\nlines\tand \u2028 more",
        "$(label) {name} }) DETACH DELETE n //",
        " blanks around ",
        "%s %d {0} ${HOME}",
        "e\u0301 decomposed",
    ],
    ids=["quotes", "emoji", "8,000 bytes", "lines", "cypher", "blanks", "formats", "combining"],
)
def test_odd_names_go_through_every_tool_that_takes_one(agent: Agent, world: World, name: str) -> None:
    """Blanks around a name are part of it but for `entity_name`, whose blanks the contract cuts."""
    created = agent.answer("create_entities", entities=[{"name": name, "observations": [name]}])
    assert created["entities"][0]["name"] == name
    assert created["jobs"][0]["outcome"] == "created"
    added = agent.answer("add_observations", observations=[{"entityName": name, "contents": ["more", name]}])
    assert added["results"] == [{"entityName": name, "addedObservations": ["more"]}]
    relation = {"from": name, "to": name, "relationType": name[:100]}
    assert agent.answer("create_relations", relations=[relation])["relations"] == [relation]
    if name == name.strip():
        assert agent.answer("force_generate_embedding", entity_name=name)["entity"] == name
    deleted = agent.answer("delete_observations", deletions=[{"entityName": name, "observations": ["more"]}])
    assert deleted["results"] == [{"entityName": name, "deletedObservations": ["more"]}]
    assert agent.answer("delete_entities", entityNames=[name])["deleted"] == [name]
    assert name[:40].split("\n")[0] in agent.refusal("force_generate_embedding", entity_name=f"{name}!")


def test_whole_numbers_are_names_as_any(agent: Agent, world: World) -> None:
    """Graphs that count their nodes: the number is the name, also where it is written as a text."""
    created = agent.answer(
        "create_entities", entities=[{"name": 42, "observations": ["the answer"]}, {"name": 7}]
    )
    assert [each["name"] for each in created["entities"]] == [42, 7]
    keys = world.graph_db.read("MATCH (n:Entity) RETURN n.name AS key ORDER BY key")
    assert [row["key"] for row in keys] == [7, 42]
    assert agent.answer("create_entities", entities=[{"name": "42"}])["existing"] == ["42"]
    assert agent.answer("force_generate_embedding", entity_name=42)["entity"] == "42"
    assert agent.answer("explain_entity", entity_name="42")["in_scope"] is True
    entry = {"entityName": 42, "contents": ["more"]}
    assert agent.answer("add_observations", observations=[entry])["results"][0]["addedObservations"] == [
        "more"
    ]
    relation = {"from": 42, "to": 7, "relationType": "after"}
    assert agent.answer("create_relations", relations=[relation])["relations"]
    assert agent.answer("search_entities", query="the answer", mode="keyword")["hits"][0]["entity"] == "42"
    assert agent.answer("delete_entities", entityNames=[42, "7"])["notFound"] == []


def test_a_soft_deleted_entity_comes_back(agent: Agent, world: World) -> None:
    world.graph.create_entities([{"name": "Ada", "observations": ["old"]}])
    world.graph.delete_entity("Ada", soft=True)
    assert agent.answer("create_entities", entities=[ADA])["entities"] == [ADA]
    assert world.graph.get_entity("Ada").properties["observations"] == ADA["observations"]


def test_names_that_cannot_be_are_refused_with_the_reason(agent: Agent) -> None:
    assert "8,001 bytes" in agent.refusal("create_entities", entities=[{"name": "k" * 8_001}])
    assert "name" in agent.refusal("create_entities", entities=[{"name": ""}])
    assert "name" in agent.refusal("create_entities", entities=[{"name": True}])
    assert "name" in agent.refusal("create_entities", entities=[{"name": 1.5}])


# --- the queue -----------------------------------------------------------------------------------------------


def test_nulls_of_an_answer_arrive(agent: Agent, world: World) -> None:
    status = agent.answer("queue_status")
    assert status["oldest_pending_seconds"] is None
    assert status["paused_until"] is None
    assert status["waiting_for"] is None
    world.queue.pause(60, "for a test")
    assert agent.answer("queue_status")["paused_until"].endswith("Z")


def test_health_names_what_is_missing(agent: Agent, world: World) -> None:
    assert agent.answer("queue_health")["state"] == "HEALTHY"
    world.queue.halt("the key is wrong")
    found = agent.answer("queue_health")
    assert (found["state"], found["reasons"]) == ("CRITICAL", ["halted: the key is wrong"])
