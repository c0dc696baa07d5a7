"""What a chaos run disturbs: services, workers, the provider, and the entities that are written meanwhile."""

import random
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from neo4j.exceptions import DriverError, Neo4jError

from benchmarks.stage import Stage
from neo4j_queue.database import Database
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph import EntityGraph
from neo4j_queue.local_services import LocalServices, Neo4jServer
from neo4j_queue.local_services.celery_processes import CeleryProcess, CeleryProcesses, ProcessLostError
from neo4j_queue.mock_provider import ProviderServer
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.settings import Settings

DIMENSIONS = 256
PROVIDER_LATENCY_S = 0.05
PAGE = 200
STOP_TIMEOUT_S = 30.0
READY_S = 120.0
POLL_S = 0.1
# What makes up a Neo4j server's state: its stores and their transaction logs.
STORED = ("data", "tx")
# Short leases, so that a lost worker's jobs come back within the run; many attempts, for the provider's faults are
# meant to be survived.
SETTINGS = {
    "embedding_provider": "openai",
    "openai_api_key": "key-of-no-worth",
    "openai_embedding_model": "chaos",
    "neo4j_vector_dimensions": DIMENSIONS,
    "embed_batch_size": 100,
    "embed_request_timeout_ms": 3_000,
    "embed_job_start_deadline_ms": 5_000,
    "embed_job_lock_duration_ms": 10_000,
    "embed_job_heartbeat_interval_ms": 2_000,
    "embed_job_recovery_interval": 1_000,
    "embed_job_retry_base_delay_ms": 500,
    "embed_job_max_retries": 10,
    "embed_job_max_crashes": 10,
}
OPEN_LEASES = """
MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.lease_token IS NOT NULL
RETURN j.lease_token AS token, collect(j.id) AS ids LIMIT 20
"""
FIRST_AFTER = """
MATCH (j:EmbedJob) WHERE j.status = 'completed' AND j.processed_at > $at RETURN min(j.processed_at) AS at
"""


