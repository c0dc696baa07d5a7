"""Due jobs become batches within the provider's bounds, and suspects of a worker's death run apart."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neo4j_queue.batching import Batch, Bounds, Candidate, plan


def candidates(*tokens: int, crashes: int = 0) -> list[Candidate]:
    return [Candidate(f"{crashes}.{n}", size, crashes) for n, size in enumerate(tokens)]


def sizes(batches: Sequence[Batch]) -> list[int]:
    return [len(batch.ids) for batch in batches]


def test_nothing_due_is_no_batch() -> None:
    assert plan([], Bounds(10, 100)) == []


@pytest.mark.parametrize(
    ("tokens", "bounds", "expected"),
    [
        ((1, 1, 1, 1, 1), Bounds(2), [2, 2, 1]),
        ((1, 1), Bounds(2), [2]),
        ((50, 50, 1), Bounds(10, 100), [2, 1]),
        ((60, 60, 60), Bounds(10, 100), [1, 1, 1]),
        ((10, 500, 10), Bounds(10, 100), [1, 1, 1]),
        ((500,), Bounds(10, 100), [1]),
        ((0, 0, 0), Bounds(10, 0), [3]),
    ],
)
def test_a_batch_ends_at_the_bound_of_inputs_or_of_tokens(
    tokens: tuple[int, ...], bounds: Bounds, expected: list[int]
) -> None:
    assert sizes(plan(candidates(*tokens), bounds)) == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [(3, [100, 21, 4, 1, 1]), (1, [100, 1, 1, 1, 1]), (0, [100, 1, 1, 1, 1])]
)
def test_the_more_workers_a_job_has_lost_the_fewer_share_its_batch(limit: int, expected: list[int]) -> None:
    """At the last crash that it survives it is alone, so that its neighbours never reach the limit."""
    bounds = Bounds(100, crashes=limit)
    assert [bounds.inputs_after(crashes) for crashes in range(5)] == expected


def test_jobs_with_other_crash_counts_are_not_mixed() -> None:
    batches = plan([*candidates(1, 1), *candidates(1, 1, crashes=3)], Bounds(10))
    assert [batch.ids for batch in batches] == [("0.0", "0.1"), ("3.0",), ("3.1",)]


def test_whoever_was_due_first_is_in_the_first_batch() -> None:
    """Only the first batches may find a slot: a suspect must not wait behind fresh jobs for ever."""
    batches = plan([*candidates(1, crashes=3), *candidates(1, 1, 1)], Bounds(2))
    assert [batch.ids for batch in batches] == [("3.0",), ("0.0", "0.1"), ("0.2",)]


@given(
    due=st.lists(
        st.builds(Candidate, st.uuids().map(str), st.integers(0, 50), st.integers(0, 4)), max_size=60
    ),
    bounds=st.builds(Bounds, st.integers(1, 9), st.none() | st.integers(1, 60), crashes=st.integers(0, 3)),
)
def test_every_job_is_in_one_batch_within_the_bounds(due: list[Candidate], bounds: Bounds) -> None:
    batches = plan(due, bounds)
    by_id = {candidate.id: candidate for candidate in due}
    order = [candidate.id for candidate in due]
    assert sorted(job_id for batch in batches for job_id in batch.ids) == sorted(order)
    firsts = [order.index(batch.ids[0]) for batch in batches]
    assert firsts == sorted(firsts)
    for batch in batches:
        jobs = [by_id[job_id] for job_id in batch.ids]
        places = [order.index(job_id) for job_id in batch.ids]
        assert places == sorted(places)
        assert batch.est_tokens == sum(job.est_tokens for job in jobs)
        assert len({job.crashes for job in jobs}) == 1
        assert len(jobs) <= bounds.inputs_after(jobs[0].crashes)
        assert len(jobs) == 1 or bounds.tokens is None or batch.est_tokens <= bounds.tokens


@pytest.mark.parametrize(
    ("est_tokens", "factor", "charged"), [(10, 1.0, 10), (10, 1.25, 13), (90, 1.25, 100), (500, 1.0, 100)]
)
def test_no_text_is_charged_more_than_the_model_takes(est_tokens: int, factor: float, charged: int) -> None:
    """A longer one is cut before it is sent: planned at its full size it would go alone, and empty the budget."""
    assert Bounds(10, 1_000, input_tokens=100).charge(est_tokens, factor) == charged
    assert Bounds(10).charge(500, 2.0) == 1_000
