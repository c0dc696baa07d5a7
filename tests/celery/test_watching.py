"""`watch`, `status --wait` and `logs`: what a person sees while work goes on, and when it stands still."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from neo4j.exceptions import ServiceUnavailable

from neo4j_queue.cli import wait
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue.leases import QueueStatus
from tests.celery.conftest import Run, World
from tests.celery_processes import ROOT

BAD, USAGE, NOT_FOUND = 1, 2, 1


def test_watch_in_a_pipe_is_a_line_per_look_and_ends_after_so_many(world: World, run: Run) -> None:
    world.create(3)
    lines = run("watch", "--count", "2", "--interval", "0.2").splitlines()
    assert len(lines) == 2
    assert re.match(r"20\S+Z  DEGRADED \| pending 3 \| processing 0 \|", lines[0]), lines[0]
    assert "waiting for an embed worker" in lines[0]
    found = json.loads(run("watch", "--count", "1", "--json", both=True).splitlines()[-1])
    assert (found["pending"], found["health"], found["last_errors"]) == (3, "DEGRADED", [])
    assert found["rate_per_second"] is None, "one look knows no rate"


def test_watch_without_a_jobs_database_ends_with_75(run: Run) -> None:
    told = run("watch", "--count", "1", both=True, EMBED_JOB_DATABASE_URI="bolt://127.0.0.1:9", code=75)
    assert "127.0.0.1:9" in told


def test_watch_ends_at_ctrl_c_with_0(world: World, tmp_path: Path) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "neo4j_queue.cli", "watch", "--interval", "0.2"],
        cwd=tmp_path,
        env={**world.environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert "HEALTHY" in watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 0
    watching.stdout.close()


def test_wait_ends_when_the_queue_is_drained(world: World, run: Run) -> None:
    world.create(30)
    world.celery.control()
    world.celery.embed()
    answer = run("status", "--wait", "--timeout", "60", "--json")
    assert (answer["pending"], answer["processing"], answer["completed"]) == (0, 0, 30)


def test_wait_on_an_empty_queue_ends_at_once(world: World, run: Run) -> None:
    assert run("status", "--wait", "--json")["total"] == 0


def test_wait_says_why_the_queue_stands_still(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halted: at once. Nobody there: after a while, by the word of the broker. Out of time: what is left."""
    world.create(2)
    assert "not drained: 2 jobs left after 1 s" in run(
        "status", "--wait", "--timeout", "1", code=BAD, both=True
    )
    world.queue.halt("the key is wrong")
    said = run("status", "--wait", code=BAD, both=True)
    assert "not drained: halted: the key is wrong; `neo4j-queue resume` ends it" in said
    world.queue.resume()
    monkeypatch.setattr(wait, "STILL_S", 0.0)
    asked = wait.Wait(world.queue, lambda: ["no embed worker answers: start one"], sleep=lambda _: None)
    assert asked.until_drained() == "no embed worker answers: start one"
    run("status", "--timeout", "1", code=USAGE)


def test_wait_waits_for_a_pause_that_has_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "STILL_S", 0.0)
    world.create(2)
    world.queue.pause(3_600, "maintenance")
    looks = iter(range(5))

    def sleep(_: float) -> None:
        if next(looks) == 3:
            (lease,) = world.queue.lease("w1", batches=1).leases if world.queue.resume() else ()
            world.queue.start(lease.token, lease.job_ids)
            world.queue.complete(lease.token, lease.job_ids)

    assert wait.Wait(world.queue, list, sleep=sleep).until_drained() is None


def test_wait_outlives_a_restart_of_the_jobs_database_but_not_an_outage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails without the `except` in `Wait._look`: a restart in the night would end a deployment."""
    status = world.queue.status
    away = iter(range(3))

    def looked() -> QueueStatus:
        if next(away, None) is not None:
            raise ServiceUnavailable("restarting")
        return status()

    monkeypatch.setattr(world.queue, "status", looked)
    assert wait.Wait(world.queue, list, sleep=lambda _: None).until_drained() is None
    away = iter(range(1_000))
    seconds = iter(range(0, 100_000, 20))
    with pytest.raises(ServiceUnavailable):
        wait.Wait(world.queue, list, monotonic=lambda: next(seconds), sleep=lambda _: None).until_drained()


def test_logs_names_each_log_and_shows_its_end(services: LocalServices, world: World, run: Run) -> None:
    directory = ("--directory", str(services.config.directory))
    found = run("logs", *directory, "--json")
    assert {"graph", "jobs", "redis"} <= found.keys()
    assert all(Path(path).is_file() for path in found.values())
    told = run("logs", "jobs", *directory, "--lines", "3")
    assert told.startswith(f"{found['jobs']}:\n")
    assert len(told.splitlines()) == 4
    assert "there are graph" in run("logs", "nope", *directory, code=NOT_FOUND, both=True)
    assert "Nothing was ever started" in run("logs", "--directory", str(services.config.directory / "graph"))
