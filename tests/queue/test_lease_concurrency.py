"""A6. Sixteen threads lease, and each job is leased once."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from neo4j_queue.database import Database
from neo4j_queue.queue import EmbedQueue
from tests.queue.interleaving import Race, judged_before_lock, mutated, plant
from tests.queue.scenery import BEGINNING, leased, make_jobs, requests

THREADS = 16
# What everybody writes first: Neo4j judges WHERE before it takes the lock, and not again.
NAIVE = """
CYPHER 5
MATCH (j:EmbedJob) WHERE j.status = 'pending'
WITH j LIMIT 50
SET j.status = 'processing', j.lease_token = $token
RETURN j.id AS id
"""

LeaseOnce = Callable[[str], Sequence[str]]


def lease_all(lease_once: LeaseOnce) -> Counter[str]:
    """Leases on many threads until nothing is left; how often each job was leased."""
    together = threading.Barrier(THREADS)

    def drain(number: int) -> Counter[str]:
        mine: Counter[str] = Counter()
        together.wait(60)
        while ids := lease_once(f"w{number}"):
            mine.update(ids)
        return mine

    with ThreadPoolExecutor(THREADS) as pool:
        counts: Counter[str] = Counter()
        for each in pool.map(drain, range(THREADS)):
            counts += each
    return counts


def test_16_threads_lease_20000_jobs_each_once(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database
) -> None:
    """The guard is the control lock, and under it the second look at the status; see the two tests below."""
    make_jobs(jobs_db, 20_000, at=BEGINNING - 10_000)
    queue = make_queue(embed_batch_size=50)

    def lease_once(owner: str) -> list[str]:
        return [job_id for lease in queue.lease(owner, batches=4).leases for job_id in lease.job_ids]

    counts = lease_all(lease_once)
    assert len(counts) == 20_000
    assert counts.total() == 20_000


def test_the_same_with_the_naive_statement_leases_jobs_twice(jobs_db: Database) -> None:
    """The driver of the test above can find doubles."""
    make_jobs(jobs_db, 2_000)

    def lease_once(owner: str) -> list[str]:
        return [row["id"] for row in jobs_db.write(NAIVE, token=owner)]

    counts = lease_all(lease_once)
    assert counts.total() > len(counts)


@pytest.mark.parametrize("removed", ["control lock", "second look", "both"])
def test_two_leases_at_once_share_no_job(
    race: Race,
    make_queue: Callable[..., EmbedQueue],
    monkeypatch: pytest.MonkeyPatch,
    removed: str,
) -> None:
    """Two guards, each enough: the lock on the control node in jobs/lease_judge, and in jobs/lease_grant the status
    that is judged under the job's lock. Without both, the second lease gets the first one's jobs.
    """
    unlocked = mutated("jobs/lease_judge", ("SET c._lock = true\n", ""))
    blind = judged_before_lock("jobs/lease_grant")
    if removed == "control lock":
        plant(monkeypatch, {"jobs/lease_judge": unlocked})
    elif removed == "second look":
        plant(monkeypatch, {"jobs/lease_grant": blind})
    else:
        plant(monkeypatch, {"jobs/lease_judge": unlocked, "jobs/lease_grant": _careless(blind)})
    make_queue().enqueue(requests(20))
    firsts: list[str] = []

    def first(queue: EmbedQueue) -> None:
        firsts.extend(leased(queue).leases[0].job_ids)

    result = race(first, lambda queue: queue.lease("w2", batches=1))
    seconds = [job_id for lease in result.leases for job_id in lease.job_ids]
    assert len(firsts) == 10
    assert bool(set(firsts) & set(seconds)) is (removed == "both")


def _careless(grant: str) -> str:
    """A grant that does not wait for the control node either, and so looks at its jobs before it waits at all."""
    waiting = "SET c.seq = c.seq + size($leases), c.turn = $turn\n"
    assert waiting in grant
    return grant.replace(waiting, "")
