"""One process with the whole chain but Celery: graph, queue, programmable provider, pipeline."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.embedders import Embedder, open_embedder
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.pipeline import Pipeline
from neo4j_queue.pipeline.pipeline import Summary
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings
from tests.provider import ProviderServer, hosted_by


@dataclass
class StandingClock:
    """Epoch ms that only a test moves on, so that a slow machine ends no rest and no lock."""

    now: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def __call__(self) -> int:
        return self.now


@dataclass
class Bench:
    """Everything a pipeline test needs."""

    clock: StandingClock
    settings: Settings
    graph: EntityGraph
    queue: EmbedQueue
    embedder: Embedder
    provider: ProviderServer
    pipeline: Pipeline

    def skip(self, seconds: float) -> None:
        """Lets so much time pass for the queue."""
        self.clock.now += round(seconds * 1000)

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


MakeBench = Callable[..., Bench]


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A provider that does what the test says."""
    with ProviderServer(dimensions=256) as server:
        yield server


@pytest.fixture
def make_bench(
    graph_db: Database, jobs_db: Database, make_settings: MakeSettings, provider: ProviderServer
) -> Iterator[MakeBench]:
    """Makes the chain, with a batch of up to 100 texts unless told otherwise: `make_bench(embed_batch_size=7)`."""
    opened: list[Embedder] = []

    def make(**overrides: Any) -> Bench:
        values = {
            **hosted_by(provider),
            "embedding_rate_limit_tokens": "unlimited",
            "embed_batch_size": 100,
            "embed_request_timeout_ms": 2_000,
            "embed_job_retry_base_delay_ms": 0,
        }
        settings = make_settings(**values | overrides)
        clock = StandingClock()
        queue = EmbedQueue(jobs_db, settings, clock=clock)
        graph = EntityGraph.from_settings(settings, enqueue=queue.enqueue, database=graph_db)
        embedder = open_embedder(settings)
        opened.append(embedder)
        pipeline = Pipeline(
            queue,
            graph,
            embedder,
            worker="test",
            long_texts=settings.embed_long_texts,
            sleep=lambda _: None,
        )
        return Bench(clock, settings, graph, queue, embedder, provider, pipeline)

    yield make
    for embedder in opened:
        embedder.close()


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    """The chain, with a batch of up to 100 texts."""
    return make_bench()


class StubEmbedder:
    """An embedder whose request does something else."""

    def __init__(self, real: Any, embed: Callable[[object], Any]) -> None:
        self.model, self.dimensions, self.profile, self.embed = (
            real.model,
            real.dimensions,
            real.profile,
            embed,
        )