@dataclass(slots=True)
class World:
    """Leaving the context stops the workers and the provider."""

    stage: Stage
    workers: int
    provider: ProviderServer = field(init=False)
    settings: Settings = field(init=False)
    graph: EntityGraph = field(init=False)
    queue: EmbedQueue = field(init=False)
    processes: CeleryProcesses = field(init=False)
    # The version of the text of each entity that is to exist; deleted ones are not in it.
    versions: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    died: list[str] = field(default_factory=list)
    # How often the jobs database was put back: entities embedded before may have no job any more.
    put_backs: int = 0
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:  # Ctrl-C between two starts
            self._open.close()
            raise
        return self

    def _begin(self) -> None:
        self.provider = self._open.enter_context(
            ProviderServer(dimensions=DIMENSIONS, latency_s=PROVIDER_LATENCY_S)
        )
        changed = SETTINGS | {"openai_base_url": self.provider.url}
        self.settings = self.stage.settings(**changed)
        with Database(self.services.jobs.address) as jobs, Database(self.services.graph.address) as graph:
            self.stage.prepare_jobs(jobs)
            self.stage.prepare_graph(graph, self.settings)
        # Not at the top: celeryconfig reads the environment when it is imported, and the stage has set it by now.
        from tasks.client import open_graph

        self.graph = self._open.enter_context(open_graph(self.settings))
        self.queue = self._open.enter_context(EmbedQueue.connect(self.settings))
        self.processes = self._open.enter_context(self._crew(self.stage.environment(**changed)))
        deadline = time.monotonic() + READY_S
        while len(self.queue.census.workers()) < self.workers:
            if time.monotonic() > deadline:
                raise ProcessLostError(
                    f"the workers are not ready after {READY_S:.0f} s:\n{self.processes.tails()}"
                )
            time.sleep(POLL_S)

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def _crew(self, environment: Mapping[str, str]) -> CeleryProcesses:
        roles = {
            f"embed{n}": ("worker", "-Q", "embed", "-c", "2", "-n", f"embed{n}@chaos")
            for n in range(self.workers)
        }
        roles["control"] = ("worker", "-Q", "control", "-c", "2", "-n", "control@chaos")
        roles["beat"] = ("beat", "--pidfile=")
        directory = self.stage.directory / "workers"
        return CeleryProcesses(roles, environment, directory, stop_within_s=STOP_TIMEOUT_S)

    @property
    def services(self) -> LocalServices:
        """Both databases and Redis."""
        return self.stage.services

    @property
    def embed_workers(self) -> list[CeleryProcess]:
        """The workers whose slots count."""
        return [process for process in self.processes.all if process.name.startswith("embed")]

    def process(self, name: str) -> CeleryProcess:
        """One process by its name."""
        return self.processes[name]

    def start(self, name: str) -> None:
        """Starts a process that was killed; returns when it is ready, or has ended again."""
        process = self.process(name)
        process.start()
        process.wait_ready(READY_S)

    def restart_dead(self) -> None:
        """Starts again what ended without having been killed here; `died` names it."""
        for process in self.processes.all:
            code = process.exit_code()
            if code is not None:
                self.died.append(f"{process.name} ended with {code}")
                process.start()

    # -- copies of a database ------------------------------------------------------------------------------

    def copy_of(self, server: Neo4jServer) -> Path:
        """A copy of what a stopped server has stored."""
        copy = self.stage.directory / f"copy-of-{server.name}"
        shutil.rmtree(copy, ignore_errors=True)
        for folder in STORED:
            shutil.copytree(server.directory / folder, copy / folder)
        return copy

    def put_back(self, server: Neo4jServer, copy: Path) -> None:
        """Gives a stopped server what it had stored at the time of the copy."""
        for folder in STORED:
            shutil.rmtree(server.directory / folder)
            shutil.copytree(copy / folder, server.directory / folder)
        self.put_backs += 1

    def wait_for_completed(self, count: int, within_s: float) -> None:
        """Returns when so many jobs more are completed, or after `within_s` seconds."""
        before, deadline = self.status(), time.monotonic() + within_s
        while before is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
            before = self.status()
        wanted = (before.completed if before else 0) + count
        while time.monotonic() < deadline:
            now = self.status()
            if now is not None and (now.completed >= wanted or not now.unfinished):
                return
            self.restart_dead()
            time.sleep(POLL_S)

    # -- the entities --------------------------------------------------------------------------------------

    def create(self, first: int, count: int) -> None:
        """Writes entities `first` to `first + count - 1`, and again until they are written."""
        names = [f"chaos-{n}" for n in range(first, first + count)]
        self._persist(lambda: self.graph.create_entities(_entity(name, 0) for name in names))
        self.versions.update(dict.fromkeys(names, 0))

    def edit(self, chance: random.Random, count: int) -> None:
        """Gives entities a text that was never there before."""
        names = self._some(chance, count)
        for name in names:
            self.versions[name] += 1
        entries = [_entity(name, self.versions[name]) for name in names]
        self._persist(lambda: self.graph.create_entities(entries))

    def delete(self, chance: random.Random, count: int) -> None:
        """Removes entities."""
        for name in self._some(chance, count):
            self._persist(lambda name=name: self._remove(name))
            del self.versions[name]
            self.deleted.add(name)

    def _remove(self, name: str) -> None:
        with suppress(EntityNotFound):  # an earlier try did it, and its answer was lost
            self.graph.delete_entity(name)

    def _some(self, chance: random.Random, count: int) -> list[str]:
        return chance.sample(sorted(self.versions), min(count, len(self.versions)))

    def _persist(self, write: Any) -> None:
        """An application repeats a write that its database did not take; writes of entities are idempotent."""
        while True:
            try:
                write()
                return
            except (DriverError, Neo4jError, OSError):
                time.sleep(0.5)

    # -- looking at it -------------------------------------------------------------------------------------

    def status(self) -> QueueStatus | None:
        """The queue, or None while it cannot be asked."""
        try:
            return self.queue.status()
        except (DriverError, Neo4jError, OSError):
            return None

    def all_fresh(self) -> bool:
        """True if every entity has a vector, and no change waits for a new one."""
        try:
            coverage = self.graph.coverage()
        except (DriverError, Neo4jError, OSError):
            return False
        return coverage.fresh == coverage.entities

    def first_completed_after(self, at: int) -> int | None:
        """When the first job after `at` (epoch ms) was completed, if one was."""
        try:
            found = self.queue.database.read(FIRST_AFTER, at=at)[0]["at"]
        except (DriverError, Neo4jError, OSError):
            return None
        return None if found is None else int(found)

    def double_messages(self) -> None:
        """Sends the message of each running lease again."""
        from tasks.app import app

        for row in self.queue.database.read(OPEN_LEASES):
            app.send_task("tasks.embed.embed_batch", args=(row["token"], row["ids"]), retry=False)

    def sweep(self) -> None:
        """What beat does every five minutes: entities whose job could not be stored get one."""
        from tasks.app import app

        app.send_task("tasks.upkeep.reconcile", retry=False)


def _entity(name: str, version: int) -> dict[str, Any]:
    return {"name": name, "entityType": "Chaos", "observations": [f"{name} in version {version}"]}
