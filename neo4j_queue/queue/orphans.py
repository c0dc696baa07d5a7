"""Orphans: started leases that no worker executes any more, by the word of the worker that started them.

Silence proves nothing: a worker that cannot reach the broker may still embed. Proof is an answer that does not name the
lease, from the worker that started it. A worker that was killed and started again under its name answers so.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from neo4j_queue.queue.leases import WorkerAnswer

# A worker answers from its main process, which hears of a start in a pool process within milliseconds. A lease must be
# this old before its absence in an answer means anything.
HEARD_MS = 5_000
# The pool processes of a killed worker end with the batch that they are in: one request and what belongs to it.
OUTLIVED_MARGIN_MS = 5_000


@dataclass(frozen=True, slots=True)
class StartedLease:
    """An open lease whose work has begun. `worker`: the node name that began it. Times in epoch ms, server clock."""

    token: str
    worker: str | None
    started_at: int
    lock_until: int


def orphans(
    leases: Sequence[StartedLease],
    workers: Sequence[WorkerAnswer],
    executed: Collection[str],
    asked_at: int,
    request_ms: int,
) -> list[str]:
    """The tokens of those `leases` whose worker answered and executes something else.

    `executed`: the tokens that any worker named. `asked_at`: before the workers were asked, epoch ms, server clock.
    `request_ms`: the longest time that a provider request takes.
    """
    answered = {worker.name: worker for worker in workers}
    found = []
    for lease in leases:
        worker = answered.get(lease.worker or "")
        if worker is None or lease.token in executed:
            continue
        here = worker.up_ms is not None and lease.started_at > asked_at - worker.up_ms
        patience_ms = HEARD_MS if here else request_ms + OUTLIVED_MARGIN_MS
        if lease.started_at < asked_at - patience_ms:
            found.append(lease.token)
    return found
