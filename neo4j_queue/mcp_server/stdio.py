"""Serving one client over stdin and stdout, on which nothing but the protocol is written."""

import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from neo4j_queue.mcp_server.calls import Calls

# Between the end of stdin and the first look at the calls: the last request is handed over meanwhile.
HAND_OVER_S = 0.1


async def serve(server: Server[Any], calls: Calls, close: Callable[[], None]) -> None:
    """Serves until stdin is closed, Ctrl-C or SIGTERM, then calls `close` and ends the process with exit code 0.

    Calls that were sent before stdin was closed are still answered.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, close)
        async with stdio_server() as (requests, answers):
            sender, relayed = anyio.create_memory_object_stream[SessionMessage | Exception]()
            group.start_soon(_relay, requests, sender, calls)
            await server.run(relayed, answers, server.create_initialization_options())
        _end(close)


async def _relay(requests: Any, sender: Any, calls: Calls) -> None:
    """Hands the requests on. At their end it waits for the calls: the server drops what it does then, as where a shell
    pipes a few requests in."""
    async with sender:
        async for request in requests:
            await sender.send(request)
        await anyio.sleep(HAND_OVER_S)
        await calls.idle()
        await anyio.sleep(HAND_OVER_S)


async def _end_on_signal(close: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            _end(close)


def _end(close: Callable[[], None]) -> NoReturn:
    close()
    # After a signal a thread still waits for the next line of stdin, and nothing can wake it. And an interpreter that
    # takes itself apart needs a second, of the two that clients give to a server.
    os._exit(0)
