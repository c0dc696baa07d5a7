"""What the mock provider can answer: good, slow, silent, refusing, or spoiled in some way."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Body = bytes | str | dict[str, Any] | list[Any] | None
Mangle = Callable[[dict[str, Any]], Body]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `body` None means the normal one for the inputs, which `mangle` may spoil.

    `latency_s` passes before the first byte. `silent` sends nothing at all, `hang_up` closes the connection instead.
    """

    status: int = 200
    body: Body = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    latency_s: float | None = None
    silent: bool = False
    hang_up: bool = False
    mangle: Mangle | None = None


def error(
    status: int, body: Body = None, *, headers: Mapping[str, str] | None = None, **fields: Any
) -> Reply:
    """An error reply; by default in OpenAI's shape, where `fields` such as `code` and `message` go."""
    if body is None:
        body = {
            "error": {"message": f"status {status}", "type": "mock_error", "param": None, "code": None}
            | fields
        }
    kind = "text/html" if isinstance(body, str) and "<" in body else "application/json"
    return Reply(status=status, body=body, headers=headers or {}, content_type=kind)


# Ways to spoil a good answer, by name. Each gets the answer and returns what is sent instead.
def _items(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Mangle:
    return lambda answer: {**answer, "data": change(answer["data"])}


def _first(vector: Callable[[list[float]], Any]) -> Mangle:
    return _items(lambda data: [{**data[0], "embedding": vector(data[0]["embedding"])}, *data[1:]])


def _every(vector: Callable[[list[float]], Any]) -> Mangle:
    return _items(lambda data: [{**item, "embedding": vector(item["embedding"])} for item in data])


def _without_index(data: list[dict[str, Any]], *places: int) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in item.items() if name != "index"} if place in places else item
        for place, item in enumerate(data)
    ]


MANGLES: dict[str, Mangle] = {
    "shuffled": _items(lambda data: data[1:] + data[:1]),  # harmless: paired by index
    "index 0 left out": _items(lambda data: _without_index(data, 0)),  # harmless: one place is left
    "index null": _items(lambda data: [*data[:-1], {**data[-1], "index": None}]),  # harmless too
    "index as text": _items(lambda data: [{**item, "index": str(item["index"])} for item in data]),  # too
    "short": _items(lambda data: data[:-1]),
    "long": _items(lambda data: [*data, {**data[0], "index": len(data)}]),
    "empty data": _items(lambda _: []),
    "repeated index": _items(lambda data: [{**item, "index": 0} for item in data]),
    "no index": _items(lambda data: [{"embedding": item["embedding"]} for item in data]),
    "two without index": _items(lambda data: _without_index(data, 0, 1)),
    "index as a word": _items(lambda data: [{**item, "index": "first"} for item in data]),
    "negative index": _items(lambda data: [{**data[0], "index": -1}, *data[1:]]),
    "null vector": _first(lambda _: None),
    "null in vector": _first(lambda vector: [None, *vector[1:]]),
    "NaN": _first(lambda vector: [math.nan, *vector[1:]]),
    "infinity": _first(lambda vector: [math.inf, *vector[1:]]),
    "zero vector": _first(lambda vector: [0.0] * len(vector)),
    "huge vector": _first(lambda vector: [1e300] * len(vector)),
    "text in vector": _first(lambda vector: ["0.1", *vector[1:]]),
    "true in vector": _first(lambda vector: [True, *vector[1:]]),
    "too few dimensions": _first(lambda vector: vector[:-1]),
    "too many dimensions": _first(lambda vector: [*vector, 0.5]),
    "empty vector": _first(lambda _: []),
    "data is null": lambda answer: {**answer, "data": None},
    "data is an object": lambda answer: {**answer, "data": {}},
    "item is null": lambda answer: {**answer, "data": [None, *answer["data"][1:]]},
    "a list": lambda answer: answer["data"],
    "null": lambda _: b"null",
    "error with status 200": lambda _: {"error": {"message": "upstream is away", "code": 502}},
    "vectors in an object": _every(lambda vector: {"values": vector}),
    "deep": lambda _: b"[" * 100_000,
    "HTML": lambda _: "<html><body>Please log in</body></html>",
    "nothing": lambda _: b"",
    "half": lambda answer: json.dumps(answer)[: len(json.dumps(answer)) // 2],
}


def mangled(how: str) -> Reply:
    """A reply with status 200 whose answer is spoiled in one of the ways of `MANGLES`."""
    return Reply(mangle=MANGLES[how])


# Faults of a whole endpoint, by the names of the command line.
FAULTS: dict[str, Reply] = {
    "wrong-key": error(401, message="Incorrect API key provided", code="invalid_api_key"),
    "expired-key": error(
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "API key expired. Please renew the API key.",
                    "status": "INVALID_ARGUMENT",
                    "details": [{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}],
                }
            }
        ],
    ),
    "no-model": error(404, message="The model does not exist", code="model_not_found"),
    "quota": error(429, message="You exceeded your current quota", code="insufficient_quota"),
    "budget": error(
        400, message="Budget has been exceeded! Current cost: 14.2, Max budget: 10.0", code="400"
    ),
    "rate-limit": error(429, message="Rate limit reached", code="rate_limit_exceeded"),
    "outage": error(503, message="The server is overloaded", type="server_error"),
    "refusal": error(400, message="Bad request", type="invalid_request_error"),
    "garbage": mangled("HTML"),
    "no-index": mangled("no index"),
    "wrong-width": Reply(mangle=_every(lambda vector: vector[: max(1, len(vector) // 2)])),
    "silent": Reply(silent=True),
}
