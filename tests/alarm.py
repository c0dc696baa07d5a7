"""An interruption at a moment that the test chooses, wherever the program is then."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_after(seconds: float, kind: type[BaseException]) -> Iterator[list[bool]]:
    """Raises it in this thread, wherever that is then; what is yielded is true once it was."""
    raised: list[bool] = []

    def interrupt(*_: object) -> None:
        raised.append(True)
        raise kind("now")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield raised
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
