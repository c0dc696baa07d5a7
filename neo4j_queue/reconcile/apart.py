"""Enqueueing for many entities so that one of them for which no job is possible holds up no other."""

from collections.abc import Callable, Sequence
from functools import partial

from neo4j.exceptions import Neo4jError

from neo4j_queue.errors.explain import explain
from neo4j_queue.jobs import EnqueueResult, JobRequest
from neo4j_queue.queue import EmbedQueue

# What the database says of a statement, or of a value that it cannot take; anything else (no leader, no disk, no right)
# would be said of every entity.
OF_A_VALUE = ("Neo.ClientError.Statement.", "Neo.DatabaseError.Statement.", "Neo.ClientError.Schema.")


def enqueue_apart(
    queue: EmbedQueue,
    requests: Sequence[JobRequest],
    *,
    leave_failed: bool = False,
    keep_priority: bool = False,
) -> tuple[list[EnqueueResult], dict[str, str]]:
    """The results of those that could be enqueued, and by entity why there can be no job for it.

    What no rule of ours foresees, and the database refuses, is found by halves. When it refuses them all alike, the
    entities are not to blame, and its error is raised.
    """
    refused = {request.entity_uid: why for request in requests if (why := request.refusal())}
    good = [request for request in requests if request.entity_uid not in refused]
    enqueue = partial(queue.enqueue, leave_failed=leave_failed, keep_priority=keep_priority)
    results, failures = _by_halves(enqueue, good)
    if len(failures) > 1 and len(failures) == len(good):
        raise failures[good[0].entity_uid]
    return results, {**refused, **{uid: explain(error) for uid, error in failures.items()}}


def _by_halves(
    enqueue: Callable[[Sequence[JobRequest]], list[EnqueueResult]], requests: Sequence[JobRequest]
) -> tuple[list[EnqueueResult], dict[str, Neo4jError]]:
    try:
        return enqueue(requests), {}
    except Neo4jError as error:
        if not (error.code or "").startswith(OF_A_VALUE):
            raise
        if len(requests) == 1:
            return [], {requests[0].entity_uid: error}
    middle = len(requests) // 2
    results, failures = _by_halves(enqueue, requests[:middle])
    others, more = _by_halves(enqueue, requests[middle:])
    return [*results, *others], {**failures, **more}
