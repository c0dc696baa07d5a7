"""The three services of one directory, started and stopped together."""

from collections.abc import Sequence
from pathlib import Path

from neo4j_queue.local_services.config import Progress, Report, ServicesConfig, silent
from neo4j_queue.local_services.locking import exclusive
from neo4j_queue.local_services.neo4j_files import fetch, neo4j_home
from neo4j_queue.local_services.neo4j_server import Neo4jServer
from neo4j_queue.local_services.redis_server import RedisServer
from neo4j_queue.local_services.requirements import JAVA, REDIS, check_tools
from neo4j_queue.local_services.service import Service, ServiceStatus, wait_until_ready

GRAPH_DATABASE = "neo4j"
JOBS_DATABASE = "embedding-jobs"
# Within what the settings allow (7 to 30); the operator changes it in `.env`.
RETENTION_DAYS = 14


class LocalServices:
    """`graph`, `jobs` and `redis`. Each can also be stopped, killed and started alone, as fault tests do."""

    def __init__(self, config: ServicesConfig, report: Report = silent) -> None:
        self.config = config
        self._report = report
        home = neo4j_home()
        self.graph = Neo4jServer(
            "graph", config.graph_port, GRAPH_DATABASE, config, home, report, triggers=True
        )
        self.jobs = Neo4jServer("jobs", config.jobs_port, JOBS_DATABASE, config, home, report)
        self.redis = RedisServer("redis", config.redis_port, config.directory / "redis", report)

    @property
    def all(self) -> Sequence[Service]:
        """The three services, in the order in which they start."""
        return (self.graph, self.jobs, self.redis)

    def up(self) -> None:
        """Starts the services that do not run; returns when all serve.

        Fetches the Neo4j files first if need be. What this call has started is stopped again if anything
        fails or interrupts it. Raises a `ServiceError`.
        """
        check_tools([JAVA, REDIS])
        fetch(self._report)
        with exclusive(self._lock, self._say_waiting):
            to_launch = [service for service in self.all if service.must_launch()]
            try:
                # All before the first wait: the two servers boot side by side.
                for service in to_launch:
                    service.launch()
                wait_until_ready(self.all)
            except BaseException:
                for service in to_launch:
                    service.stop()
                raise

    @property
    def ever_up(self) -> bool:
        """True if services were ever started in this directory."""
        return self._lock.is_file()

    def down(self) -> list[str]:
        """Stops the services that run and returns their names. Data and logs stay."""
        if not self.ever_up:
            return []  # no lock file in a directory that is not ours
        with exclusive(self._lock, self._say_waiting):
            return [service.name for service in self.all if service.stop()]

    def status(self) -> list[ServiceStatus]:
        """What is known of each service."""
        return [service.status() for service in self.all]

    def environment(self) -> dict[str, str]:
        """The settings that point a program at these services."""
        return {
            "NEO4J_URI": self.graph.url,
            "NEO4J_DATABASE": self.graph.database,
            "EMBED_JOB_DATABASE_URI": self.jobs.url,
            "EMBED_JOB_DATABASE_NAME": self.jobs.database,
            "CELERY_BROKER_URL": self.redis.url,
            "EMBED_JOB_RETENTION_DAYS": str(RETENTION_DAYS),
        }

    @property
    def _lock(self) -> Path:
        return self.config.directory / "lock"

    def _say_waiting(self) -> None:
        message = f"another process is starting or stopping the services of {self.config.directory}"
        self._report(Progress("services", message))
