"""The broker loses everything, doubles messages, refuses them, or is away (B2, B6, B8, D3)."""

import json
import os
import re
import signal
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from kombu.exceptions import OperationalError
from redis import Redis
from structlog.testing import capture_logs

from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.local_services import LocalServices
from tasks import broker, dispatch, lifecycle, resources
from tests.celery.conftest import MakeWorld
from tests.faultkit import TcpProxy
from tests.faults.test_processes import all_embedded
from tests.provider import ProviderServer
from tests.waiting import wait_until


def test_redis_flushed_with_messages_in_flight(make_world: MakeWorld, provider: ProviderServer) -> None:
    """Leased batches whose messages are gone come back at the start deadline; no crash, no attempt is charged.

    Guard: `EmbedQueue.recover_stale`. Without it they are leased for ever, here and when Redis dies.
    """
    world = make_world(provider)
    world.celery.control()
    world.celery.beat()
    world.celery.embed(concurrency=1)
    with provider.held():
        world.create(200)
        provider.wait_for(waiting=1)
        with redis.Redis.from_url(world.environment["CELERY_BROKER_URL"]) as broker:
            wait_until(lambda: broker.llen("embed"), within_s=20, what="a message waits")
            broker.flushall()
    all_embedded(world, 200)
    assert {job["crashes"] for job in world.jobs()} == {0}


def test_redis_killed_and_started_empty(
    make_world: MakeWorld, provider: ProviderServer, services: LocalServices
) -> None:
    world = make_world(provider)
    world.celery.control()
    world.celery.beat()
    world.celery.embed(concurrency=1)
    with provider.held():
        world.create(100)
        provider.wait_for(waiting=1)
        services.redis.kill()
        services.redis.start()
    all_embedded(world, 100)


def test_an_absence_of_redis_is_two_lines_of_each_process(
    make_world: MakeWorld, services: LocalServices
) -> None:
    """Worker and beat say that it is away and that they try again, and then that it is back; nothing has a stack.

    Guards: `outage.screen`, without which there are a line for each try and a stack for each tick, and `ALONE` of
    `tasks.consumer`, without which a restart asks Redis for other workers.
    """
    world = make_world()
    processes = [world.celery.control(), world.celery.beat(), world.celery.embed()]
    wait_until(lambda: world.queue.census.workers(), within_s=20, what="ticks come through")
    known = [len(each.lines()) for each in processes]
    services.redis.kill()
    for each in processes:
        wait_until(lambda each=each: each.events("broker_away"), within_s=10, what=f"{each.name} has noticed")
    time.sleep(AWAY_S)
    services.redis.start()
    for each in processes:
        wait_until(lambda each=each: each.events("broker_back"), within_s=10, what=f"{each.name} is back")
    for each, before in zip(processes, known, strict=True):
        lines = each.lines()[before:]
        assert [line for line in lines if "stack" in line] == []
        events = [line["event"] for line in lines]
        assert (events.count("broker_away"), events.count("broker_back")) == (1, 1)
        said = [line.get("message", "") for line in lines]
        assert [each for each in said if "Trying" in each or "mingle" in each] == []
        (away,) = each.events("broker_away")
        assert away["error"]
        assert "until it is back" in away["retries"]


# Several ticks and tries.
AWAY_S = 4.0
# B2. Longer than the socket timeouts of celeryconfig.py, one after the other.
FROZEN_S = 20.0

WRITE_MEANWHILE = """
import json, time
from tasks.client import open_graph
slowest, queued = 0.0, 0
with open_graph() as graph:
    for n in range(50):
        began = time.monotonic()
        (result,) = graph.create_entities([{"name": f"e{n}", "observations": [f"text of e{n}"]}])
        slowest = max(slowest, time.monotonic() - began)
        queued += result.job is not None
print(json.dumps([slowest, queued]))
"""


def test_redis_frozen(make_world: MakeWorld, services: LocalServices) -> None:
    """For longer than every socket timeout. Whoever writes entities doesn't wait for it, and queues them all (D3).

    Guard: the thread of `Nudge`. With the message sent by who enqueues, the outbox gives up on the first entities.
    """
    world = make_world()
    world.celery.control()
    beat = world.celery.beat()
    world.celery.embed()
    # A beat that is still looking at its services when the broker freezes would wait for it and say so otherwise.
    wait_until(
        lambda: world.jobs_db.read(
            "MATCH (c:QueueControl) WHERE c.beat_at IS NOT NULL RETURN c.beat_at AS at"
        ),
        within_s=60,
        what="beat ticks",
    )
    pid = services.redis.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + FROZEN_S
    try:
        slowest, queued = json.loads(world.celery.program(WRITE_MEANWHILE).splitlines()[-1])
        assert (slowest < 5, queued) == (True, 50), slowest
        wait_until(
            lambda: world.queue.status().processing == 0 and world.queue.status().pending == 50,
            within_s=12,
            what="nothing is stuck as leased",
        )
        wait_until(lambda: time.monotonic() > until, within_s=FROZEN_S, what="it was frozen for long")
        (away, *_) = wait_until(
            lambda: beat.events("broker_away"), within_s=FROZEN_S, what="beat says it is away"
        )
        assert "Timeout" in away["error"], "longer than the patience of who sends"
    finally:
        os.kill(pid, signal.SIGCONT)
    all_embedded(world, 50)


