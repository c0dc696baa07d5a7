"""compose.yaml as a user runs it, with the mock provider beside it, on an engine with stand-in images."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from neo4j_queue.local_services import free_ports
from neo4j_queue.settings import Settings
from tests.docker.engine import ROOT, Engine, compose_command
from tests.waiting import wait_until

DIMENSIONS = 64
# The services that go on for as long as the deployment does.
LASTING = ("graph", "jobs", "redis", "control", "embed", "beat", "serve", "flower")
# The boot of two databases and six Python processes on two cores.
HEALTHY_WITHIN_S = 420.0
PROVIDER = {
    "provider": {
        "image": "neo4j-queue",
        "pull_policy": "never",
        "healthcheck": {"disable": True},
        "command": [
            *("neo4j-queue", "mock-provider", "--host", "0.0.0.0", "--port", "9099", "--latency", "0.5"),
            *("--dimensions", str(DIMENSIONS), "--refuse-text", "${REFUSED:-no-text-has-these-words}"),
        ],
    }
}
CHOSEN = {
    "EMBEDDING_PROVIDER": "openai",
    "OPENAI_BASE_URL": "http://provider:9099/v1",
    "OPENAI_API_KEY": "key-of-no-worth-in-a-test",
    "OPENAI_EMBEDDING_MODEL": "mock-provider",
    "NEO4J_VECTOR_DIMENSIONS": str(DIMENSIONS),
    "EMBEDDING_RATE_LIMIT_TOKENS": "unlimited",
    "EMBED_BATCH_SIZE": "50",
    "EMBED_JOB_HEARTBEAT_INTERVAL_MS": "5000",
    "EMBED_JOB_LOCK_DURATION_MS": "30000",
    "EMBED_JOB_START_DEADLINE_MS": "12000",
    "EMBED_REQUEST_TIMEOUT_MS": "10000",
    "EMBED_JOB_RECOVERY_INTERVAL": "5000",
    # Two servers and a dozen of Python processes on a small machine.
    "NEO4J_QUEUE_HEAP": "512m",
    "NEO4J_QUEUE_PAGECACHE": "128m",
}


@dataclass
class Deployment:
    """One project of Compose in `directory`, where its `.env` is."""

    engine: Engine
    directory: Path
    ports: dict[str, int] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """The steps of a user: the file, its passwords, the settings."""
        text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
        document = yaml.safe_load(text)
        document["services"] |= PROVIDER
        if self._command()[0] == "docker-compose":
            del document["name"]  # which that old program does not know
        (self.directory / "compose.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        setup = [
            sys.executable,
            "-m",
            "neo4j_queue.cli",
            "setup",
            "compose",
            "--directory",
            str(self.directory),
        ]
        subprocess.run(setup, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        names = ("GRAPH", "JOBS", "REDIS", "FLOWER")
        found = free_ports(len(names) + 1)
        published = {f"NEO4J_QUEUE_{name}_PORT": port for name, port in zip(names, found, strict=False)}
        self.ports = {**published, "HEALTH_PORT": found[-1]}
        self.set(**CHOSEN, **{name: str(port) for name, port in self.ports.items()})

    def set(self, **values: str) -> None:
        """Adds lines to `.env`; the last one of a name counts."""
        with (self.directory / ".env").open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in values.items())

    def compose(
        self, *arguments: str, within_s: float = 900.0, check: bool = True, **environment: str
    ) -> str:
        """`docker compose …`; what it wrote."""
        files = ("--project-name", "neo4jqueuetest", "--project-directory", str(ROOT))
        named = ("--file", str(self.directory / "compose.yaml"), "--env-file", str(self.directory / ".env"))
        done = self.engine.run(
            *self._command(), *files, *named, *arguments, within_s=within_s, check=check, **environment
        )
        return done.stdout

    def cli(self, *arguments: str) -> Any:
        """A command in a container, as the header of compose.yaml says; its answer as JSON."""
        return json.loads(
            self.compose("run", "--rm", "--no-deps", "-T", "control", "neo4j-queue", *arguments, "--json")
        )

    def containers(self, service: str) -> list[dict[str, Any]]:
        """What the engine knows of the containers of a service."""
        label = f"label=com.docker.compose.service={service}"
        found = self.engine.run("docker", "ps", "-aq", "--filter", label).stdout.split()
        if not found:
            return []
        answer: list[dict[str, Any]] = json.loads(self.engine.run("docker", "inspect", *found).stdout)
        # `run` leaves containers for the moment of a command.
        return [
            each for each in answer if each["Config"]["Labels"].get("com.docker.compose.oneoff") != "True"
        ]

    def health(self, service: str) -> list[str]:
        """`healthy`, `unhealthy`, `starting`, or the state where there is no check."""
        return [
            each["State"].get("Health", {}).get("Status", each["State"]["Status"])
            for each in self.containers(service)
        ]

    def wait_healthy(self, services: Sequence[str] = LASTING, within_s: float = HEALTHY_WITHIN_S) -> None:
        """Waits until every container of these services is healthy."""

        def all_healthy() -> bool:
            return all(set(self.health(service)) == {"healthy"} for service in services)

        wait_until(all_healthy, within_s=within_s, what=f"{services} are healthy")

    def crash(self, service: str) -> None:
        """kill -9 of the first process of a container: by Docker it would count as wanted, and stay dead."""
        (container, *_) = self.containers(service)
        os.kill(container["State"]["Pid"], signal.SIGKILL)

    def settings(self) -> Settings:
        """The settings of a program on this host."""
        places = {
            "neo4j_uri": f"bolt://127.0.0.1:{self.ports['NEO4J_QUEUE_GRAPH_PORT']}",
            "embed_job_database_uri": f"bolt://127.0.0.1:{self.ports['NEO4J_QUEUE_JOBS_PORT']}",
            "openai_base_url": "http://127.0.0.1:9/v1",
        }
        found = Settings(_env_file=self.directory / ".env", **places)
        broker = found.celery_broker_url.replace(":6379/", f":{self.ports['NEO4J_QUEUE_REDIS_PORT']}/")
        return found.model_copy(update={"celery_broker_url": broker})

    def secrets(self) -> list[str]:
        """Every password of the deployment."""
        lines = (self.directory / ".env").read_text(encoding="utf-8").splitlines()
        pairs = (line.partition("=") for line in lines)
        return [value for name, _, value in pairs if name.endswith("_PASSWORD")]

    def tell(self, line: str) -> None:
        """Keeps a figure for the end."""
        self.figures.append(line)

    def _command(self) -> Sequence[str]:
        found = compose_command(self.engine.environment)
        assert found is not None
        return found
