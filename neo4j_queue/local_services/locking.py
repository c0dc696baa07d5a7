"""One process at a time: for the cache of files and for a directory of services."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

POLL_S = 0.2


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock file `path`; waits while another process holds it, after one call of `on_wait`.

    The kernel lets go of the lock when its holder dies, however it dies; the file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Preserved: the file of a directory says that services were started there.
    lock = FileLock(path, mode=0o600, poll_interval=POLL_S, preserve_lock_file=True)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
