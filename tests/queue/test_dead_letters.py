"""The jobs that failed for good: found, counted, replayed, purged, and told when there are too many."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from neo4j_queue.database import Database
from neo4j_queue.queue import EmbedQueue, dead_letters, failed_jobs
from neo4j_queue.queue.dead_letters import Crossing, Purged
from neo4j_queue.queue.failed_jobs import Selection
from neo4j_queue.settings import Settings
from tests.queue.scenery import BEGINNING, DAY_MS, Clock, CountingDatabase, all_jobs, make_jobs, request

Fault = dict[str, Any]
TIMEOUT: Fault = {
    "failure_reason": "max_retries_exceeded",
    "error_category": "TRANSIENT",
    "error_type": "APITimeoutError",
    "error": "timed out",
}
REFUSED: Fault = {
    "failure_reason": "permanent_error",
    "error_category": "PERMANENT",
    "error_type": "BadRequestError",
    "error_status": 400,
    "error": "HTTP 400: refused",
}
LOST: Fault = {"failure_reason": "worker_lost"}


def make_dead(database: Database, count: int, *, first: int = 0, at: int = BEGINNING, **fault: Any) -> None:
    """Failed jobs, as the statements leave them, the label by which they are counted among it."""
    make_jobs(database, count, first=first, status="failed", processed_at=at, **fault)
    database.write("CYPHER 5 MATCH (j:EmbedJob {status: 'failed'}) SET j:EmbedFailed")


@pytest.fixture
def planted(jobs_db: Database) -> None:
    """Three timeouts a day before two refusals, and a lost worker an hour after those; others that did not fail."""
    make_dead(jobs_db, 3, first=0, at=BEGINNING - DAY_MS, **TIMEOUT)
    make_dead(jobs_db, 2, first=3, at=BEGINNING, **REFUSED)
    make_dead(jobs_db, 1, first=5, at=BEGINNING + 3_600_000, **LOST)
    make_jobs(jobs_db, 2, first=6)
    make_jobs(jobs_db, 2, first=8, status="completed", processed_at=BEGINNING, **REFUSED)


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [int(job["id"].removeprefix("job-")) for job in found]


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        (Selection(), {0, 1, 2, 3, 4, 5}),
        (Selection(category="TRANSIENT"), {0, 1, 2}),
        (Selection(reason="worker_lost"), {5}),
        (Selection(status=400), {3, 4}),
        (Selection(status=400, reason="worker_lost"), set()),
        (Selection(error_type="badrequesterror"), {3, 4}),
        (Selection(since=BEGINNING), {3, 4, 5}),
        (Selection(since=BEGINNING + 1), {5}),
        (Selection(until=BEGINNING), {0, 1, 2, 3, 4}),
        (Selection(until=BEGINNING - 1), {0, 1, 2}),
        (Selection(since=BEGINNING, until=BEGINNING, category="PERMANENT"), {3, 4}),
        (Selection(since=BEGINNING + 1, until=BEGINNING), set()),
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [2, 5_000])
def test_they_are_found_by_what_they_met_and_when(
    queue: EmbedQueue,
    planted: None,
    monkeypatch: pytest.MonkeyPatch,
    selection: Selection,
    found: set[int],
    steps: int,
) -> None:
    """E4. Also where a step is smaller than the jobs of one moment: fails if the next step begins at its last one."""
    monkeypatch.setattr(failed_jobs, "STEPS", steps)
    assert set(numbers(queue.dead.find(selection))) == found
    assert sum(1 for _ in queue.dead.walk(selection)) == len(found)
    assert queue.dead.stats(selection).jobs == len(found)
    assert queue.dead.replay(selection).jobs == len(found)


def test_the_last_to_fail_stand_first_and_a_limit_is_one(
    queue: EmbedQueue, planted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_jobs, "STEPS", 2)
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    assert numbers(queue.dead.find()) == [5, 4, 3, 2, 1, 0]
    assert numbers(queue.dead.find(limit=4)) == [5, 4, 3, 2]
    assert queue.dead.find(limit=0) == []


def test_a_short_list_of_many_dead_letters_is_a_few_looks(
    queue_settings: Callable[..., Settings], jobs_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: pages are read while they are taken. Without it each list would read all of them first."""
    monkeypatch.setattr(failed_jobs, "STEPS", 10)
    for n in range(10):
        make_dead(jobs_db, 10, first=10 * n, at=BEGINNING + n, **REFUSED)
    with CountingDatabase(jobs_db.address) as counting:
        assert len(EmbedQueue(counting, queue_settings()).dead.find(limit=5)) == 5
        # Where the first step ends, its ids, and five jobs.
        assert counting.calls == 3


