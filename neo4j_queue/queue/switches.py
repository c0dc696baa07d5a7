"""Pause and resume by a person, from the command line or by a task; each act is a line in the log."""

from neo4j_queue.log import get_logger
from neo4j_queue.queue.control import Resumed
from neo4j_queue.queue.embed_queue import EmbedQueue

log = get_logger()


def pause(queue: EmbedQueue, seconds: float, reason: str) -> int:
    """Refuses leases and starts for `seconds`; returns the end of the pause (epoch ms).

    Raises `ValueError` for more than a year.
    """
    until = queue.pause(seconds, reason)
    log.warning("queue_paused", seconds=seconds, reason=reason)
    return until


def resume(queue: EmbedQueue, *, halt: bool = True, pause: bool = True) -> Resumed:
    """Ends the halt, the pause, or both, and with both the trouble with the provider; returns what it ended."""
    ended = queue.resume(halt=halt, pause=pause)
    if any(ended):
        log.info(
            "queue_resumed", was_halted=ended.halted, was_paused=ended.paused, was_in_trouble=ended.troubled
        )
    return ended
