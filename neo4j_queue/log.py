"""Structured logs: one JSON object per line on stderr, for worker, beat and command line alike.

Every line has `timestamp` (UTC, ISO 8601), `level`, `event` and `worker_id`. Our own events go through
structlog straight to the file descriptor: a worker writes thousands a second, and a line costs some 10
microseconds. Records of other libraries (celery, kombu, neo4j, openai) come through a handler on the root
logger and leave as the event `library_message`, with `message` and `logger`. No line carries a password or a key
of the settings.
"""

import json
import logging
import os
import select
import socket
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from neo4j_queue.errors.redact import Redactor
from neo4j_queue.settings.readers import without_password
from neo4j_queue.wellformed import visible

if TYPE_CHECKING:
    from neo4j_queue.settings import Settings

Process = Literal["worker", "beat", "cli", "serve", "mcp"]

STDERR = 2
HIDDEN = "***"
# The end of a stack names the line that raised.
STACK_CHARS = 8_000
# A peer that stopped reading our pipe: after this long the line is dropped, so that no job hangs on its log.
WRITE_TIMEOUT_S = 5.0
# These report each message they exchange at INFO or DEBUG, texts included: never wanted in an operator's log.
CHATTY = (
    *("neo4j", "openai", "httpx", "httpx2", "httpcore", "kombu", "amqp", "redis", "asyncio", "urllib3"),
    *("mcp", "uvicorn", "sse_starlette"),
)
# The driver reports every retry: five a second for each slot, while a database is away.
REPEATED_AFTER_S = 30.0
# Of warnings. Most have a template; one that is put together by its library is a kind of its own each time.
KINDS_KEPT = 1_000
LEVEL_OF_METHOD = {"warn": "warning", "exception": "error", "fatal": "critical"}


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


# Made once: `json.dumps` with options makes an encoder for each call.
_encode = json.JSONEncoder(default=_plain, separators=(",", ":")).encode


