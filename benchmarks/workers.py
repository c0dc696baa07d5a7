"""The Celery processes of a measurement: one control worker, one embed worker, beat."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from neo4j_queue.demo.processes import CeleryProcess, stop_all
from neo4j_queue.queue import EmbedQueue

# A worker boots in some five seconds on a quiet machine and took a minute on one with ten busy processes.
BOOT_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.1
LOOK_TIMEOUT_S = 1.0


class WorkersLostError(RuntimeError):
    """A process of the measurement died, or is not ready in time."""


class Workers:
    """An embed worker with `slots` prefork processes and what it needs. Leaving the context stops them all."""

    def __init__(self, environment: Mapping[str, str], directory: Path, slots: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.slots = slots
        roles = {
            "embed": ("worker", "-Q", "embed", "-c", str(slots), "-n", "embed@%h"),
            "control": ("worker", "-Q", "control", "-c", "1", "-n", "control@%h"),
            "beat": ("beat", "-s", str(directory / "beat.schedule"), "--pidfile="),
        }
        self._processes = [
            CeleryProcess(name, arguments, environment, directory) for name, arguments in roles.items()
        ]

    def __enter__(self) -> Self:
        try:
            for process in self._processes:
                process.log.unlink(missing_ok=True)
                process.start()
        except BaseException:  # Ctrl-C between two starts
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops every process and waits until none is left; beat first, so that nothing new begins."""
        stop_all(self._processes, STOP_TIMEOUT_S)

    def wait_ready(self, queue: EmbedQueue) -> None:
        """Returns when the census knows the embed worker and both workers are idle. Raises `WorkersLostError`."""
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while sum(worker.slots for worker in queue.census.workers()) < self.slots or not _idle():
            self.check()
            if time.monotonic() > deadline:
                raise WorkersLostError(
                    f"the workers are not ready after {BOOT_TIMEOUT_S:.0f} s:\n{tails(self._processes)}"
                )
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raises `WorkersLostError` when a process has ended."""
        for process in self._processes:
            code = process.exit_code()
            if code is not None:
                raise WorkersLostError(f"{process.name} ended with {code}:\n{process.tail()}")

    def pids(self) -> dict[str, int]:
        """The main processes."""
        return {process.name: process.pid for process in self._processes if process.pid is not None}


def tails(processes: Iterable[CeleryProcess]) -> str:
    """The ends of their logs, for people."""
    return "\n".join(f"--- {process.name}\n{process.tail()}" for process in processes)


def _idle() -> bool:
    """Are both workers there, and done with their first acts?"""
    # celeryconfig reads the environment when it is imported, and the stage has set it by now.
    from tasks.app import app

    running = app.control.inspect(timeout=LOOK_TIMEOUT_S).active() or {}
    return len(running) == 2 and not any(running.values())
