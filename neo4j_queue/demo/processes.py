"""The demo's Celery processes: two workers and beat, started again when they die."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from neo4j_queue.local_services.celery_processes import CeleryProcesses, ProcessLostError

# On SIGTERM a worker finishes its batch (a fraction of a second here) and closes; a hanging one is killed.
STOP_TIMEOUT_S = 20.0
# A worker may die of a `kill -9`; after three deaths another start would not help.
MAX_RESTARTS = 3
WORKER_PREFIX = "embed-demo-"


class Crew(CeleryProcesses):
    """The processes of a run of the demo."""

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        # Named after this process: the workers of another demo run must not answer for ours.
        pid = os.getpid()
        roles = {
            "embed": ("worker", "-Q", "embed", "-c", "2", "-n", f"{WORKER_PREFIX}{pid}@%h"),
            "control": ("worker", "-Q", "control", "-c", "2", "-n", f"control-demo-{pid}@%h"),
            "beat": ("beat", "--pidfile="),
        }
        super().__init__(roles, environment, directory, stop_within_s=STOP_TIMEOUT_S)
        self._restarts: Counter[str] = Counter()

    def restart_dead(self) -> Iterator[str]:
        """Starts dead processes again, with a line for each; raises `ProcessLostError` when that would not help."""
        for process in self.all:
            code = process.exit_code()
            if code is None:
                continue
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            # A configuration error (78) or an unreachable service (75) is the same after a restart.
            if self._restarts[process.name] >= MAX_RESTARTS or code in (75, 78):
                raise ProcessLostError(
                    f"{process.name} died ({ended}); the end of {process.log}:\n{process.tail()}"
                )
            process.kill()
            self._restarts[process.name] += 1
            process.start()
            yield f"{process.name} died ({ended}); a new one has pid {process.pid}"
