"""Celery's own rate limits are refused for batches: they would hold messages back whose leases run out meanwhile."""

from typing import Any

from celery.worker.control import control_command, nok
from celery.worker.control import rate_limit as limit

from neo4j_queue.log import get_logger
from tasks.routes import EMBED_BATCH

REFUSED = (
    "batches are not limited here: a message that waits longer than EMBED_JOB_START_DEADLINE_MS has lost its lease; "
    "set EMBEDDING_RATE_LIMIT_TOKENS and EMBEDDING_RATE_LIMIT_INTERVAL, which hold over all workers together"
)

log = get_logger()


@control_command(
    name="rate_limit",
    args=[("task_name", str), ("rate_limit", str)],
    signature="<task_name> <rate_limit (e.g., 5/s | 5/m | 5/h)>",
)
def rate_limit_unless_batches(state: Any, task_name: str, rate_limit: str, **more: Any) -> Any:
    """Tell worker(s) to modify the rate limit for a task by type."""
    # "0" ends a limit.
    if task_name == EMBED_BATCH and str(rate_limit) not in ("0", ""):
        log.warning("rate_limit_refused", task=task_name, rate_limit=str(rate_limit), reason=REFUSED)
        return nok(REFUSED)
    return limit(state, task_name, rate_limit, **more)
