"""A total deadline for HTTP requests, kept below the client, at its sockets.

The client's own timeout is per socket read: a server that sends a byte now and then can hold a request without an end.
Here every operation on a socket gets what is left of the deadline: connecting, TLS, sending, reading headers and body.
No thread waits beside the request. The client closes a connection that ran out of time like any other that failed.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

import httpcore2
import httpx2
from openai import DefaultHttpxClient

from neo4j_queue.embedders.answer_limit import ENCODINGS, bound_answer
from neo4j_queue.embedders.sent import note_sent

# Idle connections are dropped before the servers drop them: uvicorn (vLLM, LiteLLM and others) closes after
# five seconds, and a request sent into a closing socket fails without having been read.
KEEPALIVE_S = 4.0
# A write is cut into pieces so that the deadline is looked at between them; two segments of a usual network.
WRITE_BYTES = 4_096
# A timeout of zero would mean "do not block" to a socket.
_LEAST_S = 0.001

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class _Deadline(threading.local):
    at: float | None = None
    seconds: float = 0.0


_current = _Deadline()


@contextmanager
def total_deadline(seconds: float) -> Iterator[None]:
    """All HTTP work of this thread inside the block ends within `seconds`, or raises a timeout."""
    _current.at, _current.seconds = time.monotonic() + seconds, seconds
    try:
        yield
    finally:
        _current.at = None


def http_client(timeout_s: float) -> httpx2.Client:
    """The client library's default HTTP client (proxies of the environment included) under the deadline, its answers
    under the limit of `answer_limit`.

    It follows no redirects: the texts go to the configured address alone.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_S)
    client = DefaultHttpxClient(
        timeout=timeout_s,
        limits=limits,
        follow_redirects=False,
        headers={"Accept-Encoding": ENCODINGS},
        event_hooks={"response": [bound_answer]},
    )
    for transport in [client._transport, *client._mounts.values()]:
        if transport is None:
            continue  # a host of NO_PROXY: it has the client's own transport
        if not isinstance(transport, httpx2.HTTPTransport):
            raise TypeError(f"there is no total deadline below a {type(transport).__name__}")
        # The pools take a network backend, but the client's transport has no argument for one; a transport of ours
        # would have to repeat its proxies, its TLS and its translation of errors. So the client has an upper bound in
        # pyproject.toml, and reading the attribute first makes a renamed one fail instead of losing the deadline.
        pool = transport._pool
        pool._network_backend = _Backend(pool._network_backend)
    return client


def _left(timeout: float | None, expired: type[Exception]) -> float | None:
    """The seconds that a socket operation may take: its own timeout, or the rest of the deadline if that is less."""
    if _current.at is None:
        return timeout
    left = _current.at - time.monotonic()
    if left <= 0:
        raise expired(f"the total deadline of {_current.seconds:g} s has passed")
    return max(_LEAST_S, left if timeout is None else min(timeout, left))


class _Stream(httpcore2.NetworkStream):
    """A socket whose every operation ends at the deadline."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITE_BYTES):
            piece = buffer[start : start + WRITE_BYTES]
            self._inner.write(piece, _left(timeout, httpcore2.WriteTimeout))
        note_sent()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        limit = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, limit))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.NetworkBackend):
    """Opens sockets that end at the deadline."""

    def __init__(self, inner: httpcore2.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        limit = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(
            _within(
                limit,
                lambda: self._inner.connect_tcp(host, port, limit, local_address, socket_options),
            )
        )

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        limit = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.connect_unix_socket(path, limit, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def _within(limit: float | None, connect: Callable[[], httpcore2.NetworkStream]) -> httpcore2.NetworkStream:
    """Runs `connect` for at most `limit` seconds.

    The lookup of a name has no timeout, and each address of a host is tried for the whole one. So this operation runs
    in a thread. A late one ends when the resolver does, within a minute, and its connection is closed then.
    """
    attempt: Future[httpcore2.NetworkStream] = Future()

    def run() -> None:
        try:
            attempt.set_result(connect())
        except Exception as exc:  # noqa: BLE001 - the edge of a thread: raised again by the one that waits
            attempt.set_exception(exc)

    threading.Thread(target=run, name="connect", daemon=True).start()
    if not wait([attempt], limit).done:
        attempt.add_done_callback(_close_late)
        raise httpcore2.ConnectTimeout("the total deadline passed while connecting")
    return attempt.result()


def _close_late(attempt: "Future[httpcore2.NetworkStream]") -> None:
    if attempt.exception() is None:
        attempt.result().close()
