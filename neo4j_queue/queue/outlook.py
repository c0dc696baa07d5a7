"""What the queue waits for, how much of the rate limits is used, and when it will be done."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import the_row
from neo4j_queue.jobs import PRIORITIES
from neo4j_queue.queue.batching import Bounds, Candidate, plan
from neo4j_queue.queue.breaker import PROBED
from neo4j_queue.queue.budget import (
    SEARCHING_MS,
    RateLimits,
    kept_for_edits,
    kept_for_queries,
    with_margin,
)
from neo4j_queue.queue.forecast import Speed, Window, Work, done_at
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.queue.provider_limits import GOOD_FOR_MS, WINDOW_MS

if TYPE_CHECKING:
    from neo4j_queue.queue.embed_queue import EmbedQueue

# Two minutes hold some batches under every usual limit. Where the limit counts by longer intervals, two of those do.
LATELY_MS = 120_000
# Ended batches that are looked at for the speed, and due jobs for the size of their texts: milliseconds each.
LEASES = 500
SAMPLE = 1_000
# `neo4j-queue init` with other settings leaves the workers behind that run already.
DISPLACED = "workers with the settings in force: restart those that run, or run `neo4j-queue init` with their settings"
NO_REQUESTS = "a person: EMBEDDING_RATE_LIMIT_TOKENS=0 allows no request"


@dataclass(frozen=True, slots=True)
class Outlook:
    """`waiting_for`: what keeps due jobs from being embedded, None = nothing does. `done_at`: when all jobs will have
    ended (epoch ms), None = not known. `used` requests of `limit` (None = no limit) in each interval of `interval_ms`;
    `windows`: all limits in force, those that the provider named among them; `used_up`: the one that lets nothing
    through now, in words. `in_force`: the fingerprint of the settings in force.
    """

    waiting_for: str | None
    done_at: int | None
    used: int
    limit: int | None
    interval_ms: int
    windows: tuple[Window, ...] = ()
    used_up: str | None = None
    in_force: str | None = None
    facts: "Facts | None" = None

    def after(self, jobs: int, start: int) -> int | None:
        """When so many jobs will be done, of those that are due first; None = not known."""
        return None if self.facts is None else self.facts.done_at(jobs, jobs, start)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a forecast is made of. `requests_per_job` and `tokens_per_job` are those of the jobs that are due first."""

    windows: tuple[Window, ...]
    speed: Speed | None
    requests_per_job: float
    tokens_per_job: float
    last_due_at: int | None
    in_force: str | None

    def done_at(self, jobs: int, waiting: int, start: int) -> int | None:
        """When `jobs` will have ended, of which `waiting` have no request yet."""
        work = Work(
            jobs, math.ceil(waiting * self.requests_per_job), math.ceil(waiting * self.tokens_per_job)
        )
        return done_at(work, self.windows, self.speed, start)


def read(queue: "EmbedQueue", status: QueueStatus) -> Outlook:
    """The outlook for a queue of this status."""
    facts, used = _facts(queue, status)
    used_up = _used_up(facts.windows)
    return Outlook(
        waiting_for(status, used_up=used_up, in_force=facts.in_force, limits=queue.limits),
        _done_at(status, facts),
        used,
        queue.limits.requests,
        queue.limits.interval_ms,
        facts.windows,
        used_up,
        facts.in_force,
        facts if _may_work(status, facts.in_force) else None,
    )


def displaced(status: QueueStatus, in_force: str | None) -> bool:
    """True if every worker runs with other settings than those in force: none of them does any work then."""
    marks = [worker.fingerprint for worker in status.workers]
    return (
        in_force is not None and bool(marks) and all(mark is not None and mark != in_force for mark in marks)
    )


def waiting_for(
    status: QueueStatus, *, used_up: str | None, in_force: str | None = None, limits: RateLimits | None = None
) -> str | None:
    """What must happen before further jobs are embedded; `used_up`: the limit of which nothing is left now."""
    if not status.unfinished:
        return None
    if status.halted:
        return f"a person: halted ({status.halted_reason or 'no reason given'}), then `neo4j-queue resume`"
    if status.paused_until is not None:
        return f"the end of the pause ({status.pause_reason or 'no reason given'})"
    if not _living(status):
        return "an embed worker"
    if displaced(status, in_force):
        return DISPLACED
    if limits is not None and limits.requests == 0:
        return NO_REQUESTS
    if not status.pending and not status.processing:
        return "the back-off of jobs that failed"
    if status.trouble in PROBED:
        return f"a probe that finds out whether the provider works again ({status.trouble})"
    return used_up


