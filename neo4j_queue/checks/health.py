"""The health of embedding as a person sees it: the verdicts, and what stands still without a verdict."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from neo4j_queue.checks import fingerprint, in_force
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.health import Health, observed
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.queue.outlook import DISPLACED, displaced
from neo4j_queue.times import iso


@dataclass(frozen=True, slots=True)
class Known:
    """What the jobs database tells. `unwritable`: why it takes no writes; `displaced`: every worker runs with other
    settings than those in force."""

    window: Health
    status: QueueStatus
    unwritable: str | None
    displaced: bool


def read(queue: EmbedQueue) -> Known:
    """Asks the jobs database for everything that the health is judged by."""
    window, status, unwritable = queue.health(), queue.status(), queue.unwritable()
    return Known(window, status, unwritable, displaced(status, in_force.read(queue.database)))


def judge(
    known: Known, *, request_limit: int | None, broker: str | None, missing: Sequence[str] | None
) -> Health:
    """The health; `broker`, `missing`, `request_limit` as in `queue.health.observed`."""
    status, window = known.status, known.window
    split = (
        f"no work is done: it waits for {DISPLACED}" if known.displaced else fingerprint.split(status.workers)
    )
    return observed(
        window,
        unfinished=status.unfinished,
        workers=len(status.workers),
        broker=broker,
        disagreement=None if split is None else str(split),
        pause=None
        if status.paused_until is None
        else ((status.paused_until - status.now) / 1000, status.pause_reason),
        request_limit=request_limit,
        oldest_due_s=status.oldest_pending_seconds,
        success_s_ago=None
        if window.last_success_at is None
        else (status.now - window.last_success_at) / 1000,
        missing=missing,
        unwritable=known.unwritable,
    )


def answer(found: Health, known: Known) -> dict[str, Any]:
    """The answer that programs rely on (docs/reference/health.md); names and order are fixed."""
    return {
        **asdict(found),
        "last_success_at": iso(found.last_success_at),
        "workers": len(known.status.workers),
        "silent_workers": [worker.name for worker in known.status.silent],
    }
