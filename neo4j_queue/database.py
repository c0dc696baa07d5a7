"""One Neo4j database behind one lazily opened driver.

The driver is thread-safe but not fork-safe: a forked child that used its parent's sockets could read another
task's rows. `Database` therefore opens a driver at first use and opens a new one after a fork.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import neo4j
from neo4j import Driver, GraphDatabase, ManagedTransaction, Record, Session
from neo4j.auth_management import ClientCertificate
from neo4j.exceptions import DriverError, Neo4jError, ResultFailedError, ServiceUnavailable

from neo4j_queue.errors import SettingsError

# Every wait has an end: opening a socket, waiting for a free one, repeating a transaction after a transient error. A
# transaction has a limit of ours too, since the server has none unless one is configured; the shorter one holds.
CONNECT_TIMEOUT_S = 5.0
ACQUIRE_TIMEOUT_S = 15.0
RETRY_TIME_S = 15.0
# A database that comes back is used at once: the driver's own rests double, and after an outage of half a minute most
# of its next ten seconds would be slept through. Spread, so that two transactions in a deadlock do not meet again.
RETRY_EVERY_S = 0.5
RETRY_SPREAD = 0.5
# A pooled socket that was idle this long is tested before use: a server restart leaves dead ones behind.
LIVENESS_AFTER_S = 10.0
# All our statements work in pages that take a second or two. A little less than the minute that our servers allow, so
# that it is our error that names it.
STATEMENT_TIMEOUT_S = 55.0

T = TypeVar("T")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is and how to enter it. No `username` means a server without authentication.

    `certificate` names a file that holds a certificate and its key, for a server that asks for one by TLS.
    """

    uri: str
    database: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: str | None = None

    @property
    def encrypted(self) -> bool:
        """True if the connection is encrypted."""
        return "+s" in self.uri.partition("://")[0]


