"""Where a benchmark takes place: services of its own, their settings, and the work that is put before it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neo4j_queue import schema
from neo4j_queue.cypher import quote
from neo4j_queue.database import Database
from neo4j_queue.demo.environment import DemoSettings, process_environment
from neo4j_queue.errors import SettingsError
from neo4j_queue.interruption import terminable
from neo4j_queue.local_services import LocalServices, Progress, ServicesConfig, free_ports
from neo4j_queue.settings import Settings

# Rows per transaction of the fillings and wipings: the heap of the servers is small.
PAGE = 10_000
# A million jobs take twenty seconds on a quiet machine.
FILLED_WITHIN_S = 600.0
# Jobs as `enqueue` would make them, some fifty thousand a second. Ids and versions only have to be unique.
FILL = f"""
UNWIND range($first, $first + $count - 1) AS n
CALL (n) {{
  CREATE (:EmbedJob {{id: 'job-' + n, entity_uid: 'entity-' + n, model: $model, version: toString(n),
    status: 'pending', priority: 1, created_at: timestamp(), available_at: timestamp(), attempts: 0,
    max_attempts: 3, crashes: 0, est_tokens: 20, _lock: true}})
}} IN TRANSACTIONS OF {PAGE} ROWS
"""
# Takes the provider out of the measurement; the budget of a real one would be all that is measured.
MEASURED = {
    "EMBEDDING_PROVIDER": "mock",
    "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited",
    "NEO4J_USERNAME": "",
    "NEO4J_PASSWORD": "",
    "EMBED_JOB_DATABASE_USERNAME": "",
    "EMBED_JOB_DATABASE_PASSWORD": "",
}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """Running services. `directory` holds their data and the logs of everything."""

    services: LocalServices
    directory: Path
    say: Say

    def variables(self, **changed: Any) -> dict[str, str]:
        """The product's settings as variables: `variables(embed_batch_size=50)`."""
        given = {name.upper(): str(value) for name, value in changed.items()}
        return {**MEASURED, **self.services.environment(), **given}

    def settings(self, **changed: Any) -> Settings:
        """The product's settings; nothing of the shell, nothing of a `.env`."""
        return DemoSettings.of(self.variables(**changed))

    def environment(self, **changed: Any) -> dict[str, str]:
        """The environment of a worker with these settings."""
        return process_environment(self.variables(**changed))

    def pids(self) -> dict[str, int]:
        """The servers' processes."""
        return {service.name: service.pid for service in self.services.all if service.pid is not None}

    def prepare_jobs(self, jobs: Database) -> None:
        """The schema of the jobs database."""
        _refuse(schema.migrate_jobs(jobs))

    def prepare_graph(self, graph: Database, settings: Settings) -> None:
        """The schema of the graph; creates the vector index when it is not there."""
        _refuse(schema.migrate_graph(graph, settings))


@contextmanager
def open_stage(say: Say) -> Iterator[Stage]:
    """Services on ports of their own with throw-away data; stopped at the end, whatever ends it."""
    with terminable():
        directory = Path(tempfile.mkdtemp(prefix="neo4j-queue-bench-"))
        graph, jobs, redis = free_ports(3)

        def report(news: Progress) -> None:
            if news.step != "neo4j" or news.finished or not (news.done or 0) % 100:
                say(f"{news.step}: {news.message}")

        services = LocalServices(ServicesConfig(graph, jobs, redis, directory, throwaway=True), report)
        try:
            services.up()
            stage = Stage(services, directory, say)
            # For the Celery app in this process, which reads its settings from the environment when it is imported.
            os.environ.update(stage.variables())
            yield stage
        finally:
            services.down()
            shutil.rmtree(directory, ignore_errors=True)


def wipe_jobs(jobs: Database) -> None:
    """Removes jobs, leases and the census; the control node and the schema stay."""
    for label in ("EmbedJob", "EmbedLease", "EmbedWorker"):
        jobs.autocommit(
            f"MATCH (n:{label}) CALL (n) {{ DETACH DELETE n }} IN TRANSACTIONS OF {PAGE} ROWS",
            timeout_s=FILLED_WITHIN_S,
        )


def fill_jobs(jobs: Database, count: int, *, first: int = 0, model: str = "mock-256") -> None:
    """`count` due jobs, numbered from `first`."""
    jobs.autocommit(FILL, timeout_s=FILLED_WITHIN_S, first=first, count=count, model=model)


def drop_index(graph: Database, name: str) -> None:
    """Drops an index, if it is there."""
    graph.autocommit(f"DROP INDEX {quote(name)} IF EXISTS")


def _refuse(report: schema.Report) -> None:
    if report.problems:
        raise SettingsError(report.problems)
