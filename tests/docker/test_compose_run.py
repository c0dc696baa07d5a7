"""`docker compose up` on stand-in images: the main job, more workers, the death of every container, a dead letter.

The images of Neo4j, Redis and Python are stand-ins (tests/docker/engine.py); compose.yaml, the Dockerfile and the
product in the image are the real ones.
"""

import base64
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from neo4j.exceptions import AuthError

from neo4j_queue.database import Address, Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import sweep
from tests.docker.deployment import LASTING, Deployment
from tests.docker.engine import Engine
from tests.waiting import wait_until

DRAINED_WITHIN_S = 300.0
LOAD = 2_000


@pytest.fixture(scope="module")
def deployment(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Up and healthy; thrown away at the end, with its figures on the terminal."""
    deployment = Deployment(engine, tmp_path_factory.mktemp("deployment"))
    deployment.prepare()
    began = time.monotonic()
    deployment.compose("build")
    built = time.monotonic()
    try:
        deployment.compose("up", "--detach")
        deployment.wait_healthy()
        deployment.tell(
            f"image built in {built - began:.0f} s, all healthy {time.monotonic() - built:.0f} s later"
        )
        size = engine.run("docker", "image", "inspect", "--format", "{{.Size}}", "neo4j-queue").stdout
        deployment.tell(f"image: {int(size) / 1e6:.0f} MB with its base")
        yield deployment
    finally:
        for service in ("init", *LASTING):
            (deployment.directory / f"{service}.log").write_text(
                deployment.compose("logs", service, check=False)
            )
        deployment.compose("down", "--volumes", "--timeout", "5", check=False)
        print("\n" + "\n".join(deployment.figures), flush=True)


@pytest.fixture(scope="module")
def queue(deployment: Deployment) -> Iterator[EmbedQueue]:
    with EmbedQueue.connect(deployment.settings()) as queue:
        yield queue


@pytest.fixture(scope="module")
def graph(deployment: Deployment, queue: EmbedQueue) -> Iterator[EntityGraph]:
    with EntityGraph.from_settings(deployment.settings(), queue.enqueue) as graph:
        yield graph


def load(graph: EntityGraph, prefix: str, count: int = LOAD) -> None:
    graph.load_entities(
        {"name": f"{prefix}{n}", "observations": [f"what is said of {prefix}{n}"]} for n in range(count)
    )


def drained(graph: EntityGraph, queue: EmbedQueue) -> None:
    """Nothing is left: also what the queue was too slow for, which a sweep finds (that of beat in five minutes)."""
    while True:
        wait_until(
            lambda: queue.status().unfinished == 0,
            within_s=DRAINED_WITHIN_S,
            what=f"drained; {queue.status()}",
        )
        if not sweep(graph, queue).queued:
            return


def test_init_has_ended_well_and_every_service_is_healthy(deployment: Deployment) -> None:
    (init,) = deployment.containers("init")
    assert (init["State"]["Status"], init["State"]["ExitCode"]) == ("exited", 0)
    assert all(deployment.health(service) == ["healthy"] for service in LASTING)


def test_the_main_job(deployment: Deployment, graph: EntityGraph, queue: EmbedQueue) -> None:
    began = time.monotonic()
    load(graph, "first")
    drained(graph, queue)
    seconds = time.monotonic() - began
    deployment.tell(f"1 embed worker: {LOAD:,} entities in {seconds:.1f} s ({LOAD / seconds:.0f}/s)")
    coverage = graph.coverage()
    assert (coverage.entities, coverage.fresh) == (LOAD, LOAD)
    status = deployment.cli("status")
    assert status["completed"] == LOAD
    assert status["failed"] == 0


def test_three_embed_workers(deployment: Deployment, graph: EntityGraph, queue: EmbedQueue) -> None:
    deployment.compose("up", "--detach", "--no-recreate", "--scale", "embed=3")
    wait_until(
        lambda: len([each for each in queue.census.workers() if each.name.startswith("embed@")]) == 3,
        within_s=120,
        what="three embed workers in the census",
    )
    began = time.monotonic()
    load(graph, "second")
    drained(graph, queue)
    seconds = time.monotonic() - began
    deployment.tell(f"3 embed workers: {LOAD:,} entities in {seconds:.1f} s ({LOAD / seconds:.0f}/s)")
    assert graph.coverage().fresh == 2 * LOAD


@pytest.mark.parametrize("service", LASTING)
def test_every_container_comes_back_after_a_crash_and_nothing_is_lost(
    service: str, deployment: Deployment, graph: EntityGraph, queue: EmbedQueue
) -> None:
    entities = graph.coverage().entities
    load(graph, f"{service}-", 500)
    before = {each["State"]["Pid"] for each in deployment.containers(service)}
    began = time.monotonic()
    deployment.crash(service)

    def back() -> bool:
        found = [each["State"] for each in deployment.containers(service)]
        return all(each["Running"] for each in found) and {each["Pid"] for each in found} != before

    wait_until(back, within_s=60, what=f"{service} runs again")

    def all_done() -> bool:
        try:
            sweep(graph, queue)
            return queue.status().unfinished == 0 and graph.coverage().fresh == entities + 500
        except Exception:  # noqa: BLE001 - a database that was killed
            return False

    wait_until(all_done, within_s=DRAINED_WITHIN_S, what=f"500 entities after the death of {service}")
    deployment.tell(f"death of {service}: everything embedded after {time.monotonic() - began:.1f} s")
    assert queue.status().failed == 0


def test_a_dead_letter_is_replayed(deployment: Deployment, graph: EntityGraph, queue: EmbedQueue) -> None:
    deployment.wait_healthy(("graph", "jobs", "redis"))
    deployment.compose("up", "--detach", "--no-deps", "provider", REFUSED="this is poison")
    graph.create_entities([{"name": "letter", "observations": ["this is poison"]}])
    wait_until(lambda: queue.status().failed == 1, within_s=120, what="the provider refuses it")
    deployment.compose("up", "--detach", "--no-deps", "provider")
    assert deployment.cli("retry")["retried"] == 1
    wait_until(
        lambda: queue.status().failed == 0 and queue.status().unfinished == 0, within_s=120, what="replayed"
    )
    coverage = graph.coverage()
    assert coverage.fresh == coverage.entities


def answer(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_nobody_enters_without_a_password(deployment: Deployment) -> None:
    settings = deployment.settings()
    for address in (settings.graph_address(), settings.jobs_address()):
        stranger = Address(address.uri, address.database)
        with Database(stranger, retry_time_s=0) as database, pytest.raises(AuthError):
            database.read("RETURN 1")
    with (
        redis.Redis(port=deployment.ports["NEO4J_QUEUE_REDIS_PORT"]) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()
    flower = f"http://127.0.0.1:{deployment.ports['NEO4J_QUEUE_FLOWER_PORT']}/tasks"
    assert answer(flower) == 401
    (line, *_) = [
        line
        for line in (deployment.directory / ".env").read_text().splitlines()
        if line.startswith("NEO4J_QUEUE_FLOWER_PASSWORD=")
    ]
    entry = base64.b64encode(f"operator:{line.partition('=')[2]}".encode()).decode()
    assert answer(flower, Authorization=f"Basic {entry}") == 200
    assert answer(f"http://127.0.0.1:{deployment.ports['HEALTH_PORT']}/livez") == 200


def test_no_password_is_in_a_command_line_or_a_log(deployment: Deployment) -> None:
    secrets = deployment.secrets()
    assert len(secrets) == 4
    for service in LASTING:
        for container in deployment.containers(service):
            first = psutil.Process(container["State"]["Pid"])
            for process in (first, *first.children(recursive=True)):
                shown = " ".join(process.cmdline())
                assert not [secret for secret in secrets if secret in shown], service
        logs = deployment.compose("logs", service)
        assert not [secret for secret in secrets if secret in logs], service


def test_containers_are_not_root_and_bounded(deployment: Deployment) -> None:
    for service in ("control", "embed", "beat", "serve", "flower"):
        for container in deployment.containers(service):
            status = Path(f"/proc/{container['State']['Pid']}/status").read_text()
            assert "\nUid:\t10001\t10001\t" in status
            assert container["HostConfig"]["Memory"] > 0


def test_a_wrong_setting_stops_a_service_without_restarts(deployment: Deployment) -> None:
    deployment.compose("up", "--detach", "--no-deps", "--scale", "embed=1", "embed", EMBED_BATCH_SIZE="0")
    wait_until(lambda: "service_held" in deployment.compose("logs", "embed"), within_s=90, what="it is held")
    (container,) = deployment.containers("embed")
    assert container["State"]["Running"]
    assert container["RestartCount"] == 0
    logs = deployment.compose("logs", "embed")
    assert "EMBED_BATCH_SIZE" in logs
    began = time.monotonic()
    deployment.compose("up", "--detach", "--no-deps", "--scale", "embed=1", "embed")
    assert time.monotonic() - began < 30, "it waits for nothing when it is stopped"
    deployment.wait_healthy(("embed",), within_s=180)


def test_a_stopped_worker_gives_its_jobs_back_in_time(
    deployment: Deployment, graph: EntityGraph, queue: EmbedQueue
) -> None:
    load(graph, "last", 1_000)
    wait_until(lambda: queue.status().processing > 0, within_s=60, what="it works")
    began = time.monotonic()
    deployment.compose("stop", "embed")
    deployment.tell(f"an embed worker stopped in {time.monotonic() - began:.1f} s")
    (container,) = deployment.containers("embed")
    assert container["State"]["ExitCode"] == 0
    # What was sent to it and not begun waits in Redis for the next worker.
    assert queue.status().started == 0
    deployment.compose("start", "embed")
    drained(graph, queue)
