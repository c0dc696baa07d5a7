"""Celery's processes on this machine, started as an operator would start them: workers, beat, Flower.

Each leads a process group of its own and writes a log file. The demo, the benchmarks and the tests run theirs by
these two classes, and add what they alone need.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from neo4j_queue.errors import Neo4jQueueError

CELERY = (sys.executable, "-m", "celery", "-q", "-A", "tasks")
# What a process writes when it takes up its work, by the Celery command that it runs.
READY = {"worker": b' ready."', "beat": b'"event":"boot_checked"'}
POLL_S = 0.1
TAIL_LINES = 15


class ProcessLostError(Neo4jQueueError):
    """A Celery process died, or was not ready in time; the message holds the end of its log."""


@dataclass(slots=True)
class CeleryProcess:
    """One `python -m celery -A tasks …`. Where `output` is given, stdout goes there and only stderr to the log."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    output: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    # Where the log of the last start begins: an earlier start was ready too.
    _log_start: int = field(default=0, repr=False)

    @property
    def log(self) -> Path:
        """Where its log goes."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The id of the main process, which is also that of its group; None before the start."""
        return None if self._process is None else self._process.pid

    def children(self) -> list[int]:
        """The pool processes."""
        if self.pid is None:
            return []
        try:
            return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def start(self) -> None:
        """Starts the process; its log is appended to."""
        with self.log.open("ab") as log, (self.output or self.log).open("ab") as output:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*CELERY, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                cwd=self.directory,
                env=dict(self.environment),
                # A group of its own: Ctrl-C at the terminal reaches the caller only, which then stops in order.
                start_new_session=True,
            )

    def wait_ready(self, within_s: float) -> bool:
        """True when the log says that the process has taken up its work, False when the process has ended.

        Raises `ProcessLostError` when neither has happened after `within_s` seconds.
        """
        deadline = time.monotonic() + within_s
        while self.exit_code() is None:
            if self._says_ready():
                return True
            if time.monotonic() > deadline:
                raise ProcessLostError(
                    f"{self.name} is not ready after {within_s:.0f} s; the end of {self.log}:\n{self.tail()}"
                )
            time.sleep(POLL_S)
        return False

    def _says_ready(self) -> bool:
        # Only the log of this start: a worker's log grows to megabytes.
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return READY[self.arguments[0]] in log.read()

    def exit_code(self) -> int | None:
        """How it ended (negative: the signal), or None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait(self, within_s: float) -> int | None:
        """Waits for its end; the exit code, or None when it still runs after `within_s` seconds."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, within_s))
        return self.exit_code()

    def send(self, signum: signal.Signals) -> None:
        """Sends a signal to the main process alone, if it runs."""
        if self._process is not None:
            self._process.send_signal(signum)

    def kill(self) -> None:
        """kill -9 of the whole group: pool processes outlive a main process that was killed alone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])


class CeleryProcesses:
    """Processes that start and stop together: leaving the context stops them all, whatever happened inside.

    `roles` holds the arguments of each by its name, in the order of the starts; `stop_within_s` is the time from
    SIGTERM to SIGKILL.
    """

    def __init__(
        self,
        roles: Mapping[str, Sequence[str]],
        environment: Mapping[str, str],
        directory: Path,
        *,
        stop_within_s: float,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.all = [
            CeleryProcess(name, tuple(words), environment, directory) for name, words in roles.items()
        ]
        self._stop_within_s = stop_within_s

    def __enter__(self) -> Self:
        try:
            for process in self.all:
                process.log.unlink(missing_ok=True)
                process.start()
        except BaseException:  # Ctrl-C between two starts
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getitem__(self, name: str) -> CeleryProcess:
        """The process of this name."""
        return next(process for process in self.all if process.name == name)

    def stop(self) -> None:
        """Stops every process and waits until none is left.

        All are asked before the first is waited for: the last one first, which is beat, so that nothing new begins.
        """
        for process in reversed(self.all):
            process.send(signal.SIGTERM)
        deadline = time.monotonic() + self._stop_within_s
        for process in self.all:
            process.wait(deadline - time.monotonic())
            process.kill()

    def check(self) -> None:
        """Raises `ProcessLostError` when a process has ended."""
        for process in self.all:
            code = process.exit_code()
            if code is not None:
                raise ProcessLostError(f"{process.name} ended with {code}:\n{process.tail()}")

    def tails(self) -> str:
        """The ends of all logs, for people."""
        return "\n".join(f"--- {process.log}\n{process.tail()}" for process in self.all)
