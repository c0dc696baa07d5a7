"""Jobs of one text: leased together, or one after the other, never in two batches at a time (C10)."""

from collections.abc import Callable

import pytest

from neo4j_queue.database import Database
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.lease import REACH, TWINS_RUN
from neo4j_queue.queue.leases import Lease, Spent, Verdicts
from tests.queue.interleaving import mutated, plant
from tests.queue.scenery import MODEL, Clock, all_jobs, leased, make_jobs, request, running, the_lease

MakeQueue = Callable[..., EmbedQueue]


def enqueue(queue: EmbedQueue, clock: Clock, texts: str, **more: object) -> list[str]:
    """One job for each letter, of that text, due one after the other; their ids."""
    ids = []
    for n, text in enumerate(texts):
        number = clock.now + n
        request = JobRequest(f"{text}-{number}", MODEL, f"{ord(text):016x}", est_tokens=10, **more)  # type: ignore[arg-type]
        ids += [result.id for result in queue.enqueue(request)]
        clock.advance(1)
    return ids


def texts_of(database: Database, *leases: Lease) -> list[str]:
    """The letters of the leases' jobs, in their order."""
    jobs = all_jobs(database)
    return ["".join(chr(int(jobs[i]["version"], 16)) for i in lease.job_ids) for lease in leases]


def test_jobs_of_one_text_are_leased_together(make_queue: MakeQueue, jobs_db: Database, clock: Clock) -> None:
    queue = make_queue(embed_batch_size=3)
    enqueue(queue, clock, "abacada")
    leases = leased(queue, batches=3).leases
    assert texts_of(jobs_db, *leases) == ["aba", "cd"]
    assert [lease.est_tokens for lease in leases] == [20, 20]
    assert the_lease(jobs_db, leases[0].token)["texts"].split() == [f"{ord(text):016x}" for text in "ab"]


