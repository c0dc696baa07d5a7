"""Serving clients over streamable HTTP, and who may be one: the gate in front of every request."""

import asyncio
import hmac
import ipaddress
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.mcp_server.calls import Calls

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
# Time for calls in flight at the end, and when in it those that still wait are told so.
GRACE_S = 3
TOLD_AFTER_S = 2.0
# Clients that wait to be accepted.
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen, and who may ask. `token`: what clients show; None = nothing, on the loopback address alone.

    hosts: names under which clients know this server besides its address. origins: web pages (`https://app.example`)
    whose scripts may call; those of this machine may as well.
    """

    host: str
    port: int
    path: str
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @property
    def is_loopback(self) -> bool:
        """True if only programs of this machine can connect."""
        return is_loopback(self.host)

    @property
    def any_address(self) -> bool:
        """True if it listens on all addresses of this machine, whose names are not known."""
        return self.host in ("0.0.0.0", "::", "")


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
    """The socket that clients connect to. Raises `SettingsError` for a public place without a token, and
    `TemporarilyUnavailable` when the port is taken."""
    if place.token is None and not place.is_loopback:
        raise SettingsError(
            [
                f"MCP_TOKEN is missing: listening on {place.host}, which other machines reach, needs a token that "
                "clients show (`openssl rand -hex 32` makes one)"
            ]
        )
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


async def serve(server: Server[Any], calls: Calls, place: Place, listener: socket.socket) -> None:
    """Serves until the process is told to end."""
    # Stateless: a client of a restarted server goes on, since nothing of it was kept here.
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=place.path,
        stateless_http=True,
        json_response=True,
        host=place.host,
        # The gate looks at Host and Origin, also where the port is the scheme's own.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    config = uvicorn.Config(
        guarded(app, place),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
    )
    await _Listening(config, calls).serve(sockets=[listener])


class _Listening(uvicorn.Server):
    """Lets no client wait for an answer that its end would cut off."""

    def __init__(self, config: uvicorn.Config, calls: Calls) -> None:
        super().__init__(config)
        self._calls = calls

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's: calls in flight are waited for, up to `GRACE_S`."""
        asyncio.get_running_loop().call_later(TOLD_AFTER_S, self._calls.end)
        await super().shutdown(sockets)


def guarded(app: ASGIApp, place: Place) -> ASGIApp:
    """The app behind the gate; the scripts of allowed web pages get the headers that browsers ask for."""
    gate = Gate(app, place)
    if not place.origins:
        return gate
    return CORSMiddleware(
        gate,
        allow_origins=sorted(place.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Mcp-Session-Id"],
    )


class Gate:
    """Lets in who comes under a known name, from an allowed page if from any, and with the token.

    The first two keep web pages out that a browser on this machine has open (DNS rebinding). They cannot know the
    token, so where all addresses are served and no names are given, any name will do.
    """

    def __init__(self, app: ASGIApp, place: Place) -> None:
        self._app = app
        self._place = place
        self._expected = None if place.token is None else place.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else (404, "not_found")
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        """The status and the reason, or None."""
        if not self._knows(headers.getlist("host")):
            return 421, "unknown_host"
        if not all(map(self._allows, headers.getlist("origin"))):
            return 403, "foreign_origin"
        if self._expected is not None and not self._is_token(headers.getlist("authorization")):
            return 401, "invalid_token"
        return None

    def _knows(self, hosts: list[str]) -> bool:
        if len(hosts) != 1:
            return False
        name = host_name(hosts[0])
        if self._place.any_address and not self._place.hosts:
            return name is not None
        return name in {*LOOPBACK_NAMES, self._place.host.lower(), *map(str.lower, self._place.hosts)}

    def _allows(self, origin: str) -> bool:
        if origin in self._place.origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and host_name(parts.netloc) in LOOPBACK_NAMES

    def _is_token(self, shown: list[str]) -> bool:
        if len(shown) != 1 or self._expected is None:
            return False
        scheme, _, token = shown[0].partition(" ")
        # In constant time: how long it takes does not tell how much of a guess was right.
        same = hmac.compare_digest(token.strip().encode("latin-1", "replace"), self._expected)
        return scheme.lower() == "bearer" and same


def host_name(authority: str) -> str | None:
    """The name in front of the port, in lower case and without brackets; None if it is none."""
    try:
        parts = urlsplit(f"//{authority}")
        _ = parts.port  # raises ValueError when it is no number
    except ValueError:
        return None
    return parts.hostname if parts.hostname and parts.netloc == authority and "@" not in authority else None


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason, "error_description": REASONS[reason]}).encode()
    headers: Iterable[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *([(b"www-authenticate", b'Bearer error="invalid_token"')] if status == 401 else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


REASONS = {
    "unknown_host": "this server is not known by the name in the Host header: see --allow-host",
    "foreign_origin": "web pages of this origin may not call: see --allow-origin",
    "invalid_token": "the header `Authorization: Bearer TOKEN` is missing or wrong",
    "not_found": "only HTTP is served here",
}
