"""The HTTP side of the server: reads a request, asks the program, sends the reply as it says."""

import json
import socket
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from neo4j_queue.mock_provider.journal import Request
from neo4j_queue.mock_provider.replies import Reply, error

if TYPE_CHECKING:
    from neo4j_queue.mock_provider.server import ProviderServer

# Whoever programs a server to be silent for ever still ends: the handler gives up then.
SILENCE_MAX_S = 120.0
# As many numbers as the vector index takes.
WIDTH_MAX = 4_096
INVALID = "invalid_request_error"
WANTED = "a JSON object with texts in `input` is wanted, and a width up to 4096 in `dimensions`, if any"
NO_SUCH_ADDRESS = b'{"error": {"message": "no such address"}}'


class HttpServer(ThreadingHTTPServer):
    """Listens for a `ProviderServer`. Raises OSError when the address cannot be had."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, provider: "ProviderServer", host: str, port: int) -> None:
        self.provider = provider
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), provider.handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in the middle on purpose here; a traceback would only be noise."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpServer

    def setup(self) -> None:
        super().setup()
        self.server.provider.connected(self.connection)

    def finish(self) -> None:
        self.server.provider.disconnected(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the journal is the log."""

    def do_GET(self) -> None:
        self._send(Reply(status=404), NO_SUCH_ADDRESS)

    def do_POST(self) -> None:
        provider = self.server.provider
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # A proxy is asked for the whole address; deployments of Azure have no `/v1`, and a query.
        if not urlsplit(self.path).path.endswith("/embeddings"):
            self._send(Reply(status=404), NO_SUCH_ADDRESS)
            return
        body, inputs = _read(raw)
        if inputs is None:
            refusal = error(400, message=WANTED, type=INVALID)
            self._send(refusal, json.dumps(refusal.body).encode())
            return
        request, reply = provider.take(
            inputs, body, dict(self.headers.items()), client_port=self.client_address[1], path=self.path
        )
        status: int | None = None
        try:
            provider.delay(reply)
            if reply.silent:
                provider.pause(SILENCE_MAX_S)
            if reply.silent or reply.hang_up:
                self.close_connection = True
                shut(self.connection)
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
        self.write(reply, head, body)

    def write(self, reply: Reply, head: bytes, body: bytes) -> None:  # noqa: ARG002 - a subclass asks the reply how
        """Sends an answer."""
        self.wfile.write(head + body)


def _read(raw: bytes) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """The request and its texts; None for the texts when it is no request for embeddings of texts."""
    try:
        body = json.loads(raw)
    except ValueError:
        return {}, None
    if not isinstance(body, dict):
        return {}, None
    given = body.get("input", [])
    inputs = [given] if isinstance(given, str) else given
    if not isinstance(inputs, list) or not all(isinstance(text, str) for text in inputs):
        return body, None
    width = body.get("dimensions")
    if width is not None and not (type(width) is int and 0 < width <= WIDTH_MAX):
        return body, None
    return body, tuple(inputs)


def shut(connection: socket.socket) -> None:
    """Ends a connection, whatever its other side has done."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # closed already by the other side
