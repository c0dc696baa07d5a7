"""The library in an application's own tests: databases and Redis by testcontainers, real workers beside them.

The images are stand-ins (tests/docker/engine.py).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.schema import migrate_graph
from neo4j_queue.schema.jobs import migrate_jobs
from neo4j_queue.settings import Settings
from tests.celery_processes import StartedProcesses
from tests.docker.engine import NEO4J, REDIS, Engine
from tests.waiting import wait_until

PASSWORD = "a-password-of-this-test"
READY_WITHIN_S = 180.0
ENTITIES = 200


@pytest.fixture
def settings(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings for three containers of this test."""
    monkeypatch.setenv("DOCKER_HOST", engine.environment["DOCKER_HOST"])
    # What removes left-over containers is an image of its own; the engine is stopped with all of them.
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer

    def neo4j(database: str) -> DockerContainer:
        container = DockerContainer(NEO4J.name).with_exposed_ports(7687)
        return container.with_envs(
            NEO4J_AUTH=f"neo4j/{PASSWORD}",
            NEO4J_PLUGINS='["apoc"]',
            NEO4J_initial_dbms_default__database=database,
            NEO4J_server_memory_heap_max__size="512m",
        )

    with (
        neo4j("neo4j") as graph,
        neo4j("embedding-jobs") as jobs,
        DockerContainer(REDIS.name)
        .with_exposed_ports(6379)
        .with_command(f"redis-server --bind 0.0.0.0 --requirepass {PASSWORD}") as redis,
    ):
        yield Settings(
            _env_file=None,
            neo4j_uri=f"bolt://127.0.0.1:{graph.get_exposed_port(7687)}",
            neo4j_username="neo4j",
            neo4j_password=PASSWORD,
            embed_job_database_uri=f"bolt://127.0.0.1:{jobs.get_exposed_port(7687)}",
            embed_job_database_username="neo4j",
            embed_job_database_password=PASSWORD,
            celery_broker_url=f"redis://:{PASSWORD}@127.0.0.1:{redis.get_exposed_port(6379)}/0",
            embed_job_retention_days=14,
            embedding_provider="mock",
            embedding_rate_limit_tokens="unlimited",
        )


def test_entities_are_embedded_on_containers(settings: Settings, tmp_path: Path) -> None:
    with (
        EmbedQueue.connect(settings) as queue,
        EntityGraph.from_settings(settings, queue.enqueue) as graph,
    ):

        def prepared() -> bool:
            try:
                return not [
                    *migrate_jobs(queue.database).problems,
                    *migrate_graph(graph.database, settings).problems,
                ]
            except Exception:  # noqa: BLE001 - a server that is not ready yet
                return False

        wait_until(prepared, within_s=READY_WITHIN_S, what="both databases are ready")
        variables = {
            "NEO4J_URI": settings.neo4j_uri,
            "NEO4J_USERNAME": "neo4j",
            "NEO4J_PASSWORD": PASSWORD,
            "EMBED_JOB_DATABASE_URI": settings.embed_job_database_uri,
            "EMBED_JOB_DATABASE_USERNAME": "neo4j",
            "EMBED_JOB_DATABASE_PASSWORD": PASSWORD,
            "CELERY_BROKER_URL": settings.celery_broker_url,
            "EMBED_JOB_RETENTION_DAYS": "14",
            "EMBEDDING_PROVIDER": "mock",
            "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited",
        }
        processes = StartedProcesses({**os.environ, **variables}, tmp_path)
        try:
            processes.worker("control,embed", concurrency=2)
            processes.beat()
            graph.create_entities(
                {"name": f"e{n}", "observations": [f"what is said of e{n}"]} for n in range(ENTITIES)
            )
            wait_until(lambda: queue.status().unfinished == 0, within_s=120, what="drained")
            coverage = graph.coverage()
            assert (coverage.entities, coverage.fresh) == (ENTITIES, ENTITIES)
        finally:
            processes.kill()
