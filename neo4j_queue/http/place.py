"""Where a server listens, and under which names."""

import ipaddress
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from neo4j_queue.errors import TemporarilyUnavailable

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
# Clients that wait to be accepted.
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen, and who may ask. `token`: what clients show with every request; None = nothing.

    hosts: names under which clients know this server besides its address. origins: web pages (`https://app.example`)
    whose scripts may call; those of this machine may as well, and with `own_pages` those that it serves itself.
    """

    host: str
    port: int
    path: str = "/"
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    own_pages: bool = False

    @property
    def is_loopback(self) -> bool:
        """True if only programs of this machine can connect."""
        return is_loopback(self.host)

    @property
    def any_address(self) -> bool:
        """True if it listens on all addresses of this machine, whose names are not known."""
        return self.host in ("0.0.0.0", "::", "")

    def url(self, port: int) -> str:
        """The address for people; `port`: the one that it got."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{port}{self.path}"


def is_loopback(host: str) -> bool:
    """True if a name or an address leads to this machine alone."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(
        ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in found
    )


def listen(place: Place) -> socket.socket:
    """The socket that clients connect to. Raises `TemporarilyUnavailable` when the port is taken."""
    try:
        family = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((place.host, place.port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise TemporarilyUnavailable(f"cannot listen on {place.host}:{place.port}: {why or error}") from None
    return listener


def host_name(authority: str) -> str | None:
    """The name in front of the port, in lower case and without brackets; None if it is none."""
    try:
        parts = urlsplit(f"//{authority}")
        _ = parts.port  # raises ValueError when it is no number
    except ValueError:
        return None
    return parts.hostname if parts.hostname and parts.netloc == authority and "@" not in authority else None
