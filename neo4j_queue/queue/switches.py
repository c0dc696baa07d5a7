"""Pause and resume by a person, from the command line or by a task; each act is a line in the log."""

from neo4j_queue.log import get_logger
from neo4j_queue.queue.embed_queue import EmbedQueue

log = get_logger()


def pause(queue: EmbedQueue, seconds: float, reason: str) -> int:
    """Refuses leases and starts for `seconds`; returns the end of the pause (epoch ms).

    Raises `ValueError` for more than a year.
    """
    until = queue.pause(seconds, reason)
    log.warning("queue_paused", seconds=seconds, reason=reason)
    return until


def resume(queue: EmbedQueue) -> tuple[bool, bool]:
    """Ends halt and pause; returns whether there was a halt, and whether there was a pause."""
    halted, paused = queue.resume()
    if halted or paused:
        log.info("queue_resumed", was_halted=halted, was_paused=paused)
    return halted, paused
