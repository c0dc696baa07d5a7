"""The mock provider with what only tests need: a gate, waiting for requests, and answers that drip."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from neo4j_queue import mock_provider
from neo4j_queue.mock_provider import Reply, Request
from neo4j_queue.mock_provider.handler import Handler

# A gate that is never opened still lets go: the test has failed long before.
GATE_MAX_S = 120.0


@dataclass(frozen=True, slots=True)
class Drip(Reply):
    """An answer that comes byte by byte, the header at `header_s` seconds per byte, the body at `body_s`."""

    header_s: float = 0.0
    body_s: float = 0.0


class DrippingHandler(Handler):
    """One connection, over which a `Drip` drips."""

    def write(self, reply: Reply, head: bytes, body: bytes) -> None:
        if isinstance(reply, Drip):
            self._drip(head, reply.header_s)
            self._drip(body, reply.body_s)
        else:
            super().write(reply, head, body)

    def _drip(self, data: bytes, seconds: float) -> None:
        if not seconds:
            self.wfile.write(data)
            return
        for at in range(len(data)):
            self.wfile.write(data[at : at + 1])
            self.server.provider.pause(seconds)


def hosted_by(provider: "ProviderServer") -> dict[str, Any]:
    """The settings by which this provider embeds texts, for `make_settings`."""
    return {
        "embedding_provider": "openai",
        "openai_base_url": provider.url,
        "openai_api_key": "test-key-of-no-worth",
        "openai_embedding_model": "test-model",
        "neo4j_vector_dimensions": 256,
    }


class ProviderServer(mock_provider.ProviderServer):
    """The mock provider; a request is in its journal before it waits at the gate.

    with server.held():
        server.wait_for(waiting=1)
    """

    handler = DrippingHandler

    def __init__(self, **arguments: Any) -> None:
        """The arguments are those of the mock provider."""
        super().__init__(**arguments)
        self._changed = threading.Condition(self._lock)
        self._gate = threading.Event()
        self._gate.set()
        self._waiting = 0

    def __exit__(self, *exc: object) -> None:
        self._gate.set()
        super().__exit__(*exc)

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

    @property
    def max_concurrency(self) -> int:
        """The most requests that ever ran at once."""
        return max((request.concurrency for request in self.journal), default=0)

    def wait_for(
        self, *, requests: int = 0, waiting: int = 0, finished: int = 0, timeout_s: float = 20.0
    ) -> None:
        """Waits until so many requests came, so many stand at the gate, and so many have ended.

        By the journal, which a client's answer may precede by a moment. Raises `TimeoutError`.
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

    # -- called by the handler -----------------------------------------------------------------------------

    def take(
        self,
        inputs: tuple[str, ...],
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        *,
        client_port: int,
        path: str,
    ) -> tuple[Request, Reply]:
        """As the mock provider does, and tells those that wait for it."""
        taken = super().take(inputs, body, headers, client_port=client_port, path=path)
        self._tell()
        return taken

    def delay(self, reply: Reply) -> None:
        """The gate comes before the latency of a reply."""
        if not self._gate.is_set():
            self._tell(waiting=1)
            self._gate.wait(GATE_MAX_S)
            self._tell(waiting=-1)
        super().delay(reply)

    def finished(self, request: Request, status: int | None) -> None:
        """As the mock provider does, and tells those that wait for it."""
        super().finished(request, status)
        self._tell()

    def _tell(self, *, waiting: int = 0) -> None:
        with self._changed:
            self._waiting += waiting
            self._changed.notify_all()
