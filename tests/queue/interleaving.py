"""Forced interleavings, and statements with their guard taken out.

A race is shown by holding the first transaction open with all its locks until the second is seen waiting for one
of them. Each race runs twice: as it is, and with the guard that its docstring names removed. The second run must
go wrong, so that every run of the test shows that the test can fail.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import pytest
from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Address, Database
from neo4j_queue.queue import (
    EmbedQueue,
    breaker,
    budget,
    control,
    embed_queue,
    enqueue,
    health,
    lease,
    locks,
    retention,
    retry_failed,
    settle,
)
from neo4j_queue.queue.clock import Clock
from neo4j_queue.settings import Settings

# Until the second transaction waits: seconds on a machine with nothing left to give. Its wait itself is short,
# far below the server's lock timeout of 5 s.
WITHIN_S = 30.0
BLOCKED = (
    "CYPHER 5 SHOW TRANSACTIONS YIELD status WHERE status STARTS WITH 'Blocked' RETURN count(*) AS blocked"
)
USERS = (
    breaker,
    budget,
    control,
    embed_queue,
    enqueue,
    health,
    lease,
    locks,
    retention,
    retry_failed,
    settle,
)

T = TypeVar("T")


class HeldDatabase(Database):
    """Runs everything in one transaction, which stays open until `commit`."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._own_session = self.driver().session(database=address.database)
        self._held = self._own_session.begin_transaction()

    def transaction(
        self,
        work: Callable[[ManagedTransaction], T],
        **_: Any,
    ) -> T:
        return work(self._held)  # type: ignore[arg-type, unused-ignore]

    def commit(self) -> None:
        """Lets the others go on."""
        self._held.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._own_session.close()
        self.close()


class Race:
    """Two calls on the queue at once: `first` has done its work but not committed when `second` starts."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock

    def __call__(
        self,
        first: Callable[[EmbedQueue], object],
        second: Callable[[EmbedQueue], T],
        *,
        waits: bool | None = True,
    ) -> T:
        """What `second` returned. It must be seen waiting for a lock of `first`; `waits` false: it must end before
        `first` commits; None: either."""
        with HeldDatabase(self._database.address) as held, ThreadPoolExecutor(1) as pool:
            first(EmbedQueue(held, self._settings, clock=self._clock))
            future = pool.submit(second, EmbedQueue(self._database, self._settings, clock=self._clock))
            try:
                deadline = time.monotonic() + WITHIN_S
                while not future.done() and not (waits is not False and self._blocked()):
                    assert time.monotonic() < deadline, "it neither waited for a lock nor ended"
                    threading.Event().wait(0.01)
                assert waits is None or future.done() is not waits, (
                    f"it did not wait for a lock: {future.result()}"
                )
            finally:
                held.commit()
            return future.result(timeout=WITHIN_S)

    def _blocked(self) -> bool:
        return bool(self._database.autocommit(BLOCKED)[0]["blocked"])


def mutated(name: str, *changes: tuple[str, str]) -> str:
    """A statement with parts of it replaced; a part that is not there (any more) is an error."""
    text = statement(name)
    for old, new in changes:
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    return text


def judged_before_lock(name: str, variable: str = "j", then: str = "") -> str:
    """A statement that judges its condition first and takes the lock then: the classic read, then write.

    `then` is what Cypher wants between the lock and the next clause.
    """
    lines = statement(name).split("\n")
    at = next(n for n, line in enumerate(lines) if line.strip() == f"SET {variable}._lock = true")
    judged = next(n for n in range(at, len(lines)) if "WHERE" in lines[n])
    lines[at : judged + 1] = [*lines[at + 1 : judged + 1], lines[at], *([then] if then else [])]
    return "\n".join(lines)


def plant(monkeypatch: pytest.MonkeyPatch, texts: Mapping[str, str]) -> None:
    """Lets the queue run other statements in the place of those named."""

    def stand_in(name: str, /, **identifiers: Any) -> str:
        return texts.get(name) or statement(name, **identifiers)

    for module in USERS:
        monkeypatch.setattr(module, "statement", stand_in)
