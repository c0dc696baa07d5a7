"""Serving an application until the process is told to end."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

# Time for calls in flight at the end, and when in it those that still wait are told so.
GRACE_S = 3
TOLD_AFTER_S = 2.0


async def serve(app: ASGIApp, listener: socket.socket, end: Callable[[], None] | None = None) -> None:
    """Serves until Ctrl-C or SIGTERM. `end` answers the calls that still wait then."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="auto",
    )
    await _Listening(config, end).serve(sockets=[listener])


class _Listening(uvicorn.Server):
    """Lets no client wait for an answer that its end would cut off."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's: calls in flight are waited for, up to `GRACE_S`."""
        if self._end is not None:
            asyncio.get_running_loop().call_later(TOLD_AFTER_S, self._end)
        await super().shutdown(sockets)
