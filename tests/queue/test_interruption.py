"""An interruption in the middle of a statement arrives as itself (Ctrl-C, the end of a pool process)."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from neo4j import ManagedTransaction, Result, Session
from neo4j._sync.io._bolt._bolt5 import Bolt5x0
from neo4j.exceptions import ClientError, CypherSyntaxError, ServiceUnavailable

from neo4j_queue.database import Database, rows
from tests.alarm import interrupted_after

# The answer is larger than any before it on the connection: the driver must let its buffer grow while it cleans up.
SLOW = "CALL apoc.util.sleep(2000) RETURN [n IN range(1, 20000) | n] AS large"
READING_S = 0.5
# Four small reads take so long, and so often they are interrupted.
EXCHANGE_S = 0.012
ROUNDS = 80


@pytest.fixture(params=[KeyboardInterrupt, SystemExit], ids=lambda kind: str(kind.__name__))
def interruption(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """Will be raised while the next statement waits for its answer."""
    kind: type[BaseException] = request.param

    with interrupted_after(READING_S, kind):
        yield kind


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

    Guard: the `BufferError` of `Database._interruptible`. Without it the error is unknown to everybody, and the
    connection stays in use.
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


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, TimeLimit])
@pytest.mark.parametrize("managed", [True, False], ids=["transaction", "autocommit"])
def test_nothing_is_read_on_after_an_interruption(
    jobs_db: Database, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], managed: bool
) -> None:
    """Interrupted between taking a message and handling it, the driver asks for that message without end while it
    rolls back: a worker that was told to stop span until it was killed.

    Guards: `_abandon`, and for a time limit the connection that is killed in `_not_repeated_after`.
    """

    def taken(result: Result) -> None:
        result._connection.responses.clear()
        raise kind("now")

    begun = Session.run

    def run(*args: Any, **keywords: Any) -> None:
        taken(begun(*args, **keywords))

    def ask() -> None:
        if managed:
            jobs_db.transaction(lambda tx: taken(tx.run("RETURN 1 AS one")))
        else:
            monkeypatch.setattr(Session, "run", run)
            jobs_db.autocommit("RETURN 1 AS one")

    with interrupted_after(5.0, TimeoutError) as late, pytest.raises(kind, match="now"):
        ask()
    monkeypatch.undo()
    assert not late
    assert jobs_db.read("RETURN 1 AS one")[0]["one"] == 1


def test_an_error_while_an_interruption_is_handled_is_that_error(jobs_db: Database) -> None:
    """Guard: `handled` of `_hidden_by`. Without it the clean-up after an interruption sees it in every fault."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(CypherSyntaxError):
            jobs_db.read("RETURN")


def test_what_was_interrupted_answers_no_later_statement(jobs_db: Database) -> None:
    """At moments spread over the exchange. A live entity would be read as gone, and its job end without a vector.

    Guard: the driver that is given up in `Database._interruptible`. With it in use again, one answer in seven was
    empty, or another statement's.
    """
    moments, interrupted = random.Random(1), 0
    for n in range(ROUNDS):
        with (
            interrupted_after(moments.uniform(0.0005, EXCHANGE_S), SystemExit) as raised,
            suppress(SystemExit),
        ):
            for _ in range(4):
                jobs_db.read("UNWIND range(1, 300) AS n RETURN n")
        interrupted += len(raised)
        assert [row["n"] for row in jobs_db.read("RETURN $n AS n", n=n)] == [n]
    assert interrupted > ROUNDS / 2


# -- what the driver's clean-up hides --------------------------------------------------------------------------


@pytest.fixture
def clumsy_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forces what happens by itself once in some thousand failures: the driver does not see that the connection is
    reset already, and rolls back a result that has failed."""
    monkeypatch.setattr(Bolt5x0, "is_reset", property(lambda _: False))


def test_what_failed_is_raised_and_not_that_it_failed(jobs_db: Database, clumsy_driver: None) -> None:
    """Two `init` at once: one takes "is there already" for success. Guard: `ResultFailedError` in
    `Database.transaction`."""
    with pytest.raises(ClientError, match="/ by zero"):
        jobs_db.write("RETURN 1 / 0 AS never")


def test_what_may_be_repeated_is_repeated_all_the_same(jobs_db: Database, clumsy_driver: None) -> None:
    """The lock is free when the first wait for it has ended. Guard: the second try there."""
    jobs_db.write("CREATE (:Held {n: 0})")
    session = jobs_db.driver().session(database=jobs_db.address.database)
    holder = session.begin_transaction()
    holder.run("MATCH (h:Held) SET h.n = 1").consume()
    tries: list[int] = []

    def work(tx: ManagedTransaction) -> int:
        tries.append(1)
        if len(tries) == 2:
            holder.commit()
        return int(rows(tx, "MATCH (h:Held) SET h.n = h.n + 1 RETURN h.n AS n")[0]["n"])

    assert jobs_db.transaction(work) == 2
    session.close()
