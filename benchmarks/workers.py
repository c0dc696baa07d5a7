"""The Celery processes of a measurement: one control worker, one embed worker, beat."""

import time
from collections.abc import Mapping
from pathlib import Path

from neo4j_queue.local_services.celery_processes import CeleryProcesses, ProcessLostError
from neo4j_queue.queue import EmbedQueue

# A worker boots in some five seconds on a quiet machine and took a minute on one with ten busy processes.
BOOT_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.1
LOOK_TIMEOUT_S = 1.0


class Workers(CeleryProcesses):
    """An embed worker with `slots` prefork processes and what it needs."""

    def __init__(self, environment: Mapping[str, str], directory: Path, slots: int) -> None:
        self.slots = slots
        roles = {
            "embed": ("worker", "-Q", "embed", "-c", str(slots), "-n", "embed@%h"),
            "control": ("worker", "-Q", "control", "-c", "1", "-n", "control@%h"),
            "beat": ("beat", "-s", str(directory / "beat.schedule"), "--pidfile="),
        }
        super().__init__(roles, environment, directory, stop_within_s=STOP_TIMEOUT_S)

    def wait_ready(self, queue: EmbedQueue) -> None:
        """Returns when the census knows the embed worker and both workers are idle. Raises `ProcessLostError`."""
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while sum(worker.slots for worker in queue.census.workers()) < self.slots or not _idle():
            self.check()
            if time.monotonic() > deadline:
                raise ProcessLostError(
                    f"the workers are not ready after {BOOT_TIMEOUT_S:.0f} s:\n{self.tails()}"
                )
            time.sleep(POLL_S)

    def pids(self) -> dict[str, int]:
        """The main processes."""
        return {process.name: process.pid for process in self.all if process.pid is not None}


def _idle() -> bool:
    """True if both workers are there and done with what they do first."""
    # celeryconfig reads the environment when it is imported, and the stage has set it by now.
    from tasks.app import app

    running = app.control.inspect(timeout=LOOK_TIMEOUT_S).active() or {}
    return len(running) == 2 and not any(running.values())
