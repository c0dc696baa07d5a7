"""Leasing: the only place that turns due jobs into messages."""

import time
from collections.abc import Sequence
from typing import Any

from celery import Task
from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.log import get_logger
from neo4j_queue.queue import history
from neo4j_queue.queue.budget import OTHER_SETTINGS
from neo4j_queue.queue.leases import Lease, LeaseResult
from tasks import broker, census, deployment, resources
from tasks.app import app
from tasks.broker import PUBLISH_ERRORS
from tasks.routes import BACKFILL, EMBED_BATCH

# A worker starts when the transaction of its lease is over: with the leases of eight slots in one, the first waits
# half a second for the last. Two full batches of the ordinary size are leased in about a tenth.
JOBS_PER_TRANSACTION = 512
# A turn of a sweep or clean-up lasts half a second and is served when nothing else waits. Where something always waits,
# one in three seconds is served all the same: a sixth of one slot.
SHARE_EVERY_S = 3.0
# The moment that was read is past when a message sent then arrives.
MARGIN_S = 0.05

# Until a person acts, nothing is leased here: said at once and every five minutes.
TELL_EVERY_S = 300.0
LEFT_BEHIND = (
    "neo4j-queue init put other settings in force than this worker has, so it does no work: restart it with those, "
    "or run neo4j-queue init with its own"
)

log = get_logger()


class _Process:
    """What this process remembers from one lease task to the next."""

    shared_at = float("-inf")
    displaced_told_at = float("-inf")
    queue_was_away = False


@app.task(bind=True)
def lease_batch(self: Task, beat: bool = False) -> dict[str, Any]:
    """Leases what budget, pause, halt and free slots allow, and publishes one message per lease.

    `beat`: this is a tick. Without ticks, it appoints itself for the moment at which more may be leased.
    """
    try:
        done = _lease_all(str(self.request.hostname or "direct"), beat=beat)
    except (Neo4jError, DriverError):
        _Process.queue_was_away = True
        raise
    if _Process.queue_was_away:
        # Entities that were written meanwhile have no job yet.
        _Process.queue_was_away = False
        resources.nudge().sweep()
    if time.monotonic() - _Process.shared_at >= SHARE_EVERY_S:
        _Process.shared_at = time.monotonic()
        broker.serve_last(app.conf.broker_url)
    return done


def _lease_all(owner: str, *, beat: bool) -> dict[str, Any]:
    ticks = resources.queue().ticks
    sample_due = ticks.note(beat=beat)
    result = _lease(owner)
    if result.reason == "no workers" and census.refresh():
        result = _lease(owner)
    leases, published = list(result.leases), publish(result.leases)
    while result.more and published == len(leases):
        result = _lease(owner)
        leases += result.leases
        published += publish(result.leases)
    if result.reason == OTHER_SETTINGS and time.monotonic() - _Process.displaced_told_at >= TELL_EVERY_S:
        _Process.displaced_told_at = time.monotonic()
        log.warning("other_settings_in_force", problem=LEFT_BEHIND)
    done = {
        "leases": len(leases),
        "published": published,
        "jobs": sum(len(lease.job_ids) for lease in leases),
        "reason": result.reason,
    }
    if leases:
        log.info("jobs_leased", **done)
    if sample_due:
        history.keep(resources.queue())
    next_ms = ticks.next_moment_ms()
    if next_ms is not None:
        resources.nudge().after(next_ms / 1000 + MARGIN_S)
    return done


def _lease(owner: str) -> LeaseResult:
    return resources.queue().lease(owner, most_jobs=JOBS_PER_TRANSACTION)


def publish(leases: Sequence[Lease]) -> int:
    """Sends the messages; when one cannot be sent, its jobs and those after it are released at once."""
    for n, lease in enumerate(leases):
        try:
            app.send_task(
                EMBED_BATCH,
                args=(lease.token, list(lease.job_ids)),
                headers=deployment.headers(),
                priority=BACKFILL if lease.backfill else None,
                retry=False,
            )
        except PUBLISH_ERRORS as error:
            log.error("publish_failed", lease_token=lease.token, error=str(error), leases=len(leases) - n)
            for left in leases[n:]:
                resources.queue().release(left.token, left.job_ids)
            return n
    return len(leases)
