"""What `usage` adds up: by provider and model, each part at the price of its time."""

import pytest

from neo4j_queue.database import Database
from neo4j_queue.queue import EmbedQueue, usage
from neo4j_queue.queue.leases import Spent, Verdicts
from tests.queue.conftest import MakeQueue
from tests.queue.scenery import Clock, request, requests, running

OPENAI = {"embedding_provider": "openai", "openai_api_key": "of-no-worth", "neo4j_vector_dimensions": None}


def spend(queue: EmbedQueue, tokens: int, first: int) -> None:
    queue.enqueue(request(first))
    work = running(queue)
    queue.settle(work.token, Verdicts(released=work.ids), spent=Spent(1, tokens, 0))


def test_each_part_keeps_the_price_of_its_time(
    make_queue: MakeQueue, clock: Clock, jobs_db: Database
) -> None:
    """Seen to fail with one sum at the price of today: 5 million tokens at 7 USD."""
    spend(make_queue(**OPENAI), 1_000_000, 1)
    spend(make_queue(**OPENAI, embedding_price_per_million_tokens=7.0), 2_000_000, 2)
    large = {**OPENAI, "openai_embedding_model": "text-embedding-3-large"}
    spend(make_queue(**large), 2_000_000, 3)
    found = usage.read(jobs_db, 1.0, now=clock.now)
    parts = [(p.provider, p.model, p.price, p.model_tokens, p.money) for p in found.parts]
    assert parts == [
        ("openai", "text-embedding-3-large", 0.13, 2_000_000, pytest.approx(0.26)),
        ("openai", "text-embedding-3-small", 0.02, 1_000_000, pytest.approx(0.02)),
        ("openai", "text-embedding-3-small", 7.0, 2_000_000, pytest.approx(14.0)),
    ]
    assert (found.requests, found.model_tokens, found.unpriced_tokens) == (3, 5_000_000, 0)
    assert found.money == pytest.approx(14.28)


def test_a_search_and_a_batch_that_ran_out_have_their_model_too(
    make_queue: MakeQueue, clock: Clock, jobs_db: Database
) -> None:
    queue = make_queue(**OPENAI)
    limited = make_queue(**OPENAI, embedding_rate_limit_tokens=100)
    assert queue.book_query(11)
    assert limited.book_query(13)
    queue.enqueue(requests(1))
    running(queue)
    clock.advance(200_000)
    queue.recover_stale()
    (part,) = usage.read(jobs_db, 1.0, now=clock.now).parts
    assert (part.provider, part.model, part.price) == ("openai", "text-embedding-3-small", 0.02)
    assert (part.requests, part.searches, part.unconfirmed) == (3, 2, 1)


def test_what_was_not_noted_and_what_has_no_price_is_apart_and_not_in_the_sum(
    make_queue: MakeQueue, clock: Clock, jobs_db: Database
) -> None:
    spend(make_queue(**OPENAI, openai_embedding_dimensions=8), 1_000_000, 1)
    other = {**OPENAI, "openai_embedding_model": "mine", "neo4j_vector_dimensions": 8}
    spend(make_queue(**other), 3_000, 2)
    jobs_db.write(
        "MATCH (l:EmbedLease {est_tokens: 1000000}) SET l.provider = null, l.model = null, l.price = null"
    )
    spend(make_queue(), 50, 3)
    found = usage.read(jobs_db, 1.0, now=clock.now)
    assert [(p.provider, p.model, p.price) for p in found.parts] == [
        ("mock", "mock-256", 0.0),
        ("openai", "mine", None),
        (None, None, None),
    ]
    assert (found.unpriced_tokens, found.money) == (1_003_000, 0.0)


def test_nothing_asked_is_no_part(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    found = usage.read(jobs_db, 1.0, now=clock.now)
    assert (list(found.parts), found.requests, found.money, found.first_at) == ([], 0, None, None)
    assert found.now == clock.now