def test_a_text_that_is_in_hand_is_not_leased_a_second_time(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The single flight across processes. Guard: the texts of open leases in jobs/lease_judge; see below without it."""
    queue = make_queue(embed_batch_size=2)
    enqueue(queue, clock, "ab")
    work = running(queue)
    enqueue(queue, clock, "aacb")
    second = leased(queue, batches=2).leases
    assert texts_of(jobs_db, *second) == ["c"]
    assert queue.lease("w2", batches=2).reason == TWINS_RUN
    assert queue.complete(work.token, work.ids).more_due
    assert texts_of(jobs_db, *leased(queue, batches=2).leases) == ["aa", "b"]
    assert "texts" not in the_lease(jobs_db, work.token)


def test_without_the_texts_of_the_open_leases_two_have_one_text(
    make_queue: MakeQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    text = mutated(
        "jobs/lease_judge", ("WHEN $texts AND l.lock_until > now THEN l.texts END", "WHEN false THEN '' END")
    )
    plant(monkeypatch, {"jobs/lease_judge": text})
    queue = make_queue(embed_batch_size=1)
    enqueue(queue, clock, "aa")
    assert [len(leased(queue).leases) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("how", ["released", "failed lease", "expired", "recovered", "taken back"])
def test_a_text_is_free_again_however_its_lease_ends(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, how: str
) -> None:
    """A heartbeat that comes after the recovery changes nothing about it."""
    enqueue(queue, clock, "a")
    work = running(queue)
    (twin,) = enqueue(queue, clock, "a", priority=9)
    assert queue.lease("w2", batches=1).reason == TWINS_RUN
    if how == "released":
        queue.release(work.token, work.ids)
    elif how == "failed lease":
        queue.settle(work.token, Verdicts(), spent=Spent())
    elif how == "taken back":
        queue.release_jobs(work.ids)
        assert "open" not in the_lease(jobs_db, work.token), "it holds nothing any more"
    else:
        clock.advance(100_001)
        if how == "recovered":
            queue.recover_stale()
            queue.heartbeat({work.token: work.ids})
    assert twin in leased(queue, "w2").leases[0].job_ids


def test_a_job_that_is_taken_back_need_not_wait_for_its_own_lease(queue: EmbedQueue, clock: Clock) -> None:
    """Though its holder lives and keeps its lease by heartbeats."""
    (job,) = enqueue(queue, clock, "a")
    work = running(queue)
    queue.release_jobs(work.ids)
    queue.heartbeat({work.token: work.ids})
    assert leased(queue, "w2").leases[0].job_ids == (job,)


def test_twins_at_the_head_do_not_hold_up_the_others(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """Guard: the second look, `reach` and `passed`. Without it nothing is leased: the first look sees twins alone."""
    queue = make_queue(embed_batch_size=4)
    enqueue(queue, clock, "a")
    running(queue)
    enqueue(queue, clock, "a" * 4 * (REACH - 1) + "bcb")
    assert texts_of(jobs_db, *leased(queue).leases) == ["bcb"]


def test_twins_of_each_other_at_the_head_leave_the_other_batches_to_the_others(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=3)
    enqueue(queue, clock, "a" * 9 + "bcdefgh")
    assert texts_of(jobs_db, *leased(queue, batches=3).leases) == ["aaa", "bcd", "efg"]


def test_how_far_it_looks_is_bounded(make_queue: MakeQueue, clock: Clock) -> None:
    """More twins than that: the others wait until the text is no longer in hand, and not longer."""
    queue = make_queue(embed_batch_size=4)
    enqueue(queue, clock, "a")
    work = running(queue)
    enqueue(queue, clock, "a" * 4 * REACH + "b")
    assert queue.lease("w2", batches=1).reason == TWINS_RUN
    queue.complete(work.token, work.ids)
    assert len(leased(queue).leases) == 1


def test_a_probe_takes_a_job_whose_text_is_not_in_hand(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=4)
    enqueue(queue, clock, "a")
    running(queue)
    enqueue(queue, clock, "aab")
    jobs_db.write("MATCH (c:QueueControl) SET c.trouble = 'outage', c.trouble_rounds = 1")
    try:
        assert texts_of(jobs_db, *leased(queue, batches=2).leases) == ["b"]
    finally:
        jobs_db.write("MATCH (c:QueueControl) REMOVE c.trouble, c.trouble_rounds")


def test_a_text_is_charged_once_to_the_budget_of_model_tokens(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=10, embedding_rate_limit_model_tokens=25)
    enqueue(queue, clock, "aabac")
    (lease,) = leased(queue).leases
    assert texts_of(jobs_db, lease) == ["aaba"]
    assert lease.est_tokens == 20


def test_suspects_are_not_starved_by_their_twins(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """A suspect that was due first goes first; its healthy twin waits for it, and the other way round."""
    queue = make_queue(embed_batch_size=4, embed_job_max_crashes=1)
    (suspect,) = enqueue(queue, clock, "a")
    running(queue)
    clock.advance(100_001)
    queue.recover_stale()
    (healthy,) = enqueue(queue, clock, "a")
    work = running(queue)
    assert work.ids == [suspect]
    assert queue.lease("w2", batches=1).reason == TWINS_RUN
    queue.complete(work.token, work.ids)
    assert leased(queue).leases[0].job_ids == (healthy,)


def test_ten_thousand_jobs_of_one_text_drain(make_queue: MakeQueue, jobs_db: Database, clock: Clock) -> None:
    """One batch at a time, whatever the number of free slots; no lease is without jobs before the last."""
    queue = make_queue(embed_batch_size=500)
    make_jobs(jobs_db, 10_000, priorities=1, version="the same")
    clock.advance(1_000)
    batches = 0
    while (result := queue.lease("w1", batches=8)).leases:
        (lease,) = result.leases
        queue.start(lease.token, lease.job_ids)
        assert len(queue.complete(lease.token, list(lease.job_ids)).completed) == 500
        batches += 1
    assert (batches, queue.status().completed) == (20, 10_000)


def test_what_was_saved_stands_on_the_lease(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    enqueue(queue, clock, "ab")
    work = running(queue)
    verdicts = Verdicts(released=work.ids)
    queue.settle(work.token, verdicts, spent=Spent(1, 10, 5, inputs=1, saved=1))
    node = the_lease(jobs_db, work.token)
    assert (node["requests"], node["inputs"], node["saved"]) == (1, 1, 1)


def test_a_crowd_of_one_text_does_not_hold_up_another_priority(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """More of them are due than a transaction looks at. Fails without the second look in `LeaseTransaction._due`."""
    queue = make_queue(embed_batch_size=2)
    make_jobs(jobs_db, 100, priorities=1, priority=1, version="same")
    clock.advance(2_000)
    (lower,) = queue.enqueue(request(0, priority=0))
    running(queue)
    (lease,) = leased(queue).leases
    assert lease.job_ids == (lower.id,)
