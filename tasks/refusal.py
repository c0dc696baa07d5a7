"""The end of a task that was called with arguments that nothing can come of."""

from typing import Any

from neo4j_queue.log import get_logger

log = get_logger()


def refused(task: str, error: Exception | str) -> dict[str, Any]:
    """The summary that says why; the same stands in the log, for nobody else hears how such a call ends."""
    log.warning("repair_refused", task=task, error=str(error))
    return {"success": False, "error": str(error)}
