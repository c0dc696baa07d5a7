"""The demo's Celery processes: two workers and a beat, started like an operator would, and looked after."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from neo4j_queue.errors import Neo4jQueueError

# A worker on SIGTERM finishes its batch (a fraction of a second here), then closes; a hanging one is killed.
STOP_TIMEOUT_S = 20.0
# A worker may die of somebody's `kill -9`; one that dies a fourth time will not be helped by a fifth start.
MAX_RESTARTS = 3
TAIL_LINES = 15
WORKER_PREFIX = "embed-demo-"


class ProcessLostError(Neo4jQueueError):
    """A Celery process died again and again; the message holds the end of its log."""


@dataclass(slots=True)
class CeleryProcess:
    """One `python -m celery -A tasks …` in a process group of its own, its output in a log file."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    restarts: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """Where stdout and stderr go."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The id of the main process, which is also that of its group; None before the start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the process; its log is appended to."""
        command = [sys.executable, "-m", "celery", "-q", "-A", "tasks", *self.arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=dict(self.environment),
                # A group of its own: Ctrl-C at the terminal reaches the demo only, which then stops in order.
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """How it ended (negative: the signal), or None while it runs."""
        return None if self._process is None else self._process.poll()

    def terminate(self) -> None:
        """Asks it to stop: a worker finishes or releases what it has."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait_or_kill(self, deadline: float) -> None:
        """Waits until `deadline` (monotonic seconds), then kills whatever of its group is left."""
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        self.kill_group()

    def kill_group(self) -> None:
        """Kills the group: pool children outlive a main process that was killed."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])


def stop_all(processes: Sequence[CeleryProcess], within_s: float) -> None:
    """Stops the processes, the last first (beat, so that nothing new begins), and kills what is left after that time.

    All are asked before the first is waited for.
    """
    for process in reversed(processes):
        process.terminate()
    deadline = time.monotonic() + within_s
    for process in processes:
        process.wait_or_kill(deadline)


class Crew:
    """The processes of a run. Leaving the context stops them all, whatever happened inside."""

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # Named after this process: the workers of another demo run must not answer for ours.
        pid = os.getpid()
        roles = {
            "embed": ("worker", "-Q", "embed", "-c", "2", "-n", f"{WORKER_PREFIX}{pid}@%h"),
            "control": ("worker", "-Q", "control", "-c", "2", "-n", f"control-demo-{pid}@%h"),
            "beat": ("beat", "--pidfile="),
        }
        self.processes = [
            CeleryProcess(
                role,
                arguments,
                environment,
                directory,
            )
            for role, arguments in roles.items()
        ]

    def __enter__(self) -> Self:
        try:
            for process in self.processes:
                process.log.unlink(missing_ok=True)
                process.start()
        except BaseException:  # Ctrl-C between two starts
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops every process and waits until none is left."""
        stop_all(self.processes, STOP_TIMEOUT_S)

    def restart_dead(self) -> Iterator[str]:
        """Starts again what has died, a line for each; raises ProcessLostError when that is pointless."""
        for process in self.processes:
            code = process.exit_code()
            if code is None:
                continue
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            # A configuration error (78) or an unreachable service (75) is the same after a restart.
            if process.restarts >= MAX_RESTARTS or code in (75, 78):
                raise ProcessLostError(
                    f"{process.name} died ({ended}); the end of {process.log}:\n{process.tail()}"
                )
            process.kill_group()
            process.restarts += 1
            process.start()
            yield f"{process.name} died ({ended}); a new one has pid {process.pid}"
