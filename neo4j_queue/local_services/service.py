"""What all local services have in common: start, wait until ready, stop."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from neo4j_queue.local_services.config import Progress, Report, port_is_free
from neo4j_queue.local_services.failures import AlreadyElsewhere, PortInUse, ServiceFailed
from neo4j_queue.local_services.process import ServerProcess

# A Neo4j server is ready after 11 to 13 s on two quiet cores and took 110 s on cores with a load of 17.
READY_TIMEOUT_S = 300.0
READY_POLL_S = 0.1
# A server that already runs answers at once, unless it is frozen or busy with a long collection.
FOUND_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What is known of one service: `pid` is None while it does not run; `url` holds no password."""

    name: str
    pid: int | None
    url: str
    log: Path


class Service(ABC):
    """One server of ours. Its directory holds its data, `console.log` and `process.json`."""

    # How long a clean stop may take before SIGKILL, in seconds.
    stop_grace_s: ClassVar[float]

    def __init__(self, name: str, port: int, directory: Path, report: Report) -> None:
        self.name = name
        self.port = port
        self.directory = directory
        self.log = directory / "console.log"
        self._report = report
        self._record = directory / "process.json"
        # On the monotonic clock; 0 = the server was not started by the last call.
        self._launched = 0.0

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for clients; it may hold a password."""

    @property
    def shown(self) -> str:
        """The address for people."""
        return self.url

    @abstractmethod
    def prepare(self) -> Sequence[str]:
        """Writes what the server reads at its start; the command that starts it."""

    def environment(self) -> Mapping[str, str] | None:
        """The environment of the server; None: that of the caller."""
        return None

    @abstractmethod
    def unready(self) -> str | None:
        """Why the server does not serve yet; None when it does."""

    @abstractmethod
    def reason(self) -> str:
        """What the log of the last start says about its failure."""

    @property
    def pid(self) -> int | None:
        """The process id of the running server, else None."""
        process = self._process()
        return process.pid if process else None

    def status(self) -> ServiceStatus:
        """What is known of the service."""
        return ServiceStatus(self.name, self.pid, self.shown, self.log)

    def start(self) -> None:
        """Starts the server and waits until it serves; returns at once if it does already.

        Raises `PortInUse`, `AlreadyElsewhere`, `ServiceFailed`.
        """
        if self.must_launch():
            self.launch()
        wait_until_ready([self])

    def must_launch(self) -> bool:
        """False if the server runs already. Raises `PortInUse`, `AlreadyElsewhere` where it cannot run."""
        self._launched = 0.0
        process = self._process()
        if process is None:
            if not port_is_free(self.port):
                raise PortInUse(self.name, self.port)
            return True
        if process.port != self.port:
            raise AlreadyElsewhere(self.name, process.port, self.port, self.directory.parent)
        return False

    def launch(self) -> None:
        """Starts the process, without waiting until it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = self.prepare()
        self._launched = time.monotonic()
        ServerProcess.spawn(
            command,
            port=self.port,
            directory=self.directory,
            log=self.log,
            record=self._record,
            environment=self.environment(),
        )
        self._report(Progress(self.name, f"starting on port {self.port}"))

    def stop(self) -> bool:
        """Ends the server cleanly, by force at last; False if it did not run."""
        process = self._process()
        if process:
            process.end(self.stop_grace_s)
            self._report(Progress(self.name, "stopped", finished=True))
        self._record.unlink(missing_ok=True)
        return process is not None

    def kill(self) -> None:
        """Ends the server as a power cut would (SIGKILL)."""
        process = self._process()
        if process:
            process.kill()
        self._record.unlink(missing_ok=True)

    def restart(self) -> None:
        """A clean stop and a start."""
        self.stop()
        self.start()

    def _process(self) -> ServerProcess | None:
        return ServerProcess.recorded(self._record)

    def _check(self) -> str | None:
        """Like `unready`, but raises `ServiceFailed` when the process is dead."""
        # Asked first: a dead server whose port a stranger took in the meantime must not count as ready.
        alive = self._process() is not None
        waiting_for = self.unready() if alive else None
        if not alive:
            raise ServiceFailed(self.name, "died while starting", self.reason(), self.log)
        return waiting_for

    def _say_ready(self) -> None:
        if self._launched:
            seconds = time.monotonic() - self._launched
            message = f"ready at {self.shown} after {seconds:.1f} s"
        else:
            message = f"already running at {self.shown} (process {self.pid})"
        self._report(Progress(self.name, message, finished=True))


def wait_until_ready(services: Iterable[Service]) -> None:
    """Returns when all services serve. Raises `ServiceFailed` for the first that died or is too slow."""
    waiting = list(services)
    began = time.monotonic()
    while waiting:
        for service in list(waiting):
            obstacle = service._check()
            if obstacle is None:
                service._say_ready()
                waiting.remove(service)
                continue
            allowed_s = READY_TIMEOUT_S if service._launched else FOUND_TIMEOUT_S
            if time.monotonic() - began > allowed_s:
                what = f"(process {service.pid}) does not answer after {allowed_s:.0f} s"
                raise ServiceFailed(service.name, what, obstacle, service.log)
        if waiting:
            time.sleep(READY_POLL_S)


def telling_lines(log: Path, telling: re.Pattern[str], most: int = 6) -> str:
    """The last lines of a log that `telling` finds, indented for a message; of a short log simply all lines."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    if len(lines) > most:
        lines = [line for line in lines if telling.search(line)] or lines
    # A repeated cause says nothing new; a line can hold a whole class path.
    unique = list(dict.fromkeys(lines))[-most:]
    return "\n".join(f"  {line[:300]}" for line in unique) or "  (its log is empty)"
