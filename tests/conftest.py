"""Real services for tests: two Neo4j servers and Redis, started at the first test that asks for them.

One set per session, on free ports of its own, stopped at the end whatever ends the session. A test gets its
databases wiped (the schema stays) and its Redis flushed. Unit tests ask for nothing and start nothing.

`NEO4J_QUEUE_TEST_SERVICES=keep` leaves the services up and uses them again next time, which saves the boot;
a directory instead of `keep` has services of its own. Stop them with `neo4j-queue down --directory …`.
"""

import atexit
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis

from neo4j_queue.database import Database
from neo4j_queue.local_services import LocalServices, Neo4jServer, Progress, ServicesConfig, free_ports
from neo4j_queue.local_services.config import cache_directory
from neo4j_queue.local_services.locking import exclusive
from neo4j_queue.schema import migrate_graph
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.jobs import migrate_jobs
from neo4j_queue.settings import Settings

KEEP_VARIABLE = "NEO4J_QUEUE_TEST_SERVICES"
# Rows per transaction of a wipe: the heap of the servers is small.
WIPE_PAGE = 10_000
# Tests boot a dozen servers and give each little to do: the second compiler would take a third of their processor time
# (151 CPU seconds with it, 107 without, for two boots and 220 tests of the queue) and pay nothing back.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1",)
# Each test begins with an empty database and fills it, which to the server means that the plans of ten seconds ago are
# stale: it spent more than half of its processor time on planning the same statements again. Tests of plans have
# theirs made anew.
NEO4J_SETTINGS = {"dbms.cypher.min_replan_interval": "1h"}
WIPE = f"MATCH (n) CALL (n) {{ DETACH DELETE n }} IN TRANSACTIONS OF {WIPE_PAGE} ROWS"
NODES = "MATCH (n) RETURN labels(n) AS labels, properties(n) AS properties"
RESTORE = "UNWIND $nodes AS node CREATE (n:$(node.labels)) SET n = node.properties"

MakeSettings = Callable[..., Settings]
Nodes = list[dict[str, Any]]


def pytest_configure() -> None:
    """Keeps the developer's own settings out of the tests, and makes SIGTERM clean up as Ctrl-C does."""
    for name in [*(field.upper() for field in Settings.model_fields), "REDIS_URL"]:
        os.environ.pop(name, None)

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    # In the background of a script SIGINT is ignored, and every process that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Iterator[LocalServices]:
    """The session's services, for tests that stop, kill and start them. Others ask for a database."""

    def tell(line: str) -> None:
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    def report(news: Progress) -> None:
        # The files come once per machine and take more than a minute; the boot is not worth a line.
        if news.step == "neo4j" and (news.done or 0) % 50 == 0:
            tell(news.message)

    kept = os.environ.get(KEEP_VARIABLE)
    if kept:
        directory = cache_directory() / "test-services" if kept == "keep" else Path(kept)
        with exclusive(directory / "session.lock", lambda: tell(f"{directory} is used by another session")):
            running = LocalServices(_kept_config(directory), report)
            running.up()
            yield running
        return
    directory = Path(tempfile.mkdtemp(prefix="neo4j-queue-tests-"))
    running = LocalServices(_config(directory, free_ports(3)), report)
    # A second Ctrl-C can cut the end of this fixture short.
    atexit.register(running.down)
    try:
        running.up()
        yield running
    finally:
        running.down()
        atexit.unregister(running.down)
        if request.session.testsfailed:
            tell(f"logs of the services: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _config(directory: Path, ports: list[int]) -> ServicesConfig:
    graph, jobs, broker = ports
    return ServicesConfig(
        graph,
        jobs,
        broker,
        directory,
        throwaway=True,
        java_options=JAVA_OPTIONS,
        neo4j_settings=NEO4J_SETTINGS,
    )


def _kept_config(directory: Path) -> ServicesConfig:
    """The configuration of an earlier session in this directory, else one on new ports."""
    remembered = directory / "ports.json"
    if not remembered.exists():
        remembered.write_text(json.dumps(free_ports(3)), encoding="utf-8")
    return _config(directory, json.loads(remembered.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def make_settings(services: LocalServices) -> MakeSettings:
    """Settings that point at the session's services, with the mock provider: `make_settings(embed_batch_size=7)`."""

    def make(**overrides: Any) -> Settings:
        values = {name.lower(): value for name, value in services.environment().items()}
        return Settings(**{"_env_file": None, **values, "embedding_provider": "mock", **overrides})

    return make


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    """The settings that most tests need."""
    return make_settings()


@pytest.fixture
def without_constraint(graph_db: Database, settings: Settings) -> Iterator[Callable[[], None]]:
    """Takes the constraint on the key away: a plain index stands in for it, as where the data has duplicates."""
    name = GraphSchema.from_settings(settings).key_index

    def replace() -> None:
        graph_db.autocommit(f"DROP CONSTRAINT {name}")
        graph_db.autocommit(f"CREATE INDEX {name} FOR (n:Entity) ON (n.name)")
        graph_db.autocommit("CALL db.awaitIndexes(30)")

    yield replace
    graph_db.autocommit("MATCH (n) DETACH DELETE n")
    graph_db.autocommit(f"DROP CONSTRAINT {name} IF EXISTS")
    graph_db.autocommit(f"DROP INDEX {name} IF EXISTS")
    migrate_graph(graph_db, settings)


@pytest.fixture
def environment(services: LocalServices) -> dict[str, str]:
    """The environment of a child process (worker, beat, command line) with the same settings as `settings`."""
    return {**os.environ, **services.environment(), "EMBEDDING_PROVIDER": "mock"}


@pytest.fixture(scope="session")
def _schema(services: LocalServices, make_settings: MakeSettings) -> dict[str, Nodes]:
    """Both schemas, created once; the nodes that belong to each, by database name."""
    settings = make_settings()
    with Database(services.graph.address) as graph, Database(services.jobs.address) as jobs:
        # Services that were kept hold the data of their last test.
        for database in (graph, jobs):
            database.autocommit(WIPE)
        migrate_jobs(jobs)
        migrate_graph(graph, settings)
        return {each.address.database: [row.data() for row in each.read(NODES)] for each in (graph, jobs)}


@pytest.fixture
def graph_db(services: LocalServices, _schema: dict[str, Nodes]) -> Iterator[Database]:
    """The graph database, empty but for its schema."""
    with _wiped(services.graph, _schema) as database:
        yield database


@pytest.fixture
def jobs_db(services: LocalServices, _schema: dict[str, Nodes]) -> Iterator[Database]:
    """The jobs database, empty but for its schema and its control node."""
    with _wiped(services.jobs, _schema) as database:
        yield database


@contextmanager
def _wiped(server: Neo4jServer, schema: dict[str, Nodes]) -> Iterator[Database]:
    # A fault test may have left it dead.
    if server.pid is None:
        server.start()
    # A driver of its own for each test: one that outlived a restart of the server holds dead sockets.
    with Database(server.address) as database:
        database.autocommit(WIPE)
        nodes = schema[server.database]
        if nodes:
            database.write(RESTORE, nodes=nodes)
        yield database


@pytest.fixture
def redis_url(services: LocalServices) -> str:
    """The URL of an empty Redis."""
    if services.redis.pid is None:
        services.redis.start()
    with redis.Redis.from_url(services.redis.url) as client:
        client.flushall()
    return services.redis.url
