"""A commit whose answer is lost is resolved by reading back (lease, settle, enqueue): the proxy cuts after COMMIT.

Guard of each: the handling of `IncompleteCommit` in `EmbedQueue`. Without it the call raises, and a lease that was
made waits for its start deadline.
"""

from collections.abc import Callable, Iterator

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory, Fault, FaultKind
from neo4j_queue.jobs import Enqueued, JobRequest, Outcome
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Completion, Failure, Spent, Verdicts
from neo4j_queue.settings import Settings
from tests.faultkit import TcpProxy
from tests.faultkit.proxy import COMMIT


@pytest.fixture
def proxy(services: LocalServices) -> Iterator[TcpProxy]:
    with TcpProxy(("127.0.0.1", services.jobs.port)) as proxy:
        yield proxy


@pytest.fixture
def queue(jobs_db: Database, proxy: TcpProxy, make_settings: Callable[..., Settings]) -> Iterator[EmbedQueue]:
    """A queue whose every byte passes the proxy."""
    settings = make_settings(
        embed_job_database_uri=f"bolt://127.0.0.1:{proxy.port}", embedding_rate_limit_tokens="unlimited"
    )
    with EmbedQueue.connect(settings) as queue:
        yield queue


def request(name: str = "a", *, force: bool = False) -> JobRequest:
    return JobRequest(name, "m", "v1", force=force)


def test_an_enqueue_that_took_place_says_created(queue: EmbedQueue, proxy: TcpProxy) -> None:
    proxy.lose_answer_to(COMMIT)
    (first,) = queue.enqueue(request())
    assert (first.outcome, proxy.lost) == (Enqueued.CREATED, 1)
    assert queue.enqueue(request())[0] == type(first)(first.id, "a", Enqueued.DUPLICATE)


def test_a_lease_that_took_place_is_the_callers(queue: EmbedQueue, proxy: TcpProxy) -> None:
    queue.enqueue([request(name) for name in "abc"])
    proxy.lose_answer_to(COMMIT)
    (lease,) = queue.lease("w", batches=1).leases
    assert proxy.lost == 1
    assert len(queue.start(lease.token, lease.job_ids).jobs) == 3
    assert queue.lease("w", batches=1).leases == ()


def test_a_settlement_that_took_place_loses_nothing(queue: EmbedQueue, proxy: TcpProxy) -> None:
    queue.enqueue([request(name) for name in "abc"])
    (lease,) = queue.lease("w", batches=1).leases
    jobs = queue.start(lease.token, lease.job_ids).jobs
    done = Verdicts(completed=[Completion(job.id, Outcome.EMBEDDED) for job in jobs])
    proxy.lose_answer_to(COMMIT)
    settlement = queue.settle(lease.token, done, spent=Spent(1, 3, 0))
    assert proxy.lost == 1
    assert (len(settlement.completed), settlement.lost) == (3, frozenset())
    status = queue.status()
    assert (status.completed, status.unfinished) == (3, 0)


def test_a_settlement_that_took_place_is_told_as_it_was_stored(queue: EmbedQueue, proxy: TcpProxy) -> None:
    """A failure that is retried, one that is final, and the change of health that they make.

    Guard: `Settling.settled`. Rebuilt from the verdicts, it says that nothing is retried and that health stayed.
    """
    queue.enqueue([request(name) for name in "abcdef"])
    (lease,) = queue.lease("w", batches=1).leases
    jobs = queue.start(lease.token, lease.job_ids).jobs
    late = Fault(ErrorCategory.TRANSIENT, FaultKind.OUTAGE, "APITimeoutError", "too slow")
    bad = Fault(ErrorCategory.PERMANENT, FaultKind.ITEM, "UnembeddableText", "the text is empty")
    queue.control.provider_failed(lease.token, lease.job_ids, late, to_open=5)
    failures = [Failure(job, late) for job in jobs[:5]] + [Failure(jobs[5], bad)]
    proxy.lose_answer_to(COMMIT)
    settlement = queue.settle(lease.token, Verdicts(failed=failures), spent=Spent(1, 3, 0))
    assert proxy.lost == 1
    stored = {job["id"]: job for job in queue.jobs()}
    told = {failed.failure.job.id: failed for failed in settlement.failed}
    for job in jobs[:5]:
        assert stored[job.id]["status"] == "pending"
        assert (told[job.id].retry_at, told[job.id].reason) == (stored[job.id]["available_at"], None)
    assert (told[jobs[5].id].retry_at, told[jobs[5].id].reason) == (None, "permanent_error")
    assert stored[jobs[5].id]["failure_reason"] == "permanent_error"
    assert settlement.health is not None
    assert (settlement.health.before, settlement.health.after.state) == ("HEALTHY", "DEGRADED")
    assert settlement.troubled
    assert settlement.lost == frozenset()


def test_a_start_that_took_place_is_begun_once(queue: EmbedQueue, proxy: TcpProxy) -> None:
    queue.enqueue(request())
    (lease,) = queue.lease("w", batches=1).leases
    proxy.lose_answer_to(COMMIT)
    start = queue.start(lease.token, lease.job_ids, worker="w")
    assert proxy.lost == 1
    assert [job.entity_uid for job in start.jobs] == ["a"]
    assert queue.start(lease.token, lease.job_ids, worker="w").refused == "lost"
