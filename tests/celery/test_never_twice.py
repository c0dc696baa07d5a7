"""Several worker processes, entities that share texts: each text goes to the provider once (C10)."""

import os
import random
from collections.abc import Iterator

import pytest

from neo4j_queue.schema import migrate_graph
from neo4j_queue.schema.indexes import indexes
from tests.celery.conftest import MakeWorld, World
from tests.provider import ProviderServer

# `NEVER_TWICE_ENTITIES=20000` for the figure; the usual number shows the same in a few seconds.
ENTITIES = int(os.environ.get("NEVER_TWICE_ENTITIES", "2000"))
SHARED = 0.1
PAGE = 500
LABEL = "Note"
# Small batches: many run at once, and twins are spread over them.
BATCH = 10
# Two batches of each of the four slots are under way while the provider answers one.
LATENCY_S = 0.02


def descriptions(count: int) -> list[str]:
    """One text in ten is that of another entity, anywhere."""
    chance = random.Random(5)
    own = [f"What only number {n} has said about itself." for n in range(count)]
    return [chance.choice(own) if chance.random() < SHARED else text for text in own]


@pytest.fixture
def notes(make_world: MakeWorld, provider: ProviderServer) -> Iterator[World]:
    """A world whose entities are notes: the text is the description alone. Their indexes are gone afterwards."""
    world = make_world(
        provider,
        EMBED_ENTITY_LABEL=LABEL,
        NEO4J_VECTOR_INDEX="note_vectors",
        EMBED_TEXT_PROPERTIES="description",
        EMBED_BATCH_SIZE=str(BATCH),
        # No lease may run out on a busy machine: a batch that is done again counts its jobs twice.
        EMBED_JOB_START_DEADLINE_MS="30000",
        EMBED_JOB_LOCK_DURATION_MS="60000",
    )
    report = migrate_graph(world.graph_db, world.settings)
    assert report.ok, report.problems
    yield world
    world.celery.kill()
    for index in indexes(world.graph_db).values():
        if index.labels == [LABEL]:
            kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
            world.graph_db.autocommit(f"DROP {kind} `{name}`")


def test_each_text_is_paid_for_once(notes: World, provider: ProviderServer) -> None:
    """Guards: the texts of open leases in jobs/lease_judge (without them some twins are under way at the same time),
    and the copies in `Sourcing` (without them every twin of an earlier batch is asked for)."""
    provider.latency_s = LATENCY_S
    world = notes
    world.celery.control()
    for _ in range(2):
        world.celery.embed(concurrency=2)
    world.celery.beat()
    texts = descriptions(ENTITIES)
    entities = [{"name": f"e{n}", "description": text} for n, text in enumerate(texts)]
    for first in range(0, ENTITIES, PAGE):
        world.graph.create_entities(entities[first : first + PAGE])
    status = world.drained(within_s=60 + ENTITIES / 50)
    assert (status.completed, status.failed) == (ENTITIES, 0)
    assert world.all_fresh(ENTITIES)
    inputs = provider.inputs
    assert provider.max_concurrency > 1
    assert sorted(inputs) == sorted(set(texts))
    (sums,) = world.jobs_db.read(
        "MATCH (l:EmbedLease) RETURN sum(l.inputs) AS inputs, sum(l.saved) AS saved, sum(l.jobs) AS jobs"
    )
    assert (sums["inputs"], sums["inputs"] + sums["saved"]) == (len(inputs), ENTITIES)
