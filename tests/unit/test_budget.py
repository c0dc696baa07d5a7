"""What the lease transaction judges, as a function of the facts."""

from dataclasses import replace
from typing import Any

import pytest

from neo4j_queue.jobs import PRIORITIES
from neo4j_queue.queue.budget import (
    FAIR_EVERY,
    Allowance,
    LeaseFacts,
    RateLimits,
    judge,
    linger_ms,
    order_of_priorities,
)
from neo4j_queue.queue.control import ControlState

FACTS = LeaseFacts(
    now=1_000,
    seq=7,
    turn=0,
    halted=False,
    paused_until=None,
    slots=4,
    open_leases=3,
    spent_requests=10,
    spent_tokens=500,
)
UNLIMITED = RateLimits(None, None, 60_000)
EDITS_ONLY: dict[str, Any] = {"backfills": 0, "backfill_reason": "no budget"}
NO_PLACE: dict[str, Any] = {"backfills": 0, "backfill_reason": "no free slots"}


@pytest.mark.parametrize(
    ("facts", "limits", "batches", "expected"),
    [
        ({}, UNLIMITED, None, Allowance(5)),
        ({}, UNLIMITED, 2, Allowance(2)),
        ({"open_leases": 8}, UNLIMITED, None, Allowance(0, reason="no free slots")),
        ({"open_leases": 80}, UNLIMITED, None, Allowance(0, reason="no free slots")),
        ({"open_leases": 80}, UNLIMITED, 2, Allowance(2)),
        ({"slots": 0, "open_leases": 0}, UNLIMITED, None, Allowance(0, reason="no workers")),
        ({"slots": 0}, UNLIMITED, 0, Allowance(0, reason="no free slots")),
        ({}, UNLIMITED, -1, Allowance(0, reason="no free slots")),
        ({"halted": True}, UNLIMITED, 2, Allowance(0, reason="halted")),
        ({"halted": True, "paused_until": 5_000}, UNLIMITED, 2, Allowance(0, reason="halted")),
        ({"paused_until": 1_001}, UNLIMITED, 2, Allowance(0, reason="paused")),
        ({"paused_until": 1_000}, UNLIMITED, 2, Allowance(2)),
        ({}, RateLimits(12, None, 60_000), None, Allowance(2, backfills=1, linger_ms=15_000)),
        ({}, RateLimits(10, None, 60_000), None, Allowance(0, reason="no budget")),
        ({}, RateLimits(9, None, 60_000), None, Allowance(0, reason="no budget")),
        ({"spent_requests": 0}, RateLimits(0, None, 60_000), 1, Allowance(0, reason="no budget")),
        ({}, RateLimits(None, 501, 60_000), 2, Allowance(2, tokens=1, kept_tokens=25, **EDITS_ONLY)),
        ({}, RateLimits(None, 500, 60_000), 2, Allowance(0, reason="no budget")),
        (
            {},
            RateLimits(11, 600, 60_000),
            None,
            Allowance(1, tokens=100, kept_tokens=30, linger_ms=15_000, **EDITS_ONLY),
        ),
        ({"open_leases": 8, "open_backfills": 8}, UNLIMITED, None, Allowance(1, **NO_PLACE)),
        ({"open_leases": 9, "open_backfills": 8}, UNLIMITED, None, Allowance(0, reason="no free slots")),
        ({"open_leases": 8, "open_backfills": 0}, UNLIMITED, None, Allowance(0, reason="no free slots")),
    ],
)
def test_the_judgement(
    facts: dict[str, int], limits: RateLimits, batches: int | None, expected: Allowance
) -> None:
    assert judge(replace(FACTS, **facts), limits, batches) == expected


@pytest.mark.parametrize(
    ("interval_ms", "window_ms"), [(100, 105), (1_000, 1_050), (5_000, 5_250), (60_000, 60_250)]
)
def test_a_request_counts_a_little_longer_than_the_interval(interval_ms: int, window_ms: int) -> None:
    assert RateLimits(1, None, interval_ms).window_ms == window_ms


def test_every_priority_comes_first_once_in_eighty_turns() -> None:
    """A5: the bound of the contract, FAIR_EVERY x 10 lease transactions."""
    orders = [order_of_priorities(turn) for turn in range(1, FAIR_EVERY * len(PRIORITIES) + 1)]
    assert {order[0] for order in orders} == set(PRIORITIES)
    assert all(sorted(order, reverse=True) == list(PRIORITIES) for order in orders)
    assert sum(order != PRIORITIES for order in orders) == len(PRIORITIES) - 1


def test_a_pause_that_is_over_is_none() -> None:
    state = ControlState(False, None, None, 10, "429", trouble=None, trouble_rounds=0, now=9)
    assert state.paused
    assert not replace(state, now=10).paused
    assert not replace(state, paused_until=None).paused


@pytest.mark.parametrize(
    ("spent", "expected"), [(0, 0), (10, 0), (11, 3_333), (15, 6_000), (18, 15_000), (19, 15_000), (20, 0)]
)
def test_what_is_left_of_a_scarce_window_is_spread(spent: int, expected: int) -> None:
    """Of 20 requests a minute. Nothing waits while half of them are left, or when none is."""
    assert linger_ms(replace(FACTS, spent_requests=spent), RateLimits(20, None, 60_000)) == expected
