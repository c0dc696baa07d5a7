"""Entities without a vector and their due jobs: the state from which every drain starts anew."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from benchmarks.stage import Stage, drop_index, wipe_jobs
from neo4j_queue.embedders.mock import vector_of
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityInput, EntityText, VectorWrite
from neo4j_queue.jobs import PRIORITY_DEFAULT
from neo4j_queue.queue import EmbedQueue

PAGE = 1_000
# What a vector write leaves on an entity is taken away, and the outbox mark put back: as `create_entities` left it.
BARE_AGAIN = """
MATCH (n:Entity)
CALL (n) {
  REMOVE n.embedding, n.embedding_model, n.embedding_hash, n.embedded_at, n.embedding_truncated
  SET n:EmbedPending
} IN TRANSACTIONS OF 2000 ROWS
"""

T = TypeVar("T")


class Corpus:
    """`count` entities of some fifty words each on a stage, and what a baseline needs ready: texts and vectors."""

    def __init__(self, stage: Stage, dimensions: int, count: int) -> None:
        self.stage = stage
        self.dimensions = dimensions
        self.count = count
        self.settings = stage.settings(neo4j_vector_dimensions=dimensions)
        self.graph = EntityGraph.from_settings(self.settings)
        self.queue = EmbedQueue.connect(self.settings)
        self.texts: list[EntityText] = []
        self.vectors: dict[str, list[float]] = {}

    def close(self) -> None:
        """Closes both drivers."""
        self.graph.close()
        self.queue.close()

    def create(self) -> None:
        """Writes the entities (those that are there stay), and makes texts and vectors ready."""
        self.stage.prepare_jobs(self.queue.database)
        # The index on the key: without it the cost of each page grows with the number of entities.
        self.stage.prepare_graph(self.graph.database, self.settings)
        for first in range(0, self.count, PAGE):
            self.graph.create_entities(entity(n) for n in range(first, min(first + PAGE, self.count)))
        self.reset()
        for page in pages([f"entity-{n:06}" for n in range(self.count)], PAGE):
            self.texts += self.graph.read_texts(page)
        self.vectors = {text.uid: vector_of(text.text, self.dimensions) for text in self.texts}

    def reset(self) -> None:
        """No vector, an empty index that is online, and a queue without jobs.

        The index is made anew each time: one that has lost its vectors is slower than an empty one.
        """
        drop_index(self.graph.database, self.settings.neo4j_vector_index)
        self.graph.database.autocommit(BARE_AGAIN)
        self.stage.prepare_graph(self.graph.database, self.settings)
        wipe_jobs(self.queue.database)

    def enqueue(self, count: int, priority: int = PRIORITY_DEFAULT) -> None:
        """Jobs for the first `count` entities, by the product's own call."""
        for page in pages(self.texts[:count], PAGE):
            self.queue.enqueue([text.request(self.graph.model, priority=priority) for text in page])

    def writes(self, count: int, size: int) -> list[list[VectorWrite]]:
        """The vector writes for the first `count` entities in batches of `size`."""
        made = [self.write(text) for text in self.texts[:count]]
        return list(pages(made, size))

    def write(self, text: EntityText) -> VectorWrite:
        """The fenced write of one ready vector."""
        return VectorWrite(text.uid, text.source, text.content_hash, self.vectors[text.uid])

    def with_vector(self) -> int:
        """How many entities have their vector."""
        return self.graph.coverage().fresh


def pages(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """`items` in lists of at most `size`."""
    for first in range(0, len(items), size):
        yield list(items[first : first + size])


def entity(n: int) -> EntityInput:
    """The n-th entity: its name, type and two observations."""
    observations = [
        f"Item {n} of a catalogue that is never read, written to be as long as an observation of an agent is.",
        f"It was seen in room {n % 97} on shelf {n % 31}, between a lamp and a book about the number {n * 7919}.",
    ]
    return EntityInput(f"entity-{n:06}", "Benchmark", observations)
