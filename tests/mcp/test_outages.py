"""Databases and broker that refuse, freeze and come back: a reason within bounded seconds, and the server goes on."""

import time
from collections.abc import Callable
from concurrent.futures import wait

import pytest

from neo4j_queue.local_services import LocalServices
from tests.freezing import frozen
from tests.mcp.conftest import Agent, World, command, connected, reason
from tests.waiting import wait_until

NOWHERE = "bolt://127.0.0.1:9"
# What the documents promise is 20 s; the rest is this machine's.
BOUND_S = 25.0
# A refused connection is tried again for three seconds.
REFUSED_S = 12.0
ADA = {"name": "Ada", "observations": ["wrote the first program"]}

NEEDS_GRAPH = {
    "create_entities": {"entities": [ADA]},
    "add_observations": {"observations": [{"entityName": "Ada", "contents": ["x"]}]},
    "delete_observations": {"deletions": [{"entityName": "Ada", "observations": ["x"]}]},
    "create_relations": {"relations": [{"from": "Ada", "to": "Ada", "relationType": "is"}]},
    "delete_entities": {"entityNames": ["Ada"]},
    "force_generate_embedding": {"entity_name": "Ada"},
    "get_entities_without_embeddings": {},
    "explain_entity": {"entity_name": "Ada"},
    "search_entities": {"query": "who wrote a program"},
}
NEEDS_JOBS = {
    "force_generate_embedding": {"entity_name": "Ada"},
    "get_entities_without_embeddings": {},
    "explain_entity": {"entity_name": "Ada"},
    "queue_status": {},
    "queue_health": {},
    "retry_failed": {},
}


def timed(act: Callable[[], str]) -> tuple[str, float]:
    began = time.monotonic()
    found = act()
    return found, time.monotonic() - began


@pytest.mark.parametrize("down", ["NEO4J_URI", "EMBED_JOB_DATABASE_URI", "both"])
def test_a_server_starts_without_its_databases_and_says_what_is_wrong(world: World, down: str) -> None:
    names = ("NEO4J_URI", "EMBED_JOB_DATABASE_URI") if down == "both" else (down,)
    calls = {
        **(NEEDS_GRAPH if "NEO4J_URI" in names else {}),
        **(NEEDS_JOBS if "EMBED_JOB_DATABASE_URI" in names else {}),
    }
    with connected(command({**world.environment, **dict.fromkeys(names, NOWHERE)})) as agent:
        assert len(agent.tools()) >= len(NEEDS_GRAPH)
        # All at once: none waits for another.
        began = time.monotonic()
        begun = {tool: agent.begin(tool, **arguments) for tool, arguments in calls.items()}
        for tool, future in begun.items():
            said = reason(future.result(timeout=BOUND_S))
            assert "127.0.0.1:9" in said or "Couldn't connect" in said or "refused" in said, (tool, said)
        assert time.monotonic() - began < REFUSED_S


def test_the_queue_is_shown_while_the_graph_is_away(world: World) -> None:
    world.graph.create_entities([ADA])
    with connected(command({**world.environment, "NEO4J_URI": NOWHERE})) as agent:
        status = agent.answer("queue_status")
    assert (status["pending"], status["coverage"]) == (1, None)
    assert "graph" in status["coverage_unknown"]


def test_entities_are_written_while_the_jobs_database_is_away(world: World) -> None:
    with connected(command({**world.environment, "EMBED_JOB_DATABASE_URI": NOWHERE})) as agent:
        created = agent.answer("create_entities", entities=[ADA])
    assert created["jobs"] == [{"entity": "Ada", "job_id": None, "outcome": "deferred"}]
    assert [text.uid for text in world.graph.pending_page()] == ["Ada"]


def test_a_frozen_graph_hangs_no_call_and_is_used_again_when_it_is_back(
    stdio_agent: Agent, world: World, services: LocalServices
) -> None:
    """Failed without the bound of `Calls.run`: the driver waits for an answer without end."""
    agent = stdio_agent
    agent.answer("create_entities", entities=[ADA])
    with frozen(services.graph.pid):
        began = time.monotonic()
        futures = [agent.begin(tool, **arguments) for tool, arguments in NEEDS_GRAPH.items()]
        # What needs the other database alone is answered meanwhile.
        status, took = timed(lambda: str(agent.answer("queue_status")["coverage"]))
        assert (status, took < 10) == ("None", True)
        assert agent.answer("retry_failed") == {"retried": 0}
        wait(futures, timeout=BOUND_S)
        said = [reason(future.result(timeout=0)) for future in futures]
        assert time.monotonic() - began < BOUND_S
        assert all("gave no answer within" in line for line in said), said
        # Of what would have written, nothing is certain.
        writing = [tool for tool in NEEDS_GRAPH if not tool.startswith(("get", "explain", "search"))]
        assert sum("may have been done all the same" in line for line in said) == len(writing)
    again = wait_until(
        lambda: agent.answer("force_generate_embedding", limit=1), within_s=BOUND_S, what="it answers again"
    )
    assert again["success"]


