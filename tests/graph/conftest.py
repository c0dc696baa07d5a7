"""What the tests of the graph share: a graph on the real database, vectors, and a forced interleaving."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import EntityText, VectorWrite
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings

# A blocked statement shows up within milliseconds; a busy machine takes its time. One that waits longer than the
# server's lock timeout (5 s) is repeated by the driver, and waits again.
DEADLINE_S = 20.0
BLOCKED = "SHOW TRANSACTIONS YIELD status WHERE status STARTS WITH 'Blocked' RETURN count(*) AS blocked"

T = TypeVar("T")
MakeWrite = Callable[..., VectorWrite]


@pytest.fixture
def queue(jobs_db: Database, settings: Settings) -> EmbedQueue:
    """The real queue."""
    return EmbedQueue(jobs_db, settings)


@pytest.fixture
def graph(graph_db: Database, settings: Settings) -> EntityGraph:
    """The real graph, with no queue behind it."""
    return EntityGraph.from_settings(settings, database=graph_db)


@pytest.fixture
def queued_graph(graph_db: Database, settings: Settings, queue: EmbedQueue) -> EntityGraph:
    """The real graph, whose entities become jobs of the real queue."""
    # Longer than the bound of a program, so that on a busy machine a slow answer is not one that comes too late.
    return EntityGraph.from_settings(settings, enqueue=queue.enqueue, database=graph_db, enqueue_wait_s=60)


@pytest.fixture
def vector_for(graph: EntityGraph) -> Callable[[int], list[float]]:
    """The unit vector along one axis."""

    def make(axis: int) -> list[float]:
        return [1.0 if at == axis else 0.0 for at in range(graph.dimensions)]

    return make


@pytest.fixture
def write_of(vector_for: Callable[[int], list[float]]) -> MakeWrite:
    """The write of a vector along one axis for a text as it was read."""

    def make(text: EntityText, axis: int = 0) -> VectorWrite:
        return VectorWrite(text.uid, text.source, text.content_hash, vector_for(axis))

    return make


@pytest.fixture
def embed(graph: EntityGraph, write_of: MakeWrite) -> Callable[..., set[tuple[str, str]]]:
    """Gives entities the vectors of their current texts, along the axes 0, 1, 2, …"""

    def work(*uids: str) -> set[tuple[str, str]]:
        by_uid = {text.uid: text for text in graph.read_texts(uids)}
        return graph.write_vectors([write_of(by_uid[uid], axis) for axis, uid in enumerate(uids)])

    return work


@pytest.fixture
def while_open(graph_db: Database) -> Callable[..., Any]:
    """Runs `work` while another transaction holds a change that it has not committed.

    The statement runs first and keeps its locks; `work` starts on a thread and must be seen waiting for a lock;
    then the change is committed. Returns what `work` returned.
    """

    def run(statement: str, work: Callable[[], T], **parameters: Any) -> T:
        with graph_db.driver().session(database=graph_db.address.database) as session:
            held = session.begin_transaction()
            held.run(statement, parameters).consume()  # type: ignore[arg-type, unused-ignore]
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(work)
                try:
                    wait_until(lambda: graph_db.read(BLOCKED)[0]["blocked"] > 0 or future.done())
                    assert not future.done(), f"it did not wait for the lock: {future.result()}"
                finally:
                    held.commit()
                return future.result(timeout=DEADLINE_S)

    return run


def wait_until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Polls until the condition holds; fails at the deadline."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "it never happened"
        pause.wait(0.01)