def test_half_open_connections(
    make_world: MakeWorld, provider: ProviderServer, services: LocalServices, redis_url: str
) -> None:
    """Every connection to the broker goes silent without being closed, with messages on their way.

    Guard: the socket timeouts of celeryconfig.py. Without them the workers wait on dead sockets for ever.
    """
    with TcpProxy(("127.0.0.1", services.redis.port)) as proxy:
        world = make_world(provider, CELERY_BROKER_URL=proxy.on_the_way_to(redis_url))
        world.celery.control()
        world.celery.beat()
        world.celery.embed(concurrency=1)
        with provider.held():
            world.create(100)
            provider.wait_for(waiting=1)
            proxy.strand()
        all_embedded(world, 100)
        assert proxy.connections


def refuse_as_replica(broker: Redis) -> None:
    broker.replicaof("127.0.0.1", "9")


def refuse_for_memory(broker: Redis) -> None:
    broker.config_set("maxmemory", "1")


def unblock(broker: Redis) -> None:
    for client in broker.client_list():
        if client["cmd"] == "brpop":
            broker.execute_command("CLIENT", "UNBLOCK", client["id"], "ERROR")


@pytest.fixture
def mended(redis_url: str) -> Iterator[Redis]:
    """Redis, which takes everything again after the test."""
    with redis.Redis.from_url(redis_url) as broker:
        yield broker
        mend(broker)


def mend(broker: Redis) -> None:
    broker.replicaof("NO", "ONE")
    broker.config_set("maxmemory", "0")


@pytest.mark.parametrize("refuse", [refuse_as_replica, refuse_for_memory, unblock])
def test_a_redis_that_refuses_for_a_while_ends_no_worker(
    make_world: MakeWorld, mended: Redis, refuse: Callable[[Redis], None]
) -> None:
    """A failover (READONLY, UNBLOCKED) and a memory that is full (OOM), for three seconds.

    Guard: `broker_channel_error_retry`. Without it both workers end with 1 at a failover (celery#7946).
    """
    world = make_world()
    processes = [world.celery.control(), world.celery.embed(), world.celery.beat()]
    world.create(10)
    world.drained(within_s=60)
    refuse(mended)
    time.sleep(REFUSED_S)
    mend(mended)
    assert [each.exit_code() for each in processes] == [None] * 3
    world.create(10, "f")
    all_embedded(world, 20)
    assert [each.exit_code() for each in processes] == [None] * 3


REFUSED_S = 3.0


def test_a_worker_that_starts_while_redis_is_full_waits_for_it(make_world: MakeWorld, mended: Redis) -> None:
    """Guard: the write of `broker.ping`. Without it the worker takes such a Redis for well."""
    refuse_for_memory(mended)
    world = make_world()
    process = world.celery.launch("full@test", "worker", "-Q", "embed", "-c", "1", "-n", "full@test")
    (waiting,) = wait_until(
        lambda: process.events("waiting_for_services")[:1], within_s=60, what="it says that it waits"
    )
    assert list(waiting["services"]) == ["broker"]
    mend(mended)
    wait_until(lambda: "ready." in process.log.read_text(), within_s=60, what="the worker is ready")


