"""Redis as the dispatch broker: in memory only, since the truth is in the jobs database."""

import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from neo4j_queue.local_services.config import LOOPBACK, Report
from neo4j_queue.local_services.passwords import no_password, write_private
from neo4j_queue.local_services.service import Service, telling_lines

PING_TIMEOUT_S = 1.0
TELLING = re.compile(r"FATAL|[Ee]rror|[Ff]ailed|Can't|Could not|in use|\#")


class RedisServer(Service):
    """One `redis-server` from PATH. `password` is asked when it is needed; None: no password."""

    # Without persistence it has nothing to save.
    stop_grace_s = 5.0

    def __init__(
        self,
        name: str,
        port: int,
        directory: Path,
        report: Report,
        *,
        password: Callable[[], str | None] = no_password,
    ) -> None:
        super().__init__(name, port, directory, report)
        self._password = password

    @property
    def url(self) -> str:
        """The broker URL."""
        password = self._password()
        entry = f":{password}@" if password else ""
        return f"redis://{entry}{LOOPBACK}:{self.port}/0"

    @property
    def shown(self) -> str:
        """The broker URL without its password."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def prepare(self) -> Sequence[str]:
        """Writes the configuration anew. The password stands there alone: every user can read a command line."""
        lines = [
            "# Written at each start; changes are lost.",
            f"port {self.port}",
            f"bind {LOOPBACK}",
            f'dir "{self.directory}"',
            # A broker must refuse new messages when it is full, never drop old ones.
            "maxmemory-policy noeviction",
            'save ""',
            "appendonly no",
        ]
        if password := self._password():
            lines.append(f"requirepass {password}")
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "redis.conf"
        write_private(file, "\n".join(lines) + "\n")
        return ["redis-server", str(file)]

    def unready(self) -> str | None:
        """Asks with a PING on a socket of its own: the product needs no Redis client."""
        password = self._password()
        entry = f"AUTH {password}\r\n" if password else ""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=PING_TIMEOUT_S) as connection:
                connection.sendall(f"{entry}PING\r\n".encode())
                # One line each; they may come in two pieces.
                answer = b""
                while answer.count(b"\r\n") < (2 if entry else 1) and (piece := connection.recv(256)):
                    answer += piece
        except OSError as error:
            return f"  {error}"
        last = answer.strip().split(b"\r\n")[-1]
        return None if last == b"+PONG" else f"  it answered {last!r} to PING"

    def reason(self) -> str:
        """The warnings and errors of the log."""
        return telling_lines(self.log, TELLING)
