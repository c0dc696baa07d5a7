"""Real Celery processes for tests: workers and beat in process groups of their own, logs to files."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[1]
# A worker imports, checks both databases and forks; on two busy cores that takes most of ten seconds.
READY_S = 60.0
STOP_S = 40.0

_numbers = itertools.count(1)


@dataclass
class CeleryProcess:
    """One worker or beat. `log` is its stderr, `out` its stdout."""

    process: subprocess.Popen[bytes]
    name: str
    log: Path
    out: Path

    @property
    def pid(self) -> int:
        """The pid of the main process, which leads its process group."""
        return self.process.pid

    def children(self) -> list[int]:
        """The pool processes."""
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def send(self, signum: signal.Signals) -> None:
        """A signal to the main process alone."""
        os.kill(self.pid, signum)

    def kill(self) -> None:
        """kill -9 of the whole process group: the machine lost power, as far as Celery can tell."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    def lines(self) -> list[dict[str, Any]]:
        """The log so far. Every line must be JSON: one that is not fails the test that reads it."""
        text = self.log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def events(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in self.lines() if line["event"] == event]


@dataclass
class CeleryProcesses:
    """Starts processes with one environment and stops them all at the end."""

    environment: Mapping[str, str]
    directory: Path
    started: list[CeleryProcess] = field(default_factory=list)

    def embed(self, concurrency: int = 2, **environment: str) -> CeleryProcess:
        """An embed worker, ready."""
        return self.worker("embed", concurrency, **environment)

    def control(self, concurrency: int = 1, **environment: str) -> CeleryProcess:
        """A control worker, ready."""
        return self.worker("control", concurrency, **environment)

    def worker(self, queues: str, concurrency: int, **environment: str) -> CeleryProcess:
        """A prefork worker that has reported to be ready."""
        name = f"{queues.replace(',', '-')}{next(_numbers)}@test"
        process = self.launch(name, "worker", "-Q", queues, "-c", str(concurrency), "-n", name, **environment)
        wait_until(
            lambda: process.process.poll() is not None or "ready." in process.log.read_text(encoding="utf-8"),
            within_s=READY_S,
            what=f"{name} is ready",
        )
        assert process.process.poll() is None, process.log.read_text(encoding="utf-8")[-3000:]
        return process

    def beat(self, **environment: str) -> CeleryProcess:
        """Beat, ticking."""
        return self.launch(f"beat{next(_numbers)}", "beat", **environment)

    def launch(self, name: str, *arguments: str, **environment: str) -> CeleryProcess:
        """`celery -A tasks …` in the background."""
        log, out = self.directory / f"{name}.log", self.directory / f"{name}.out"
        with log.open("wb") as err_file, out.open("wb") as out_file:
            process = subprocess.Popen(
                [*CELERY, *arguments],
                cwd=self.directory,
                env={**self.environment, "PYTHONPATH": str(ROOT), **environment},
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                start_new_session=True,
            )
        started = CeleryProcess(process, name, log, out)
        self.started.append(started)
        return started

    def call(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`celery -A tasks …` to its end."""
        return subprocess.run(
            [*CELERY, *arguments],
            cwd=self.directory,
            env={**self.environment, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )

    def program(self, source: str, *, within_s: float = READY_S) -> str:
        """A Python program to its end, in the environment of the processes; what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", source],
            cwd=self.directory,
            env={**self.environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def kill(self) -> None:
        """Ends what still runs, at once: after a test, whose databases and Redis are emptied anyway."""
        for process in self.started:
            process.kill()


CELERY = (sys.executable, "-m", "celery", "-q", "-A", "tasks")
