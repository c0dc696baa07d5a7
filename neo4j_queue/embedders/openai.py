"""Embeddings from any server that speaks OpenAI's `/v1/embeddings`."""

import base64
import binascii
import json
import os
import sys
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from neo4j_queue.embedders.base import Answer, ModelSpec, validated
from neo4j_queue.embedders.dialect import RequestBody, names
from neo4j_queue.embedders.profiles import endpoint, wants_key_header
from neo4j_queue.embedders.surroundings import client_problems
from neo4j_queue.errors import DialectError, InvalidAnswer, SettingsError, WrongWidth
from neo4j_queue.errors.classify import MESSAGE_CHARS
from neo4j_queue.errors.provider_body import ErrorBody
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.errors.redact import Redactor
from neo4j_queue.providers import PLAIN, Dialect, Profile

if TYPE_CHECKING:
    import httpx2
    from openai import OpenAI

# Statuses with which servers refuse a field that they do not know.
REFUSALS = frozenset({400, 422})
# A number with sign, seventeen digits, exponent, comma and the blanks of a pretty printer.
NUMBER_BYTES = 32
# The widest vectors that the index takes.
WIDTH_MAX = 4_096
# Everything in an answer that is no vector.
SLACK_BYTES = 1 << 20


class OpenAIEmbedder:
    """One request per `embed`: no hidden repetition, a total deadline, vectors paired by index.

    The client is opened at the first request of a process, and again after a fork: TLS sockets that are shared with the
    parent would give one process the other's bytes.
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
        dialect: Dialect = PLAIN,
    ) -> None:
        """`name`: the model as the server knows it. `requested_dimensions`: sent unless it is None. `base_url`: with
        or without `/embeddings`, with its query. `width_advice`: what to do if the model's vectors have another width
        than configured. `timeout_s`: bounds a whole request, connecting, sending, waiting and reading.
        """
        self.model = spec.model
        self.dimensions = spec.dimensions
        self.profile = profile
        self.dialect = dialect
        self._body = RequestBody(dialect, model=name, width=requested_dimensions)
        self._base_url, self._query = endpoint(base_url)
        self._key_header = wants_key_header(base_url)
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._width_advice = width_advice
        self._lock = threading.Lock()
        self._client: OpenAI | None = None
        self._pid = -1
        # Clients of the parent process: kept from collection, for closing their sockets here would end TLS sessions
        # that the parent still uses.
        self._inherited: list[OpenAI] = []

    def warm_up(self) -> None:
        """Imports the client library (about a second) and builds the client; opens no connection."""
        self._opened()

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Answer:
        """See `Embedder.embed`. Raises the client's own exceptions for all but an unusable answer."""
        from neo4j_queue.embedders.answer_limit import answer_limit
        from neo4j_queue.embedders.deadline import total_deadline

        client = self._opened()
        with total_deadline(self._timeout_s), answer_limit(_most_bytes(len(texts), self.dimensions)):
            response, requests = self._understood(client, texts, query)
        return replace(self._answer(response, len(texts)), requests=requests)

    def _understood(
        self, client: "OpenAI", texts: Sequence[str], query: bool
    ) -> tuple["httpx2.Response", int]:
        """The answer to a request, and the number of requests: one more for each field that the server refused."""
        import openai

        left_out: list[str] = []
        while True:
            try:
                response = self._post(client, self._body.of(texts, query=query, without=left_out))
            except openai.APIStatusError as refusal:
                if refusal.status_code not in REFUSALS:
                    raise
                said = Redactor.for_exception(refusal).clean(
                    ErrorBody.of(refusal.body).message, MESSAGE_CHARS
                )
                self._learn(left_out, said)
                field = self._body.suspect(said, query=query, without=left_out)
                if field is None:
                    raise
                left_out.append(field)
            else:
                self._learn(left_out)
                return response, len(left_out) + 1

    def _learn(self, left_out: Sequence[str], said: str = "") -> None:
        """What an answer shows that came without some fields: the server refuses those that it names no more."""
        for field in left_out:
            if names(said, field):
                self._body.keep(field)
        for field in self._body.leave_out(field for field in left_out if not names(said, field)):
            structlog.get_logger().warning("provider_refuses_field", field=field, model=self.model)

    def _post(self, client: "OpenAI", body: dict[str, object]) -> "httpx2.Response":
        import httpx2
        from openai import Omit, omit

        headers: dict[str, str | Omit] = (
            {"api-key": self._api_key, "Authorization": omit} if self._key_header else {}
        )
        # Not by the client's own method for embeddings: that one asks for base64 where nothing is asked for.
        return client.post("/embeddings", body=body, cast_to=httpx2.Response, options={"headers": headers})

    def reconnect(self) -> None:
        """See `Embedder.reconnect`. The old client closes when the requests of other threads have let go of it."""
        with self._lock:
            if self._pid == os.getpid():
                self._client = None

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

        try:
            return OpenAI(
                api_key=self._api_key,
                base_url=self._base_url,
                default_query=self._query,
                # The client's default is two hidden repetitions with sleeps of up to two minutes; repetitions are the
                # queue's, which counts them.
                max_retries=0,
                http_client=http_client(self._timeout_s),
            )
        except (ValueError, OSError, ImportError) as error:
            raise SettingsError(client_problems(error)) from error

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


def _most_bytes(count: int, dimensions: int) -> int:
    """More than any answer with so many vectors needs. It has room for vectors of the widest model, so that a wrong
    width is told as such."""
    return SLACK_BYTES + count * max(dimensions, WIDTH_MAX) * NUMBER_BYTES


def _parsed(response: "httpx2.Response") -> Mapping[str, Any]:
    """The JSON object of a successful answer. The client's own parsing costs a second per 400,000 numbers."""
    try:
        body = json.loads(response.content)
    except ValueError:
        kind = response.headers.get("content-type", "no content type")
        said = f"the answer is not JSON ({kind}, {len(response.content)} bytes)"
        # What begins like the right answer was broken on its way; a page or nothing is another server's answer.
        broken = response.content.lstrip().startswith(b"{")
        raise InvalidAnswer(said) if broken else DialectError(said) from None
    except (RecursionError, MemoryError) as error:
        raise InvalidAnswer(f"the answer cannot be read: {type(error).__name__}") from None
    if not isinstance(body, dict):
        raise DialectError(f"the answer is a JSON {type(body).__name__}, not an object")
    if not isinstance(body.get("data"), list):
        said = ErrorBody.of(body).message
        if said:  # the provider's own words of a trouble that it has
            raise InvalidAnswer(f"the answer has no list `data`: {said}")
        raise DialectError("the answer has no list `data`")
    return body


def _pairs(body: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    for item in body["data"]:
        if not isinstance(item, dict):
            raise DialectError(f"an item of `data` is of type {type(item).__name__}")
        vector = item.get("embedding")
        yield item.get("index"), _decoded(vector) if isinstance(vector, str) else vector


def _decoded(text: str) -> list[float]:
    """The numbers of a base64 vector: little-endian single precision."""
    try:
        numbers = array("f", base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise DialectError("a vector is neither a list of numbers nor base64 of them") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
