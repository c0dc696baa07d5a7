"""SIGTERM as Ctrl-C, for programs that have something to stop or to say at their end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminable() -> Iterator[None]:
    """Inside of it SIGTERM (a CI job that is cancelled, a supervisor) raises KeyboardInterrupt."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
