"""The end of a task that was called with wrong arguments."""

from typing import Any

from neo4j_queue.log import get_logger

log = get_logger()


def refused(task: str, error: Exception | str) -> dict[str, Any]:
    """The summary that says why. It is logged too: the caller never sees the summary."""
    log.warning("repair_refused", task=task, error=str(error))
    return {"success": False, "error": str(error)}