def test_they_are_counted_by_every_word_and_by_day(queue: EmbedQueue, planted: None) -> None:
    """E4."""
    stats = queue.dead.stats()
    assert (stats.jobs, stats.est_tokens) == (6, 60)
    assert stats.by("reason") == {"max_retries_exceeded": 3, "permanent_error": 2, "worker_lost": 1}
    assert stats.by("category") == {"TRANSIENT": 3, "PERMANENT": 2, "none": 1}
    assert stats.by("error_type") == {"APITimeoutError": 3, "BadRequestError": 2, "none": 1}
    assert stats.by("status") == {"none": 4, "400": 2}
    assert stats.by_day == {"2023-11-13": 3, "2023-11-14": 3}
    first = stats.groups[0]
    assert (first.jobs, first.error_type, first.example) == (3, "APITimeoutError", "timed out")
    assert first.first_at == first.last_at == BEGINNING - DAY_MS
    assert first.example_id in {"job-0", "job-1", "job-2"}


def test_one_group_over_several_steps_and_days_is_one(
    queue: EmbedQueue, jobs_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_jobs, "STEPS", 3)
    for n in range(4):
        make_dead(jobs_db, 4, first=4 * n, at=BEGINNING + n * DAY_MS, **REFUSED)
    (group,) = queue.dead.stats().groups
    assert (group.jobs, group.first_at, group.last_at) == (16, BEGINNING, BEGINNING + 3 * DAY_MS)


def test_an_empty_queue_has_none(queue: EmbedQueue) -> None:
    assert queue.dead.find() == []
    assert queue.dead.stats() == dead_letters.DeadLetterStats(0, 0, (), {})
    assert queue.dead.purge() == Purged(0, 0)
    assert queue.dead.replay().jobs == 0


def test_a_person_names_a_job_or_an_entity(queue: EmbedQueue, planted: None) -> None:
    assert numbers(queue.dead.named("job-3")) == [3]
    assert numbers(queue.dead.named("made-3")) == [3]
    assert queue.dead.named("made-6") == queue.dead.named("job-6") == queue.dead.named("nothing") == []


NO_MONEY = [
    {"error_status": 402, "error": "HTTP 402: pay"},
    {"error_status": 429, "error": "HTTP 429: You exceeded your current quota"},
    {"error_status": 400, "error": "HTTP 400: Your credit balance is too low to access the API"},
    {"error_status": 400, "error": "HTTP 400: <html>\nBudget has been exceeded!\n</html>"},
    {"error_status": 403, "error": "HTTP 403: no message in the body [insufficient_user_quota]"},
    {"error_status": 400, "error": "HTTP 400: 余额不足"},
]
OTHERS = [
    {"error_status": 400, "error": "HTTP 400: the input is too long"},
    {"error_status": 400, "error": "HTTP 400: insufficient_user_quota is no model"},
    {"error_status": 503, "error": "HTTP 503: overloaded"},
    {},
]


@pytest.mark.parametrize("fault", NO_MONEY + OTHERS, ids=lambda fault: str(fault.get("error")))
def test_what_failed_for_money_is_known_by_status_code_and_words(
    queue: EmbedQueue, jobs_db: Database, fault: Fault
) -> None:
    """Seen to fail for each status but 402 and 429 while only those two were looked for."""
    make_dead(jobs_db, 1, **fault)
    expected = int(fault in NO_MONEY)
    assert queue.dead.stats(Selection(quota=True)).jobs == expected
    assert queue.dead.replay(Selection(quota=True)).jobs == expected


