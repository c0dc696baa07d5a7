"""Log lines about a broker that is away: one when it goes, one each half minute, one when it is back.

Celery writes one with every try, once a second and partly with a stack, and buries the other lines.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from neo4j_queue.log import get_logger
from tasks.broker import ASK_EVERY_S, BROKER_ERRORS

# Often enough to show that the process still tries, and since when.
REPEAT_S = 30.0
RETRIES = f"every {ASK_EVERY_S} s, until it is back"
# Loggers of lost connections and of what fails because of them. What a task raises is not among them.
TELLERS = ("celery.beat", "celery.bootsteps", "celery.worker.consumer", "celery.worker.pidbox")

log = get_logger()


class Outage:
    """The broker, as this process finds it. Safe to use from threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._since: float | None = None
        self._said = 0.0

    def away(self, error: BaseException) -> None:
        """A try has failed."""
        now = self._monotonic()
        with self._lock:
            if self._since is not None and now - self._said < REPEAT_S:
                return
            self._since = now if self._since is None else self._since
            self._said = now
            away_s = now - self._since
        log.warning(
            "broker_away",
            away_s=round(away_s, 1),
            error=str(error),
            error_class=type(error).__name__,
            retries=RETRIES,
        )

    def back(self) -> None:
        """A try has succeeded."""
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info("broker_back", away_s=round(self._monotonic() - since, 1))

    def screen(self, record: logging.LogRecord) -> bool:
        """True if this record is about anything but a broker that is away. See `log.screen`."""
        if record.levelno < logging.WARNING or not record.name.startswith(TELLERS):
            return True
        error = next((found for each in _errors(record) for found in _chain(each)), None)
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
    """The broker's errors among an exception and those behind it: a step that fails for want of a connection says
    something else itself."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, BROKER_ERRORS):
            yield link
        link = link.__cause__ or link.__context__


# That of this process.
outage = Outage()