class _Sink:
    """What a line needs to know about its process. One per process; `configure` fills it."""

    def __init__(self) -> None:
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}"
        self.secrets: tuple[str, ...] = ()
        self._stamp = (0, "")
        self.console: structlog.dev.ConsoleRenderer | None = None

    def render(self, level: str, event: EventDict) -> str:
        """The line of one event, without its line break."""
        now = self._now()
        if event.get("exc_info"):
            event = _with_stack(event)
        name = event.pop("event", "")
        line: EventDict = {
            "timestamp": now,
            "level": level,
            "event": name,
            "worker_id": self.worker_id,
            **event,
        }
        text = self._text(line)
        # Looking for a handful of short strings costs less than a microsecond; cleaning is rare.
        if ("@" in text and "://" in text) or self._leaks(text):
            text = self._text(cast(EventDict, self._clean(line)))
        return text

    def _now(self) -> str:
        microseconds = time.time_ns() // 1000
        second, rest = divmod(microseconds, 1_000_000)
        stamp = self._stamp
        if stamp[0] != second:
            stamp = (second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
            self._stamp = stamp  # one assignment: threads that race here each keep their own second
        return f"{stamp[1]}.{rest:06d}Z"

    def _leaks(self, text: str) -> bool:
        for secret in self.secrets:  # noqa: SIM110 (a generator costs three times as much here)
            if secret in text:
                return True
        return False

    def _text(self, line: EventDict) -> str:
        if self.console is not None:
            # Data must not steer the terminal. What is no text is written as its `repr`, which escapes by itself.
            return str(self.console(None, "", {key: _harmless(key, value) for key, value in line.items()}))
        # ASCII only: a lone surrogate or a Unicode line separator in a name must not break the line.
        return _encode(line)

    def _clean(self, value: Any) -> Any:
        """The same value with secrets hidden in every string, and with the password of every URL."""
        if isinstance(value, str):
            for secret in self.secrets:
                value = value.replace(secret, HIDDEN)
            return without_password(value)
        if isinstance(value, dict):
            return {key: self._clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(item) for item in value]
        return value if isinstance(value, int | float | None) else self._clean(_plain(value))


def _harmless(key: str, value: object) -> object:
    return visible(value, lines=key == "stack") if isinstance(value, str) else value


_sink = _Sink()


def configure(
    process: Process,
    settings: "Settings | None" = None,
    *,
    style: str | None = None,
    quiet_libraries: bool = False,
) -> None:
    """Sets up logging for this process: early without settings, and again once they are known.

    `style` is `json` or `console` (for people) and goes before `LOG_FORMAT`. Without settings: INFO, JSON.
    `quiet_libraries`: only their errors, unless the level is DEBUG (a person is told what matters by the command).
    """
    level = getattr(logging, settings.log_level if settings else "INFO")
    style = style or (settings.log_format if settings else "json")
    _sink.secrets = tuple(_spellings(settings.secrets())) if settings else ()
    _sink.console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()) if style == "console" else None
    structlog.configure(
        processors=[_render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Stderr,
        # A cached logger keeps its level, so nothing is cached before the level is known.
        cache_logger_on_first_use=settings is not None,
    )
    _adopt_foreign(level, logging.ERROR if quiet_libraries and level > logging.DEBUG else logging.WARNING)
    if process in ("worker", "beat"):
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda hook: _log_uncaught(hook.exc_type, hook.exc_value, hook.exc_traceback)
    set_worker_id(f"{process}@{socket.gethostname()}")


def screen(is_worth_a_line: Callable[[logging.LogRecord], bool]) -> None:
    """Asks this before a record of another library becomes a line: False for what was told in another way."""
    _screens.append(is_worth_a_line)


def set_worker_id(worker_id: str) -> None:
    """The name on every following line of this process; a Celery worker gives its node name."""
    _sink.worker_id = worker_id


def get_logger(**bound: Any) -> FilteringBoundLogger:
    """A logger for our own events: `log.info("lease_lost", lease_token=token)`."""
    return cast(FilteringBoundLogger, structlog.get_logger(**bound))


def _render(_logger: WrappedLogger, method: str, event: EventDict) -> str:
    return _sink.render(LEVEL_OF_METHOD.get(method, method), event)


class _Stderr:
    """Where structlog sends a rendered line: one write of the whole line, no buffer between."""

    def __init__(self, *_: Any) -> None:
        pass

    def msg(self, line: str) -> None:
        _write(line)

    debug = info = warning = error = critical = msg


_screens: list[Callable[[logging.LogRecord], bool]] = []


class _Repeats:
    """Warnings of libraries that come again and again, such as a retry of the driver: one of a kind is written, and
    those that follow within half a minute are counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By kind: when one was written, and how many were left out since. Written anew by whichever thread comes last:
        # a line too much or a count too low is all that a race can do.
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def left_out(self, record: logging.LogRecord) -> int | None:
        """How many of its kind were left out before this one; None: leave it out as well."""
        if record.levelno != logging.WARNING or record.exc_info:
            return 0
        kind, now = (record.name, str(record.msg)), self._clock()
        written, count = self._seen.get(kind, (-REPEATED_AFTER_S, 0))
        if now - written < REPEATED_AFTER_S:
            self._seen[kind] = (written, count + 1)
            return None
        if len(self._seen) >= KINDS_KEPT:
            self._seen.clear()
        self._seen[kind] = (now, 0)
        return count


_repeats = _Repeats()


class _ForeignHandler(logging.Handler):
    """Turns a record of the standard library into the same line."""

    def emit(self, record: logging.LogRecord) -> None:
        if not all(is_worth_a_line(record) for is_worth_a_line in _screens):
            return
        left_out = _repeats.left_out(record)
        if left_out is None:
            return
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not fit the message
            message = str(record.msg)
        event: EventDict = {"event": "library_message", "message": message, "logger": record.name}
        if left_out:
            event["left_out"] = left_out
        if record.exc_info:
            event["exc_info"] = record.exc_info
        _write(_sink.render(record.levelname.lower(), event))


def _adopt_foreign(level: int, chatty: int) -> None:
    """Makes our handler the only one of the root logger, and quiets libraries that report every message."""
    logging.basicConfig(level=level, handlers=[_ForeignHandler()], force=True)
    logging.captureWarnings(True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(level, chatty))


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if issubclass(kind, SystemExit | KeyboardInterrupt):
        return
    found = error if error is not None else kind()
    event: EventDict = {"event": "uncaught_exception", "exc_info": (kind, found, trace)}
    _write(_sink.render("critical", event))


def _with_stack(event: EventDict) -> EventDict:
    """`exc_info` as `stack` and, where the caller named no error, as `error` and `error_class`."""
    info = event.pop("exc_info")
    if not isinstance(info, BaseException):
        info = (info if isinstance(info, tuple) else sys.exc_info())[1]
    if info is None:
        return event
    redactor = Redactor.for_exception(info)
    event.setdefault("error", redactor.clean(str(info), STACK_CHARS))
    event.setdefault("error_class", type(info).__name__)
    event["stack"] = redactor.clean_stack("".join(traceback.format_exception(info)), STACK_CHARS)
    return event


def _spellings(secrets: Iterable[str]) -> list[str]:
    """Each secret as it is and as JSON and URLs write it."""
    forms = [form for text in secrets for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))]
    return sorted(dict.fromkeys(forms), key=len, reverse=True)


class _Peer:
    """Who reads our stderr. `stuck`: it took no line in time, and is not waited for again until it takes one."""

    stuck = False
    # Part of a line was written when it stopped reading.
    torn = False


def _write(line: str) -> None:
    data = memoryview((line + "\n").encode("utf-8", "backslashreplace"))
    if _Peer.torn:
        data = memoryview(b"\n" + bytes(data))
    try:
        # A pipe takes so much without blocking once it is writable at all; a file takes everything.
        most = len(data) if stat.S_ISREG(os.fstat(STDERR).st_mode) else select.PIPE_BUF
        while data:
            if not select.select([], [STDERR], [], 0 if _Peer.stuck else WRITE_TIMEOUT_S)[1]:
                _Peer.stuck = True
                return
            try:
                data = data[os.write(STDERR, data[:most]) :]
            except BlockingIOError:  # non-blocking, and full again: another process writes to it
                continue
            _Peer.stuck, _Peer.torn = False, len(data) > 0
    except OSError:  # the reader is gone: no job may fail for its log line
        return