def test_frozen_jobs_hang_no_call(stdio_agent: Agent, world: World, services: LocalServices) -> None:
    agent = stdio_agent
    with frozen(services.jobs.pid):
        began = time.monotonic()
        futures = [agent.begin(tool, **arguments) for tool, arguments in NEEDS_JOBS.items()]
        created, took = timed(lambda: agent.answer("create_entities", entities=[ADA])["jobs"][0]["outcome"])
        assert (created, took < 10) == ("deferred", True)
        wait(futures, timeout=BOUND_S)
        said = [reason(future.result(timeout=0)) for future in futures]
        assert time.monotonic() - began < BOUND_S
        assert all("gave no answer within 20 s" in line for line in said), said
    assert agent.answer("queue_status")["total"] >= 0


def test_a_broker_that_is_frozen_or_away_delays_nothing(
    stdio_agent: Agent, world: World, services: LocalServices
) -> None:
    agent = stdio_agent
    with frozen(services.redis.pid):
        began = time.monotonic()
        assert agent.answer("create_entities", entities=[ADA])["jobs"][0]["outcome"] == "created"
        assert agent.answer("force_generate_embedding", entity_name="Ada")["outcome"] == "duplicate"
        assert time.monotonic() - began < 10
        health = agent.answer("queue_health")
        assert health["state"] == "DEGRADED"
        assert any("broker cannot be reached" in why for why in health["reasons"])
        assert time.monotonic() - began < BOUND_S
    assert agent.answer("queue_health")["verdicts"] == 0


def test_calls_that_are_answered_late_do_not_add_up(
    stdio_agent: Agent, world: World, services: LocalServices
) -> None:
    """Guard: the count of late calls in `Calls.run`. Without it each call of an impatient agent leaves a thread and a
    connection behind, and the 17th waits 20 seconds to be told so."""
    agent = stdio_agent
    agent.answer("queue_status")
    with frozen(services.jobs.pid):
        first = [agent.begin("queue_status") for _ in range(16)]
        wait(first, timeout=BOUND_S)
        said, took = timed(lambda: agent.refusal("queue_status"))
        assert "16 earlier calls" in said
        assert took < 2
        # Other tools have calls of their own.
        assert agent.answer("create_entities", entities=[ADA])["entities"]
    wait_until(
        lambda: not agent.call("queue_status").is_error, within_s=BOUND_S, what="the late calls have ended"
    )


def test_a_lock_that_another_program_holds_ends_with_a_reason_and_leaves_nothing(
    stdio_agent: Agent, world: World
) -> None:
    stdio_agent.answer("create_entities", entities=[ADA])
    with world.graph_db.driver().session(database=world.graph_db.address.database) as session:
        held = session.begin_transaction()
        held.run("MATCH (n:Entity {name: 'Ada'}) SET n.locked = true").consume()
        said, took = timed(
            lambda: stdio_agent.refusal(
                "add_observations", observations=[{"entityName": "Ada", "contents": ["x"]}]
            )
        )
        held.rollback()
    assert took < BOUND_S, said
    added = stdio_agent.answer("add_observations", observations=[{"entityName": "Ada", "contents": ["y"]}])
    assert added["results"][0]["addedObservations"] == ["y"]


def test_a_schema_that_is_missing_names_the_command_that_makes_it(world: World) -> None:
    world.jobs_db.autocommit("MATCH (n) DETACH DELETE n")
    with connected(command(world.environment)) as agent:
        for tool, arguments in NEEDS_JOBS.items():
            assert "run neo4j-queue init" in agent.refusal(tool, **arguments), tool


def test_other_settings_in_force_queue_no_job_and_are_named(world: World) -> None:
    """Guard: `Backend.refuse_other_settings`. Without it the job is queued, and the workers in force end it."""
    with connected(command({**world.environment, "EMBED_ENTITY_LABEL": "Film"})) as agent:
        # The label has no index there: that comes first.
        assert "neo4j-queue init" in agent.refusal("force_generate_embedding")
    from neo4j_queue.checks import in_force
    from neo4j_queue.checks.fingerprint import fingerprint

    in_force.put(world.jobs_db, fingerprint(world.settings, world.graph_db))
    with connected(command({**world.environment, "EMBED_TEXT_PROPERTIES": "title"})) as agent:
        refused = agent.refusal("force_generate_embedding")
        assert "the queue works with other settings than these (text differ)" in refused
        created = agent.answer("create_entities", entities=[ADA])
        assert created["jobs"][0]["outcome"] == "deferred"
        assert "no part of the text that is embedded: it is made of title" in created["note"]
        entry = {"entityName": ADA["name"], "contents": ["more"]}
        assert "made of title" in agent.answer("add_observations", observations=[entry])["note"]
    assert world.queue.status().total == 0
