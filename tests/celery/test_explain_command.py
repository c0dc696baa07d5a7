"""`explain` on the command line and in one call: what it prints, its exit codes; its commands work as typed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import neo4j_queue
from neo4j_queue.embedders import open_embedder
from neo4j_queue.pipeline import Pipeline
from neo4j_queue.queue.leases import Worker
from tests.celery.conftest import Run, World
from tests.celery_processes import ROOT

NAME = """Ada's "friend" -- $HOME"""
NEEDED, TEMPORARY = 1, 75
# A worker in the census counts for minutes, however slowly a command starts.
LONG_REMEMBERED = {"EMBED_JOB_HEARTBEAT_INTERVAL_MS": "120000", "EMBED_JOB_LOCK_DURATION_MS": "300000"}

Typed = Callable[..., int]


@pytest.fixture
def typed(world: World, tmp_path: Path) -> Typed:
    """Types a command into a shell where `neo4j-queue` is installed; its exit code."""
    program = tmp_path / "neo4j-queue"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m neo4j_queue.cli "$@"\n')
    program.chmod(0o755)

    def type_in(command: str, **environment: str) -> int:
        variables = {**world.environment, "PYTHONPATH": str(ROOT), **environment}
        variables["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            timeout=120,
            check=False,
        ).returncode

    return type_in


def embed(world: World) -> None:
    """The work of a worker, in this process."""
    pipeline = Pipeline(world.queue, world.graph, open_embedder(world.settings), worker="here", lock_ms=6000)
    for lease in world.queue.lease("here", batches=5).leases:
        pipeline.run(lease.token, lease.job_ids)


def at_work(world: World) -> None:
    """A worker answered a moment ago, and leases were asked for."""
    world.queue.census.record([Worker("w@test", 2)])
    world.queue.ticks.note(beat=True)


def asked(run: Run, name: str = NAME, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = run("explain", "--json", "--", name, **LONG_REMEMBERED, **more)
    return answer


def test_explain_by_words_by_json_and_by_its_exit_code(world: World, run: Run) -> None:
    world.graph.create_entities([{"name": NAME, "observations": ["a secret"]}])
    answer = asked(run, code=NEEDED)
    assert (answer["reason"], answer["well"], answer["command"]) == (
        "no_worker",
        False,
        "celery -A tasks worker",
    )
    assert "a secret" not in json.dumps(answer)
    at_work(world)
    answer = asked(run)
    assert (answer["reason"], answer["well"], answer["waits_for"]) == ("next", True, [answer["why"]])
    assert answer["vector"]["state"] == "missing"
    at_work(world)
    said = run("explain", "--text", "--", NAME, **LONG_REMEMBERED)
    assert NAME in said
    assert "- a secret" in said
    assert "its job is due and the next to be leased" in said
    embed(world)
    assert asked(run)["reason"] == "fresh"
    assert "fresh" in run("explain", "--", NAME)
    assert asked(run, "nobody", code=NEEDED)["reason"] == "not_found"


def test_what_is_away_is_said(world: World, run: Run) -> None:
    for variable in ("NEO4J_URI", "EMBED_JOB_DATABASE_URI"):
        assert "127.0.0.1:9" in run(
            "explain", "x", both=True, code=TEMPORARY, **{variable: "bolt://127.0.0.1:9"}
        )


def test_one_call_for_an_application(world: World) -> None:
    world.graph.create_entities([{"name": NAME, "observations": ["x"]}])
    found = neo4j_queue.explain_entity(NAME, world.settings)
    assert isinstance(found, neo4j_queue.Explanation)
    assert (found.reason, found.well) == ("no_worker", False)
    assert found.as_json()["entity"] == NAME


def test_the_command_for_a_stale_entity_queues_it(world: World, run: Run, typed: Typed) -> None:
    world.graph.create_entities([{"name": NAME, "observations": ["x"]}])
    embed(world)
    world.graph_db.write("MATCH (n:Entity) SET n.observations = ['edited']")
    assert typed(asked(run, code=NEEDED)["command"]) == 0
    embed(world)
    assert asked(run)["reason"] == "fresh"


def test_the_command_for_a_damaged_vector_mends_it(world: World, run: Run, typed: Typed) -> None:
    world.graph.create_entities([{"name": NAME, "observations": ["x"]}])
    embed(world)
    world.graph_db.write("MATCH (n:Entity) SET n.embedding = [x IN n.embedding | 0.0]")
    answer = asked(run, code=NEEDED)
    assert answer["vector"]["state"] == "damaged"
    assert typed(answer["command"]) == 0
    embed(world)
    assert asked(run)["reason"] == "fresh"


def test_the_commands_for_a_failed_job_and_a_halted_queue(world: World, run: Run, typed: Typed) -> None:
    world.graph.create_entities([{"name": NAME, "observations": ["x"]}])
    at_work(world)
    world.jobs_db.write(
        "MATCH (j:EmbedJob) SET j:EmbedFailed, j.status = 'failed', j.failure_reason = 'permanent_error',"
        " j.processed_at = timestamp(), j.error = 'no such words', j.error_category = 'PERMANENT'"
    )
    world.queue.halt("the key is wrong")
    answer = asked(run, code=NEEDED)
    assert answer["reason"] == "failed"
    assert typed(answer["command"]) == 0
    answer = asked(run, code=NEEDED)
    assert answer["reason"] == "halted"
    assert typed(answer["command"]) == 0
    at_work(world)
    assert asked(run)["reason"] == "next"


def test_the_command_for_another_label_explains_that_node(world: World, run: Run, typed: Typed) -> None:
    world.graph_db.write("CREATE (:`Ein Buch` {name: $name, observations: ['x']})", name=NAME)
    answer = asked(run, code=NEEDED)
    assert answer["reason"] == "other_label"
    command = f"{answer['command']} --json > answer.json"
    assert typed(command, **LONG_REMEMBERED) == NEEDED