class Database:
    """Runs statements on one database; opens nothing before the first one."""

    def __init__(
        self, address: Address, *, retry_time_s: float = RETRY_TIME_S, acquire_s: float = ACQUIRE_TIMEOUT_S
    ) -> None:
        self.address = address
        self._retry_time_s = retry_time_s
        self._acquire_s = acquire_s
        self._lock = threading.Lock()
        self._driver: Driver | None = None
        self._pid = -1
        # Drivers of the parent process: never used and never collected here, for closing one would say goodbye
        # on a socket that the parent still uses.
        self._inherited: list[Driver] = []

    def driver(self) -> Driver:
        """This process's driver."""
        pid = os.getpid()
        if self._driver is not None and self._pid == pid:
            return self._driver
        with self._lock:
            if self._driver is not None and self._pid != pid:
                self._inherited.append(self._driver)
                self._driver = None
            if self._driver is None:
                self._driver = self._open()
                self._pid = pid
            return self._driver

    def _open(self) -> Driver:
        address = self.address
        auth = (address.username, address.password or "") if address.username else None
        shown = address.certificate if address.encrypted else None
        return GraphDatabase.driver(
            address.uri,
            auth=auth,
            client_certificate=None if shown is None else ClientCertificate(shown),
            connection_timeout=CONNECT_TIMEOUT_S,
            connection_acquisition_timeout=self._acquire_s,
            max_transaction_retry_time=self._retry_time_s,
            initial_retry_delay=RETRY_EVERY_S,
            retry_delay_multiplier=1.0,
            retry_delay_jitter_factor=RETRY_SPREAD,
            liveness_check_timeout=LIVENESS_AFTER_S,
            notifications_min_severity="OFF",
            telemetry_disabled=True,
            user_agent="neo4j-queue",
        )

    def read(self, query: str, *, leader: bool = False, **parameters: Any) -> list[Record]:
        """The rows of a reading statement (managed transaction: transient errors are repeated).

        `leader`: for a verdict that nothing looks at again. On a cluster other reads go to followers, which lag: there
        an entity of a moment ago is not there yet, and a text is still the one before the edit.
        """
        return self.transaction(lambda tx: rows(tx, query, **parameters), access=_access(leader=leader))

    def read_packed(self, query: str, *, leader: bool = False, **parameters: Any) -> list[Row]:
        """As `read`, for a statement that collects its rows: see `packed`."""
        return self.transaction(lambda tx: packed(tx, query, **parameters), access=_access(leader=leader))

    def write(self, query: str, **parameters: Any) -> list[Record]:
        """The rows of a writing statement (managed transaction: transient errors are repeated)."""
        return self.transaction(lambda tx: rows(tx, query, **parameters))

    def transaction(
        self,
        work: Callable[[ManagedTransaction], T],
        *,
        access: str = neo4j.WRITE_ACCESS,
        timeout_s: float = STATEMENT_TIMEOUT_S,
    ) -> T:
        """Runs `work` in one transaction, again after a transient error; `work` must not have other effects.

        The server ends it after `timeout_s` seconds.
        """
        with self._interruptible(), self._session(access) as session:
            bounded = neo4j.unit_of_work(timeout=timeout_s)(_not_repeated_after(work))
            run = session.execute_read if access == neo4j.READ_ACCESS else session.execute_write
            repeated = False
            while True:
                try:
                    return run(bounded)
                except ResultFailedError as error:
                    # Seldom, while it rolls back, the driver raises this instead of the cause, and repeats nothing.
                    cause = error.__cause__
                    if not isinstance(cause, Neo4jError | DriverError):
                        raise
                    if repeated or not cause.is_retryable():
                        raise cause from None
                    repeated = True

    def autocommit(
        self, query: str, *, timeout_s: float = STATEMENT_TIMEOUT_S, **parameters: Any
    ) -> list[Record]:
        """Runs a statement that manages its own transactions (`IN TRANSACTIONS`, `apoc.periodic.*`).

        The server ends it as a whole after `timeout_s` seconds; what its own transactions committed stays.
        """
        bounded = neo4j.Query(query, timeout=timeout_s)  # type: ignore[arg-type, unused-ignore]
        with self._interruptible(), self._session(neo4j.WRITE_ACCESS) as session:
            return list(session.run(bounded, _quiet(parameters)))

    def ask(self, query: str, *, timeout_s: float, **parameters: Any) -> list[Record]:
        """The rows of a reading statement for a person who waits: after a transient error it is repeated once, at once.

        Once, since a pooled socket that died with a restart of the server shows it at its first use. The server ends
        the statement after `timeout_s` seconds.
        """
        bounded = neo4j.Query(query, timeout=timeout_s)  # type: ignore[arg-type, unused-ignore]
        quiet = _quiet(parameters)
        repeated = False
        while True:
            try:
                with self._interruptible(), self._session(neo4j.READ_ACCESS) as session:
                    return list(session.run(bounded, quiet))
            except (Neo4jError, DriverError) as error:
                if repeated or not error.is_retryable():
                    raise
                repeated = True

    def agent(self) -> str:
        """What the server calls itself, such as `Neo4j/5.26.29`.

        Asked without `CYPHER 5`, which servers that are too old take for a mistake.
        """
        summary = self.transaction(lambda tx: tx.run("RETURN true").consume(), access=neo4j.READ_ACCESS)
        return str(summary.server.agent)

    @contextmanager
    def _session(self, access: str) -> Iterator[Session]:
        """A session, which an interruption ends without a word.

        The driver would roll back and read what is left of the answer, of which it has lost its place: it can wait for
        a message that never comes, or ask for one without end. A worker that is told to stop would then spin.
        """
        handled = sys.exception()
        session = self.driver().session(database=self.address.database, default_access_mode=access)
        try:
            yield session
        except BaseException as error:
            if _hidden_by(error, handled) is not None:
                _abandon(session)
            raise
        finally:
            session.close()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Lets an interruption through (`KeyboardInterrupt`, `SystemExit`, a time limit) that the driver would hide.

        Interrupted while it waits for an answer, the driver cannot resize its buffer when it resets the connection on
        the way out, and raises `BufferError` instead of what interrupted it; interrupted in the middle of an
        answer, it does not understand what follows, and raises that the connection is lost.

        Whatever it raises: a connection that was left like this may give the next statement the answer to this one, or
        none. No connection of its driver is used again.
        """
        handled = sys.exception()
        try:
            yield
        except BaseException as error:
            hidden = _hidden_by(error, handled)
            if hidden is None and not isinstance(error, BufferError):
                raise
            with self._lock:
                # Not closed: that would speak on the connection.
                self._driver = None
            if hidden is None:
                message = "a connection was left in the middle of an answer, and is given up"
                raise ServiceUnavailable(message) from None
            raise hidden from None

    def close(self) -> None:
        """Closes this process's driver; the next statement would open a new one."""
        with self._lock:
            if self._driver is not None and self._pid == os.getpid():
                driver, self._driver = self._driver, None
                # A late call of another thread may be in the middle of a message on one of its connections, which then
                # cannot say goodbye (BufferError, AssertionError): it ends with that call, or with the process.
                with suppress(Exception):
                    driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _access(*, leader: bool) -> str:
    # Only a session that may write is sent to the leader.
    return neo4j.WRITE_ACCESS if leader else neo4j.READ_ACCESS


