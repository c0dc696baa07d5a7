"""A small world for tests with real worker processes: graph, queue, provider, and short leases."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.settings import Settings
from tests.celery_processes import ROOT, StartedProcesses
from tests.provider import ProviderServer
from tests.waiting import wait_until

# Leases short enough that a test can see them run out, long enough for a busy machine to start work in time.
SHORT = {
    "EMBED_JOB_LOCK_DURATION_MS": "6000",
    "EMBED_JOB_START_DEADLINE_MS": "4000",
    "EMBED_REQUEST_TIMEOUT_MS": "3000",
    "EMBED_JOB_HEARTBEAT_INTERVAL_MS": "1500",
    "EMBED_JOB_RECOVERY_INTERVAL": "1000",
    "EMBED_JOB_RETRY_BASE_DELAY_MS": "200",
    "EMBED_SHUTDOWN_GRACE_MS": "2000",
    "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited",
    "EMBED_BATCH_SIZE": "20",
}


@dataclass
class World:
    """Everything a process test needs. `environment` is that of the processes, `settings` the same in here."""

    environment: dict[str, str]
    settings: Settings
    graph: EntityGraph
    queue: EmbedQueue
    graph_db: Database
    jobs_db: Database
    celery: StartedProcesses

    def create(self, count: int, prefix: str = "e") -> list[str]:
        """So many entities through the library, queued; their names."""
        names = [f"{prefix}{n}" for n in range(count)]
        self.graph.create_entities({"name": name, "observations": [f"text of {name}"]} for name in names)
        return names

    def drained(self, *, within_s: float) -> QueueStatus:
        """Waits until no job is unfinished."""

        def ended() -> QueueStatus | None:
            status = self.queue.status()
            return status if status.unfinished == 0 and status.total else None

        return wait_until(ended, within_s=within_s, what=f"the queue is empty; {self.queue.status()}")

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs."""
        return self.queue.jobs(limit=100_000)

    def all_fresh(self, count: int) -> bool:
        """Every entity carries the vector of its own text."""
        coverage = self.graph.coverage()
        return coverage.fresh == coverage.entities == count


MakeWorld = Callable[..., World]
Run = Callable[..., Any]
REFUSED = 78


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A provider that does what the test says."""
    with ProviderServer(dimensions=256) as server:
        yield server


@pytest.fixture
def make_world(
    graph_db: Database, jobs_db: Database, redis_url: str, environment: dict[str, str], tmp_path: Path
) -> Iterator[MakeWorld]:
    """A world with the mock provider, or with `provider=` the programmable one; further settings by name."""
    opened: list[StartedProcesses] = []

    def make(provider: ProviderServer | None = None, **overrides: str) -> World:
        # The services' settings name Redis and both databases; the rest is what this test wants.
        variables = {**environment, **SHORT, "CELERY_BROKER_URL": redis_url}
        if provider is not None:
            variables |= {
                "EMBEDDING_PROVIDER": "openai",
                "OPENAI_BASE_URL": provider.url,
                "OPENAI_API_KEY": "test-key-of-no-worth",
                "OPENAI_EMBEDDING_MODEL": "test-model",
                "NEO4J_VECTOR_DIMENSIONS": "256",
            }
        variables |= overrides
        known = {name.lower(): value for name, value in variables.items()}
        settings = Settings(
            **{"_env_file": None, **{k: v for k, v in known.items() if k in Settings.model_fields}}
        )
        queue = EmbedQueue(jobs_db, settings)
        graph = EntityGraph.from_settings(settings, enqueue=queue.enqueue, database=graph_db)
        processes = StartedProcesses(variables, tmp_path)
        opened.append(processes)
        return World(variables, settings, graph, queue, graph_db, jobs_db, processes)

    yield make
    for processes in opened:
        processes.kill()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Databases and Redis; no worker."""
    return make_world()


@pytest.fixture
def run(world: World, tmp_path: Path) -> Run:
    """Runs a command; its answer as JSON, or its text, or why it was refused; `code`: its exit code (None: any).

    `both`: everything that it wrote, the answer and what was said beside it.
    """

    def run(*arguments: str, code: int | None = 0, both: bool = False, **environment: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "neo4j_queue.cli", *arguments],
            cwd=tmp_path,
            env={**world.environment, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert code in (None, done.returncode), done.stderr + done.stdout
        if both:
            return done.stdout + done.stderr
        if "--json" in arguments:
            return json.loads(done.stdout)
        return done.stderr if code == REFUSED else done.stdout

    return run
