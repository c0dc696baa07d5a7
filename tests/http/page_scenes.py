"""What the page is looked at with: states of the queue, planted through the library."""

from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.graph import EntityGraph
from neo4j_queue.jobs import JobRequest, Outcome
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Completion, Failure, Spent, Verdicts, WorkerAnswer
from tests.queue.scenery import MODEL, fault

# What a browser would obey if it were not escaped, and what a person would not see.
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x07\u202e{{ 7 * 7 }}"
HOSTILE_SHOWN = r"<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x07\u202e{{ 7 * 7 }}".replace(
    '\\"', '"'
)


def workers(queue: EmbedQueue, *names: str, slots: int = 4) -> None:
    """Workers that answered a moment ago."""
    queue.census.record([WorkerAnswer(name, slots, up_ms=1_000) for name in names])
    queue.ticks.note(beat=True)


def backlog(queue: EmbedQueue, count: int) -> None:
    """Jobs that are due."""
    queue.enqueue([JobRequest(f"Entity {n}", MODEL, f"{n:016x}") for n in range(count)])


def drained(queue: EmbedQueue, worker: str = "embed@host-1") -> int:
    """One batch that ended well; how many jobs."""
    (lease,) = queue.lease("control@host-1", batches=1).leases
    start = queue.start(lease.token, lease.job_ids, worker=worker)
    done = [Completion(job.id, Outcome.EMBEDDED) for job in start.jobs]
    queue.settle(
        lease.token, Verdicts(completed=done), spent=Spent(requests=1, inputs=len(done), sent_ms_ago=5)
    )
    return len(done)


def dead_letters(
    queue: EmbedQueue, names: list[str], message: str = "the input is too long", **more: Any
) -> list[str]:
    """Jobs that failed for good; their ids."""
    queue.enqueue([JobRequest(name, MODEL, f"{n:016x}", priority=9) for n, name in enumerate(names)])
    failed: list[str] = []
    while len(failed) < len(names):
        (lease,) = queue.lease("control@host-1", batches=1).leases
        start = queue.start(lease.token, lease.job_ids, worker="embed@host-1")
        why = fault(
            ErrorCategory.PERMANENT,
            message=message,
            **{"error_type": "BadRequestError", "status": 400, **more},
        )
        queue.settle(lease.token, Verdicts(failed=[Failure(job, why) for job in start.jobs]))
        failed += [job.id for job in start.jobs]
    return failed


def history(queue: EmbedQueue, depths: list[int], per_minute: int) -> None:
    """Samples of the last minutes, the last one now."""
    now = queue.census.time()
    for n, depth in enumerate(depths):
        at = now - (len(depths) - 1 - n) * 60_000
        sample = {
            "at": at,
            "pending": depth,
            "delayed": 0,
            "processing": 0,
            "failed": 0,
            "completed": n * per_minute,
        }
        queue.database.write(statement("history/keep"), name=f"sample {n:04}", sample=sample)


def entities(graph: EntityGraph, names: list[str]) -> None:
    """Entities without a vector, and without a job."""
    graph.create_entities([{"name": name, "description": f"what {name} is"} for name in names])
