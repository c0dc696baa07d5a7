"""Repairs by `celery -A tasks call`: each does what the contract says, says so in the log, and shows in Flower."""

import json
import socket
import urllib.request
from typing import Any

from tests.celery.conftest import MakeWorld, World
from tests.celery_processes import LoggedProcess
from tests.provider import ProviderServer
from tests.waiting import wait_until

DRAIN_S = 60.0


def call(world: World, control: LoggedProcess, task: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Calls a task as a person would; the summary from the control worker's log."""
    name = task.rsplit(".", 1)[1]
    before = len([line for line in control.events("repair_done") if line["task"] == name])
    done = world.celery.call("call", task, "--args", json.dumps(args), "--kwargs", json.dumps(kwargs))
    assert done.returncode == 0, done.stderr

    def said() -> list[dict[str, Any]]:
        return [line for line in control.events("repair_done") if line["task"] == name][before:]

    return wait_until(said, within_s=30, what=f"{task} is done")[0]


def test_force_generate_embedding_by_name_and_in_bulk(make_world: MakeWorld) -> None:
    """Without beat, and with a census that forgets a worker after four seconds. Guard: the lifetime in
    `census.refresh`; with five seconds there, the last jobs wait for somebody who asks again."""
    world = make_world()
    control = world.celery.control()
    world.celery.embed()
    world.graph_db.write("UNWIND range(1, 15) AS n CREATE (:Entity {name: 'own' + n, entityType: 'thing'})")
    one = call(world, control, "tasks.repair.force_generate_embedding", entity_name="own3", limit=7)
    assert (one["mode"], one["entity"], one["outcome"]) == ("specific", "own3", "created")
    world.drained(within_s=DRAIN_S)
    again = call(world, control, "tasks.repair.force_generate_embedding", entity_name="own3")
    assert (again["outcome"], again["job_id"]) == ("requeued", one["job_id"])
    some = call(world, control, "tasks.repair.force_generate_embedding", limit="nonsense")
    assert (some["mode"], some["limit"], some["queued"]) == ("batch", 10, 10)
    rest = call(world, control, "tasks.repair.force_generate_embedding", limit="1000000")
    assert rest["limit"] == 1000
    world.drained(within_s=DRAIN_S)
    assert world.all_fresh(15)
    assert len(world.jobs()) == 15


def test_what_nothing_can_come_of_is_refused_in_a_line(make_world: MakeWorld) -> None:
    """Guard: `by_hand`. Without it an unknown name, and an argument too many, end in a traceback."""
    world = make_world()
    control = world.celery.control()
    for task, args, kwargs in (
        ("force_generate_embedding", ["No One"], {}),
        ("retry_failed", [], {"category": "BAD"}),
        ("resume", ["now"], {}),
    ):
        arguments = ("--args", json.dumps(args), "--kwargs", json.dumps(kwargs))
        world.celery.call("call", f"tasks.repair.{task}", *arguments)

    def refused() -> dict[str, str]:
        said = {line["task"]: line["error"] for line in control.events("repair_refused")}
        return said if len(said) == 3 else {}

    assert wait_until(refused, within_s=30, what="three refusals") == {
        "force_generate_embedding": "Entity not found: No One",
        "retry_failed": "category: one of TRANSIENT, PERMANENT, CRITICAL, not BAD",
        "resume": "halt: true or false, not now",
    }
    assert "Traceback" not in control.log.read_text(encoding="utf-8")


def test_pause_resume_release_and_retry(make_world: MakeWorld, provider: ProviderServer) -> None:
    world = make_world(
        provider,
        EMBED_REQUEST_TIMEOUT_MS="25000",
        EMBED_JOB_START_DEADLINE_MS="30000",
        EMBED_JOB_LOCK_DURATION_MS="60000",
    )
    control = world.celery.control()
    world.celery.embed()
    assert call(world, control, "tasks.repair.pause", 600, "maintenance")["pause_reason"] == "maintenance"
    world.create(3)
    status = world.queue.status()
    assert (status.pending, status.pause_reason) == (3, "maintenance")
    provider.close_gate()
    assert call(world, control, "tasks.repair.resume")["was_paused"] is True
    provider.wait_for(waiting=1)
    running = [job["id"] for job in world.jobs() if job["status"] == "processing"]
    assert running
    call(world, control, "tasks.repair.pause", 600, "hold")
    assert call(world, control, "tasks.repair.release", running)["released"] == len(running)
    assert world.queue.status().processing == 0
    provider.open_gate()
    call(world, control, "tasks.repair.resume")
    world.drained(within_s=DRAIN_S)
    world.jobs_db.write(
        "MATCH (j:EmbedJob) REMOVE j:EmbedCompleted "
        "SET j:EmbedFailed, j.status = 'failed', j.failure_reason = 'permanent_error', j.outcome = null"
    )
    assert call(world, control, "tasks.repair.retry_failed", reason="worker_lost")["retried"] == 0
    assert call(world, control, "tasks.repair.retry_failed", reason="permanent_error")["retried"] == 3
    world.drained(within_s=DRAIN_S)
    assert {job["status"] for job in world.jobs()} == {"completed"}


def test_flower_shows_the_tasks_of_a_run(make_world: MakeWorld) -> None:
    """Its API is asked, as a person's browser would."""
    world = make_world(FLOWER_UNAUTHENTICATED_API="true")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world.celery.launch("flower", "flower", "--address=127.0.0.1", f"--port={port}")

    def tasks() -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/tasks", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}

    control = world.celery.control()
    world.celery.embed()
    wait_until(
        lambda: "Connected to" in (world.celery.directory / "flower.log").read_text(encoding="utf-8"),
        within_s=30,
        what="Flower is connected",
    )
    world.create(10)
    call(world, control, "tasks.repair.force_generate_embedding", limit=3)

    def seen() -> dict[str, dict[str, Any]]:
        by_name = {task["name"]: task for task in tasks().values() if task["state"] == "SUCCESS"}
        wanted = {
            "tasks.embed.embed_batch",
            "tasks.dispatch.lease_batch",
            "tasks.repair.force_generate_embedding",
        }
        return by_name if wanted <= by_name.keys() else {}

    found = wait_until(seen, within_s=40, what="the tasks in Flower")
    assert "'mode': 'batch'" in found["tasks.repair.force_generate_embedding"]["result"]
    assert "'embedded': 10" in found["tasks.embed.embed_batch"]["result"]
