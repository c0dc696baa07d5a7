"""Sweeps in turns: nothing is left out, there is one of each scope at a time, and none is lost for good."""

import itertools
from collections.abc import Callable

import pytest

from neo4j_queue.reconcile import sweep, turns
from neo4j_queue.reconcile.sweep import Scope, Sweep
from neo4j_queue.reconcile.turns import SILENT_MS, Sweeps, Turn
from tests.pipeline.conftest import Bench

PAGE = 10
COUNT = 35


@pytest.fixture
def sweeping(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    """Over entities that another program wrote. A page takes as long as a turn."""
    monkeypatch.setattr(sweep, "PAGE", PAGE)
    bench.graph.database.write("UNWIND range(1, $count) AS n CREATE (:Entity {name: 'e' + n})", count=COUNT)
    seconds = itertools.count(step=turns.TURN_S)
    return Sweeps(bench.graph, bench.queue, clock=lambda: next(seconds), now=lambda: bench.clock.now)


def turn(found: Turn | None) -> Turn:
    assert found is not None
    return found


def test_a_sweep_goes_on_where_its_last_turn_ended(sweeping: Sweeps, bench: Bench) -> None:
    turns = [turn(sweeping.take_turn(Scope.MISSING))]
    while turns[-1].token is not None:
        turns.append(turn(sweeping.take_turn(Scope.MISSING, turns[-1].token)))
    assert [each.done.seen for each in turns] == [10, 20, 30, 35, 35]
    assert turns[-1] == Turn(Sweep(seen=35, queued=35), None)
    assert bench.queue.status().pending == COUNT
    again = turn(sweeping.take_turn(Scope.MISSING))
    assert again.done == Sweep(seen=10, standing=10), "the next one begins anew"


def test_a_turn_ends_at_its_time_and_not_before(sweeping: Sweeps) -> None:
    """Guard: `until`. Without it the first turn sees everything."""
    seconds = itertools.count(step=0.4 * turns.TURN_S)
    sweeping.clock = lambda: next(seconds)
    assert turn(sweeping.take_turn(Scope.ALL)).done.seen == 30
    sweeping.clock = lambda: 0.0
    assert turn(sweeping.take_turn(Scope.MISSING)).token is None, "a short one takes one turn"


def test_there_is_one_sweep_of_a_scope_at_a_time(sweeping: Sweeps) -> None:
    """Guard: `moved_at` in sweeps/claim. Without it, calls that come faster than sweeps end fill the worker."""
    first = turn(sweeping.take_turn(Scope.ALL))
    assert sweeping.take_turn(Scope.ALL) is None
    assert sweeping.take_turn(Scope.MISSING) is not None, "another scope is another sweep"
    second = turn(sweeping.take_turn(Scope.ALL, first.token))
    assert second.done.seen == 20, "it was not disturbed"


def test_a_message_that_comes_twice_gets_one_turn(sweeping: Sweeps) -> None:
    """Guard: a new token with every turn. Without it one sweep becomes two, and these four."""
    first = turn(sweeping.take_turn(Scope.ALL))
    assert sweeping.take_turn(Scope.ALL, first.token) is not None
    assert sweeping.take_turn(Scope.ALL, first.token) is None
    assert sweeping.take_turn(Scope.ALL, "never-given") is None


def test_a_sweep_whose_next_turn_was_lost_is_found_and_goes_on(sweeping: Sweeps, bench: Bench) -> None:
    lost = turn(sweeping.take_turn(Scope.ALL))
    bench.skip(SILENT_MS / 1000)
    assert sweeping.stranded() == []
    bench.skip(0.001)
    assert sweeping.stranded() == [(Scope.ALL, lost.token)]
    assert turn(sweeping.take_turn(Scope.ALL, lost.token)).done.seen == 20
    assert sweeping.stranded() == []


def test_a_sweep_that_was_taken_for_dead_stops_at_its_next_page(
    sweeping: Sweeps, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: the token in sweeps/move. Without it two sweeps write each other's place."""
    page: Callable[..., Sweep] = sweep.sweep_page
    newer: list[Turn] = []

    def slow(*args: object) -> Sweep:
        monkeypatch.setattr(turns, "sweep_page", page)
        bench.skip(SILENT_MS / 1000 + 1)
        newer.append(turn(sweeping.take_turn(Scope.ALL)))
        return page(*args)

    monkeypatch.setattr(turns, "sweep_page", slow)
    assert turn(sweeping.take_turn(Scope.ALL)).lost
    assert turn(sweeping.take_turn(Scope.ALL, newer[0].token)).done.seen == 20


def test_a_sweep_that_ended_is_neither_under_way_nor_stranded(sweeping: Sweeps, bench: Bench) -> None:
    sweeping.clock = lambda: 0.0
    assert turn(sweeping.take_turn(Scope.ALL)).token is None
    assert sweeping.take_turn(Scope.ALL) is not None
    bench.skip(10 * SILENT_MS / 1000)
    assert sweeping.stranded() == []
