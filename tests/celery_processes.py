"""Real Celery processes for tests: started one by one, their logs read as JSON, killed at the end."""

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neo4j_queue.local_services.celery_processes import CELERY, CeleryProcess

ROOT = Path(__file__).resolve().parents[1]
# A worker imports, checks both databases and forks; on two busy cores that takes most of ten seconds.
READY_S = 60.0

_numbers = itertools.count(1)


class LoggedProcess(CeleryProcess):
    """One worker or beat, whose log is read."""

    def lines(self) -> list[dict[str, Any]]:
        """The log so far. Every line must be JSON: one that is not fails the test that reads it."""
        text = self.log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def events(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in self.lines() if line["event"] == event]


@dataclass
class StartedProcesses:
    """Starts processes with one environment and kills them all at the end."""

    environment: Mapping[str, str]
    directory: Path
    started: list[LoggedProcess] = field(default_factory=list)

    def embed(self, concurrency: int = 2, **environment: str) -> LoggedProcess:
        """An embed worker, ready."""
        return self.worker("embed", concurrency, **environment)

    def control(self, concurrency: int = 1, **environment: str) -> LoggedProcess:
        """A control worker, ready."""
        return self.worker("control", concurrency, **environment)

    def worker(self, queues: str, concurrency: int, **environment: str) -> LoggedProcess:
        """A prefork worker that has reported to be ready."""
        name = f"{queues.replace(',', '-')}{next(_numbers)}@test"
        process = self.launch(name, "worker", "-Q", queues, "-c", str(concurrency), "-n", name, **environment)
        assert process.wait_ready(READY_S), process.log.read_text(encoding="utf-8")[-3000:]
        return process

    def beat(self, **environment: str) -> LoggedProcess:
        """Beat, ticking."""
        return self.launch(f"beat{next(_numbers)}", "beat", **environment)

    def launch(self, name: str, *arguments: str, **environment: str) -> LoggedProcess:
        """`celery -A tasks …` in the background, its stdout apart from its log."""
        output = self.directory / f"{name}.out"
        process = LoggedProcess(name, arguments, self._environment(**environment), self.directory, output)
        self.started.append(process)
        process.start()
        return process

    def call(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`celery -A tasks …` to its end."""
        return self._run([*CELERY, *arguments], READY_S, **environment)

    def program(self, source: str, *, within_s: float = READY_S) -> str:
        """A Python program to its end, in the environment of the processes; what it printed."""
        done = self._run([sys.executable, "-c", source], within_s)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def kill(self) -> None:
        """Ends what still runs, at once: after a test, whose databases and Redis are emptied anyway."""
        for process in self.started:
            process.kill()

    def _run(
        self, command: list[str], within_s: float, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    def _environment(self, **changed: str) -> dict[str, str]:
        return {**self.environment, "PYTHONPATH": str(ROOT), **changed}
