"""An interruption in the middle of a statement arrives as itself (Ctrl-C, the end of a pool process)."""

import signal
from collections.abc import Callable, Iterator

import pytest
from neo4j import ManagedTransaction
from neo4j.exceptions import CypherSyntaxError, ServiceUnavailable

from neo4j_queue.database import Database

# The answer is larger than any before it on the connection: the driver must let its buffer grow while it cleans up.
SLOW = "CALL apoc.util.sleep(2000) RETURN [n IN range(1, 20000) | n] AS large"
READING_S = 0.5


@pytest.fixture(params=[KeyboardInterrupt, SystemExit], ids=lambda kind: str(kind.__name__))
def interruption(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """Will be raised while the next statement waits for its answer."""
    kind: type[BaseException] = request.param

    def interrupt(*_: object) -> None:
        raise kind("now")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, READING_S)
    try:
        yield kind
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "run", [Database.read, Database.write, Database.autocommit], ids=["read", "write", "autocommit"]
)
def test_an_interruption_is_not_hidden(
    jobs_db: Database, interruption: type[BaseException], run: Callable[[Database, str], object]
) -> None:
    """Guard: `Database._interruptible`. Without it the driver's clean-up raises BufferError in its place."""
    with pytest.raises(interruption, match="now"):
        run(jobs_db, SLOW)
    # The next statement has a connection that works.
    assert jobs_db.read("RETURN 1 AS one")[0]["one"] == 1


def test_a_connection_whose_buffer_is_stuck_is_given_up(jobs_db: Database) -> None:
    """Seen in pool processes after a time limit: the next larger answer on the connection raised BufferError.

    Guard: `Database._given_up`. Without it the error is unknown to everybody, and the connection stays in use.
    """
    before = jobs_db.driver()

    def stuck(_: object) -> None:
        raise BufferError("Existing exports of data: object cannot be re-sized")

    with pytest.raises(ServiceUnavailable):
        jobs_db.transaction(stuck)
    assert jobs_db.read("RETURN 1 AS one")[0]["one"] == 1
    assert jobs_db.driver() is not before


class TimeLimit(Exception):
    """As the pool's soft time limit."""


@pytest.mark.parametrize("kind", [SystemExit, TimeLimit])
@pytest.mark.parametrize("at", ["the answer", "the work"])
def test_an_interruption_in_the_middle_of_an_answer_is_not_hidden(
    jobs_db: Database, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], at: str
) -> None:
    """The driver loses its place in the stream, and reports a connection lost.

    Guards: `_hidden_by`; for a time limit during the work also `_not_repeated_after`, without which the driver repeats
    the transaction as if nothing had been.
    """
    commits: list[int] = []

    def close(tx: ManagedTransaction, *_: object) -> None:
        commits.append(1)
        raise ServiceUnavailable("lost")

    def work(tx: ManagedTransaction) -> int:
        if len(commits) > 1:
            return 1
        if at == "the work":
            monkeypatch.setattr(ManagedTransaction, "_close", close)
            monkeypatch.setattr(ManagedTransaction, "_rollback", close)
            raise kind("now")
        return 1

    if at == "the answer":

        def commit(tx: ManagedTransaction) -> None:
            monkeypatch.setattr(ManagedTransaction, "_close", close)
            monkeypatch.setattr(ManagedTransaction, "_rollback", close)
            raise kind("now")

        monkeypatch.setattr(ManagedTransaction, "_commit", commit)
    with pytest.raises(kind, match="now"):
        jobs_db.transaction(work)
    monkeypatch.undo()
    assert jobs_db.read("RETURN 1 AS one")[0]["one"] == 1


def test_an_error_while_an_interruption_is_handled_is_that_error(jobs_db: Database) -> None:
    """Guard: `handled` of `_hidden_by`. Without it the clean-up after an interruption sees it in every fault."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(CypherSyntaxError):
            jobs_db.read("RETURN")
