"""A jobs database that takes no writes (a standby, a full disk, an operator): nothing is lost, and all say why."""

import time
from dataclasses import replace

import pytest
from neo4j.exceptions import Neo4jError

from neo4j_queue.errors import FaultKind, classify
from neo4j_queue.errors.explain import exit_code_of
from neo4j_queue.local_services import LocalServices
from tests.celery.conftest import Run, World, run, world
from tests.faults.test_processes import all_embedded
from tests.waiting import wait_until

__all__ = ["run", "world"]

READ_ONLY = {"server.databases.default_to_read_only": "true"}
# Some ten ticks of beat, each of which had its stack.
LASTS_S = 10.0


def test_commands_and_the_doctor_say_that_nothing_is_written(
    world: World, run: Run, services: LocalServices
) -> None:
    """75 with the reason; health is CRITICAL. Before: "unexpected ClientError", exit code 1, and HEALTHY.

    Guards: the codes in `errors.classify`, and `EmbedQueue.unwritable`.
    """
    processes = [world.celery.control(), world.celery.embed(), world.celery.beat()]
    world.create(5)
    world.drained(within_s=60)
    wait_until(lambda: not world.queue.ticks.ages().beat_is_missing, within_s=60, what="beat ticks")
    before = services.jobs._config
    services.jobs._config = replace(before, neo4j_settings={**before.neo4j_settings, **READ_ONLY})
    services.jobs.restart()
    known = [len(each.lines()) for each in processes]
    try:
        for command in (["pause", "5", "--reason", "test"], ["enqueue", "e1"]):
            said = run(*command, code=75, both=True)
            assert "read" in said.lower()
            assert "unexpected" not in said
        answer = run("health", "--json", code=1)
        assert answer["state"] == "CRITICAL"
        assert any("takes no writes" in reason for reason in answer["reasons"])
        found = run("doctor", "--json", code=1)["findings"]
        assert any("takes no writes" in each["detail"] for each in found if each["grade"] == "bad")
        wait_until(lambda: processes[0].events("database_away"), within_s=60, what="a tick has failed")
        time.sleep(LASTS_S)
        for each, old in zip(processes, known, strict=True):
            lines = each.lines()[old:]
            assert [line for line in lines if "stack" in line] == []
            away = [line for line in lines if line["event"] == "database_away"]
            # The restart's own outage may be one of its own; each pool process has its lines.
            assert len(away) <= 4
    finally:
        services.jobs._config = before
        services.jobs.restart()
    wait_until(lambda: processes[0].events("database_back"), within_s=60, what="it is back")
    world.create(5, "after")
    all_embedded(world, 10)


@pytest.mark.parametrize(
    "code",
    [
        "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
        "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase",
        "Neo.ClientError.Statement.AccessMode",
    ],
)
def test_a_database_that_takes_no_writes_is_temporary(code: str) -> None:
    error = Neo4jError._hydrate_neo4j(code=code, message="no writes here")
    assert classify(error).kind is FaultKind.STORE
    assert exit_code_of(error) == 75
