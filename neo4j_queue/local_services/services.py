"""The three services of one directory, started and stopped together."""

from collections.abc import Sequence
from pathlib import Path

from neo4j_queue.local_services.config import Progress, Report, ServicesConfig, silent
from neo4j_queue.local_services.failures import ServiceError
from neo4j_queue.local_services.flower_server import FlowerServer
from neo4j_queue.local_services.locking import exclusive
from neo4j_queue.local_services.neo4j_files import fetch, neo4j_home
from neo4j_queue.local_services.neo4j_server import Neo4jServer
from neo4j_queue.local_services.passwords import USER, Passwords, make, read
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
        self._passwords: Passwords | None = None
        home = neo4j_home()
        self.graph = Neo4jServer(
            *("graph", config.graph_port, GRAPH_DATABASE, config, home, report),
            triggers=True,
            password=lambda: self._password("graph"),
        )
        self.jobs = Neo4jServer(
            *("jobs", config.jobs_port, JOBS_DATABASE, config, home, report),
            password=lambda: self._password("jobs"),
        )
        self.redis = RedisServer(
            *("redis", config.redis_port, config.directory / "redis", report),
            password=lambda: self._password("redis"),
        )

        self.flower = FlowerServer(
            *(config.flower_port, config.directory / "flower", report),
            settings=self.environment,
            password=lambda: self._password("flower"),
        )

    @property
    def all(self) -> Sequence[Service]:
        """The three services, in the order in which they start."""
        return (self.graph, self.jobs, self.redis)

    def up(self, *, add_passwords: bool = False, flower: bool = False) -> None:
        """Starts the services that do not run; returns when all serve.

        Fetches the Neo4j files first if need be. What this call has started is stopped again if anything
        fails or interrupts it. Raises a `ServiceError`.

        `add_passwords`: services that were made without passwords get some; none of them may run. `flower`: Flower
        too.
        """
        check_tools([JAVA, REDIS])
        fetch(self._report)
        with exclusive(self._lock, self._say_waiting):
            if add_passwords:
                self._add_passwords()
            to_launch = [service for service in self.all if service.must_launch()]
            try:
                # All before the first wait: the two servers boot side by side.
                for service in to_launch:
                    service.launch()
                wait_until_ready(self.all)
                if flower:
                    self._start_flower(to_launch)
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
            return [service.name for service in (self.flower, *self.all) if service.stop()]

    def status(self) -> list[ServiceStatus]:
        """What is known of each service; of Flower while it runs."""
        running = [self.flower] if self.flower.pid is not None else []
        return [service.status() for service in (*self.all, *running)]

    def passwords(self) -> Passwords | None:
        """The passwords of these services, made now in a new directory. Raises `ServiceError`.

        None where an earlier version has started them without: programs are set up for that. Only what can be made
        again gets passwords at its next start.
        """
        if self._passwords is None:
            self._passwords = read(self.config.directory)
        if self._passwords is None and (not self._has_data or (self.config.throwaway and not self._running)):
            self._passwords = make(self.config.directory)
        return self._passwords

    def environment(self) -> dict[str, str]:
        """The settings that point a program at these services, passwords among them. Raises `ServiceError`."""
        passwords = self.passwords()
        places = self.places()
        if passwords is None:
            return places
        secrets = {
            "NEO4J_USERNAME": USER,
            "NEO4J_PASSWORD": passwords.graph,
            "EMBED_JOB_DATABASE_USERNAME": USER,
            "EMBED_JOB_DATABASE_PASSWORD": passwords.jobs,
        }
        return {**places, **secrets, "CELERY_BROKER_URL": self.redis.url}

    def places(self) -> dict[str, str]:
        """The settings that name the services, without any password."""
        return {
            "NEO4J_URI": self.graph.url,
            "NEO4J_DATABASE": self.graph.database,
            "EMBED_JOB_DATABASE_URI": self.jobs.url,
            "EMBED_JOB_DATABASE_NAME": self.jobs.database,
            "CELERY_BROKER_URL": self.redis.shown,
            "EMBED_JOB_RETENTION_DAYS": str(RETENTION_DAYS),
        }

    def _start_flower(self, launched: list[Service]) -> None:
        if self.passwords() is None:
            raise ServiceError(
                "Flower needs a password: `neo4j-queue down`, then up --add-passwords --flower"
            )
        if self.flower.must_launch():
            launched.append(self.flower)
        self.flower.start()

    def _add_passwords(self) -> None:
        if self.passwords() is not None:
            return
        if self._running:
            raise ServiceError(
                f"the services of {self.config.directory} run without passwords: `neo4j-queue down` first"
            )
        self._passwords = make(self.config.directory)

    def _password(self, service: str) -> str | None:
        passwords = self.passwords()
        return None if passwords is None else str(getattr(passwords, service))

    @property
    def _has_data(self) -> bool:
        return any((server.directory / "data").is_dir() for server in (self.graph, self.jobs))

    @property
    def _running(self) -> bool:
        return any(service.pid is not None for service in self.all)

    @property
    def _lock(self) -> Path:
        return self.config.directory / "lock"

    def _say_waiting(self) -> None:
        message = f"another process is starting or stopping the services of {self.config.directory}"
        self._report(Progress("services", message))
