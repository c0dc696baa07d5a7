"""The gate in front of every request: who may be a client."""

import hmac
import json
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from neo4j_queue.http.place import LOOPBACK_NAMES, Place, host_name


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
        if not all(self._allows(origin, headers) for origin in headers.getlist("origin")):
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

    def _allows(self, origin: str, headers: Headers) -> bool:
        if origin in self._place.origins:
            return True
        parts = urlsplit(origin)
        if self._place.own_pages and parts.netloc == headers.get("host"):
            return True
        return parts.scheme in ("http", "https") and host_name(parts.netloc) in LOOPBACK_NAMES

    def _is_token(self, shown: list[str]) -> bool:
        if len(shown) != 1 or self._expected is None:
            return False
        scheme, _, token = shown[0].partition(" ")
        # In constant time: how long it takes does not tell how much of a guess was right.
        same = hmac.compare_digest(token.strip().encode("latin-1", "replace"), self._expected)
        return scheme.lower() == "bearer" and same


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
    "foreign_origin": "web pages of this origin may not call (mcp --allow-origin, serve --allow-host)",
    "invalid_token": "the header `Authorization: Bearer TOKEN` is missing or wrong",
    "not_found": "only HTTP is served here",
}