def _not_repeated_after(work: Callable[[ManagedTransaction], T]) -> Callable[[ManagedTransaction], T]:
    """The same work, which is not done again after it was interrupted: a connection that breaks because of that makes
    the driver repeat the transaction, and forget the interruption."""
    stopped: list[BaseException] = []

    def act(tx: ManagedTransaction) -> T:
        if stopped:
            raise stopped[0]
        handled = sys.exception()
        try:
            return work(tx)
        except (Neo4jError, DriverError):
            raise
        except BaseException as error:
            stopped.append(error)
            if _hidden_by(error, handled) is not None:
                # The driver rolls back on this connection before our session hears of it.
                tx._connection.kill()
            raise

    return act


def _abandon(session: Session) -> None:
    """Ends a session as the driver ends one whose task was cancelled: its socket is closed, and nothing is read."""
    session._handle_cancellation()  # type: ignore[no-untyped-call]
    session._closed = True


def _hidden_by(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """What interrupted the driver: `error`, or what it hides. `handled` was there before everything."""
    hidden: BaseException | None = None
    behind: BaseException | None = error
    while behind is not None and behind is not handled:
        if not isinstance(behind, Exception) or _is_strange(behind):
            hidden = behind
        behind = behind.__context__
    return hidden


def _is_strange(error: BaseException) -> bool:
    """Is it of a kind that neither a driver nor our own statements raise by themselves (a time limit of the pool)?"""
    package = type(error).__module__.partition(".")[0]
    ours = __name__.partition(".")[0]
    return package not in (neo4j.__name__, ours) and package not in sys.stdlib_module_names


def rows(tx: ManagedTransaction, query: str, **parameters: Any) -> list[Record]:
    """All rows of one statement inside a transaction."""
    return list(tx.run(query, _quiet(parameters)))


def packed(tx: ManagedTransaction, query: str, **parameters: Any) -> list[Row]:
    """All rows of a statement that collects them into the `rows` of one record.

    For those that answer hundreds: every record is a message, and the driver takes each from the socket by itself,
    which costs it more than twenty of their values.
    """
    (record,) = tx.run(query, _quiet(parameters))
    found: list[Row] = record["rows"]
    return found


def the_row(found: Sequence[Record]) -> Record:
    """The one row that every prepared jobs database gives. Raises `SettingsError` when `init` never ran there."""
    if len(found) != 1:
        raise SettingsError(["the jobs database is not prepared: run neo4j-queue init"])
    return found[0]


def _quiet(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The same parameters, cheap to describe: the driver formats each of them for every statement."""
    return {name: Bulk(value) if type(value) is list else value for name, value in parameters.items()}


def dicts(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Rows as plain dictionaries."""
    return [record.data() for record in records]


class Bulk(list[T]):
    """A list for a statement parameter, packed like any other, with a short `repr`.

    The driver formats every parameter for its debug log on every statement, also while that log is off: for 250
    vectors of 256 numbers that is 65 ms under the interpreter's lock, where packing them takes 3 ms. It also
    keeps the texts of entities out of that log when it is on.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} items>"
