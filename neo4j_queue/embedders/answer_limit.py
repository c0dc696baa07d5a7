"""A bound on the size of an answer, as it comes and decompressed.

A server that sends without an end, or a compressed answer of a thousand times its size, would take all the memory of a
worker and of its neighbours. The limit is that of the thread's current request.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from neo4j_queue.errors import InvalidAnswer

# Of a refusal its beginning is enough: the rest is left unread, and the status keeps its meaning.
REFUSAL_BYTES = 1 << 20
# Both are decoded by the standard library, piece by piece; a piece of the network's 64 KB holds 64 MB at most.
ENCODINGS = "gzip, deflate"


class _Limit(threading.local):
    size: int | None = None


_current = _Limit()


@contextmanager
def answer_limit(size: int) -> Iterator[None]:
    """An answer to a request of this thread inside the block has at most `size` bytes, or raises `InvalidAnswer`."""
    _current.size = size
    try:
        yield
    finally:
        _current.size = None


def bound_answer(response: httpx2.Response) -> None:
    """Bounds the body of a response that is not read yet (a hook of the HTTP client)."""
    if _current.size is None or not isinstance(response.stream, httpx2.SyncByteStream):
        return
    headers = [(name, value) for name, value in response.headers.multi_items()]
    inner = httpx2.Response(
        response.status_code, headers=headers, stream=response.stream, request=response.request
    )
    # The stream below gives decoded bytes.
    response.headers.pop("content-encoding", None)
    response.stream = _Bounded(inner, _current.size)


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.Response, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    def __iter__(self) -> Iterator[bytes]:
        refused = self._inner.status_code >= 400
        limit = min(self._limit, REFUSAL_BYTES) if refused else self._limit
        size = 0
        for piece in self._inner.iter_bytes():
            size += len(piece)
            if size > limit:
                if refused:
                    yield piece[: limit - size]
                    return
                raise InvalidAnswer(f"the answer has more than {limit:,} bytes, which no vectors would need")
            yield piece

    def close(self) -> None:
        self._inner.close()
