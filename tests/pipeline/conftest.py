"""One process with the whole chain but Celery: graph, queue, programmable provider, pipeline."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.embedders import Embedder, open_embedder
from neo4j_queue.entities import EntityText
from neo4j_queue.graph import EntityGraph
from neo4j_queue.mock_provider import ProviderServer
from neo4j_queue.pipeline import Pipeline, Summary
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings


@dataclass
class ShiftedClock:
    """The real time, moved on by what a test skips (ms)."""

    skipped: int = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.skipped


@dataclass
class Bench:
    """Everything a pipeline test needs."""

    clock: ShiftedClock
    settings: Settings
    graph: EntityGraph
    queue: EmbedQueue
    embedder: Embedder
    provider: ProviderServer
    pipeline: Pipeline

    def skip(self, seconds: float) -> None:
        """Lets so much time pass for the queue."""
        self.clock.skipped += round(seconds * 1000)

    def create(self, *names: str, text: str = "text of {}") -> None:
        """Entities with one observation each, queued."""
        self.graph.create_entities({"name": name, "observations": [text.format(name)]} for name in names)

    def step(self) -> list[Summary]:
        """Leases what is due and runs it, once."""
        leases = self.queue.lease("test", batches=100).leases
        return [self.pipeline.run(lease.token, lease.job_ids) for lease in leases]

    def text(self, name: str) -> EntityText:
        """The entity's text as it stands."""
        return self.graph.get_text(name)

    def job(self, name: str) -> dict[str, Any]:
        """The newest job of an entity."""
        return self.queue.jobs(entity_uid=name)[0]

    def vector(self, name: str) -> list[float] | None:
        """The stored vector."""
        found = self.graph.database.read(
            "MATCH (n:Entity {name: $name}) RETURN n.embedding AS vector", name=name
        )
        return list(found[0]["vector"]) if found and found[0]["vector"] is not None else None


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A provider that does what the test says."""
    with ProviderServer(dimensions=256) as server:
        yield server


@pytest.fixture
def bench(
    graph_db: Database, jobs_db: Database, make_settings: MakeSettings, provider: ProviderServer
) -> Iterator[Bench]:
    """The chain, with a batch of up to 100 texts."""
    settings = make_settings(
        embedding_provider="openai",
        openai_base_url=provider.url,
        openai_api_key="test-key-of-no-worth",
        openai_embedding_model="test-model",
        neo4j_vector_dimensions=256,
        embedding_rate_limit_tokens="unlimited",
        embed_batch_size=100,
        embed_request_timeout_ms=2_000,
        embed_job_retry_base_delay_ms=0,
    )
    clock = ShiftedClock()
    queue = EmbedQueue(jobs_db, settings, clock=clock)
    graph = EntityGraph.from_settings(settings, enqueue=queue.enqueue, database=graph_db)
    embedder = open_embedder(settings)
    pipeline = Pipeline(queue, graph, embedder, worker="test", sleep=lambda _: None)
    yield Bench(clock, settings, graph, queue, embedder, provider, pipeline)
    embedder.close()
