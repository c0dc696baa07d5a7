"""Edits before backfills: backfills leave places and a share of the budget to them."""

from itertools import pairwise

import pytest

from neo4j_queue.database import Database
from neo4j_queue.jobs import PRIORITY_BACKFILL, PRIORITY_DEFAULT, PRIORITY_HIGHEST
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.budget import OPEN_PER_SLOT
from neo4j_queue.queue.leases import Worker
from tests.queue.conftest import MakeQueue
from tests.queue.scenery import Clock, all_jobs, leased, make_jobs, request, the_lease

BACKFILLS = 300


def backfill(database: Database, count: int = BACKFILLS) -> None:
    make_jobs(database, count, priorities=1, priority=PRIORITY_BACKFILL)


def edit(queue: EmbedQueue, n: int = 0, priority: int = PRIORITY_DEFAULT) -> str:
    (result,) = queue.enqueue(request(n, priority=priority))
    return result.id


def waiting(queue: EmbedQueue) -> str | None:
    """Leases all that can be leased; why it ended."""
    while (result := queue.lease("beat")).leases:
        pass
    return result.reason


def test_an_edit_finds_a_place_while_backfills_hold_all(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """Its message goes first, so it waits for one running batch only. Fails without `_places_for_edits`: it is leased
    when a batch has ended."""
    queue = make_queue(embed_batch_size=10)
    backfill(jobs_db)
    clock.advance(2_000)
    queue.census.record([Worker("w1", 2)])
    assert waiting(queue) == "no free slots"
    wanted = edit(queue)
    (lease,) = queue.lease("beat").leases
    assert (lease.job_ids, lease.backfill) == ((wanted,), False)
    assert "backfill" not in the_lease(jobs_db, lease.token)
    # The next one finds none: places for edits are a share of the slots.
    edit(queue, 1)
    assert queue.lease("beat").reason == "no free slots"


def test_backfills_get_all_places_and_no_more(make_queue: MakeQueue, jobs_db: Database, clock: Clock) -> None:
    queue = make_queue(embed_batch_size=10)
    backfill(jobs_db)
    clock.advance(2_000)
    queue.census.record([Worker("w1", 2)])
    leases = queue.lease("beat").leases
    assert [lease.backfill for lease in leases] == [True] * (2 * OPEN_PER_SLOT)
    assert queue.lease("beat").reason == "no free slots"


def test_an_edit_finds_a_request_of_the_window_that_backfills_used_up(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """Fails without `_kept_for_edits`: it waits for the whole window."""
    queue = make_queue(embed_batch_size=10, embedding_rate_limit_tokens=20)
    backfill(jobs_db)
    clock.advance(2_000)
    queue.census.record([Worker("w1", 30)])
    assert waiting(queue) == "no budget"
    assert jobs_db.read("MATCH (l:EmbedLease) RETURN count(l) AS n")[0]["n"] == 19
    wanted = edit(queue, priority=PRIORITY_HIGHEST)
    (lease,) = queue.lease("beat").leases
    assert lease.job_ids == (wanted,)
    edit(queue, 1, priority=PRIORITY_HIGHEST)
    assert queue.lease("beat").reason == "no budget"


def test_an_edit_finds_tokens_of_the_window_that_backfills_used_up(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """A neighbour: the limit of model tokens. Each of these jobs has 10."""
    queue = make_queue(embed_batch_size=10, embedding_rate_limit_model_tokens=400)
    backfill(jobs_db)
    clock.advance(2_000)
    queue.census.record([Worker("w1", 30)])
    assert waiting(queue) == "no budget"
    assert jobs_db.read("MATCH (l:EmbedLease) RETURN sum(l.est_tokens) AS n")[0]["n"] == 380
    (result,) = queue.enqueue(request(0, est_tokens=20))
    (lease,) = queue.lease("beat").leases
    assert lease.job_ids == (result.id,)


def test_an_edit_goes_before_backfills_that_were_due_first_and_shares_its_batch_with_them(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=10)
    backfill(jobs_db)
    clock.advance(2_000)
    wanted = edit(queue)
    first, second = leased(queue, batches=2).leases
    assert first.job_ids[0] == wanted
    assert (len(first.job_ids), first.backfill, second.backfill) == (10, False, True)


def test_an_edit_raises_the_job_of_a_backfill(make_queue: MakeQueue, jobs_db: Database, clock: Clock) -> None:
    """A neighbour: the same text was queued by a sweep."""
    queue = make_queue(embed_batch_size=1)
    backfill(jobs_db)
    (swept,) = queue.enqueue(request(0, priority=PRIORITY_BACKFILL))
    clock.advance(2_000)
    assert edit(queue) == swept.id
    assert all_jobs(jobs_db)[swept.id]["priority"] == PRIORITY_DEFAULT
    (lease,) = leased(queue).leases
    assert lease.job_ids == (swept.id,)


# -- single edits under a scarce limit ---------------------------------------------------------------------


def spend(queue: EmbedQueue, requests: int) -> None:
    for n in range(requests):
        edit(queue, 1_000 + n, priority=PRIORITY_HIGHEST)
        (lease,) = leased(queue).leases
        queue.start(lease.token, lease.job_ids)


def test_single_edits_share_a_request_while_requests_are_scarce(make_queue: MakeQueue, clock: Clock) -> None:
    """15 of 20 are spent, so each of the rest is worth six seconds. Fails without `_may_linger`: three requests."""
    queue = make_queue(embedding_rate_limit_tokens=20)
    spend(queue, 15)
    wanted = [edit(queue, 0)]
    assert queue.lease("w1", batches=5).reason == "gathering"
    clock.advance(3_000)
    wanted += [edit(queue, 1), edit(queue, 2)]
    assert queue.lease("w1", batches=5).reason == "gathering"
    clock.advance(2_999)
    assert queue.lease("w1", batches=5).reason == "gathering"
    clock.advance(1)
    (lease,) = queue.lease("w1", batches=5).leases
    assert sorted(lease.job_ids) == sorted(wanted)


@pytest.mark.parametrize(
    ("spent", "priority", "edits"),
    [(10, PRIORITY_DEFAULT, 1), (15, PRIORITY_HIGHEST, 1), (15, PRIORITY_DEFAULT, 10)],
    ids=["half is left", "a person waits", "a full batch"],
)
def test_nothing_waits_that_need_not(make_queue: MakeQueue, spent: int, priority: int, edits: int) -> None:
    queue = make_queue(embedding_rate_limit_tokens=20)
    spend(queue, spent)
    for n in range(edits):
        edit(queue, n, priority)
    assert queue.lease("w1", batches=5).leases


def test_twenty_edits_in_twenty_seconds_leave_requests_for_the_rest_of_the_minute(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """Of 20 a minute. Without the lingering all are spent after 20 s, and the 21st edit waits for 40 s."""
    queue = make_queue(embedding_rate_limit_tokens=20)
    begun: list[int] = []
    for second in range(60):
        edit(queue, second)
        result = queue.lease("w1", batches=5)
        assert result.reason in (None, "gathering")
        for lease in result.leases:
            queue.start(lease.token, lease.job_ids)
            begun.append(second)
        clock.advance(1_000)
    assert max(b - a for a, b in pairwise(begun)) <= 15
