"""One set of settings is in force on a jobs database: a process with others does no work, and says so."""

import subprocess
import sys

import pytest

from neo4j_queue.checks import in_force
from neo4j_queue.checks.fingerprint import fingerprint
from neo4j_queue.errors import UnembeddableText, classify
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Failure
from tests.celery.conftest import MakeWorld, Run, World
from tests.celery_processes import READY_S
from tests.waiting import wait_until

EX_CONFIG = 78
# Without beat no heartbeat asks the workers: the census of a command knows them for minutes.
LONG_REMEMBERED = {"EMBED_JOB_HEARTBEAT_INTERVAL_MS": "120000", "EMBED_JOB_LOCK_DURATION_MS": "300000"}
OTHERS = {
    "label": {"EMBED_ENTITY_LABEL": "Book"},
    "text": {"EMBED_TEXT_PROPERTIES": "name"},
    "model": {"NEO4J_VECTOR_DIMENSIONS": "8", "NEO4J_VECTOR_INDEX": "eight"},
}


def own(world: World) -> str:
    return fingerprint(world.settings, world.graph_db)


@pytest.mark.parametrize("part", OTHERS)
@pytest.mark.parametrize("role", ["worker", "beat"])
def test_a_process_with_other_settings_does_not_start(world: World, role: str, part: str) -> None:
    """Guard: `in_force.check` of the boot. Without it the worker starts, and ends the jobs of the others."""
    in_force.put(world.jobs_db, own(world).replace(f"{part}:", f"{part}:0"))
    arguments = {"worker": ["worker", "-c", "1", "-n", "other@test"], "beat": ["beat"]}[role]
    process = world.celery.launch(f"other-{role}", *arguments)
    assert process.wait(READY_S) == EX_CONFIG, process.log.read_text()[-3000:]
    (line,) = (each["problem"] for each in process.events("boot_refused"))
    assert f"({part} differ)" in line
    assert "neo4j-queue init" in line


def test_the_first_worker_puts_its_settings_in_force(world: World) -> None:
    assert in_force.read(world.jobs_db) is None
    world.celery.control()
    assert in_force.read(world.jobs_db) == own(world)


def test_a_worker_that_was_left_behind_by_init_ends_no_job(world: World, run: Run) -> None:
    """The old workers live on while `init` makes another label the one in force.

    Guard: `c.in_force <> $mark` in jobs/lease_judge and in jobs/start. Without either the jobs end `entity_deleted`.
    """
    world.celery.control()
    world.celery.embed()
    wait_until(world.queue.census.workers, within_s=30, what="the census knows the embed worker")
    books = OTHERS["label"]
    world.graph_db.write("UNWIND range(1, 5) AS n CREATE (:Book {name: 'b' + n, observations: ['x']})")
    said = run("init", both=True, **books, NEO4J_VECTOR_INDEX="books")
    assert "these settings are in force now, with another label" in said
    run("enqueue", "--all", **books)
    # The worker of one slot takes what is sent in its order: when the pause is there, the lease was asked for.
    world.celery.call("call", "tasks.dispatch.lease_batch")
    world.celery.call("call", "tasks.repair.pause", "--args", '[0.1, "asked"]')
    wait_until(lambda: world.queue.control.state().pause_reason == "asked", within_s=30, what="it was asked")
    assert {job["status"] for job in world.jobs()} == {"pending"}
    assert len(world.jobs()) == 5
    # It is said everywhere, and no end is promised.
    status = run("status", "--json", **books, **LONG_REMEMBERED)
    assert "settings in force" in status["waiting_for"]
    assert status["done_at"] is None
    assert "settings in force" in " ".join(
        run("health", "--json", code=1, **books, **LONG_REMEMBERED)["reasons"]
    )
    (control,) = (each for each in world.celery.started if each.name.startswith("control"))
    assert control.events("other_settings_in_force")

    world.celery.kill()
    new = {**books, "NEO4J_VECTOR_INDEX": "books"}
    world.celery.launch("control-new", "worker", "-Q", "control", "-n", "control-new@test", **new)
    world.celery.launch("embed-new", "worker", "-Q", "embed", "-n", "embed-new@test", **new)
    run("enqueue", "--all", **new)
    wait_until(
        lambda: (
            {job["outcome"] for job in world.jobs() if job["status"] == "completed"} == {"embedded"}
            and all(job["status"] == "completed" for job in world.jobs())
        ),
        within_s=60,
        what="the books are embedded",
    )


def test_a_lease_given_before_the_change_is_given_back(world: World) -> None:
    """Guard: `c.in_force <> $mark` in jobs/start; without it the start is won."""
    world.create(3)
    in_force.put(world.jobs_db, own(world))
    mine = EmbedQueue(world.jobs_db, world.settings, mark=own(world))
    (lease,) = mine.lease("w", batches=1).leases
    in_force.put(world.jobs_db, own(world).replace("label:", "label:0"))
    assert mine.start(lease.token, lease.job_ids).refused == "other settings"
    assert mine.release(lease.token, lease.job_ids) == 3
    assert mine.lease("w", batches=1).reason == "other settings"
    assert mine.displaced()
    assert {(job["status"], job["attempts"]) for job in world.jobs()} == {("pending", 0)}
    in_force.put(world.jobs_db, own(world))
    assert len(mine.lease("w", batches=1).leases) == 1


