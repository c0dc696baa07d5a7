"""Redis as the dispatch broker: in memory only, since the truth is in the jobs database."""

import re
import socket
from collections.abc import Sequence

from neo4j_queue.local_services.config import LOOPBACK
from neo4j_queue.local_services.service import Service, telling_lines

PING_TIMEOUT_S = 1.0
TELLING = re.compile(r"FATAL|[Ee]rror|[Ff]ailed|Can't|Could not|in use|\#")


class RedisServer(Service):
    """One `redis-server` from PATH."""

    # Without persistence it has nothing to save.
    stop_grace_s = 5.0

    @property
    def url(self) -> str:
        """The broker URL."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def prepare(self) -> Sequence[str]:
        """No file: every setting is on the command line."""
        return [
            "redis-server",
            *("--port", str(self.port), "--bind", LOOPBACK, "--dir", str(self.directory)),
            # A broker must refuse new messages when it is full, never drop old ones.
            *("--maxmemory-policy", "noeviction"),
            *("--save", "", "--appendonly", "no"),
        ]

    def unready(self) -> str | None:
        """Asks with a PING on a socket of its own: the product needs no Redis client."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=PING_TIMEOUT_S) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(64)
        except OSError as error:
            return f"  {error}"
        return None if answer.startswith(b"+PONG") else f"  it answered {answer!r} to PING"

    def reason(self) -> str:
        """The warnings and errors of the log."""
        return telling_lines(self.log, TELLING)
