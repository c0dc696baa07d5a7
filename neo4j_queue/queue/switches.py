"""What people do to the queue as a whole, by command line or task: each act is a line in the log."""

from neo4j_queue.log import get_logger
from neo4j_queue.queue.embed_queue import EmbedQueue

log = get_logger()


def pause(queue: EmbedQueue, seconds: float, reason: str) -> int:
    """No lease and no start for so many seconds; the end of the pause (epoch ms). `ValueError`: not such a time."""
    until = queue.pause(seconds, reason)
    log.warning("queue_paused", seconds=seconds, reason=reason)
    return until


def resume(queue: EmbedQueue) -> tuple[bool, bool]:
    """Ends halt and pause; says whether there was a halt, and whether there was a pause."""
    halted, paused = queue.resume()
    if halted or paused:
        log.info("queue_resumed", was_halted=halted, was_paused=paused)
    return halted, paused
