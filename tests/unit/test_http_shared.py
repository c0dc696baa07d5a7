"""One look for all who ask: probes cost the same however many there are."""

import asyncio
import threading
import time

import pytest

from neo4j_queue.http.shared import Remembered, Shared
from tests.waiting import wait_until


def test_those_who_ask_at_the_same_time_or_soon_after_get_one_look() -> None:
    """Fails without the task that is under way: each of the ten looks by itself."""
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        time.sleep(0.05)
        return len(looks)

    async def ask() -> list[int]:
        shared = Shared(look, fresh_s=60)
        together = await asyncio.gather(*(shared.get() for _ in range(10)))
        return [*together, await shared.get()]

    assert asyncio.run(ask()) == [1] * 11


def test_an_old_answer_is_looked_for_again_and_an_error_is_no_answer_for_good() -> None:
    answers = iter([KeyError("first"), 2])

    def look() -> int:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    async def ask() -> int:
        shared = Shared(look, fresh_s=0)
        with pytest.raises(KeyError):
            await shared.get()
        await asyncio.sleep(0.01)
        return await shared.get()

    assert asyncio.run(ask()) == 2


def test_a_client_that_hangs_up_ends_no_look_of_the_others() -> None:
    """Fails without the shield."""
    let = threading.Event()

    async def ask() -> bool:
        shared = Shared(lambda: let.wait(5), fresh_s=60)
        first = asyncio.create_task(shared.get())
        second = asyncio.create_task(shared.get())
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        let.set()
        return await second

    assert asyncio.run(ask()) is True


def test_a_slow_answer_is_remembered_and_renewed_in_the_background() -> None:
    """Fails without the background: the second caller waits for the look."""
    now, looks, let = [0.0], [0], threading.Event()
    let.set()

    def look() -> int:
        assert let.wait(10)
        looks[0] += 1
        return looks[0]

    remembered = Remembered(look, fresh_s=5, good_s=60, clock=lambda: now[0])
    assert remembered.get() == 1
    now[0] = 4.0
    assert remembered.get() == 1
    let.clear()
    now[0] = 6.0
    assert [remembered.get() for _ in range(3)] == [1, 1, 1]
    let.set()
    wait_until(lambda: remembered.get() == 2, within_s=10, what="the look in the background has ended")
    assert looks == [2], "three callers were one look"
    now[0] = 100.0
    assert remembered.get() == 3, "too old to be of use: it is waited for"
