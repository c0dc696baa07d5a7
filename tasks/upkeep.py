"""What beat fires besides leasing. All of it is idempotent, and safe with two beats or late ones."""

from dataclasses import asdict
from typing import Any

from neo4j_queue import reconcile as reconciliation
from neo4j_queue.log import get_logger
from tasks import census, resources
from tasks.app import app

# Ids in one log line; a mass recovery is written as several lines.
IDS_PER_LINE = 500

log = get_logger()


@app.task
def heartbeat() -> dict[str, Any]:
    """Asks the live workers which leases they execute, extends exactly those, and records the census."""
    workers, leases = census.take()
    extended = resources.queue().heartbeat(leases)
    silent = resources.queue().record_census(workers)
    for token in leases.keys() - extended.keys():
        log.info("lease_lost", lease_token=token, reason="not extended: it ended, or was recovered")
    for name, silent_ms in silent.items():
        log.warning("worker_silent", worker=name, silent_ms=silent_ms)
    done = {
        "workers": len(workers),
        "leases": len(leases),
        "extended": len(extended),
        "silent": sorted(silent),
    }
    log.debug("heartbeat_done", **done)
    return done


@app.task
def recover_stale() -> dict[str, Any]:
    """Jobs whose lock has run out go back to `pending`, or fail after too many lost workers."""
    recovered = resources.queue().recover_stale()
    for first in range(0, len(recovered), IDS_PER_LINE):
        part = recovered[first : first + IDS_PER_LINE]
        log.warning(
            "stale_jobs_recovered",
            count=len(part),
            ids=[job.id for job in part],
            owners=sorted({job.owner or "?" for job in part}),
            started=sum(job.started for job in part),
            failed=[job.id for job in part if job.failed],
        )
    if recovered:
        resources.nudge()()
    lost = sum(job.failed for job in recovered)
    return {"recovered": len(recovered) - lost, "failed": lost}


@app.task
def cleanup() -> dict[str, Any]:
    """Removes ended jobs past the retention; failed ones leave an archive record."""
    report = asdict(resources.queue().cleanup())
    log.info("cleanup_done", **report)
    return report


@app.task
def reconcile(scope: str = "outbox") -> dict[str, Any]:
    """Finds entities without a fresh vector and queues them; `scope` is `outbox`, `missing` or `all`."""
    report = asdict(reconciliation.sweep(resources.graph(), resources.queue(), reconciliation.Scope(scope)))
    if report["queued"]:
        resources.nudge()()
    log.info("reconcile_done", scope=scope, **report)
    return report
