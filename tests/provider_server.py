"""A real HTTP server that speaks OpenAI's `/v1/embeddings` and does what a test tells it to.

The product is never patched: worker processes talk to this one over a socket, and the test that holds the
`ProviderServer` object programs it and reads its journal.

    with ProviderServer() as server:
        server.reply_next(error(429, headers={"Retry-After": "1"}))   # the next request; then normal again
        server.reply_always(error(500))                               # until reply_always(None)
        server.reply_to_text("poison", error(400))                    # requests with such an input
        server.limits = Limits(max_inputs=100)                        # answers 400 or 429 above
        with server.held():                                           # requests wait at a gate
            server.wait_for(waiting=1)
        server.journal                                                # every request so far

A reply for a text beats one for the next request, which beats the one for always, which beats the limits.
"""

import base64
import hashlib
import json
import math
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.provider_replies import MANGLES, Reply, error, mangled

__all__ = [
    "MANGLES",
    "Limits",
    "ProviderServer",
    "Reply",
    "Request",
    "error",
    "mangled",
    "tokens_of",
    "vector_for",
]

# A test that programs a server to be silent for ever still ends: the handler gives up then.
SILENCE_MAX_S = 120.0
TOKENS_PER_BYTE = 0.25  # what the real provider's size check counts


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server refuses: 400 for what a request holds, 429 for how many come in a sliding interval."""

    max_inputs: int | None = None
    max_input_tokens: int | None = None
    max_request_tokens: int | None = None
    requests_per_interval: int | None = None
    tokens_per_interval: int | None = None
    interval_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it was seen. Times are of `ProviderServer.clock`; `concurrency` counts it too; requests
    with the same `client_port` came over one connection.

    `status` and `finished_at` are None while it is under way, and for ever if it was never answered.
    """

    number: int
    at: float
    inputs: tuple[str, ...]
    model: str
    encoding_format: str | None
    dimensions: int | None
    concurrency: int
    headers: Mapping[str, str]
    client_port: int
    status: int | None = None
    finished_at: float | None = None

    @property
    def tokens(self) -> int:
        """Tokens by the provider's own rule of thumb."""
        return sum(tokens_of(text) for text in self.inputs)


def tokens_of(text: str) -> int:
    """About what the provider charges for a text."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) * TOKENS_PER_BYTE)


def vector_for(text: str, dimensions: int) -> list[float]:
    """The vector that this server gives for a text: unit length, single precision, unlike any other's."""
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(2 * dimensions)
    numbers = [number + 0.5 for number in struct.unpack(f"<{dimensions}h", digest)]
    norm = math.hypot(*numbers)
    return list(
        struct.unpack(f"<{dimensions}f", struct.pack(f"<{dimensions}f", *(n / norm for n in numbers)))
    )


