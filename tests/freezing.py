"""Processes that are frozen: alive to the kernel, silent on their sockets."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen(pid: int | None) -> Iterator[None]:
    """The process keeps its sockets open and says nothing, as on a suspended host."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
