"""Which running jobs are orphans, by what the workers say of themselves."""

import pytest

from neo4j_queue.queue.leases import HeldJob
from tasks.executing import Answers, is_orphan


@pytest.mark.parametrize(
    ("worker", "answers", "orphan"),
    [
        ("w1", {}, True),
        ("w1", {"w2": {"t2"}}, True),
        ("w1", {"w1": {"t2"}}, True),
        ("w1", {"w1": {"t1", "t2"}}, False),
        # Run by another one than began it: whose it is does not matter.
        ("w1", {"w2": {"t1"}}, False),
        # It lives, and does not say what it runs.
        ("w1", {"w1": None}, False),
        # Its message waits: no worker has begun it.
        (None, {}, False),
    ],
)
def test_an_orphan_is_a_started_job_that_no_living_worker_runs(
    worker: str | None, answers: Answers, orphan: bool
) -> None:
    assert is_orphan(HeldJob("id", "e", "t1", worker, 0), answers) is orphan