@pytest.mark.parametrize(("days", "archived"), [(90, 2), (0, 0)])
def test_a_purge_removes_what_is_meant_and_leaves_a_record_if_there_is_an_archive(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database, planted: None, days: int, archived: int
) -> None:
    queue = make_queue(embed_job_archive_days=days)
    assert queue.dead.purge(Selection(status=400)) == Purged(2, archived)
    records = jobs_db.read("CYPHER 5 MATCH (a:EmbedArchive) RETURN a.entity_uid AS uid, a.error AS error")
    assert [row["error"] for row in records] == archived * ["HTTP 400: refused"]
    assert len(all_jobs(jobs_db)) == 8
    assert queue.status().failed == 4


def test_a_purge_by_id_or_with_a_limit_takes_no_other(
    queue: EmbedQueue, jobs_db: Database, planted: None
) -> None:
    """A completed job that is named stays."""
    assert queue.dead.purge(ids=["job-0", "job-6", "job-8", "nothing"]).removed == 1
    assert queue.dead.purge(limit=2).removed == 2
    assert set(numbers(list(all_jobs(jobs_db).values()))) == {3, 4, 5, 6, 7, 8, 9}, (
        "the first to fail went first"
    )


def test_a_purge_leaves_a_job_that_is_queued_again_meanwhile(
    queue: EmbedQueue, jobs_db: Database, planted: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has failed again since: that is news. Fails without `cutoff`, or with the status unjudged."""
    listed = dead_letters.failed_ids

    def then_replayed(*asked: Any, **more: Any) -> Iterator[list[str]]:
        for some in listed(*asked, **more):
            queue.dead.replay(ids=["job-3", "job-4"])
            again = {"status": "failed", "processed_at": BEGINNING + 7_200_000, **REFUSED}
            jobs_db.write("CYPHER 5 MATCH (j:EmbedJob {id: 'job-4'}) SET j += $again", again=again)
            yield some

    monkeypatch.setattr(dead_letters, "failed_ids", then_replayed)
    clock.advance(3_600_001)
    assert queue.dead.purge().removed == 4
    left = {job["id"]: job["status"] for job in all_jobs(jobs_db).values() if job["status"] != "completed"}
    assert left == {"job-3": "pending", "job-4": "failed", "job-6": "pending", "job-7": "pending"}


def test_too_many_are_told_once_by_one_process_and_once_when_there_are_no_longer(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database
) -> None:
    """E4. Fails without the judgement under the lock of the control node: both tell it."""
    one, two = (make_queue(embed_dead_letter_alert=2) for _ in range(2))
    make_dead(jobs_db, 2)
    assert one.dead.crossing() is None
    make_dead(jobs_db, 1, first=2)
    with capture_logs() as logs:
        for queue in (one, two, one):
            dead_letters.tell(queue.dead.crossing())
        one.dead.replay(limit=1)
        for queue in (two, one, two):
            dead_letters.tell(queue.dead.crossing())
    assert [(line["event"], line["log_level"], line["jobs"], line["limit"]) for line in logs] == [
        ("dead_letters_above_limit", "warning", 3, 2),
        ("dead_letters_below_limit", "info", 2, 2),
    ]


def test_two_processes_that_see_it_at_once_tell_it_once(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `WHERE coalesce(c.dead_letters_told, false) <> $above`."""
    one, two = (make_queue(embed_dead_letter_alert=2) for _ in range(2))
    make_dead(jobs_db, 3)
    read, told = jobs_db.read, []

    def then_the_other(query: str, **parameters: Any) -> Any:
        found = read(query, **parameters)
        monkeypatch.setattr(jobs_db, "read", read)
        told.append(two.dead.crossing())
        return found

    monkeypatch.setattr(jobs_db, "read", then_the_other)
    told.append(one.dead.crossing())
    assert told == [Crossing(True, 3, 2), None]


@pytest.mark.parametrize("told", [False, True])
def test_without_a_limit_nothing_is_told(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database, told: bool
) -> None:
    """Nor that there are few, after the limit was taken away."""
    make_dead(jobs_db, 3)
    if told:
        assert make_queue(embed_dead_letter_alert=2).dead.crossing() is not None
    assert make_queue(embed_dead_letter_alert=0).dead.crossing() is None
    # And set again, it is told again.
    assert (make_queue(embed_dead_letter_alert=2).dead.crossing()) is not None


def test_a_retry_shares_the_selection(queue: EmbedQueue, planted: None) -> None:
    assert queue.retry_failed(status=400) == 2
    queue.enqueue(request())
    assert queue.retry_failed() == 4
