"""Due jobs become batches within the provider's bounds, and suspects of a worker's death run apart."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neo4j_queue.queue.batching import Batch, Bounds, Candidate, plan


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


def test_jobs_of_a_refused_request_go_on_in_its_halves() -> None:
    """Each keeps the bound of its own request, and fresh jobs stay in full batches.

    Guard: `max_batch` in `Candidate.suspect`. Without it the two halves are one batch again.
    """
    halves = [Candidate(f"h{n}", 1, max_batch=2) for n in range(4)]
    due = [*halves, *candidates(1, 1, 1), Candidate("alone", 1, max_batch=1)]
    batches = plan(due, Bounds(10))
    assert [batch.ids for batch in batches] == [("h0", "h1"), ("h2", "h3"), ("0.0", "0.1", "0.2"), ("alone",)]


def test_whoever_was_due_first_is_in_the_first_batch() -> None:
    """Only the first batches may find a slot: a suspect must not wait behind fresh jobs for ever."""
    batches = plan([*candidates(1, crashes=3), *candidates(1, 1, 1)], Bounds(2))
    assert [batch.ids for batch in batches] == [("3.0",), ("0.0", "0.1"), ("0.2",)]


def twins(*texts: str, crashes: int = 0, tokens: int = 10) -> list[Candidate]:
    return [Candidate(f"{text}.{n}", tokens, crashes, text) for n, text in enumerate(texts)]


def test_jobs_of_one_text_share_a_batch_and_are_charged_once() -> None:
    batches = plan(twins("a", "b", "c", "a", "d", "a"), Bounds(4, 20))
    assert [batch.ids for batch in batches] == [("a.0", "b.1", "a.3", "a.5"), ("c.2", "d.4")]
    assert [batch.texts for batch in batches] == [("a", "b"), ("c", "d")]
    assert [batch.est_tokens for batch in batches] == [20, 20]


def test_a_twin_without_room_in_the_batch_of_its_text_is_in_none() -> None:
    """A batch of its own would ask for the text at the same time. Guard: the `continue` in `plan`."""
    assert [batch.ids for batch in plan(twins("a", "a", "a", "b"), Bounds(2))] == [("a.0", "a.1"), ("b.3",)]


def test_a_suspect_does_not_share_the_batch_of_its_healthy_twin() -> None:
    batches = plan([*twins("a", "b"), *twins("a", crashes=1)], Bounds(10))
    assert [batch.ids for batch in batches] == [("a.0", "b.1")]
    batches = plan([*twins("a", crashes=1), *twins("b", "a")], Bounds(10))
    assert [batch.ids for batch in batches] == [("a.0",), ("b.0",)]


@given(
    due=st.lists(
        st.builds(
            Candidate,
            st.uuids().map(str),
            st.integers(0, 50),
            st.integers(0, 4),
            st.sampled_from(["", *"abcdefghijklmnopqrst"]),
            max_batch=st.sampled_from([None, None, 1, 4]),
        ),
        max_size=60,
        unique_by=lambda candidate: candidate.id,
    ),
    bounds=st.builds(Bounds, st.integers(1, 9), st.none() | st.integers(1, 60), crashes=st.integers(0, 3)),
)
def test_every_job_is_in_one_batch_within_the_bounds(due: list[Candidate], bounds: Bounds) -> None:
    """And every text in one batch; only jobs whose text is in a batch already may be in none."""
    batches = plan(due, bounds)
    by_id = {candidate.id: candidate for candidate in due}
    order = [candidate.id for candidate in due]
    placed = [job_id for batch in batches for job_id in batch.ids]
    assert len(set(placed)) == len(placed)
    asked = [text for batch in batches for text in batch.texts]
    assert len(set(asked)) == len(asked)
    left = [by_id[job_id] for job_id in set(order) - set(placed)]
    assert {candidate.text for candidate in left} <= set(asked)
    firsts = [order.index(batch.ids[0]) for batch in batches]
    assert firsts == sorted(firsts)
    for batch in batches:
        jobs = [by_id[job_id] for job_id in batch.ids]
        places = [order.index(job_id) for job_id in batch.ids]
        assert places == sorted(places)
        assert {job.text for job in jobs if job.text} == set(batch.texts)
        # Twins may be of different sizes here; the first one counts.
        first = {job.text or job.id: job.est_tokens for job in reversed(jobs)}
        assert batch.est_tokens == sum(first.values())
        assert len({(job.crashes, job.max_batch) for job in jobs}) == 1
        assert len(jobs) <= (jobs[0].max_batch or len(jobs))
        assert len(jobs) <= bounds.inputs_after(jobs[0].crashes)
        assert len(first) == 1 or bounds.tokens is None or batch.est_tokens <= bounds.tokens
