"""Limits that the provider names in its answers, its way of counting tokens, and room for searches."""

from collections.abc import Callable

import pytest

from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Lease, Spent, Verdicts
from neo4j_queue.queue.provider_limits import ProviderReport
from tests.queue.scenery import Clock, request, requests

MakeQueue = Callable[..., EmbedQueue]

WINDOW_MS = 60_250


def send(queue: EmbedQueue, *leases: Lease) -> None:
    """Asks the provider for these, now."""
    for lease in leases:
        queue.start(lease.token, lease.job_ids)
        queue.settle(lease.token, Verdicts(), spent=Spent(1, lease.est_tokens, 0))


# -- what the provider names -------------------------------------------------------------------------------


def test_without_a_configured_limit_the_one_that_the_provider_names_is_kept(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """Guard: `found_requests` in `budget_of`. Without it all ten are leased."""
    queue = make_queue(embedding_rate_limit_tokens="unlimited", embed_batch_size=1)
    queue.enqueue(requests(20))
    queue.control.provider_reported(ProviderReport(requests=3))
    first = queue.lease("w", batches=10).leases
    assert len(first) == 3
    assert queue.lease("w", batches=10).reason == "no budget"
    send(queue, *first)
    clock.advance(WINDOW_MS - 1)
    assert queue.lease("w", batches=10).reason == "no budget"
    clock.advance(1)
    assert len(queue.lease("w", batches=10).leases) == 3


@pytest.mark.parametrize(("configured", "named", "kept"), [(2, 5, 2), (5, 2, 2), (0, 5, 0)])
def test_of_two_limits_the_smaller_one_counts(
    make_queue: MakeQueue, configured: int, named: int, kept: int
) -> None:
    queue = make_queue(embedding_rate_limit_tokens=configured, embed_batch_size=1)
    queue.enqueue(requests(10))
    queue.control.provider_reported(ProviderReport(requests=named))
    assert len(queue.lease("w", batches=10).leases) == kept


def test_its_minute_is_kept_beside_a_shorter_configured_interval(make_queue: MakeQueue, clock: Clock) -> None:
    """Guard: the window of a minute of its own in jobs/lease_judge."""
    queue = make_queue(
        embedding_rate_limit_tokens=4, embedding_rate_limit_interval=10_000, embed_batch_size=1
    )
    queue.enqueue(requests(20))
    queue.control.provider_reported(ProviderReport(requests=6))
    first = queue.lease("w", batches=10).leases
    assert len(first) == 4
    send(queue, *first)
    clock.advance(10_250)
    assert len(queue.lease("w", batches=10).leases) == 2


def test_model_tokens_that_the_provider_names_are_kept(make_queue: MakeQueue) -> None:
    """Guard: `found_tokens` in `budget_of`."""
    queue = make_queue(embed_batch_size=10)
    queue.enqueue([request(n, est_tokens=10) for n in range(10)])
    queue.control.provider_reported(ProviderReport(tokens=45))
    assert [lease.est_tokens for lease in queue.lease("w", batches=5).leases] == [40]


def test_a_word_that_was_not_renewed_for_ten_minutes_counts_no_more(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """Guard: `good_for_ms` in jobs/lease_judge."""
    queue = make_queue(embed_batch_size=1)
    queue.enqueue(requests(10))
    queue.control.provider_reported(ProviderReport(requests=1))
    clock.advance(599_999)
    assert len(queue.lease("w", batches=2).leases) == 1
    clock.advance(1)
    assert len(queue.lease("w", batches=9).leases) == 9


def test_texts_that_are_charged_higher_than_estimated_fill_a_request_earlier(make_queue: MakeQueue) -> None:
    """Guard: the token factor in `Leasing._candidates`."""
    queue = make_queue(embed_batch_tokens=100)
    queue.enqueue([request(n, est_tokens=10) for n in range(20)])
    queue.control.provider_reported(ProviderReport(token_factor=2.0))
    leases = queue.lease("w", batches=3).leases
    assert [len(lease.job_ids) for lease in leases] == [5, 5, 5]
    assert [lease.est_tokens for lease in leases] == [100, 100, 100]


def test_texts_that_are_charged_lower_are_still_planned_by_their_size(make_queue: MakeQueue) -> None:
    queue = make_queue(embed_batch_tokens=100)
    queue.enqueue([request(n, est_tokens=10) for n in range(20)])
    queue.control.provider_reported(ProviderReport(token_factor=0.5))
    assert [len(lease.job_ids) for lease in queue.lease("w", batches=1).leases] == [10]


# -- searches ----------------------------------------------------------------------------------------------


def test_a_search_counts_against_the_limit_of_all(make_queue: MakeQueue) -> None:
    """Guard: the lease that jobs/book_query writes."""
    queue = make_queue(embedding_rate_limit_tokens=20, embed_batch_size=1)
    queue.enqueue(requests(40))
    assert [queue.book_query(5) for _ in range(5)] == [True] * 5
    # One of twenty is kept free for the next search.
    assert len(queue.lease("w", batches=40).leases) == 14
    assert [queue.book_query(5) for _ in range(2)] == [True, False]


def test_a_search_that_finds_no_room_gets_the_next_that_is_free(make_queue: MakeQueue, clock: Clock) -> None:
    """Guard: `_kept_for_queries`. Without it the backfill takes every request that leaves the window."""
    queue = make_queue(embedding_rate_limit_tokens=3, embed_batch_size=1)
    queue.enqueue(requests(20))
    send(queue, *queue.lease("w", batches=1).leases)
    clock.advance(1_000)
    send(queue, *queue.lease("w", batches=2).leases)
    assert queue.book_query(5) is False
    clock.advance(WINDOW_MS - 1_000)
    assert queue.lease("w", batches=5).reason == "no budget"
    assert queue.book_query(5) is True


def test_when_nobody_searches_any_more_the_backfill_has_everything(
    make_queue: MakeQueue, clock: Clock
) -> None:
    queue = make_queue(embedding_rate_limit_tokens=20, embed_batch_size=1)
    queue.enqueue(requests(40))
    assert queue.book_query(5) is True
    clock.advance(600_001)
    assert len(queue.lease("w", batches=40).leases) == 20


def test_a_limit_of_one_is_shared_in_turn(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(embedding_rate_limit_tokens=1, embed_batch_size=1)
    queue.enqueue(requests(3))
    assert queue.book_query(5) is True
    assert queue.lease("w", batches=1).reason == "no budget"
    clock.advance(WINDOW_MS)
    assert len(queue.lease("w", batches=1).leases) == 1
