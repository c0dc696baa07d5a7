"""Which started leases are orphans: only an answer of the worker that started them proves it."""

import pytest

from neo4j_queue.queue.leases import WorkerAnswer
from neo4j_queue.queue.orphans import HEARD_MS, OUTLIVED_MARGIN_MS, StartedLease, orphans

NOW = 10_000_000
REQUEST_MS = 30_000
OUTLIVED_MS = REQUEST_MS + OUTLIVED_MARGIN_MS
UP_LONG = 3_600_000


@pytest.mark.parametrize(
    ("worker", "up_ms", "executed", "age_ms", "orphan"),
    [
        ("w1", UP_LONG, (), HEARD_MS + 1, True),
        # It may not have heard of the start yet.
        ("w1", UP_LONG, (), HEARD_MS, False),
        ("w1", UP_LONG, ("t",), UP_LONG, False),
        # A worker that did not answer may still embed.
        ("w2", UP_LONG, (), UP_LONG, False),
        (None, UP_LONG, (), UP_LONG, False),
        # It was killed and started again: its pool processes may be in the middle of a request.
        ("w1", 1_000, (), HEARD_MS + 1, False),
        ("w1", 1_000, (), OUTLIVED_MS, False),
        ("w1", 1_000, (), OUTLIVED_MS + 1, True),
        # An older version does not say how long it has been up.
        ("w1", None, (), OUTLIVED_MS, False),
        ("w1", None, (), OUTLIVED_MS + 1, True),
    ],
)
def test_an_orphan(
    worker: str | None, up_ms: int | None, executed: tuple[str, ...], age_ms: int, orphan: bool
) -> None:
    """Fails, line by line, without the answer, the name in it, and either patience."""
    lease = StartedLease("t", worker, NOW - age_ms, NOW + 1)
    found = orphans([lease], [WorkerAnswer("w1", 1, up_ms=up_ms)], executed, NOW, REQUEST_MS)
    assert found == (["t"] if orphan else [])
