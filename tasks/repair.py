"""What people call by hand: `celery -A tasks call tasks.repair.… --args='[…]'`. Each returns its summary."""

from typing import Any

from neo4j_queue import repair, switches
from neo4j_queue.log import get_logger
from tasks import resources
from tasks.app import app

log = get_logger()


@app.task
def force_generate_embedding(entity_name: str | None = None, limit: int | str | None = 10) -> dict[str, Any]:
    """One entity by name, or up to `limit` entities that have no vector; see docs/how-to/repair.md."""
    result = repair.force_generate_embedding(resources.graph(), resources.queue(), entity_name, limit)
    resources.nudge()()
    return _done("force_generate_embedding", result)


@app.task
def retry_failed(
    category: str | None = None,
    reason: str | None = None,
    status: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Queues failed jobs again, by error category, failure reason and HTTP status."""
    retried = resources.queue().retry_failed(category, reason, status, limit)
    resources.nudge()()
    return _done("retry_failed", {"retried": retried})


@app.task
def release(job_ids: list[str]) -> dict[str, Any]:
    """Takes running jobs back to `pending`; whoever holds them loses the lease."""
    released = resources.queue().release_jobs(job_ids)
    resources.nudge()()
    return _done("release", {"released": len(released), "asked": len(job_ids)})


@app.task
def pause(seconds: float, reason: str = "by hand") -> dict[str, Any]:
    """Stops leasing and starting for so many seconds, a year at most."""
    until = switches.pause(resources.queue(), seconds, reason)
    return _done("pause", {"paused_until": until, "pause_reason": reason})


@app.task
def resume() -> dict[str, Any]:
    """Ends halt and pause."""
    halted, paused = switches.resume(resources.queue())
    resources.nudge()()
    return _done("resume", {"was_halted": halted, "was_paused": paused})


def _done(name: str, result: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in result.items() if key != "jobs"}
    log.info("repair_done", task=name, **shown)
    return result
