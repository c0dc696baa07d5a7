"""With real workers, and no beat: what an agent writes is leased at once, for the server says so to the workers."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from neo4j_queue.database import Database
from tests.celery.conftest import MakeWorld, make_world
from tests.celery.conftest import World as Pipeline
from tests.celery_processes import ROOT
from tests.mcp.conftest import Agent, command, connected
from tests.waiting import wait_until

__all__ = ["make_world"]

# Without the message to the workers nothing would happen at all: no beat runs here.
SOON_S = 20.0


@pytest.fixture
def pipeline(make_world: MakeWorld) -> Pipeline:
    """Databases, Redis, and both kinds of workers."""
    made = make_world()
    made.celery.worker("control,embed", 2)
    return made


@pytest.fixture
def agent(pipeline: Pipeline) -> Iterator[Agent]:
    """A client of a server with the settings of the workers."""
    with connected(command(pipeline.environment)) as found:
        yield found


def embedded(pipeline: Pipeline, count: int) -> None:
    wait_until(lambda: pipeline.all_fresh(count), within_s=SOON_S, what="all have their vectors")


def test_every_act_of_an_agent_is_followed_by_the_vectors(pipeline: Pipeline, agent: Agent) -> None:
    """Failed with a graph that only queues."""
    agent.answer("create_entities", entities=[{"name": "Ada", "observations": ["x"]}, {"name": "Bob"}])
    embedded(pipeline, 2)
    assert agent.answer("explain_entity", entity_name="Ada")["reason"] == "fresh"
    agent.answer("add_observations", observations=[{"entityName": "Ada", "contents": ["y"]}])
    embedded(pipeline, 2)
    agent.answer("delete_observations", deletions=[{"entityName": "Ada", "observations": ["x"]}])
    embedded(pipeline, 2)
    pipeline.graph_db.write("CREATE (:Entity {name: 'Eve'})")
    assert agent.answer("force_generate_embedding")["newly_scheduled"] == 1
    embedded(pipeline, 3)
    assert agent.answer("get_entities_without_embeddings")["entities"] == []
    assert agent.answer("queue_health")["state"] == "HEALTHY"
    assert agent.answer("queue_status")["coverage"]["fresh"] == 3


def test_a_forced_job_runs_at_once_on_workers_that_rest(pipeline: Pipeline, agent: Agent) -> None:
    """Failed without the nudge after `force_generate_embedding`: nothing tells workers that have ended their last
    batch a while ago."""
    (worker,) = pipeline.celery.started
    quiet_for_s = 3.0
    wait_until(
        lambda: time.time() - worker.log.stat().st_mtime > quiet_for_s,
        within_s=60,
        what="the worker has done what it does at its start",
    )
    pipeline.graph_db.write("CREATE (:Entity {name: 'Eve'})")
    assert agent.answer("force_generate_embedding", entity_name="Eve")["outcome"] == "created"
    embedded(pipeline, 1)


def test_failed_jobs_run_again_at_once(pipeline: Pipeline, agent: Agent) -> None:
    """Failed without the nudge after `retry_failed`."""
    agent.answer("create_entities", entities=[{"name": "Ada", "observations": ["x"]}])
    embedded(pipeline, 1)
    pipeline.graph_db.write("MATCH (n:Entity) REMOVE n.embedding, n.embedding_hash")
    pipeline.jobs_db.write(
        "MATCH (j:EmbedJob) SET j.status = 'failed', j.outcome = null, j.failure_reason = 'worker_lost', "
        "j.error_category = 'TRANSIENT'"
    )
    assert agent.answer("retry_failed", reason="worker_lost") == {"retried": 1}
    embedded(pipeline, 1)


@pytest.fixture
def _only_our_schema(graph_db: Database) -> Iterator[None]:
    """Takes away what `init` makes for another label."""
    yield
    graph_db.autocommit("MATCH (n:Film) DETACH DELETE n")
    there = "YIELD name, labelsOrTypes WHERE 'Film' IN labelsOrTypes RETURN name"
    for row in graph_db.autocommit(f"SHOW CONSTRAINTS {there}"):
        graph_db.autocommit(f"DROP CONSTRAINT `{row['name']}`")
    for row in graph_db.autocommit(f"SHOW INDEXES {there}"):
        graph_db.autocommit(f"DROP INDEX `{row['name']}`")


@pytest.mark.usefixtures("_only_our_schema")
def test_another_label_and_another_key(make_world: MakeWorld) -> None:
    """The names of the tools stay; what they mean in the graph is what the settings say."""
    film = {"EMBED_ENTITY_LABEL": "Film", "EMBED_ENTITY_KEY": "title", "EMBED_TEXT_PROPERTIES": "title,plot"}
    pipeline = make_world(**film, NEO4J_VECTOR_INDEX="film_embeddings")
    done = subprocess.run(
        [sys.executable, "-m", "neo4j_queue.cli", "init", "--yes"],
        env={**pipeline.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with connected(command(pipeline.environment)) as agent:
        created = agent.answer(
            "create_entities", entities=[{"name": "Alien", "properties": {"plot": "a ship"}}]
        )
        assert created["jobs"][0]["outcome"] == "created"
        found = agent.answer("explain_entity", entity_name="Alien", text=True)
        assert (found["label"], found["key"]) == ("Film", "title")
        assert "a ship" in found["text"]["text"]
        sequel = {"name": "Aliens"}
        agent.answer("create_entities", entities=[sequel])
        relation = {"from": "Aliens", "to": "Alien", "relationType": "sequel_of"}
        assert agent.answer("create_relations", relations=[relation])["relations"] == [relation]
        assert agent.answer("delete_entities", entityNames=["Alien", "Aliens"])["notFound"] == []
