"""Leasing: the only place that turns due jobs into messages."""

from collections.abc import Sequence
from typing import Any

from celery import Task
from celery.exceptions import CeleryError
from kombu.exceptions import KombuError, OperationalError

from neo4j_queue.jobs import Lease, LeaseResult
from neo4j_queue.log import get_logger
from tasks import census, resources
from tasks.app import app

log = get_logger()


@app.task(bind=True)
def lease_batch(self: Task) -> dict[str, Any]:
    """Leases what budget, pause, halt and free slots allow, and publishes one message per lease."""
    owner = str(self.request.hostname or "direct")
    result = resources.queue().lease(owner)
    if result.reason == "no workers" and census.refresh():
        result = resources.queue().lease(owner)
    published = publish(result.leases)
    done = summary(result, published)
    if result.leases:
        log.info("jobs_leased", **done)
    return done


def publish(leases: Sequence[Lease]) -> int:
    """Sends the messages; when one cannot be sent, its jobs and those after it are released at once."""
    for n, lease in enumerate(leases):
        try:
            app.send_task("tasks.embed.embed_batch", args=(lease.token, list(lease.job_ids)), retry=False)
        except (CeleryError, KombuError, OperationalError, OSError) as error:
            log.error("publish_failed", lease_token=lease.token, error=str(error), leases=len(leases) - n)
            for left in leases[n:]:
                resources.queue().release(left.token, left.job_ids)
            return n
    return len(leases)


def summary(result: LeaseResult, published: int) -> dict[str, Any]:
    """What Flower shows."""
    return {
        "leases": len(result.leases),
        "published": published,
        "jobs": sum(len(lease.job_ids) for lease in result.leases),
        "reason": result.reason,
    }
