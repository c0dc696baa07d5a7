"""The mock provider does what it is told: tests of the product and rehearsals rest on it."""

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

from neo4j_queue.errors.rate_headers import duration_s
from neo4j_queue.mock_provider import MANGLES, Limits, Mishaps, Reply, error, mangled, tokens_of, vector_for
from neo4j_queue.mock_provider.limits import duration
from tests.provider import Drip, ProviderServer
from tests.waiting import wait_until


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


def test_replies_are_chosen_by_text_then_order_then_always(server: ProviderServer) -> None:
    server.reply_always(error(500))
    server.reply_next(error(503))
    server.reply_to_text("poison", error(400))

    statuses = [ask(server, text).status for text in ("poisoned", "x", "x", "a poison")]
    server.reply_to_text("poison", None)
    server.reply_always(None)

    assert statuses == [400, 503, 500, 400]
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
    # The client has its answer a moment before the server notes that it is sent.
    server.wait_for(finished=1)
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
    server.reply_next(Drip(body=b'{"slow": 1}', body_s=0.15))

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


def test_a_429_says_when_there_is_room_for_that_very_request() -> None:
    now = [100.0]
    limits = Limits(tokens_per_interval=10, interval_s=60.0)
    with ProviderServer(limits=limits, clock=lambda: now[0]) as server:
        for at in (100.0, 110.0):
            now[0] = at
            assert ask(server, "x" * 16).status == 200
        now[0] = 120.0
        small, large, never = (ask(server, "x" * 4 * tokens) for tokens in (6, 8, 11))

        assert (small.status, small.headers["retry-after"]) == (429, "40.000")
        assert (large.status, large.headers["retry-after"]) == (429, "50.000")
        assert (never.status, never.headers["retry-after"]) == (429, "60.000")
        server.retry_after = False
        assert "retry-after" not in ask(server, "x" * 24).headers


def test_rate_headers_tell_what_is_left_of_the_limits_and_until_when() -> None:
    now = [100.0]
    limits = Limits(requests_per_interval=2, tokens_per_interval=1_000)
    with ProviderServer(limits=limits, rate_headers=True, clock=lambda: now[0]) as server:
        first = ask(server, "x" * 40)
        now[0] = 130.5
        server.reply_next(error(500, headers={"x-ratelimit-remaining-tokens": "7"}))
        failed = ask(server, "x")
        second = ask(server, "x" * 40)
        refused = ask(server, "x")

    assert rate(first) == ["2", "1", "1m0s", "1000", "990", "1m0s"]
    # A programmed reply counts nothing, and its own headers stand.
    assert (failed.status, rate(failed)) == (500, ["2", "1", "29.5s", "1000", "7", "29.5s"])
    assert rate(second) == ["2", "0", "1m0s", "1000", "980", "1m0s"]
    assert (refused.status, refused.headers["retry-after"]) == (429, "29.500")
    assert rate(refused) == rate(second)


def rate(answer: Answer) -> list[str]:
    return [
        answer.headers[f"x-ratelimit-{what}-{budget}"]
        for budget in ("requests", "tokens")
        for what in ("limit", "remaining", "reset")
    ]


def test_without_limits_or_without_wish_there_are_no_rate_headers(server: ProviderServer) -> None:
    server.limits = Limits(requests_per_interval=1)
    silent = ask(server, "a")
    server.limits, server.rate_headers = Limits(max_inputs=5), True
    unlimited = ask(server, "a")

    assert not [name for name in (*silent.headers, *unlimited.headers) if name.startswith("x-ratelimit")]


@pytest.mark.parametrize(
    ("seconds", "written"), [(0, "0ms"), (0.12, "120ms"), (1.5, "1.5s"), (60, "1m0s"), (372.25, "6m12.25s")]
)
def test_durations_are_written_as_they_are_read(seconds: float, written: str) -> None:
    assert duration(seconds) == written
    assert duration_s(written) == seconds


def test_mishaps_come_in_their_shares_and_again_with_the_same_seed() -> None:
    mishaps = Mishaps(rate_limited=0.2, failed=0.3, slow=0.1, slow_s=0.0)

    def statuses(seed: int) -> list[int]:
        with ProviderServer(mishaps=mishaps, seed=seed) as server:
            return [ask(server, "a").status for _ in range(200)]

    first = statuses(7)
    assert first == statuses(7) != statuses(8)
    assert 20 <= first.count(429) <= 60
    assert 40 <= first.count(500) <= 80
    assert first.count(200) == 200 - first.count(429) - first.count(500)


def test_a_mishap_is_silent_or_slow_or_asks_to_wait() -> None:
    with ProviderServer(mishaps=Mishaps(silent=1.0)) as server:
        with pytest.raises(TimeoutError):
            ask(server, "a", timeout_s=0.2)
        server.mishaps = Mishaps(slow=1.0, slow_s=0.4)
        started = time.monotonic()
        assert ask(server, "a").status == 200
        assert time.monotonic() - started >= 0.4
        server.mishaps = Mishaps(rate_limited=1.0)
        assert ask(server, "a").headers["retry-after"] == "1.000"


def test_mishaps_befall_only_what_is_within_the_limits() -> None:
    limits = Limits(requests_per_interval=1, max_inputs=1)
    with ProviderServer(limits=limits, mishaps=Mishaps(failed=1.0)) as server:
        assert [ask(server, *texts).status for texts in (("a", "b"), ("a",), ("a",))] == [400, 500, 429]


@pytest.mark.parametrize("shares", [{"failed": -0.1}, {"failed": 1.1}, {"failed": 0.6, "silent": 0.6}])
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at most 1"):
        Mishaps(**shares)


def test_counts_stay_without_a_journal() -> None:
    now = [0.0]
    with ProviderServer(keep_journal=False, clock=lambda: now[0]) as server:
        assert server.counts().inputs_per_unique_text is None
        server.reply_next(error(429), error(503), error(400), Reply(hang_up=True))
        for at in (0.0, 1.0, 2.0):
            now[0] = at
            ask(server, "a", "b")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(server, "a")
        now[0] = 60.5
        ask(server, "a", "c")
        # The client has its answer a moment before it is counted.
        wait_until(lambda: server.counts().unanswered == 1, within_s=10, what="all answers are counted")
        counts = server.counts()

    assert server.journal == []
    assert (counts.requests, counts.inputs, counts.unique_inputs, counts.tokens) == (5, 9, 3, 9)
    assert (counts.answers, counts.rate_limited, counts.server_errors, counts.other_errors) == (1, 1, 1, 1)
    assert (counts.unanswered, counts.most_in_a_minute) == (1, 4)
    assert counts.inputs_per_unique_text == 3.0


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", '"text"', '{"input": [1, 2]}', '{"input": null}', '{"input": "a", "dimensions": "8"}'],
)
def test_what_is_no_request_for_embeddings_of_texts_is_refused(server: ProviderServer, body: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("POST", "/v1/embeddings", body)
    response = connection.getresponse()

    assert response.status == 400
    assert "input" in json.loads(response.read())["error"]["message"]
    assert server.counts().requests == 0
    connection.close()


def test_an_address_that_is_taken_is_an_error(server: ProviderServer) -> None:
    with pytest.raises(OSError, match="in use"):
        ProviderServer(port=server.port)


def test_the_url_is_one_that_this_machine_reaches() -> None:
    with ProviderServer(host="0.0.0.0") as server:
        assert server.url == f"http://127.0.0.1:{server.port}/v1"
        assert ask(server, "a").status == 200


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
