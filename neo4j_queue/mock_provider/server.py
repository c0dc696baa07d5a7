"""The server, its program and its journal.

    with ProviderServer() as server:
        server.reply_next(error(429, headers={"Retry-After": "1"}))   # the next request; then normal again
        server.reply_always(error(500))                               # until reply_always(None)
        server.reply_to_text("poison", error(400))                    # requests with such an input
        server.rules = Rules(key="secret")                            # 401 for any other key
        server.limits = Limits(max_inputs=100)                        # answers 400 or 429 above
        server.mishaps = Mishaps(failed=0.01)                         # one in a hundred, of those within the limits
        server.journal                                                # every request so far

A reply for a text beats one for the next request, which beats the one for always, which beats the rules,
which beat the limits.
"""

import base64
import random
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from neo4j_queue.mock_provider.handler import Handler, HttpServer, shut
from neo4j_queue.mock_provider.journal import Counter, Counts, Request, vector_for
from neo4j_queue.mock_provider.limits import Limits, SlidingWindow, over_size
from neo4j_queue.mock_provider.mishaps import Mishaps
from neo4j_queue.mock_provider.replies import Reply, error
from neo4j_queue.mock_provider.rules import Rules

# How long a refusal by chance asks to wait: there is no window that would say it.
CHANCE_WAIT_S = 1.0
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ProviderServer:
    """All methods may be called while requests run.

    `rate_headers`: `x-ratelimit-*` on every answer while there is a limit per interval (OpenAI's are per minute);
    `retry_after`: a 429 of ours says how long to wait. `mishaps` are drawn by `seed`, in the order of the requests.
    Without `keep_journal` requests are only counted, so that it may run for ever.
    """

    # What serves a connection.
    handler: type[Handler] = Handler

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        dimensions: int = 8,
        latency_s: float = 0.0,
        limits: Limits | None = None,
        mishaps: Mishaps | None = None,
        rules: Rules | None = None,
        seed: int = 0,
        rate_headers: bool = False,
        retry_after: bool = True,
        keep_journal: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`dimensions` is the width of vectors for requests that do not ask for another one. Port 0 is any free one.

        Raises OSError when the address cannot be had.
        """
        self.dimensions = dimensions
        self.latency_s = latency_s
        self.limits = limits or Limits()
        self.mishaps = mishaps or Mishaps()
        self.rules = rules or Rules()
        self.rate_headers = rate_headers
        self.retry_after = retry_after
        self.clock = clock
        self._keep_journal = keep_journal
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._always: Reply | None = None
        self._next: deque[Reply] = deque()
        self._by_text: dict[str, Reply] = {}
        self._seen: list[Request] = []
        self._taken = 0
        self._counter = Counter()
        self._window = SlidingWindow()
        self._running = 0
        self._stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        self._http = HttpServer(self, host, port)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    # --- life

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            shut(connection)
        self._thread.join(10)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The base URL for `OPENAI_BASE_URL`, as seen from this machine."""
        host = str(self._http.server_address[0])
        host = ANY_ADDRESS.get(host, host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    # --- program

    def reply_next(self, *replies: Reply) -> None:
        """The next requests get these, one each."""
        with self._lock:
            self._next.extend(replies)

    def reply_always(self, reply: Reply | None) -> None:
        """Every request gets this, until it is set to None."""
        with self._lock:
            self._always = reply

    def reply_to_text(self, fragment: str, reply: Reply | None) -> None:
        """Every request with an input that contains the fragment gets this; None forgets it."""
        with self._lock:
            self._by_text.pop(fragment, None)
            if reply is not None:
                self._by_text[fragment] = reply

    # --- journal

    @property
    def journal(self) -> list[Request]:
        """All requests so far, in the order in which they came; empty without `keep_journal`."""
        with self._lock:
            return list(self._seen)

    @property
    def inputs(self) -> list[str]:
        """All inputs of all requests, in order."""
        return [text for request in self.journal for text in request.inputs]

    def counts(self) -> Counts:
        """Everything so far in numbers, with or without a journal."""
        with self._lock:
            return self._counter.counts()

    def most_in_any(self, interval_s: float) -> int:
        """The largest number of requests in any sliding interval of this length, by the journal."""
        times = sorted(request.at for request in self.journal)
        most = start = 0
        for end, at in enumerate(times):
            while times[start] <= at - interval_s:
                start += 1
            most = max(most, end - start + 1)
        return most

    # --- called by the handler

    def take(
        self,
        inputs: tuple[str, ...],
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        *,
        client_port: int,
        path: str,
    ) -> tuple[Request, Reply]:
        """Enters a request in the journal and decides its reply."""
        with self._lock:
            self._running += 1
            self._taken += 1
            request = Request(
                number=self._taken,
                at=self.clock(),
                inputs=inputs,
                model=str(body.get("model")),
                encoding_format=body.get("encoding_format"),
                dimensions=body.get("dimensions"),
                concurrency=self._running,
                headers={name.lower(): value for name, value in headers.items()},
                client_port=client_port,
                path=path,
                fields={name: value for name, value in body.items() if name != "input"},
            )
            self._counter.came(request)
            if self._keep_journal:
                self._seen.append(request)
            reply = self._decide(request)
            if self.rate_headers and self.limits.of_rate:
                rate = self._window.headers(request.at, self.limits)
                reply = replace(reply, headers={**rate, **reply.headers})
        return request, reply

    def _decide(self, request: Request) -> Reply:
        for fragment, reply in self._by_text.items():
            if any(fragment in text for text in request.inputs):
                return reply
        if self._next:
            return self._next.popleft()
        refusal = self.rules.refusal(request) or over_size(request, self.limits)
        return self._always or refusal or self._over_rate(request) or self._mishap()

    def _over_rate(self, request: Request) -> Reply | None:
        wait_s = self._window.wait_s(request.at, request.tokens, self.limits)
        if wait_s is None:
            return None
        refusal = error(429, message="Rate limit reached", code="rate_limit_exceeded")
        return self._with_wait(refusal, wait_s)

    def _mishap(self) -> Reply:
        reply = self.mishaps.draw(self._chance)
        if reply is None:
            return Reply()
        return self._with_wait(reply, CHANCE_WAIT_S) if reply.status == 429 else reply

    def _with_wait(self, reply: Reply, wait_s: float) -> Reply:
        return replace(reply, headers={"Retry-After": f"{wait_s:.3f}"}) if self.retry_after else reply

    def delay(self, reply: Reply) -> None:
        """Lets the latency of a reply pass."""
        self.pause(self.latency_s if reply.latency_s is None else reply.latency_s)

    def pause(self, seconds: float) -> None:
        """Lets time pass; ends at once when the server stops."""
        if seconds > 0:
            self._stopping.wait(seconds)

    def finished(self, request: Request, status: int | None) -> None:
        """Completes the journal's entry."""
        with self._lock:
            self._running -= 1
            if status is not None:
                self._counter.answered(status)
            done = replace(request, status=status, finished_at=self.clock())
            if self._keep_journal:
                self._seen[request.number - 1] = done

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
        with self._lock:
            self._connections.add(connection)

    def disconnected(self, connection: socket.socket) -> None:
        """Forgets a connection."""
        with self._lock:
            self._connections.discard(connection)