@pytest.mark.parametrize("command", [["enqueue", "--all"], ["repair"], ["enqueue", "e1"]], ids=" ".join)
def test_a_caller_with_other_settings_is_refused_unless_forced(
    world: World, run: Run, command: list[str]
) -> None:
    """Guard: `refuse_other_settings`. Without it the jobs are queued, and end without a vector, exit code 0."""
    world.create(2)
    in_force.put(world.jobs_db, own(world).replace("label:", "label:0"))
    before = world.jobs()
    assert "(label differ)" in run(*command, code=EX_CONFIG)
    assert world.jobs() == before
    assert "(label differ)" in run(*command, "--force", both=True)


def test_init_refuses_to_give_up_waiting_jobs_unless_forced(world: World, run: Run) -> None:
    world.create(2)
    in_force.put(world.jobs_db, own(world))
    books = {**OTHERS["label"], "NEO4J_VECTOR_INDEX": "books"}
    assert "jobs still wait" in run("init", code=EX_CONFIG, **books)
    assert in_force.read(world.jobs_db) == own(world)
    assert "are given up" in run("init", "--force", both=True, **books)
    assert in_force.read(world.jobs_db) != own(world)


def test_another_model_may_be_put_in_force_while_jobs_wait(world: World, run: Run) -> None:
    """Their entities are the same: each job is superseded by one of the new model."""
    world.create(2)
    in_force.put(world.jobs_db, own(world))
    run("init", **OTHERS["model"], code=EX_CONFIG)  # the graph has a vector index of another width
    assert in_force.read(world.jobs_db) == own(world)
    in_force.put(world.jobs_db, own(world).replace("model:", "model:0"))
    run("init")
    assert in_force.read(world.jobs_db) == own(world)


PROGRAM = """
import neo4j_queue
with neo4j_queue.open_graph() as graph:
    print([result.job for result in graph.create_entities([{"name": "Ada"}])])
"""


def test_an_application_with_other_settings_queues_nothing_and_is_told(world: World) -> None:
    """Guard: `Guarded` of the client. Without it a job is queued that the workers end `entity_deleted`."""
    in_force.put(world.jobs_db, own(world).replace("key:", "key:0"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**world.environment, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip().endswith("[None]")
    assert "(key differ)" in done.stdout + done.stderr
    assert world.jobs() == []


def test_make_world_is_not_touched_by_what_was_in_force(make_world: MakeWorld) -> None:
    """The control node of each test is a new one."""
    assert in_force.read(make_world().jobs_db) is None


@pytest.mark.parametrize("command", [["status"], ["health"], ["retry"], ["jobs", "list"]], ids=" ".join)
def test_a_jobs_database_of_an_older_program_is_refused(world: World, run: Run, command: list[str]) -> None:
    """Guard: `refuse_old_schema`. Without it `status` counted the completed jobs of the older program as none."""
    world.jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 1")
    assert "has schema version 1; version" in run(*command, code=EX_CONFIG)


def test_retry_leaves_the_failed_jobs_of_another_label(world: World, run: Run) -> None:
    """They failed for a reason that may be gone, and their workers may come back. Fails without `made_for`: they ended
    `entity_deleted`, which is not true."""
    in_force.put(world.jobs_db, own(world))
    world.create(3)
    (lease,) = world.queue.lease("w", batches=1).leases
    jobs = world.queue.start(lease.token, lease.job_ids, worker="w@test").jobs
    world.queue.fail(lease.token, [Failure(job, classify(UnembeddableText("no"))) for job in jobs])
    books = {**OTHERS["label"], "NEO4J_VECTOR_INDEX": "books"}
    run("init", both=True, **books)
    said = run("retry", both=True, **books)
    assert "0 failed jobs queued again" in said
    assert "3 failed jobs left as before: made under settings with another graph, label or key" in said
    assert run("retry", "--json", **books) == {"retried": 0, "left": 3}
    assert {job["status"] for job in world.jobs()} == {"failed"}
    run("init", both=True)
    assert run("retry", "--json") == {"retried": 3, "left": 0}


def test_doctor_says_that_other_settings_are_in_force(world: World, run: Run) -> None:
    """Fails without `_in_force` of the doctor: it was content, and no worker with these settings would start."""
    in_force.put(world.jobs_db, own(world).replace("label:", "label:0"))
    found = run("doctor", "--json", code=1)["findings"]
    (line,) = (each for each in found if each["subject"] == "settings" and each["grade"] == "bad")
    assert line["detail"] == "the queue works with other settings than these (label differ)"
    assert "`neo4j-queue init`" in line["advice"]


def test_init_says_that_it_brought_the_schema_to_a_new_version(world: World, run: Run) -> None:
    """Fails before there was such a line: it said "nothing to do"."""
    world.jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 1")
    said = run("init")
    assert "created schema version" in said
    assert "(it was 1)" in said
    assert said.count("nothing to do") == 1, "in the graph"
