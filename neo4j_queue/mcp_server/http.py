"""Serving clients over streamable HTTP, behind the gate."""

import socket
from typing import Any

from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from neo4j_queue.errors import SettingsError
from neo4j_queue.http import place as places
from neo4j_queue.http import server as runner
from neo4j_queue.http.gate import Gate
from neo4j_queue.http.place import Place
from neo4j_queue.mcp_server.calls import Calls


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
    return places.listen(place)


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
    await runner.serve(guarded(app, place), listener, calls.end)


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
