"""The same services, and the workers with them, by Docker: `compose.yaml` of the current directory."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from neo4j_queue.local_services.config import Progress, Report, ServicesConfig
from neo4j_queue.local_services.failures import ServiceError

COMPOSE_FILE = Path("compose.yaml")
# The plug-in of today, and the program that older distributions still ship.
COMPOSE_COMMANDS = (("docker", "compose"), ("docker-compose",))
# An engine that is there answers at once; one that hangs would otherwise hang us.
ASK_TIMEOUT_S = 15.0


class Compose:
    """`docker compose` on one file, with the ports of `config` published on the loopback address."""

    def __init__(self, config: ServicesConfig, report: Report, file: Path = COMPOSE_FILE) -> None:
        self._config = config
        self._report = report
        self._file = file

    def up(self) -> None:
        """Starts everything in the file; does not wait until it serves. Raises `ServiceError`."""
        self._run("up", "--detach")

    def down(self) -> None:
        """Stops and removes the containers; the volumes with the data stay. Raises `ServiceError`."""
        self._run("down")

    def _run(self, *arguments: str) -> None:
        if not self._file.is_file():
            raise ServiceError(f"there is no {self._file} here; run this in the directory that has it")
        command = [*compose_command(), "--file", str(self._file), *arguments]
        self._report(Progress("docker", " ".join(command)))
        ports = {
            "NEO4J_QUEUE_GRAPH_PORT": str(self._config.graph_port),
            "NEO4J_QUEUE_JOBS_PORT": str(self._config.jobs_port),
            "NEO4J_QUEUE_REDIS_PORT": str(self._config.redis_port),
        }
        # Its own progress goes to stderr, where people see it; stdout is for our answer.
        done = subprocess.run(command, env={**os.environ, **ports}, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise ServiceError(
                f"`{' '.join(command)}` failed (exit code {done.returncode}); see its output above"
            )


def compose_command() -> Sequence[str]:
    """How compose is called here. Raises `ServiceError` when no engine answers or compose is missing."""
    engine = _ask("docker", "info", "--format", "{{.ServerVersion}}")
    if engine is not None:
        raise ServiceError(
            f"no Docker engine answers: {engine}. Start it, or use --engine local, which needs no Docker."
        )
    for command in COMPOSE_COMMANDS:
        if _ask(*command, "version") is None:
            return command
    raise ServiceError(
        "Docker is here, but neither `docker compose` nor `docker-compose`; install one of them"
    )


def _ask(*command: str) -> str | None:
    """None if the command ends well, else one line that says why not."""
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return f"there is no program `{command[0]}`"
    except subprocess.TimeoutExpired:
        return f"no answer within {ASK_TIMEOUT_S:.0f} s"
    if answer.returncode == 0:
        return None
    return (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1].rstrip(".")