class ProviderServer:
    """The server, its program and its journal. All methods may be called while requests run."""

    def __init__(
        self,
        *,
        dimensions: int = 8,
        latency_s: float = 0.0,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`dimensions` is the width of vectors for requests that do not ask for another one."""
        self.dimensions = dimensions
        self.latency_s = latency_s
        self.limits = limits or Limits()
        self.clock = clock
        self._changed = threading.Condition()
        self._always: Reply | None = None
        self._next: deque[Reply] = deque()
        self._by_number: dict[int, Reply] = {}
        self._by_text: dict[str, Reply] = {}
        self._seen: list[Request] = []
        self._granted: list[tuple[float, int]] = []
        self._running = 0
        self._waiting = 0
        self._gate = threading.Event()
        self._gate.set()
        self._stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        self._http = _HttpServer(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    # --- life

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._gate.set()
        self._http.shutdown()
        self._http.server_close()
        with self._changed:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)
        self._thread.join(10)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The base URL for `OPENAI_BASE_URL`."""
        return f"http://127.0.0.1:{self.port}/v1"

    # --- program

    def reply_next(self, *replies: Reply) -> None:
        """The next requests get these, one each."""
        with self._changed:
            self._next.extend(replies)

    def reply_always(self, reply: Reply | None) -> None:
        """Every request gets this, until it is set to None."""
        with self._changed:
            self._always = reply

    def reply_to_number(self, number: int, reply: Reply) -> None:
        """The n-th request of this server's life gets this; 1 is the first."""
        with self._changed:
            self._by_number[number] = reply

    def reply_to_text(self, fragment: str, reply: Reply | None) -> None:
        """Every request with an input that contains the fragment gets this; None forgets it."""
        with self._changed:
            self._by_text.pop(fragment, None)
            if reply is not None:
                self._by_text[fragment] = reply

    def close_gate(self) -> None:
        """From now on requests are taken, entered in the journal, and wait before they are answered."""
        self._gate.clear()

    def open_gate(self) -> None:
        """Lets all waiting requests go on."""
        self._gate.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The gate is closed inside the block."""
        self.close_gate()
        try:
            yield
        finally:
            self.open_gate()

    def reset(self) -> None:
        """Forgets the program, the limits and the journal, and opens the gate."""
        with self._changed:
            self._always = None
            self._next.clear()
            self._by_number.clear()
            self._by_text.clear()
            self._seen.clear()
            self._granted.clear()
            self.limits = Limits()
        self._gate.set()

    # --- journal

    @property
    def journal(self) -> list[Request]:
        """All requests so far, in the order in which they came."""
        with self._changed:
            return list(self._seen)

    @property
    def inputs(self) -> list[str]:
        """All inputs of all requests, in order."""
        return [text for request in self.journal for text in request.inputs]

    @property
    def max_concurrency(self) -> int:
        """The most requests that ever ran at once."""
        return max((request.concurrency for request in self.journal), default=0)

    def wait_for(
        self, *, requests: int = 0, waiting: int = 0, finished: int = 0, timeout_s: float = 20.0
    ) -> None:
        """Waits until so many requests came, so many stand at the gate, and so many have ended.

        A client may have its answer a moment before the journal says so. Raises `TimeoutError`.
        """

        def ended() -> int:
            return sum(request.finished_at is not None for request in self._seen)

        with self._changed:
            reached = self._changed.wait_for(
                lambda: len(self._seen) >= requests and self._waiting >= waiting and ended() >= finished,
                timeout_s,
            )
            if not reached:
                raise TimeoutError(
                    f"{len(self._seen)} requests of {requests}, {self._waiting} waiting of {waiting}, "
                    f"{ended()} finished of {finished}"
                )

    def most_in_any(self, interval_s: float) -> int:
        """The largest number of requests in any sliding interval of this length."""
        times = sorted(request.at for request in self.journal)
        most = start = 0
        for end, at in enumerate(times):
            while times[start] <= at - interval_s:
                start += 1
            most = max(most, end - start + 1)
        return most

    # --- called by the handler

    def take(
        self, body: dict[str, Any], headers: Mapping[str, str], client_port: int
    ) -> tuple[Request, Reply]:
        """Enters a request in the journal and decides its reply."""
        given = body.get("input", [])
        inputs = tuple([given] if isinstance(given, str) else given)
        with self._changed:
            self._running += 1
            request = Request(
                number=len(self._seen) + 1,
                at=self.clock(),
                inputs=inputs,
                model=str(body.get("model")),
                encoding_format=body.get("encoding_format"),
                dimensions=body.get("dimensions"),
                concurrency=self._running,
                headers={name.lower(): value for name, value in headers.items()},
                client_port=client_port,
            )
            self._seen.append(request)
            reply = self._decide(request)
            self._changed.notify_all()
        return request, reply

    def _decide(self, request: Request) -> Reply:
        for fragment, reply in self._by_text.items():
            if any(fragment in text for text in request.inputs):
                return reply
        if request.number in self._by_number:
            return self._by_number.pop(request.number)
        if self._next:
            return self._next.popleft()
        return self._always or self._over_limits(request) or Reply()

    def _over_limits(self, request: Request) -> Reply | None:
        limits = self.limits
        if not request.inputs or any(not text for text in request.inputs):
            return error(400, message="input cannot be an empty string", type="invalid_request_error")
        if limits.max_inputs is not None and len(request.inputs) > limits.max_inputs:
            return error(400, message=f"at most {limits.max_inputs} inputs", type="invalid_request_error")
        longest = max(tokens_of(text) for text in request.inputs)
        if limits.max_input_tokens is not None and longest > limits.max_input_tokens:
            return error(400, message=f"maximum context length is {limits.max_input_tokens} tokens")
        if limits.max_request_tokens is not None and request.tokens > limits.max_request_tokens:
            return error(
                400, message=f"maximum request size is {limits.max_request_tokens} tokens per request"
            )
        return self._over_rate(request)

    def _over_rate(self, request: Request) -> Reply | None:
        limits = self.limits
        since = request.at - limits.interval_s
        self._granted = [(at, tokens) for at, tokens in self._granted if at > since]
        spent = sum(tokens for _, tokens in self._granted)
        too_many = (
            limits.requests_per_interval is not None and len(self._granted) >= limits.requests_per_interval
        )
        too_much = (
            limits.tokens_per_interval is not None and spent + request.tokens > limits.tokens_per_interval
        )
        if not (too_many or too_much):
            self._granted.append((request.at, request.tokens))
            return None
        wait = self._granted[0][0] - since if self._granted else limits.interval_s
        return error(
            429,
            message="Rate limit reached",
            code="rate_limit_exceeded",
            headers={"Retry-After": f"{wait:.3f}"},
        )

    def pass_gate(self) -> None:
        """Waits at the gate, if it is closed."""
        if self._gate.is_set():
            return
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        self._gate.wait(SILENCE_MAX_S)
        with self._changed:
            self._waiting -= 1
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Lets time pass; ends at once when the server stops."""
        if seconds > 0:
            self._stopping.wait(seconds)

    def finished(self, request: Request, status: int | None) -> None:
        """Completes the journal's entry."""
        with self._changed:
            self._running -= 1
            done = replace(request, status=status, finished_at=self.clock())
            if request.number <= len(self._seen) and self._seen[request.number - 1].at == request.at:
                self._seen[request.number - 1] = done
            self._changed.notify_all()

    def normal_answer(self, request: Request, *, as_base64: bool) -> dict[str, Any]:
        """What a healthy provider says."""
        width = request.dimensions or self.dimensions
        data: list[dict[str, Any]] = []
        for index, text in enumerate(request.inputs):
            vector: Any = vector_for(text, width)
            if as_base64:
                vector = base64.b64encode(struct.pack(f"<{width}f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        usage = {"prompt_tokens": request.tokens, "total_tokens": request.tokens}
        return {"object": "list", "data": data, "model": request.model, "usage": usage}

    def connected(self, connection: socket.socket) -> None:
        """Remembers a connection, so that stopping can end it."""
        with self._changed:
            self._connections.add(connection)

    def disconnected(self, connection: socket.socket) -> None:
        """Forgets a connection."""
        with self._changed:
            self._connections.discard(connection)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, provider: ProviderServer) -> None:
        self.provider = provider
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in the middle on purpose here; a traceback would only be noise."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def setup(self) -> None:
        super().setup()
        self.server.provider.connected(self.connection)

    def finish(self) -> None:
        self.server.provider.disconnected(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the journal is the log."""

    def do_GET(self) -> None:
        self._send(Reply(status=404, body={"error": {"message": f"no such address: GET {self.path}"}}), b"{}")

    def do_POST(self) -> None:
        provider = self.server.provider
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.endswith("/v1/embeddings"):  # a proxy is asked for the whole address
            self._send(Reply(status=404), b'{"error": {"message": "no such address"}}')
            return
        request, reply = provider.take(json.loads(raw), dict(self.headers.items()), self.client_address[1])
        status: int | None = None
        try:
            provider.pass_gate()
            provider.pause(provider.latency_s if reply.latency_s is None else reply.latency_s)
            if reply.silent:
                provider.pause(SILENCE_MAX_S)
            if reply.silent or reply.hang_up:
                self.close_connection = True
                _shut(self.connection)
                return
            self._send(
                replace(reply, headers={"x-request-id": f"req-{request.number}", **reply.headers}),
                self._body(request, reply),
            )
            status = reply.status
        finally:
            provider.finished(request, status)

    def _body(self, request: Request, reply: Reply) -> bytes:
        body = reply.body
        if body is None and reply.status == 200:
            as_base64 = request.encoding_format == "base64" and reply.mangle is None
            answer = self.server.provider.normal_answer(request, as_base64=as_base64)
            body = reply.mangle(answer) if reply.mangle else answer
        if isinstance(body, bytes):
            return body
        if isinstance(body, str):
            return body.encode()
        return b"" if body is None else json.dumps(body).encode()

    def _send(self, reply: Reply, body: bytes) -> None:
        lines = [f"HTTP/1.1 {reply.status} Programmed", f"Content-Type: {reply.content_type}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        head = "\r\n".join(lines).encode("latin-1")
        if reply.drip_s or reply.drip_header_s:
            self._drip(head, reply.drip_header_s)
            self._drip(body, reply.drip_s)
        else:
            self.wfile.write(head + body)

    def _drip(self, data: bytes, seconds: float) -> None:
        if not seconds:
            self.wfile.write(data)
            return
        for at in range(len(data)):
            self.wfile.write(data[at : at + 1])
            self.server.provider.pause(seconds)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # closed already by the other side
