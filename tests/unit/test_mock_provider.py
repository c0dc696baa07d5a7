"""The programmable provider does what it is told: tests of the product rest on it."""

import base64
import http.client
import json
import math
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from neo4j_queue.mock_provider import (
    MANGLES,
    Limits,
    ProviderServer,
    Reply,
    error,
    mangled,
    tokens_of,
    vector_for,
)


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


def ask(server: ProviderServer, *texts: str, timeout_s: float = 10.0, **fields: Any) -> Answer:
    """One request, without any client library."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    try:
        body = json.dumps({"input": list(texts), "model": "m"} | fields)
        connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        raw = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_json = headers["content-type"] == "application/json" and raw
        return Answer(response.status, json.loads(raw) if is_json else raw, headers)
    finally:
        connection.close()


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        yield running


def test_it_answers_like_a_provider(server: ProviderServer) -> None:
    answer = ask(server, "a", "b")

    assert answer.status == 200
    assert [item["index"] for item in answer.body["data"]] == [0, 1]
    assert [item["embedding"] for item in answer.body["data"]] == [vector_for("a", 8), vector_for("b", 8)]
    assert answer.body["usage"]["total_tokens"] == 2
    assert answer.headers["x-request-id"] == "req-1"


def test_base64_and_a_width_are_given_on_demand(server: ProviderServer) -> None:
    item = ask(server, "a", encoding_format="base64", dimensions=4).body["data"][0]

    assert list(struct.unpack("<4f", base64.b64decode(item["embedding"]))) == vector_for("a", 4)


def test_vectors_have_unit_length_and_differ() -> None:
    assert math.hypot(*vector_for("a", 256)) == pytest.approx(1.0, abs=1e-6)
    assert vector_for("a", 8) == vector_for("a", 8) != vector_for("b", 8)


def test_replies_are_chosen_by_text_then_number_then_order_then_always(server: ProviderServer) -> None:
    server.reply_always(error(500))
    server.reply_next(error(503))
    server.reply_to_number(2, error(404))
    server.reply_to_text("poison", error(400))

    statuses = [ask(server, text).status for text in ("poisoned", "x", "x", "x", "a poison")]
    server.reply_to_text("poison", None)
    server.reply_always(None)

    assert statuses == [400, 404, 503, 500, 400]
    assert ask(server, "poison").status == 200


def test_an_error_has_the_body_and_the_headers_it_was_given(server: ProviderServer) -> None:
    server.reply_next(
        error(429, code="insufficient_quota", message="no money", headers={"Retry-After": "3"}),
        error(502, "<html>bad gateway</html>"),
        error(500, b""),
    )
    first, second, third = (ask(server, "a") for _ in range(3))

    assert (first.status, first.body["error"]["code"], first.headers["retry-after"]) == (
        429,
        "insufficient_quota",
        "3",
    )
    assert (second.status, second.headers["content-type"]) == (502, "text/html")
    assert (third.status, third.body) == (500, b"")


@pytest.mark.parametrize("how", sorted(MANGLES))
def test_every_spoiled_answer_differs_from_the_good_one(how: str) -> None:
    good = {
        "data": [{"index": n, "embedding": vector_for(text, 8)} for n, text in enumerate("abc")],
        "model": "m",
    }
    assert MANGLES[how](json.loads(json.dumps(good))) != good


def test_a_spoiled_answer_is_sent(server: ProviderServer) -> None:
    server.reply_next(mangled("short"))

    assert len(ask(server, "a", "b").body["data"]) == 1
    assert len(ask(server, "a", "b").body["data"]) == 2


def test_the_gate_holds_requests_until_it_opens(server: ProviderServer) -> None:
    with ThreadPoolExecutor(3) as pool:
        with server.held():
            answers = [pool.submit(ask, server, "a") for _ in range(3)]
            server.wait_for(requests=3, waiting=3)
            assert [request.status for request in server.journal] == [None] * 3
        assert [answer.result(10).status for answer in answers] == [200] * 3

    assert server.max_concurrency == 3


def test_waiting_for_what_does_not_come_ends(server: ProviderServer) -> None:
    with pytest.raises(TimeoutError, match="0 requests of 1"):
        server.wait_for(requests=1, timeout_s=0.05)


def test_the_journal_tells_what_came_and_how_it_ended(server: ProviderServer) -> None:
    server.reply_next(error(500))
    ask(server, "a", "b", dimensions=4, encoding_format="float")
    ask(server, "c")
    server.wait_for(finished=2)
    first, second = server.journal

    assert (first.number, first.inputs, first.model, first.dimensions) == (1, ("a", "b"), "m", 4)
    assert (first.status, second.status) == (500, 200)
    assert first.at <= (first.finished_at or 0.0) <= second.at
    assert server.inputs == ["a", "b", "c"]
    assert first.client_port != second.client_port


def test_latency_passes_before_the_answer() -> None:
    with ProviderServer(latency_s=0.5) as server:
        started = time.monotonic()
        ask(server, "a")
        assert time.monotonic() - started >= 0.5

        server.reply_next(Reply(latency_s=0.0))
        started = time.monotonic()
        ask(server, "a")
        assert time.monotonic() - started < 0.5


def test_a_silent_server_and_a_hang_up(server: ProviderServer) -> None:
    server.reply_next(Reply(silent=True), Reply(hang_up=True))

    with pytest.raises(TimeoutError):
        ask(server, "a", timeout_s=0.2)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(server, "a")


def test_a_dripping_answer_lasts_longer_than_any_single_read(server: ProviderServer) -> None:
    server.reply_next(Reply(body=b'{"slow": 1}', drip_s=0.15))

    started = time.monotonic()
    assert ask(server, "a", timeout_s=1.2).body == {"slow": 1}
    assert time.monotonic() - started >= 1.5


def test_limits_of_a_request_are_enforced(server: ProviderServer) -> None:
    server.limits = Limits(max_inputs=3, max_input_tokens=5, max_request_tokens=10)

    assert ask(server, "a", "b", "c").status == 200
    assert ask(server, "a", "b", "c", "d").status == 400
    assert ask(server, "x" * 20).status == 200
    assert ask(server, "x" * 21).status == 400
    assert ask(server, "x" * 20, "x" * 20).status == 200
    assert ask(server, "x" * 20, "x" * 20, "x").status == 400
    assert ask(server, "").status == 400
    assert ask(server).status == 400


def test_limits_of_an_interval_slide_by_the_servers_clock() -> None:
    now = [100.0]
    limits = Limits(requests_per_interval=2, interval_s=10.0)
    with ProviderServer(limits=limits, clock=lambda: now[0]) as server:
        statuses = []
        for at in (100.0, 105.0, 109.0, 110.0, 114.9, 115.0):
            now[0] = at
            statuses.append(ask(server, "a").status)
        now[0] = 116.0
        refused = ask(server, "a")

        assert statuses == [200, 200, 429, 200, 429, 200]
        assert (refused.status, refused.headers["retry-after"]) == (429, "4.000")


def test_tokens_of_an_interval_are_limited(server: ProviderServer) -> None:
    server.limits = Limits(tokens_per_interval=3)

    assert [ask(server, "x" * 8).status for _ in range(2)] == [200, 429]
    assert ask(server, "x").status == 200


def test_the_most_requests_of_any_interval() -> None:
    now = [0.0]
    with ProviderServer(clock=lambda: now[0]) as server:
        for at in (0.0, 1.0, 5.0, 5.5, 6.0, 14.9, 15.0):
            now[0] = at
            ask(server, "a")

        assert server.most_in_any(1.0) == 2
        assert server.most_in_any(1.1) == 3
        assert server.most_in_any(10.0) == 5
        assert server.most_in_any(100.0) == 7


def test_a_reset_forgets_everything(server: ProviderServer) -> None:
    server.reply_always(error(500))
    server.close_gate()
    server.limits = Limits(max_inputs=1)
    server.reset()

    assert ask(server, "a", "b").status == 200
    assert [request.number for request in server.journal] == [1]


def test_stopping_frees_waiting_requests_and_the_port() -> None:
    with ProviderServer() as server:
        server.reply_always(Reply(silent=True))
        waiting = threading.Thread(target=_ask_in_vain, args=(server,))
        waiting.start()
        server.wait_for(requests=1)
    waiting.join(5)

    assert not waiting.is_alive()
    with pytest.raises(ConnectionError):
        ask(server, "a")


def _ask_in_vain(server: ProviderServer) -> None:
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(server, "a", timeout_s=30.0)


def test_other_addresses_are_not_found(server: ProviderServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("GET", "/v1/models")

    assert connection.getresponse().status == 404
    connection.close()


def test_tokens_are_counted_by_bytes() -> None:
    assert [tokens_of(text) for text in ("", "abcd", "abcde", "日本語")] == [0, 1, 2, 3]
