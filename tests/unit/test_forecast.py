"""When a number of jobs will be done: the limits, the speed, and what is not known."""

import pytest

from neo4j_queue.queue.forecast import FAR_MS, Speed, Window, Work, done_at

NOW = 1_000_000
# Twenty jobs a second, in batches of half a second.
FAST = Speed(jobs=20, busy_ms=1_000, batch_ms=500)


def window(limit: int, *leaving: tuple[int, int], kept: int = 0) -> Window:
    return Window("requests", limit, 60_000, leaving, kept)


@pytest.mark.parametrize(
    ("limits", "needed", "moment"),
    [
        (window(20), 0, 0),
        (window(20), 20, 0),
        (window(20), 21, 60_000),
        (window(20), 61, 180_000),
        (window(20, (NOW + 5_000, 15), (NOW + 9_000, 5)), 1, 5_000),
        (window(20, (NOW + 5_000, 15), (NOW + 9_000, 5)), 15, 5_000),
        (window(20, (NOW + 5_000, 15), (NOW + 9_000, 5)), 16, 9_000),
        (window(20, (NOW + 5_000, 15), (NOW + 9_000, 5)), 36, 69_000),
        (window(20, (NOW + 5_000, 10)), 10, 0),
        (window(20, (NOW + 5_000, 10)), 11, 5_000),
        # More was used than the jobs at hand may use: what leaves first gives nothing back.
        (window(20, (NOW + 5_000, 1), (NOW + 9_000, 19), kept=1), 1, 9_000),
        (window(20, kept=1), 20, 60_000),
        # What has left by the start is free.
        (window(20, (NOW - 5, 20)), 20, 0),
        (window(0), 1, None),
        (window(1, kept=1), 1, None),
    ],
)
def test_when_the_last_of_some_requests_may_be_sent(limits: Window, needed: int, moment: int | None) -> None:
    """All that a window holds goes at once, and again when it has left the window."""
    assert limits.moment(needed, NOW) == (None if moment is None else NOW + moment)


def test_speed_is_that_of_the_work_and_not_of_the_time_between() -> None:
    """Fails with the time from the first batch to now: after an idle hour a backlog is said to take hours."""
    batches = [(0, 1_000, 10), (500, 1_500, 10), (2_000, 3_000, 10), (3_600_000, 3_601_000, 10)]
    assert Speed.of(batches) == Speed(40, 4_000, 1_000)
    rests = [(0, 1_000, 10), (2_000, 3_000, 10)]
    assert Speed.of(rests) == Speed(20, 3_000, 1_000)
    assert Speed.of(rests, [Window("requests", 1, 2_000)]) == Speed(20, 2_000, 1_000), (
        "the rests of a short window"
    )
    assert Speed.of([]) is None
    assert Speed.of([(0, 1_000, 0)]) is None, "batches in which no job ended say nothing"


@pytest.mark.parametrize(
    ("work", "windows", "speed", "seconds"),
    [
        # No limit: the speed decides.
        (Work(200, 20, 0), (), FAST, 10.0),
        # A limit that binds, and the last batch after it.
        (Work(200, 200, 0), (window(20),), FAST, 9 * 60 + 0.5),
        # One that does not.
        (Work(200, 20, 0), (window(1_000),), FAST, 10.0),
        # The stricter of two.
        (Work(200, 20, 4_000), (window(20), Window("tokens", 1_000, 60_000)), FAST, 180.5),
        (Work(200, 20, 0), (window(20),), None, None),
        (Work(200, 20, 0), (window(0),), FAST, None),
        (Work(1, 1, 0), (), Speed(1, FAR_MS, 1), None),
    ],
)
def test_the_later_of_limit_and_speed_is_the_end(
    work: Work, windows: tuple[Window, ...], speed: Speed | None, seconds: float | None
) -> None:
    """Fails without either: the other one alone promises too much."""
    expected = None if seconds is None else NOW + round(seconds * 1_000)
    assert done_at(work, windows, speed, NOW) == expected
