"""The properties of `:EmbedJob`, listed once: which statements write each, and what queueing a job again does to it.

A job that is queued again (`jobs/requeue`, `jobs/retry_failed`) is as if new: its identity stays, a property that a new
job has is written again, its failed attempts stay to be read, and any other property is removed. A test holds the
statements and docs/reference/jobs-database.md against this list, so that a new property cannot survive a requeue by
oversight.
"""

from dataclasses import dataclass
from enum import StrEnum


class Requeued(StrEnum):
    """What queueing a job again does to a property."""

    KEPT = "kept"
    RESET = "reset"
    REMOVED = "removed"
    # What was before stays to be read; a new job has none.
    REMEMBERED = "remembered"


@dataclass(frozen=True, slots=True)
class JobProperty:
    """One property. `writers`: the statements (below `cypher/jobs`) that set or remove it."""

    name: str
    requeued: Requeued
    writers: frozenset[str]


# Statements that give a job to a lease, take it back, or end it. Each leaves a job with all properties of its state.
_GIVEN_BACK = ("fail", "release", "release_jobs", "recover_jobs")
_AS_NEW = ("requeue", "retry_failed")
_NEW = ("enqueue", *_AS_NEW)


def _property(name: str, requeued: Requeued, *writers: str) -> JobProperty:
    return JobProperty(name, requeued, frozenset(writers))


PROPERTIES = (
    _property("id", Requeued.KEPT, "enqueue"),
    _property("entity_uid", Requeued.KEPT, "enqueue"),
    _property("model", Requeued.KEPT, "enqueue"),
    _property("version", Requeued.KEPT, "enqueue"),
    _property("created_at", Requeued.KEPT, "enqueue"),
    # Raised by a request that is more urgent, never lowered.
    _property("priority", Requeued.KEPT, "enqueue", "requeue"),
    _property("status", Requeued.RESET, *_NEW, *_GIVEN_BACK, "lease_grant", "complete"),
    _property("available_at", Requeued.RESET, *_NEW, "fail", "release"),
    _property("attempts", Requeued.RESET, *_NEW, "fail"),
    _property("crashes", Requeued.RESET, *_NEW, "recover_jobs", "fail"),
    _property("crashed_at", Requeued.REMOVED, *_AS_NEW, "recover_jobs", "fail"),
    # By the request that queues it again. A retry has no request: the job keeps those of its last one.
    _property("max_attempts", Requeued.RESET, "enqueue", "requeue"),
    _property("est_tokens", Requeued.RESET, "enqueue", "requeue"),
    # Of which graph, label and key its entity is: what was in force when it was queued. A retry has no request.
    _property("made_for", Requeued.RESET, "enqueue", "requeue"),
    # The most jobs that its next batch may hold: the request that held it was refused, and not asked in all parts.
    _property("max_batch", Requeued.REMOVED, *_AS_NEW, "complete", "fail", "release"),
    _property("lease_token", Requeued.REMOVED, *_AS_NEW, *_GIVEN_BACK, "lease_grant", "complete"),
    _property("lock_owner", Requeued.REMOVED, *_AS_NEW, *_GIVEN_BACK, "lease_grant", "complete"),
    _property(
        "lock_until",
        Requeued.REMOVED,
        *_AS_NEW,
        *_GIVEN_BACK,
        "lease_grant",
        "complete",
        "start",
        "heartbeat",
        "expire_lease",
    ),
    _property("leased_at", Requeued.REMOVED, *_AS_NEW, *_GIVEN_BACK, "lease_grant"),
    _property("started_at", Requeued.REMOVED, *_AS_NEW, *_GIVEN_BACK, "lease_grant", "start"),
    # The failed attempts and the lost workers: a job that is queued again and fails again shows both lives.
    _property("history", Requeued.REMEMBERED, "fail", "recover_jobs"),
    # The worker of the last verdict, or the one that died: a job that has ended has no lease that would tell.
    _property("worker", Requeued.REMOVED, *_AS_NEW, "complete", "fail", "recover_jobs"),
    _property("processed_at", Requeued.REMOVED, *_AS_NEW, "complete", "fail", "recover_jobs"),
    _property("outcome", Requeued.REMOVED, *_AS_NEW, "complete"),
    _property("failure_reason", Requeued.REMOVED, *_AS_NEW, "fail", "recover_jobs"),
    *(
        _property(name, Requeued.REMOVED, *_AS_NEW, "complete", "fail", "release")
        for name in ("error", "error_category", "error_type", "error_status", "error_stack")
    ),
)
# What a fault writes on its job (`release` takes them as a map).
FAULT_PROPERTIES = tuple(p.name for p in PROPERTIES if p.name.startswith("error"))
