"""What can go wrong with local services. Each message says what to do about it."""

from collections.abc import Sequence
from pathlib import Path

from neo4j_queue.errors import TemporarilyUnavailable


class ServiceError(TemporarilyUnavailable):
    """A local service cannot be had now (exit code 75)."""


class MissingTools(ServiceError):
    """Programs that are needed and not here. `names` lists them, the message says how to get each."""

    def __init__(self, names: Sequence[str], message: str) -> None:
        self.names = tuple(names)
        super().__init__(message)


class FetchFailed(ServiceError):
    """The Neo4j files could not be fetched; nothing half is left behind."""


class PortInUse(ServiceError):
    """Another program listens on the port that a service was to have."""

    def __init__(self, service: str, port: int) -> None:
        self.service = service
        self.port = port
        super().__init__(
            f"{service}: port {port} is in use by another program. Stop that program, or choose another port "
            f"(--{service}-port), or, if it is the service you want, use --engine external."
        )


class AlreadyElsewhere(ServiceError):
    """The service of this directory already runs, on another port than the one asked for."""

    def __init__(self, service: str, running_port: int, port: int, directory: Path) -> None:
        super().__init__(
            f"{service} of {directory} already runs on port {running_port}, not on {port}. "
            "Run `neo4j-queue down` first, or give another --directory."
        )


class ServiceFailed(ServiceError):
    """A server died, or does not answer. `reason` is what its log says, `log` is where to read on."""

    def __init__(self, service: str, what: str, reason: str, log: Path) -> None:
        self.service = service
        self.reason = reason
        self.log = log
        super().__init__(f"{service} {what}:\n{reason}\nLog: {log}")
