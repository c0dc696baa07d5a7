"""The cache of one process: what it keeps, what it forgets, and which of two threads asks for a text that both want."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from neo4j_queue.embedders.vector_cache import ENTRY_BYTES, Key, VectorCache
from tests.waiting import wait_until

WIDTH = 4
ENTRY = ENTRY_BYTES + 8 * WIDTH
WAIT_S = 20.0


def key(text: str, model: str = "m", dimensions: int = WIDTH) -> Key:
    return (model, dimensions, text)


def vector(number: float) -> list[float]:
    return [number] * WIDTH


def found(cache: VectorCache, *texts: str) -> list[str]:
    with cache.flight(key(text) for text in texts) as flight:
        return [text for text in texts if key(text) in flight.found]


def test_a_vector_comes_back_as_it_was() -> None:
    cache = VectorCache(10 * ENTRY)
    numbers = [0.1, 1 / 3, -2e-17, 5e300]
    cache.keep({key("a"): numbers})
    with cache.flight([key("a"), key("b")]) as flight:
        assert flight.found == {key("a"): numbers}
        assert list(flight.ours) == [key("b")]


@pytest.mark.parametrize("other", [key("a", model="other"), key("a", dimensions=5)])
def test_another_model_or_width_is_another_vector(other: Key) -> None:
    cache = VectorCache(10 * ENTRY)
    cache.keep({key("a"): vector(1)})
    with cache.flight([other]) as flight:
        assert flight.found == {}


def test_the_least_recently_used_goes_first_and_the_bytes_are_bounded() -> None:
    cache = VectorCache(2 * ENTRY)
    cache.keep({key("a"): vector(1)})
    cache.keep({key("b"): vector(2)})
    assert found(cache, "a") == ["a"]
    cache.keep({key("c"): vector(3)})
    assert found(cache, "a", "b", "c") == ["a", "c"]
    assert cache.size_bytes == 2 * ENTRY
    cache.keep({key("a"): vector(4)})
    assert cache.size_bytes == 2 * ENTRY


def test_a_vector_larger_than_all_is_not_kept() -> None:
    cache = VectorCache(ENTRY - 1)
    cache.keep({key("a"): vector(1)})
    assert (found(cache, "a"), cache.size_bytes) == ([], 0)


def test_off_keeps_nothing_and_nobody_waits() -> None:
    cache = VectorCache(0)
    with cache.flight([key("a")]) as first:
        first.land({key("a"): vector(1)})
        with cache.flight([key("a")]) as second:
            assert (list(second.ours), second.others) == ([key("a")], {})
    assert cache.size_bytes == 0


def test_two_threads_that_want_a_text_get_it_once() -> None:
    """Guard: `_asked`. Without it the second asks too, and `others` is empty."""
    cache = VectorCache(10 * ENTRY)
    with cache.flight([key("a")]) as first, ThreadPoolExecutor(1) as pool:
        waits = threading.Event()

        def want() -> object:
            with cache.flight([key("a"), key("b")]) as second:
                assert (list(second.ours), list(second.others)) == ([key("b")], [key("a")])
                waits.set()
                return second.wait(WAIT_S)

        future = pool.submit(want)
        assert waits.wait(WAIT_S)
        first.land({key("a"): vector(7)})
        assert future.result(WAIT_S) == {key("a"): vector(7)}


def test_whoever_waits_for_one_that_fails_asks_by_himself() -> None:
    """At once, not after the time-out: the end of the other's flight wakes him."""
    cache = VectorCache(10 * ENTRY)
    with ThreadPoolExecutor(1) as pool:
        waits = threading.Event()

        def want() -> object:
            with cache.flight([key("a")]) as second:
                waits.set()
                return second.wait(10 * WAIT_S)

        with cache.flight([key("a")]):
            future = pool.submit(want)
            assert waits.wait(WAIT_S)
        assert future.result(WAIT_S) == {}
    assert found(cache, "a") == []
    with cache.flight([key("a")]) as third:
        assert list(third.ours) == [key("a")]


def test_the_wait_is_bounded() -> None:
    cache = VectorCache(10 * ENTRY)
    with cache.flight([key("a")]), cache.flight([key("a")]) as second:
        assert second.wait(0.01) == {}


def test_threads_that_want_one_anothers_texts_do_not_wait_in_a_circle() -> None:
    """Each gets what is its own before it waits."""
    cache = VectorCache(10 * ENTRY)
    both = threading.Barrier(2)

    def want(own: str, other: str) -> object:
        with cache.flight([key(own)]) as mine:
            both.wait(WAIT_S)
            with cache.flight([key(other)]) as theirs:
                mine.land({key(own): vector(1)})
                return theirs.found or theirs.wait(WAIT_S)

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(want, "a", "b"), pool.submit(want, "b", "a")]
        wait_until(lambda: all(f.done() for f in futures), within_s=WAIT_S, what="both have ended")
    assert [list(f.result().values()) for f in futures] == [[vector(1)]] * 2  # type: ignore[attr-defined]
