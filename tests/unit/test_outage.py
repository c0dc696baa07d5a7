"""What is said of a broker that is away: seldom, without stacks, and nothing else is held back."""

import logging
from typing import Any

import pytest
import redis
from celery.beat import SchedulingError
from structlog.testing import capture_logs

from tasks.outage import REPEAT_S, Outage

GONE = redis.ConnectionError("Connection refused.")


class Clock:
    """Seconds that only a test moves on."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(name: str, level: int, *args: Any, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord(name, level, __file__, 1, "%s " * len(args), args, info)


def raised_because_of(cause: BaseException, error: BaseException) -> BaseException:
    """An error that somebody met while handling another one."""
    error.__context__ = cause
    return error


CONSUMER, STEPS, BEAT = "celery.worker.consumer.consumer", "celery.bootsteps", "celery.beat"
TOLD_OTHERWISE = {
    "lost": record(CONSUMER, logging.WARNING, "Connection to broker lost", GONE),
    "a try": record(CONSUMER, logging.ERROR, "redis://", GONE, "Trying again in 1.00 second"),
    "a step": record(STEPS, logging.ERROR, error=raised_because_of(GONE, AttributeError("None"))),
    "a tick": record(BEAT, logging.ERROR, error=raised_because_of(GONE, SchedulingError("lease"))),
}


def test_an_absence_is_one_line_when_it_begins_each_half_minute_and_when_it_ends() -> None:
    """Guard: `REPEAT_S` in `Outage.away`. Without it there is a line for each try."""
    clock = Clock()
    outage = Outage(clock)
    with capture_logs() as lines:
        outage.back()
        for _ in range(65):
            outage.away(GONE)
            clock.now += 1
        outage.back()
        outage.back()
        outage.away(redis.TimeoutError("too late"))
    events = [(line["event"], line["away_s"]) for line in lines]
    assert events == [
        ("broker_away", 0),
        ("broker_away", REPEAT_S),
        ("broker_away", 2 * REPEAT_S),
        ("broker_back", 65),
        ("broker_away", 0),
    ]
    first = lines[0]
    assert (first["error"], first["error_class"]) == ("Connection refused.", "ConnectionError")
    assert first["retries"] == "every 1 s, until it is back"


def test_a_success_among_failures_is_no_return() -> None:
    """A database that takes no writes answers what only looks. Guard: `settled_s`; without it each tick is a line."""
    clock = Clock()
    outage = Outage(clock, settled_s=5)
    with capture_logs() as lines:
        for _ in range(20):
            outage.away(GONE)
            clock.now += 1
            outage.back()
        clock.now += 4
        outage.back()
    assert [line["event"] for line in lines] == ["broker_away", "broker_back"]


@pytest.mark.parametrize("said", TOLD_OTHERWISE.values(), ids=TOLD_OTHERWISE)
def test_what_fails_for_want_of_the_broker_is_told_without_a_stack(said: logging.LogRecord) -> None:
    outage = Outage()
    with capture_logs() as lines:
        assert not outage.screen(said)
    assert [line["event"] for line in lines] == ["broker_away"]
    assert lines[0]["error_class"] == "ConnectionError"
    assert "stack" not in lines[0]


@pytest.mark.parametrize(
    "said",
    [
        record(CONSUMER, logging.INFO, "Connected to", "redis://"),
        record(CONSUMER, logging.DEBUG, "Connection error", error=GONE),
        record(CONSUMER, logging.ERROR, error=KeyError("a message without a task")),
        record("celery.app.trace", logging.ERROR, "a task of ours", error=GONE),
        record("neo4j", logging.ERROR, error=ConnectionResetError("the graph")),
    ],
    ids=["info", "debug", "another error", "a task", "another service"],
)
def test_everything_else_is_told_as_it_is(said: logging.LogRecord) -> None:
    outage = Outage()
    with capture_logs() as lines:
        assert outage.screen(said)
    assert lines == []
