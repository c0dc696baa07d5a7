"""The OpenAI-compatible embedder against a real local server: one request, a deadline, no wrong vector."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from neo4j_queue.embedders import ModelSpec
from neo4j_queue.embedders.openai import OpenAIEmbedder
from neo4j_queue.errors import ErrorCategory, FaultKind, InvalidAnswer, WrongWidth, classify
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.mock_provider import MANGLES, Reply, error, mangled, vector_for
from neo4j_queue.providers import BASE64, CUSTOM, Dialect
from tests.provider import Drip, ProviderServer

DIMENSIONS = 8
TEXTS = ["Name: Ada\nType: person", "Name: Bob\nType: person", "日本語 😀"]
# The tolerance of the contract, and little enough for a deadline per read to be found out.
DEADLINE_S = 1.0
TOLERANCE_S = 2.0
HARMLESS = {"shuffled", "index 0 left out", "index null", "index as text"}
# Answers of a shape that no text explains.
DIALECTS = {
    *("HTML", "nothing", "null", "a list", "data is null", "data is an object", "item is null"),
    *("no index", "repeated index", "vectors in an object"),
}

Make = Callable[..., OpenAIEmbedder]


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(dimensions=DIMENSIONS) as running:
        yield running


@pytest.fixture
def make(server: ProviderServer) -> Iterator[Make]:
    made: list[OpenAIEmbedder] = []

    def build(**changes: Any) -> OpenAIEmbedder:
        options: dict[str, Any] = {
            "name": "test-model",
            "requested_dimensions": None,
            "base_url": server.url,
            "api_key": "sk-test-0123456789abcdef",
            "timeout_s": 10.0,
            "width_advice": "do this",
        }
        dimensions = changes.pop("dimensions", DIMENSIONS)
        made.append(OpenAIEmbedder(ModelSpec("openai", "m", dimensions), CUSTOM, **(options | changes)))
        return made[-1]

    yield build
    for embedder in made:
        embedder.close()


def test_vectors_come_in_the_order_of_the_texts(server: ProviderServer, make: Make) -> None:
    answer = make().embed(TEXTS)

    assert answer.vectors == [vector_for(text, DIMENSIONS) for text in TEXTS]
    assert answer.total_tokens == server.journal[0].tokens
    assert answer.request_id == "req-1"
    assert answer.rate is None
    assert server.journal[0].inputs == tuple(TEXTS)
    assert server.journal[0].model == "test-model"


def test_another_server_is_asked_for_plain_numbers_and_for_no_width(
    server: ProviderServer, make: Make
) -> None:
    make().embed(["text"])

    assert server.journal[0].encoding_format == "float"
    assert server.journal[0].dimensions is None


def test_a_configured_width_is_asked_for(server: ProviderServer, make: Make) -> None:
    answer = make(dimensions=4, requested_dimensions=4).embed(["text"])

    assert server.journal[0].dimensions == 4
    assert answer.vectors == [vector_for("text", 4)]


def test_base64_vectors_are_read(server: ProviderServer, make: Make) -> None:
    answer = make(dialect=Dialect(encoding=BASE64)).embed(TEXTS)

    assert server.journal[0].encoding_format == "base64"
    assert answer.vectors == [vector_for(text, DIMENSIONS) for text in TEXTS]


@pytest.mark.parametrize("how", sorted(MANGLES.keys() - HARMLESS))
def test_no_wrong_vector_gets_past(server: ProviderServer, make: Make, how: str) -> None:
    """C8. Without `validated` most of these answers would be taken for vectors, by the client too."""
    server.reply_next(mangled(how))

    with pytest.raises(InvalidAnswer) as raised:
        make().embed(TEXTS)

    fault = classify(raised.value)
    kind, name = (
        (FaultKind.DIALECT, "DialectError") if how in DIALECTS else (FaultKind.ANSWER, "InvalidAnswer")
    )
    assert (fault.category, fault.kind) == (ErrorCategory.TRANSIENT, kind)
    assert (fault.status, fault.request_id) == (200, "req-1")
    assert fault.error_type == name


@pytest.mark.parametrize("how", sorted(HARMLESS))
def test_an_answer_in_another_order_or_notation_is_read(server: ProviderServer, make: Make, how: str) -> None:
    server.reply_next(mangled(how))

    assert make().embed(TEXTS).vectors == [vector_for(text, DIMENSIONS) for text in TEXTS]


def test_a_wrong_width_of_all_vectors_is_the_configurations_and_told_with_both_numbers(make: Make) -> None:
    with pytest.raises(WrongWidth) as raised:
        make(dimensions=16).embed(TEXTS)

    fault = classify(raised.value)
    assert (fault.category, fault.kind) == (ErrorCategory.CRITICAL, FaultKind.CONFIGURATION)
    assert (fault.status, fault.request_id, fault.error_type) == (200, "req-1", "WrongWidth")
    assert fault.message == (
        "m is configured with 16 dimensions (NEO4J_VECTOR_DIMENSIONS), its vectors have 8: do this"
    )


def test_one_call_is_one_request_whatever_comes_back(server: ProviderServer, make: Make) -> None:
    """C1. With the client's default of two repetitions the journal would hold three requests per call."""
    embedder = make()
    for status in (500, 503, 429, 408, 409):
        server.reply_next(error(status, headers={"Retry-After": "0"}))
        with pytest.raises(openai.APIStatusError):
            embedder.embed(["text"])

    assert len(server.journal) == 5


