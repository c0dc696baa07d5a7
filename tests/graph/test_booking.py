"""A search never waits for the jobs database: it books its request within a fifth of a second, or goes on without."""

import threading
import time
from collections.abc import Callable

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.booking import REST_S, BoundedBooking
from neo4j_queue.graph.query_embedder import QueryEmbedder
from neo4j_queue.local_services import LocalServices
from neo4j_queue.mock_provider import ProviderServer
from neo4j_queue.queue import EmbedQueue
from tests.conftest import MakeSettings
from tests.freezing import frozen
from tests.graph.conftest import wait_until
from tests.provider import hosted_by

LIMITED = {"embedding_rate_limit_tokens": 100, "embedding_rate_limit_interval": 60_000}
LEASES = (
    "MATCH (l:EmbedLease {outcome: 'query'}) RETURN count(l) AS n, coalesce(sum(l.est_tokens), 0) AS tokens"
)
MakeQueue = Callable[..., EmbedQueue]


@pytest.fixture
def make_queue(jobs_db: Database, make_settings: MakeSettings) -> MakeQueue:
    return lambda **overrides: EmbedQueue(jobs_db, make_settings(**overrides))


class Slow:
    """A booking that answers when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.calls: list[int] = []

    def __call__(self, est_tokens: int) -> bool:
        self.let.wait(10)
        self.calls.append(est_tokens)
        return True


def test_a_late_answer_holds_up_one_search_for_a_moment_and_the_next_ones_not_at_all() -> None:
    """Seen failing with the plain call: the search waited for the answer, and so did each one after it."""
    book = Slow()
    booking = BoundedBooking(book)
    began = time.monotonic()
    assert booking(1)
    assert 0.15 < time.monotonic() - began < 2
    began = time.monotonic()
    assert all(booking(tokens) for tokens in (2, 3, 4))
    assert time.monotonic() - began < 0.1
    assert threading.active_count() < 20
    book.let.set()
    wait_until(lambda: book.calls == [1, 2, 3, 4])
    wait_until(lambda: booking._rest_until == 0.0)
    assert booking(5)
    assert book.calls[-1] == 5


def test_a_booking_that_fails_is_not_tried_again_for_a_while() -> None:
    """Seen failing without the rest: each search paid the driver's time."""
    now = [0.0]
    calls: list[int] = []

    def book(est_tokens: int) -> bool:
        calls.append(est_tokens)
        raise ConnectionError("away")

    booking = BoundedBooking(book, monotonic=lambda: now[0])
    assert [booking(at) for at in range(5)] == [True] * 5
    assert calls == [0]
    now[0] = REST_S
    assert booking(9)
    assert calls == [0, 9]


def test_no_room_is_no_failure() -> None:
    answers = iter([False, False, True])
    booking = BoundedBooking(lambda _: next(answers))
    assert [booking(1) for _ in range(3)] == [False, False, True]


def test_without_limits_a_search_takes_no_lock_and_is_still_counted(
    make_queue: MakeQueue, jobs_db: Database
) -> None:
    """Seen failing with the booking under the control lock: it waited for the lease transaction that holds it."""
    queue = make_queue(embedding_rate_limit_tokens="unlimited")
    with jobs_db.driver().session(database=jobs_db.address.database) as session:
        held = session.begin_transaction()
        held.run("MATCH (c:QueueControl) SET c._lock = true").consume()
        began = time.monotonic()
        assert queue.book_query(7)
        assert time.monotonic() - began < 2
        held.rollback()
    assert jobs_db.read(LEASES)[0].data() == {"n": 1, "tokens": 7}


def test_a_limit_that_the_provider_named_is_kept(make_queue: MakeQueue, jobs_db: Database) -> None:
    """A neighbour: nothing is set, and the answers say one request a minute."""
    queue = make_queue(embedding_rate_limit_tokens="unlimited")
    jobs_db.write(
        "MATCH (c:QueueControl) SET c.found_requests = 1, c.found_at = datetime.realtime().epochMillis"
    )
    assert [queue.book_query(1), queue.book_query(1)] == [True, False]


def test_a_search_answers_while_the_jobs_server_is_frozen(
    graph_db: Database,
    services: LocalServices,
    make_queue: MakeQueue,
    make_settings: MakeSettings,
) -> None:
    """Seen failing with the plain call: the search took as long as the driver waits for a frozen server."""
    with ProviderServer(dimensions=256) as provider:
        settings = make_settings(**hosted_by(provider), **LIMITED)
        queue = make_queue(**LIMITED)
        assert queue.book_query(1)
        graph = EntityGraph.from_settings(settings, database=graph_db, book_query=queue.book_query)
        graph.search("warm")
        with frozen(services.jobs.pid):
            for query in ("one", "two", "three"):
                began = time.monotonic()
                graph.search(query)
                assert time.monotonic() - began < 3
        assert provider.inputs == ["warm", "one", "two", "three"]


def test_a_page_of_text_as_a_query_is_cut_like_a_text(make_settings: MakeSettings) -> None:
    """Seen failing with the whole query: the provider refused it."""
    with ProviderServer(dimensions=256) as provider:
        settings = make_settings(**hosted_by(provider), embed_input_tokens=100, embed_long_texts="fail")
        embed = QueryEmbedder(settings)
        embed("short")
        embed("word " * 5_000)
        embed("漢" * 5_000)
        short, words, signs = provider.inputs
    assert (short, words) == ("short", ("word " * 80).strip())
    assert 0 < len(signs) <= 100