class Refuses(socketserver.StreamRequestHandler):
    """A Redis that answers every command with one error."""

    answer = b""

    def handle(self) -> None:
        while line := self.rfile.readline():
            if line.startswith(b"*"):
                for _ in range(int(line[1:])):
                    self.rfile.read(int(self.rfile.readline()[1:]) + 2)
                self.wfile.write(b"-" + self.answer + b"\r\n")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("MISCONF Redis is configured to save RDB snapshots, but it cannot", TemporarilyUnavailable),
        ("OOM command not allowed when used memory > 'maxmemory'.", TemporarilyUnavailable),
        ("READONLY You can't write against a read only replica.", TemporarilyUnavailable),
        ("LOADING Redis is loading the dataset in memory", TemporarilyUnavailable),
        ("MASTERDOWN Link with MASTER is down", TemporarilyUnavailable),
        ("NOREPLICAS Not enough good replicas to write.", TemporarilyUnavailable),
        ("BUSY Redis is busy running a script.", TemporarilyUnavailable),
        ("ERR max number of clients reached", TemporarilyUnavailable),
        ("NOAUTH Authentication required.", SettingsError),
        ("WRONGPASS invalid username-password pair", SettingsError),
        ("ERR DB index is out of range", SettingsError),
    ],
)
def test_what_redis_refuses_for_now_is_waited_for(answer: str, expected: type[Exception]) -> None:
    """And what a person must mend is not.

    Guards: `PASSING` and `PASSING_WORDS`. Without them a starting worker ended with 78, but for LOADING and the number
    of clients.
    """
    handler = type("Handler", (Refuses,), {"answer": answer.encode()})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(expected, match=re.escape(answer[-12:])):
                broker.ping(f"redis://127.0.0.1:{server.server_address[1]}/0")
        finally:
            server.shutdown()


def test_a_message_delivered_again_and_after_its_lease_went_elsewhere(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """B6 through the broker: five copies at once, and one more when the job was leased anew.

    Guard: `started_at IS NULL` in jobs/start. Without it a copy starts the lease again.
    """
    # The lease is given before the worker starts, which takes longer than the short deadline of these tests.
    world = make_world(provider, EMBED_JOB_START_DEADLINE_MS="60000", EMBED_JOB_LOCK_DURATION_MS="120000")
    world.create(1)
    (lease,) = world.queue.lease("test", batches=1).leases
    message = ("tasks.embed.embed_batch", "--args", f'["{lease.token}", ["{lease.job_ids[0]}"]]')
    for _ in range(5):
        world.celery.call("call", *message, "--queue", "embed")
    worker = world.celery.embed(concurrency=2)
    world.drained(within_s=30)
    wait_until(
        lambda: len(worker.events("stale_message_dropped")) == 4, within_s=20, what="four were dropped"
    )
    assert len(provider.journal) == 1
    world.queue.enqueue([world.graph.get_text("e0").request(world.graph.model)])
    world.graph_db.write("MATCH (n:Entity) REMOVE n.embedding")
    (request,) = [world.graph.get_text("e0").request(world.graph.model)]
    world.queue.enqueue([request])
    (again,) = world.queue.lease("test", batches=1).leases
    world.celery.call("call", *message, "--queue", "embed")
    wait_until(
        lambda: len(worker.events("stale_message_dropped")) == 5, within_s=20, what="the old one is dropped"
    )
    assert world.queue.release(again.token, again.job_ids) == 1
    assert len(provider.journal) == 1


def test_a_publish_that_fails_releases_that_batch_and_the_rest(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8: the third of five messages is refused. Guard: the `release` in `dispatch.publish`."""
    world = make_world()
    world.create(100)
    leases = world.queue.lease("test", batches=5).leases
    assert len(leases) == 5
    sent: list[str] = []

    def send(_name: str, args: tuple[Any, ...], **_: Any) -> None:
        if len(sent) == 2:
            raise OperationalError("the broker is full")
        sent.append(args[0])

    monkeypatch.setattr(dispatch.app, "send_task", send)
    monkeypatch.setattr(resources, "queue", lambda: world.queue)
    assert dispatch.publish(leases) == 2
    assert sent == [lease.token for lease in leases[:2]]
    status = world.queue.status()
    assert (status.processing, status.pending) == (40, 60)


def test_a_worker_that_finds_no_broker_for_its_first_acts_still_knows_its_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beat asks for the same a second later; but at its end the worker must be able to cancel its batches.

    Guard: `PUBLISH_ERRORS` in `lifecycle._ask_for`. Without it Celery swallows the error, and with it what comes after.
    """

    def send(_name: str, **_: Any) -> None:
        raise OperationalError("nobody there")

    monkeypatch.setattr(lifecycle.app, "send_task", send)
    monkeypatch.setattr(lifecycle, "_serves", lambda queue: queue == "control")
    monkeypatch.setattr(lifecycle._Shutdown, "pool", None)
    pool = object()
    with capture_logs() as logs:
        lifecycle.begin(SimpleNamespace(hostname="w@test", pool=pool))
    assert lifecycle._Shutdown.pool is pool
    assert [line["task"] for line in logs if line["event"] == "first_act_not_sent"] == [
        "tasks.upkeep.heartbeat",
        "tasks.upkeep.recover_stale",
        "tasks.upkeep.reconcile",
        "tasks.dispatch.lease_batch",
    ]
