"""The databases are restarted under load, frozen, or away while entities are written (B3, D3)."""

import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from neo4j.exceptions import Neo4jError, ServiceUnavailable

from neo4j_queue.cli import session
from neo4j_queue.database import Address, Database, rows
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.graph import EntityGraph
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import sweep
from tests.celery.conftest import MakeWorld
from tests.celery_processes import ROOT
from tests.faultkit.proxy import TcpProxy
from tests.faults.test_processes import all_embedded
from tests.waiting import wait_until


@pytest.mark.parametrize("which", ["jobs", "graph"])
def test_a_database_restarted_under_load(make_world: MakeWorld, services: LocalServices, which: str) -> None:
    """Guards, of which one alone is enough.

    Jobs: transactions are repeated, and `recover_stale`; without both what was held stays `processing`. Graph:
    transactions are repeated, and `narrowed` knows a fault of everybody's by its kind, or by nothing having passed;
    without all of these, jobs fail.
    """
    world = make_world(EMBED_BATCH_SIZE="5", MOCK_EMBEDDING_LATENCY_MS="100")
    world.celery.control()
    world.celery.beat()
    world.celery.embed()
    world.create(300)
    wait_until(lambda: world.queue.status().completed >= 20, within_s=60, what="work has begun")
    getattr(services, which).restart()
    all_embedded(world, 300)


def test_entities_are_written_while_the_jobs_database_is_down(
    make_world: MakeWorld, services: LocalServices
) -> None:
    """Marked in their own transaction; the sweep queues them when the database is back.

    Guard: the mark, which upsert.cypher and mark_pending.cypher both set; without either the sweep sees nothing.
    """
    world = make_world()
    # Without retries of its own: with them the hand-over may still succeed behind the back of this test.
    with Database(services.jobs.address, retry_time_s=0) as impatient:
        enqueue = EmbedQueue(impatient, world.settings).enqueue
        graph = EntityGraph.from_settings(world.settings, enqueue=enqueue, database=world.graph_db)
        services.jobs.stop()
        try:
            results = graph.create_entities([{"name": "a", "observations": ["x"]}])
        finally:
            services.jobs.start()
    assert results[0].job is None
    with Database(services.jobs.address) as jobs_db:
        queue = EmbedQueue(jobs_db, world.settings)
        assert sweep(graph, queue).queued == 1
        assert queue.status().pending == 1


def test_a_database_that_is_away_is_asked_every_second() -> None:
    """However long it was away. Guard: `retry_delay_multiplier` of the driver; with its own value, the rests double to
    four seconds within these six, and to eight within an ordinary restart."""
    asked: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as nobody:

        def hang_up() -> None:
            while True:
                try:
                    nobody.accept()[0].close()
                except OSError:  # closed
                    return
                asked.append(time.monotonic())

        threading.Thread(target=hang_up, daemon=True).start()
        away = Address(f"bolt://127.0.0.1:{nobody.getsockname()[1]}", "neo4j")
        with Database(away, retry_time_s=6) as database, pytest.raises(ServiceUnavailable):
            database.read("RETURN 1")
    assert asked[-1] - asked[0] > 5
    assert max(later - earlier for earlier, later in itertools.pairwise(asked)) < 2


@pytest.mark.parametrize("way", ["transaction", "autocommit"])
def test_a_statement_that_hangs_is_ended_whatever_the_server_allows(jobs_db: Database, way: str) -> None:
    """Guards: the `timeout` of `Database.transaction` and of `Database.autocommit`. Without one, the server's minute is
    what ends this, and on a server with Neo4j's defaults nothing."""
    run: dict[str, Callable[[str], object]] = {
        "transaction": lambda query: jobs_db.transaction(lambda tx: rows(tx, query), timeout_s=1),
        "autocommit": lambda query: jobs_db.autocommit(query, timeout_s=1),
    }
    began = time.monotonic()
    with pytest.raises(Neo4jError) as caught:
        run[way]("UNWIND range(1, 100000000000) AS n WITH n WHERE n < 0 RETURN count(n)")
    assert caught.value.code == "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration"
    assert time.monotonic() - began < 10


# The two waits of `status`, and the start of a Python process on a busy machine.
STATUS_WITHIN_S = 60.0


@pytest.fixture
def jobs_proxy(services: LocalServices) -> Iterator[TcpProxy]:
    """Stands before the jobs database."""
    with TcpProxy(("127.0.0.1", services.jobs.port)) as proxy:
        yield proxy


def test_a_hello_that_was_not_heard_is_told_again(make_world: MakeWorld, jobs_proxy: TcpProxy) -> None:
    """The jobs database is silent just when a worker is ready, and nobody else asks for it: no beat, no control worker.

    Guard: `lifecycle._say_hello_again`. Without it the worker is not in the census for a minute, here for ever.
    """
    world = make_world(EMBED_JOB_DATABASE_URI=f"bolt://127.0.0.1:{jobs_proxy.port}")
    worker = world.celery.launch("greets@test", "worker", "-Q", "embed", "-c", "1", "-n", "greets@test")
    wait_until(lambda: worker.events("boot_checked"), within_s=60, what="the worker has seen the database")
    jobs_proxy.freeze()
    wait_until(lambda: worker.events("hello_unheard"), within_s=60, what="its hello is not heard")
    assert world.queue.census.workers() == []
    jobs_proxy.thaw()
    wait_until(world.queue.census.workers, within_s=20, what="it is in the census")


@pytest.mark.parametrize("frozen", ["jobs", "graph"])
def test_status_of_a_frozen_database_ends_with_75_in_bounded_time(
    make_world: MakeWorld, services: LocalServices, frozen: str
) -> None:
    """It takes connections and never answers. Guards: the driver's `CONNECT_TIMEOUT_S` and `ACQUIRE_TIMEOUT_S`, and
    behind them `session.in_time`; without both it waits for minutes (with one of them it passes)."""
    world = make_world()
    variable = {"jobs": "EMBED_JOB_DATABASE_URI", "graph": "NEO4J_URI"}[frozen]
    with TcpProxy(("127.0.0.1", getattr(services, frozen).port)) as proxy:
        proxy.freeze()
        environment = {
            **world.environment,
            variable: f"bolt://127.0.0.1:{proxy.port}",
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", "neo4j_queue.cli", "status", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=STATUS_WITHIN_S,
            check=False,
        )
    assert done.returncode == 75, done.stderr
    assert done.stderr.splitlines()[-1].startswith("neo4j-queue: ")
    if frozen == "graph":
        assert json.loads(done.stdout)["coverage"] is None
        assert "graph" in done.stderr


def test_a_database_that_freezes_in_the_middle_is_given_up_and_closed(
    jobs_proxy: TcpProxy, jobs_db: Database
) -> None:
    """The connection is open and in use. Guard: the thread in `session.in_time`; without it the driver's own
    patience of two minutes is what ends this."""
    address = replace(jobs_db.address, uri=jobs_proxy.on_the_way_to(jobs_db.address.uri))
    with Database(address, retry_time_s=0) as database:
        assert database.read("RETURN 1 AS one")[0]["one"] == 1
        jobs_proxy.freeze()
        began = time.monotonic()
        with pytest.raises(TemporarilyUnavailable, match=r"^the jobs database gave no answer within 1 s$"):
            session.in_time("the jobs database", lambda: database.read("RETURN 1 AS one"), within_s=1.0)
    assert time.monotonic() - began < STATUS_WITHIN_S
