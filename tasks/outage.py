"""Log lines about a broker or a database that is away: one when it goes, one each half minute, one when it is back.

Celery writes one with every try, once a second and partly with a stack, and buries the other lines.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.errors.explain import explain, is_temporary
from neo4j_queue.log import get_logger
from tasks.broker import ASK_EVERY_S, BROKER_ERRORS

# Often enough to show that the process still tries, and since when.
REPEAT_S = 30.0
RETRIES = f"every {ASK_EVERY_S} s, until it is back"
# Loggers of lost connections and of what fails because of them. What a task raises is not among them.
TELLERS = ("celery.beat", "celery.bootsteps", "celery.worker.consumer", "celery.worker.pidbox")

log = get_logger()


class Outage:
    """A service, by default the broker, as this process finds it. Safe to use from threads.

    `is_away` knows the errors that mean it, `tellers` begin the names of the loggers that tell of them. `settled_s`:
    among failures a try may succeed that asks for less than the others.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        name: str = "broker",
        is_away: Callable[[BaseException], bool] = lambda error: isinstance(error, BROKER_ERRORS),
        tellers: tuple[str, ...] = TELLERS,
        retries: str = RETRIES,
        settled_s: float = 0.0,
    ) -> None:
        self._monotonic = monotonic
        self._settled_s = settled_s
        self._name, self._is_away, self._tellers, self._retries = name, is_away, tellers, retries
        self._lock = threading.Lock()
        self._since: float | None = None
        self._said = 0.0
        self._failed_at = 0.0

    def away(self, error: BaseException) -> None:
        """A try has failed."""
        now = self._monotonic()
        with self._lock:
            self._failed_at = now
            if self._since is not None and now - self._said < REPEAT_S:
                return
            self._since = now if self._since is None else self._since
            self._said = now
            away_s = now - self._since
        log.warning(
            f"{self._name}_away",
            away_s=round(away_s, 1),
            error=explain(error) if isinstance(error, Neo4jError) else str(error),
            error_class=type(error).__name__,
            retries=self._retries,
        )

    def back(self) -> None:
        """A try has succeeded. It says nothing within `settled_s` of one that has failed."""
        if self._since is None:
            return
        with self._lock:
            if self._monotonic() - self._failed_at < self._settled_s:
                return
            since, self._since = self._since, None
        if since is not None:
            log.info(f"{self._name}_back", away_s=round(self._monotonic() - since, 1))

    def screen(self, record: logging.LogRecord) -> bool:
        """True if this record is about anything but a service that is away. See `log.screen`."""
        if record.levelno < logging.WARNING or not record.name.startswith(self._tellers):
            return True
        links = (link for each in _errors(record) for link in _chain(each))
        error = next((link for link in links if self._is_away(link)), None)
        if error is None:
            return True
        self.away(error)
        return False


def _errors(record: logging.LogRecord) -> Iterator[BaseException]:
    """The exceptions that a record is about: its own, and those in its words."""
    if record.exc_info and record.exc_info[1] is not None:
        yield record.exc_info[1]
    words = record.args if isinstance(record.args, tuple) else ()
    yield from (word for word in words if isinstance(word, BaseException))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those behind it: a step that fails for want of a connection says something else itself."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _database_is_away(error: BaseException) -> bool:
    return isinstance(error, Neo4jError | DriverError) and is_temporary(error)


# Those of this process. A task that meets a database that is away fails with its error; beat's next tick tries again.
outage = Outage()
database_outage = Outage(
    name="database",
    is_away=_database_is_away,
    tellers=("celery.app.trace",),
    retries="with beat's next tick, until it is back",
    # A database that takes no writes answers the tasks that only look. Others come with each tick, once a second.
    settled_s=5.0,
)
