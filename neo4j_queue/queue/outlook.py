"""What the queue waits for, how much of the rate limit is used, and when it will be done."""

from dataclasses import dataclass

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.queue.budget import RateLimits
from neo4j_queue.queue.leases import QueueStatus

# Two minutes hold some batches under every usual limit, and few enough leases to read in milliseconds.
LATELY_MS = 120_000
# `neo4j-queue init` with other settings leaves the workers behind that run already.
DISPLACED = "workers with the settings in force: restart those that run, or run `neo4j-queue init` with their settings"


@dataclass(frozen=True, slots=True)
class Outlook:
    """`waiting_for`: what keeps due jobs from being embedded, None = nothing does. `done_at`: when all jobs will have
    ended at the pace of the last two minutes (epoch ms), None = not known. `used` requests of `limit` (None = no limit)
    in each interval of `interval_ms`."""

    waiting_for: str | None
    done_at: int | None
    used: int
    limit: int | None
    interval_ms: int


def read(database: Database, status: QueueStatus, limits: RateLimits, *, now: int | None = None) -> Outlook:
    """The outlook for a queue of this status."""
    (row,) = database.read(
        statement("jobs/outlook"), interval_ms=limits.window_ms, lately_ms=LATELY_MS, now=now
    )
    used_up = limits.requests is not None and row["used"] >= limits.requests
    return Outlook(
        waiting_for(status, used_up=used_up, in_force=row["in_force"]),
        None
        if displaced(status, row["in_force"])
        else _done_at(status, row["jobs"], row["since"], row["now"]),
        row["used"],
        limits.requests,
        limits.interval_ms,
    )


def displaced(status: QueueStatus, in_force: str | None) -> bool:
    """True if every worker runs with other settings than those in force: none of them does any work then."""
    marks = [worker.fingerprint for worker in status.workers]
    return (
        in_force is not None and bool(marks) and all(mark is not None and mark != in_force for mark in marks)
    )


def waiting_for(status: QueueStatus, *, used_up: bool, in_force: str | None = None) -> str | None:
    """What must happen before further jobs are embedded; `used_up`: no request is left in this interval."""
    if not status.unfinished:
        return None
    if status.halted:
        return f"a person: halted ({status.halted_reason or 'no reason given'}), then `neo4j-queue resume`"
    if status.paused_until is not None:
        return f"the end of the pause ({status.pause_reason or 'no reason given'})"
    if not status.workers:
        return "an embed worker"
    if displaced(status, in_force):
        return DISPLACED
    if used_up:
        return "the rate limit"
    if not status.pending and not status.processing:
        return "the back-off of jobs that failed"
    return None


def _done_at(status: QueueStatus, jobs: int, since: int | None, now: int) -> int | None:
    """None where nothing ended lately, or nothing may end now: then the pace says nothing."""
    if not status.unfinished or not jobs or since is None or status.halted or not status.workers:
        return None
    start = now if status.paused_until is None else max(now, status.paused_until)
    return start + round(status.unfinished * max(1, now - since) / jobs)
