"""Repairs called with arguments that nothing can come of: refused in one sentence, and nothing is touched."""

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from neo4j_queue.queue.retry_failed import Retried
from tasks import repair, resources, upkeep

REFUSED: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("retry_failed", [], {"category": "BAD"}, "category: one of TRANSIENT, PERMANENT, CRITICAL, not BAD"),
    (
        "retry_failed",
        [],
        {"reason": 7},
        "reason: one of permanent_error, max_retries_exceeded, worker_lost, not 7",
    ),
    ("retry_failed", [], {"limit": -1}, "limit: a whole number, 1 or more, not -1"),
    ("retry_failed", [], {"limit": "many"}, "limit: a whole number, 1 or more, not many"),
    ("retry_failed", [], {"limit": True}, "limit: a whole number, 1 or more, not True"),
    ("retry_failed", [], {"status": "-402"}, "status: an HTTP status, 100 to 599, not '-402'"),
    ("retry_failed", [], {"status": 4020}, "status: an HTTP status, 100 to 599, not 4020"),
    ("release", [{"id": "a"}], {}, "job_ids: a list of ids, not {'id': 'a'}"),
    ("release", [["a", 7]], {}, "job_ids: a list of ids, each a text, not 7"),
    ("pause", ["x"], {}, "seconds: a number of seconds, more than 0 and at most 31536000 (a year), not x"),
    ("pause", [0], {}, "seconds: a number of seconds, more than 0 and at most 31536000 (a year), not 0"),
    (
        "pause",
        ["nan"],
        {},
        "seconds: a number of seconds, more than 0 and at most 31536000 (a year), not nan",
    ),
    (
        "pause",
        [10**400],
        {},
        "seconds: a number of seconds, more than 0 and at most 31536000 (a year), not 1",
    ),
    ("pause", [5, 7], {}, "reason: a text, not 7"),
    ("pause", [5, "half \ud83d"], {}, r"reason: a text, not 'half \ud83d'"),
    ("force_generate_embedding", [12.5], {}, "entity_name: a text or a whole number, not 12.5"),
    ("force_generate_embedding", [["Ada"]], {}, "entity_name: a text or a whole number, not ['Ada']"),
    ("release", [], {}, "missing a required argument: 'job_ids': release(job_ids)"),
    ("resume", [1], {}, "halt: true or false, not 1"),
    ("resume", [True, False, 1], {}, "too many positional arguments: resume(halt, pause)"),
    (
        "retry_failed",
        [],
        {"catgory": "CRITICAL"},
        "got an unexpected keyword argument 'catgory': retry_failed(category, reason, status, limit)",
    ),
]


class Recorder:
    """Stands for the queue: keeps what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def retry(self, *wanted: object) -> Retried:
        self.calls.append(wanted)
        return Retried(1)

    def release_jobs(self, ids: list[str]) -> list[str]:
        self.calls.append(tuple(ids))
        return ids

    def pause(self, seconds: float, reason: str) -> int:
        self.calls.append((seconds, reason))
        return 1


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    nudge: Callable[[], None] = lambda: None  # noqa: E731
    monkeypatch.setattr(resources, "queue", lambda: recorder)
    monkeypatch.setattr(resources, "graph", lambda: None)
    monkeypatch.setattr(resources, "nudge", lambda: nudge)
    return recorder


@pytest.mark.parametrize(("task", "args", "kwargs", "error"), REFUSED)
def test_bad_arguments_are_refused_with_a_sentence_and_nothing_is_done(
    queue: Recorder, task: str, args: list[Any], kwargs: dict[str, Any], error: str
) -> None:
    """Guard: the checks of `tasks.arguments`. Without them each "retried 0", or ended in a traceback."""
    with capture_logs() as lines:
        answer = getattr(repair, task)(*args, **kwargs)
    assert answer["success"] is False
    assert answer["error"].startswith(error)
    (line,) = lines
    assert (line["event"], line["log_level"], line["task"]) == ("repair_refused", "warning", task)
    assert line["error"] == answer["error"]
    assert queue.calls == []


@pytest.mark.parametrize("given", ["bogus", None, 7])
def test_a_sweep_of_an_unknown_scope_is_refused_with_a_sentence(queue: Recorder, given: Any) -> None:
    """Guard: `arguments.scope`; without it the task failed with a stack."""
    with capture_logs() as lines:
        answer = upkeep.reconcile(given)
    assert answer == {"success": False, "error": f"scope: one of outbox, missing, all, not {given}"}
    assert [line["event"] for line in lines] == ["repair_refused"]


@pytest.mark.parametrize(
    ("task", "args", "asked"),
    [
        ("retry_failed", ["transient", "WORKER_LOST", "503", " 5 "], ("TRANSIENT", "worker_lost", 503, 5)),
        ("retry_failed", [None, None, 402, None], (None, None, 402, None)),
        ("release", ["nope"], ("nope",)),
        ("release", [["a", "b"]], ("a", "b")),
        ("release", [[]], ()),
        ("pause", ["2", "x"], (2.0, "x")),
        ("pause", [0.5], (0.5, "by hand")),
    ],
)
def test_what_is_meant_is_understood(
    queue: Recorder, task: str, args: list[Any], asked: tuple[Any, ...]
) -> None:
    """Numeric strings are numbers, one id is a list of one, words are those of the command line in any case."""
    answer = getattr(repair, task)(*args)
    assert "error" not in answer
    assert queue.calls == [asked]
