"""Embeddings by any server that speaks OpenAI's `/v1/embeddings`."""

import base64
import binascii
import json
import os
import sys
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neo4j_queue.embedders.base import Answer, ModelSpec, validated
from neo4j_queue.embedders.profiles import is_openai
from neo4j_queue.errors import InvalidAnswer, WrongWidth
from neo4j_queue.errors.classify import ErrorBody
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.providers import Profile

if TYPE_CHECKING:
    import httpx2
    from openai import OpenAI


class OpenAIEmbedder:
    """One request per `embed`: no hidden repetition, a total deadline, vectors paired by index.

    The client is opened at the first request of a process and again after a fork: TLS sockets shared with the
    parent would hand one process the other's bytes.
    """

    def __init__(
        self,
        spec: ModelSpec,
        profile: Profile,
        *,
        name: str,
        requested_dimensions: int | None,
        base_url: str,
        api_key: str,
        timeout_s: float,
        width_advice: str,
    ) -> None:
        """`name` is the model as the server knows it; `requested_dimensions` is sent only when it is not
        None. `width_advice`: what to do when the model's vectors are not as wide as configured.

        `timeout_s` bounds a whole request: connecting, sending, waiting and reading.
        """
        self.model = spec.model
        self.dimensions = spec.dimensions
        self.profile = profile
        self._name = name
        self._requested_dimensions = requested_dimensions
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._width_advice = width_advice
        # base64 is four times cheaper to read. Other servers are known to answer it with wrong widths or a
        # 400.
        self._base64 = is_openai(base_url)
        self._lock = threading.Lock()
        self._client: OpenAI | None = None
        self._pid = -1
        # Clients of the parent process: never used, and never collected here, where closing their sockets
        # would end TLS sessions that the parent still uses.
        self._inherited: list[OpenAI] = []

    def warm_up(self) -> None:
        """Imports the client library (about a second) and builds the client; opens no connection."""
        self._opened()

    def embed(self, texts: Sequence[str]) -> Answer:
        """See `Embedder.embed`. Raises the client's own exceptions for everything but a bad answer."""
        from openai import omit

        from neo4j_queue.embedders.deadline import total_deadline

        client = self._opened()
        with total_deadline(self._timeout_s):
            raw = client.embeddings.with_raw_response.create(
                model=self._name,
                input=list(texts),
                encoding_format="base64" if self._base64 else "float",
                dimensions=self._requested_dimensions or omit,
            )
        return self._answer(raw.http_response, len(texts))

    def close(self) -> None:
        """Closes this process's connections."""
        with self._lock:
            if self._client is not None and self._pid == os.getpid():
                self._client.close()
                self._client = None

    def _opened(self) -> "OpenAI":
        pid = os.getpid()
        with self._lock:
            if self._client is not None and self._pid != pid:
                self._inherited.append(self._client)
                self._client = None
            if self._client is None:
                self._client = self._open()
                self._pid = pid
            return self._client

    def _open(self) -> "OpenAI":
        from openai import OpenAI

        from neo4j_queue.embedders.deadline import http_client

        return OpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            # Two hidden repetitions by default, with sleeps of up to two minutes: the queue does that, and
            # counts.
            max_retries=0,
            http_client=http_client(self._timeout_s),
        )

    def _answer(self, response: "httpx2.Response", count: int) -> Answer:
        request_id = response.headers.get("x-request-id")
        try:
            body = _parsed(response)
            vectors = validated(_pairs(body), count, self.dimensions)
        except InvalidAnswer as problem:
            problem.status = response.status_code
            problem.request_id = request_id
            problem.request = response.request
            if isinstance(problem, WrongWidth):
                problem.model, problem.advice = self.model, self._width_advice
            raise
        usage = body.get("usage")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
        return Answer(
            vectors=vectors,
            total_tokens=tokens if type(tokens) is int else None,
            request_id=request_id,
            rate=RateHeaders.of(response.headers),
        )


def _parsed(response: "httpx2.Response") -> Mapping[str, Any]:
    """The JSON object of a successful answer. The client's own parsing costs a second per 400,000 numbers."""
    try:
        body = json.loads(response.content)
    except ValueError:
        kind = response.headers.get("content-type", "no content type")
        raise InvalidAnswer(f"the answer is not JSON ({kind}, {len(response.content)} bytes)") from None
    if not isinstance(body, dict):
        raise InvalidAnswer(f"the answer is a JSON {type(body).__name__}, not an object")
    if not isinstance(body.get("data"), list):
        said = ErrorBody.of(body).message
        raise InvalidAnswer(f"the answer has no list `data`{f': {said}' if said else ''}")
    return body


def _pairs(body: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    for item in body["data"]:
        if not isinstance(item, dict):
            raise InvalidAnswer(f"an item of `data` is of type {type(item).__name__}")
        vector = item.get("embedding")
        yield item.get("index"), _decoded(vector) if isinstance(vector, str) else vector


def _decoded(text: str) -> list[float]:
    """The numbers of a base64 vector: little-endian single precision."""
    try:
        numbers = array("f", base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise InvalidAnswer("a vector is neither a list of numbers nor base64 of them") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
