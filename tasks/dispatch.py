"""Leasing: the only place that turns due jobs into messages."""

from collections.abc import Sequence
from typing import Any

from celery import Task

from neo4j_queue.log import get_logger
from neo4j_queue.queue.leases import Lease, LeaseResult
from tasks import census, resources
from tasks.app import app
from tasks.broker import PUBLISH_ERRORS
from tasks.routes import BACKFILL, EMBED_BATCH

# A worker starts when the transaction of its lease is over: with the leases of eight slots in one, the first waits
# half a second for the last. Two full batches of the ordinary size are leased in about a tenth.
JOBS_PER_TRANSACTION = 512

log = get_logger()


@app.task(bind=True)
def lease_batch(self: Task) -> dict[str, Any]:
    """Leases what budget, pause, halt and free slots allow, and publishes one message per lease."""
    owner = str(self.request.hostname or "direct")
    result = _lease(owner)
    if result.reason == "no workers" and census.refresh():
        result = _lease(owner)
    leases, published = list(result.leases), publish(result.leases)
    while result.more and published == len(leases):
        result = _lease(owner)
        leases += result.leases
        published += publish(result.leases)
    done = {
        "leases": len(leases),
        "published": published,
        "jobs": sum(len(lease.job_ids) for lease in leases),
        "reason": result.reason,
    }
    if leases:
        log.info("jobs_leased", **done)
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
                priority=BACKFILL if lease.backfill else None,
                retry=False,
            )
        except PUBLISH_ERRORS as error:
            log.error("publish_failed", lease_token=lease.token, error=str(error), leases=len(leases) - n)
            for left in leases[n:]:
                resources.queue().release(left.token, left.job_ids)
            return n
    return len(leases)