@pytest.mark.parametrize(
    ("status", "code", "kind", "category"),
    [
        (400, None, FaultKind.REQUEST, ErrorCategory.PERMANENT),
        (413, None, FaultKind.REQUEST, ErrorCategory.PERMANENT),
        (422, None, FaultKind.REQUEST, ErrorCategory.PERMANENT),
        (401, "invalid_api_key", FaultKind.CONFIGURATION, ErrorCategory.CRITICAL),
        (403, None, FaultKind.CONFIGURATION, ErrorCategory.CRITICAL),
        (404, "model_not_found", FaultKind.CONFIGURATION, ErrorCategory.CRITICAL),
        (405, None, FaultKind.CONFIGURATION, ErrorCategory.CRITICAL),
        (402, None, FaultKind.QUOTA, ErrorCategory.TRANSIENT),
        (429, "insufficient_quota", FaultKind.QUOTA, ErrorCategory.TRANSIENT),
        (429, "rate_limit_exceeded", FaultKind.RATE_LIMIT, ErrorCategory.TRANSIENT),
        (429, None, FaultKind.RATE_LIMIT, ErrorCategory.TRANSIENT),
        (408, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (409, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (500, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (502, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (503, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (529, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (418, None, FaultKind.REQUEST, ErrorCategory.PERMANENT),
        (415, None, FaultKind.REQUEST, ErrorCategory.PERMANENT),
        (451, None, FaultKind.REQUEST, ErrorCategory.PERMANENT),
        (421, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (423, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (424, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (425, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (449, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (499, None, FaultKind.OUTAGE, ErrorCategory.TRANSIENT),
        (420, None, FaultKind.RATE_LIMIT, ErrorCategory.TRANSIENT),
        (426, None, FaultKind.CONFIGURATION, ErrorCategory.CRITICAL),
        (498, None, FaultKind.CONFIGURATION, ErrorCategory.CRITICAL),
    ],
)
@pytest.mark.parametrize("shape", ["object", "list"])
def test_every_status_has_its_meaning(
    server: ProviderServer,
    make: Make,
    status: int,
    code: str | None,
    kind: FaultKind,
    category: ErrorCategory,
    shape: str,
) -> None:
    """C2: the table of decisions."""
    body: Any = {"error": {"message": "the reason", "type": None, "code": code}}
    server.reply_next(error(status, [body] if shape == "list" else body))

    with pytest.raises(openai.APIStatusError) as raised:
        make().embed(["text"])

    fault = classify(raised.value)
    assert (fault.kind, fault.category, fault.status) == (kind, category, status)
    assert fault.error_type == type(raised.value).__name__
    assert fault.request_id == "req-1"
    assert "the reason" in fault.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "the reason", "code": "some_code"}}, "HTTP 400: the reason [some_code]"),
        ({"error": "the reason"}, "HTTP 400: the reason"),
        ({"detail": "the reason"}, "HTTP 400: the reason"),
        ({"detail": {"message": "the reason"}}, "HTTP 400: the reason"),
        (
            {
                "detail": [
                    {"loc": ["body", "input", 3], "msg": "too long", "input": "Name: Ada\nType: person"}
                ]
            },
            "HTTP 400: body.input.3: too long",
        ),
        ({"message": "the reason"}, "HTTP 400: the reason"),
        ([{"error": {"message": "the reason", "status": "INVALID_ARGUMENT"}}], "HTTP 400: the reason"),
        (
            "<html><head><title>Bad</title><style>p{}</style></head><body>Gateway</body></html>",
            "HTTP 400: Bad Gateway",
        ),
        ("plain words", "HTTP 400: plain words"),
        (b"", "HTTP 400: no message in the body"),
        (b"null", "HTTP 400: no message in the body"),
        (b"[]", "HTTP 400: no message in the body"),
        (b'{"error": null}', "HTTP 400: no message in the body"),
        (b'{"error": [1, 2]}', "HTTP 400: no message in the body"),
        (b"\xff\xfe", "HTTP 400: "),
    ],
)
def test_every_shape_of_an_error_body_is_read(
    server: ProviderServer, make: Make, body: Any, message: str
) -> None:
    """C2: each body shape that providers, gateways and proxies send."""
    server.reply_next(error(400, body))

    with pytest.raises(openai.BadRequestError) as raised:
        make().embed(["Name: Ada\nType: person"])

    fault = classify(raised.value)
    assert fault.message.startswith(message)
    assert fault.kind is FaultKind.REQUEST


def test_a_wait_of_the_provider_is_on_the_fault(server: ProviderServer, make: Make) -> None:
    embedder = make()
    for status, wait in ((429, 7.0), (503, 7.0), (400, None)):
        server.reply_next(error(status, headers={"Retry-After": "7"}))
        with pytest.raises(openai.APIStatusError) as raised:
            embedder.embed(["text"])
        assert classify(raised.value).retry_after_s == wait


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirection_is_not_followed(server: ProviderServer, make: Make, status: int) -> None:
    """The texts are for the configured address alone; it is wrong, and the queue halts.

    Guard: `follow_redirects` in `http_client`; without it the other server gets them.
    """
    with ProviderServer(dimensions=DIMENSIONS) as other:
        server.reply_next(error(status, headers={"Location": f"{other.url}/embeddings"}))
        with pytest.raises(openai.APIStatusError) as raised:
            make().embed(["text"])
        assert other.counts().requests == 0
    assert classify(raised.value).kind is FaultKind.CONFIGURATION


def test_rate_headers_are_in_the_answer(server: ProviderServer, make: Make) -> None:
    server.reply_next(
        Reply(
            headers={
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-reset-tokens": "6m0s",
            }
        )
    )

    assert make().embed(["text"]).rate == RateHeaders(60, 150_000, 59, 149_984, 1.0, 360.0)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(silent=True),
        Drip(body_s=0.2),
        Drip(header_s=0.2),
        Drip(status=500, body={"error": {"message": "x" * 1_000}}, body_s=0.2),
    ],
    ids=["silent", "dripping body", "dripping header", "dripping error"],
)
def test_a_slow_server_is_left_at_the_deadline(server: ProviderServer, make: Make, reply: Reply) -> None:
    """C9. With the client's timeout alone, every case but the silent one lasts until the last byte."""
    embedder = make(timeout_s=DEADLINE_S)
    embedder.warm_up()
    server.reply_next(reply)
    threads = threading.active_count()

    started = time.monotonic()
    with pytest.raises(openai.APITimeoutError) as raised:
        embedder.embed(TEXTS)
    took = time.monotonic() - started

    assert DEADLINE_S * 0.9 <= took < DEADLINE_S + TOLERANCE_S
    assert classify(raised.value).kind is FaultKind.OUTAGE
    server_threads = 2  # the handlers of this connection and of the next one
    assert embedder.embed(["text"]).vectors == [vector_for("text", DIMENSIONS)]
    assert threading.active_count() <= threads + server_threads


def test_a_server_that_reads_slowly_is_left_at_the_deadline() -> None:
    """C9. The client's timeout starts anew with each piece that the kernel takes: this would last 5 s."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        stop = threading.Event()
        reader = threading.Thread(target=_read_slowly, args=(listener, stop), daemon=True)
        reader.start()
        embedder = OpenAIEmbedder(
            ModelSpec("openai", "m", DIMENSIONS),
            CUSTOM,
            name="m",
            requested_dimensions=None,
            base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1",
            api_key="k",
            timeout_s=DEADLINE_S,
            width_advice="",
        )
        embedder.warm_up()
        started = time.monotonic()
        with pytest.raises(openai.APITimeoutError):
            embedder.embed(["x" * 20_000_000])
        took = time.monotonic() - started
        stop.set()
        reader.join(5)

    assert took < DEADLINE_S + TOLERANCE_S


def _read_slowly(listener: socket.socket, stop: threading.Event) -> None:
    connection, _ = listener.accept()
    with connection:
        while not stop.wait(0.05):
            connection.recv(200_000)


def test_a_name_lookup_that_hangs_is_left_at_the_deadline(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9. `getaddrinfo` knows no timeout; without the thread around it this would last until the release."""
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(20) and [])
    embedder = make(base_url="http://provider.invalid/v1", timeout_s=DEADLINE_S)
    embedder.warm_up()

    started = time.monotonic()
    with pytest.raises(openai.APITimeoutError):
        embedder.embed(["text"])
    took = time.monotonic() - started
    release.set()

    assert took < DEADLINE_S + TOLERANCE_S


@pytest.mark.parametrize(
    ("base_url", "kind"),
    [
        ("http://127.0.0.1:1/v1", FaultKind.OUTAGE),  # nobody listens there
        ("ftp://127.0.0.1/v1", FaultKind.CONFIGURATION),
        ("127.0.0.1/v1", FaultKind.CONFIGURATION),
    ],
)
def test_a_request_that_cannot_be_sent_has_its_meaning(make: Make, base_url: str, kind: FaultKind) -> None:
    with pytest.raises(openai.APIConnectionError) as raised:
        make(base_url=base_url).embed(["text"])

    assert classify(raised.value).kind is kind


def test_a_hang_up_is_an_outage(server: ProviderServer, make: Make) -> None:
    server.reply_next(Reply(hang_up=True))

    with pytest.raises(openai.APIConnectionError) as raised:
        make().embed(["text"])

    assert classify(raised.value).kind is FaultKind.OUTAGE


def test_neither_key_nor_text_is_in_a_fault(server: ProviderServer, make: Make) -> None:
    key = "very-private-key-0815"
    text = "Name: Ada\nType: person\nObservations:\n- was born in the house at the end of the road"
    server.reply_next(error(401, message=f"Incorrect key: {key}; input {text!r} and {text[:50]}… refused"))

    with pytest.raises(openai.AuthenticationError) as raised:
        make(api_key=key).embed([text, "other"])

    fault = classify(raised.value)
    for shown in (fault.message, fault.stack or "", repr(fault)):
        assert key not in shown
        assert "Observations" not in shown
        assert "house at the end" not in shown
    assert fault.message.startswith("HTTP 401: Incorrect key: [key]")
    assert fault.message.endswith("refused [mock_error]")


def test_an_answer_that_quotes_the_text_is_redacted_too(server: ProviderServer, make: Make) -> None:
    text = "Name: Ada\nType: person\nObservations:\n- was born in the house at the end of the road"
    server.reply_next(Reply(body={"error": {"message": f"cannot embed {text}"}}))

    with pytest.raises(InvalidAnswer) as raised:
        make().embed([text])

    assert classify(raised.value).message == "the answer has no list `data`: cannot embed [text]"


def test_a_lone_surrogate_blames_the_request_and_not_the_provider(make: Make) -> None:
    with pytest.raises(UnicodeEncodeError) as raised:
        make().embed(["good", "bad \ud800"])

    assert classify(raised.value).kind is FaultKind.REQUEST


def test_a_forked_child_opens_its_own_connections(server: ProviderServer, make: Make) -> None:
    """Without the check of the process id the child would send on its parent's socket."""
    embedder = make()
    embedder.embed(["parent"])
    parents = embedder._client
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            vectors = embedder.embed(["child"]).vectors
            code = (
                0 if vectors == [vector_for("child", DIMENSIONS)] and embedder._client is not parents else 2
            )
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert embedder.embed(["parent again"]).vectors == [vector_for("parent again", DIMENSIONS)]
    assert embedder._client is parents
    first, childs, last = (request.client_port for request in server.journal)
    assert first == last != childs


def test_threads_share_one_client_and_have_deadlines_of_their_own(server: ProviderServer, make: Make) -> None:
    embedder = make(timeout_s=DEADLINE_S)
    embedder.warm_up()
    server.reply_to_text("slow", Reply(silent=True))
    outcomes: dict[str, object] = {}

    def run(text: str) -> None:
        try:
            outcomes[text] = embedder.embed([text]).vectors
        except openai.APITimeoutError:
            outcomes[text] = "timeout"

    threads = [threading.Thread(target=run, args=(text,)) for text in ("slow", "quick")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert outcomes == {"slow": "timeout", "quick": [vector_for("quick", DIMENSIONS)]}


def test_a_closed_embedder_opens_again(make: Make) -> None:
    embedder = make()
    embedder.embed(["text"])
    embedder.close()

    assert embedder.embed(["text"]).vectors == [vector_for("text", DIMENSIONS)]