def _used_up(windows: Sequence[Window]) -> str | None:
    """The limit that lets nothing through now, and when it lets something through again."""
    full = [window for window in windows if window.used_up and window.leaving]
    if not full:
        return None
    window = max(full, key=lambda each: each.leaving[0][0])
    at = datetime.fromtimestamp(window.leaving[0][0] / 1000, UTC)
    return f"the rate limit ({window}; the next at {at:%H:%M:%S} UTC)"


def _living(status: QueueStatus) -> bool:
    """True if an embed worker answered when it was asked last."""
    silent = {worker.name for worker in status.silent}
    return any(worker.name not in silent for worker in status.workers)


def _may_work(status: QueueStatus, in_force: str | None) -> bool:
    """True if jobs are embedded now, or will be without help at a known moment."""
    return not (
        status.halted or status.trouble in PROBED or not _living(status) or displaced(status, in_force)
    )


def _done_at(status: QueueStatus, facts: Facts) -> int | None:
    if not status.unfinished or not _may_work(status, facts.in_force):
        return None
    start = status.now if status.paused_until is None else max(status.now, status.paused_until)
    end = facts.done_at(status.unfinished, status.pending + status.delayed, start)
    if end is None or facts.last_due_at is None or facts.speed is None:
        return end
    return max(end, facts.last_due_at + facts.speed.batch_ms)


def _facts(queue: "EmbedQueue", status: QueueStatus) -> tuple[Facts, int]:
    """What a forecast is made of, and the requests used of the configured limit."""
    limits, bounds = queue.limits, queue.bounds
    row = the_row(
        queue.database.read(
            statement("jobs/outlook"),
            interval_ms=limits.window_ms,
            minute_ms=with_margin(WINDOW_MS),
            good_for_ms=GOOD_FOR_MS,
            lately_ms=max(LATELY_MS, 2 * limits.window_ms),
            leases=LEASES,
            now=status.now,
        )
    )
    found = queue.database.read_packed(
        statement("jobs/lease_candidates"),
        priorities=list(PRIORITIES),
        limit=SAMPLE,
        reach=SAMPLE,
        passed=[],
        now=status.now,
    )
    if status.found_inputs is not None:
        bounds = bounds.within(status.found_inputs)
    backfill = bool(found) and all(job["priority"] == min(PRIORITIES) for job in found)
    requests, tokens = _per_job(found, bounds, row["token_factor"])
    windows = tuple(_windows(row, limits, status.now, backfill=backfill))
    facts = Facts(
        windows,
        Speed.of(row["ended"], windows),
        requests,
        tokens,
        row["last_due_at"],
        row["in_force"],
    )
    return facts, row["held_requests"] + sum(each["requests"] for each in row["sent"])


def _per_job(found: Sequence[Mapping[str, Any]], bounds: Bounds, factor: float) -> tuple[float, float]:
    """Requests and model tokens for each job, by how a lease would plan the jobs that are due first."""
    if not found:
        return 1 / bounds.inputs, 0.0
    candidates = [
        Candidate(
            job["id"],
            bounds.charge(job["est_tokens"], factor),
            job["crashes"],
            job["text"],
            job["priority"],
            job["due_at"],
            job["max_batch"],
        )
        for job in found
    ]
    batches = plan(candidates, bounds)
    return len(batches) / len(found), sum(batch.est_tokens for batch in batches) / len(found)


def _windows(row: Mapping[str, Any], limits: RateLimits, now: int, *, backfill: bool) -> list[Window]:
    """The limits in force, with what is used of them, and what backfills leave to edits, and all to searches."""
    minute = with_margin(WINDOW_MS)
    wanted = (
        ("requests", limits.requests, limits.window_ms, limits.interval_ms, False),
        ("tokens", limits.tokens, limits.window_ms, limits.interval_ms, False),
        ("requests", row["found_requests"], minute, WINDOW_MS, True),
        ("tokens", row["found_tokens"], minute, WINDOW_MS, True),
    )
    searching = row["query_at"] is not None and now - row["query_at"] <= SEARCHING_MS
    windows = []
    for what, limit, window_ms, per_ms, of_provider in wanted:
        if limit is None:
            continue
        kept = kept_for_edits(limit) if backfill else 0
        if searching and what == "requests":
            kept += kept_for_queries(limit)
        sent = row["sent_of_minute"] if of_provider else row["sent"]
        leaving = sorted((each["at"] + window_ms, each[what]) for each in sent if each[what])
        if held := row[f"held_{what}"]:
            leaving.append((now + window_ms, held))
        windows.append(Window(what, limit, window_ms, tuple(leaving), kept, per_ms, of_provider))
    return windows
