"""How a server is asked: in its own dialect, at the address that people copied, and again without what it refuses."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import openai
import pytest
import structlog

from neo4j_queue.embedders import Embedder, describe, environment_problems, open_embedder, profile_of
from neo4j_queue.embedders.profiles import endpoint, wants_key_header
from neo4j_queue.errors import FaultKind, InvalidAnswer, SettingsError, WrongWidth, classify
from neo4j_queue.mock_provider import FAULTS, ProviderServer, Reply, Rules, error, vector_for
from neo4j_queue.providers import PROFILES, prefixes_of
from neo4j_queue.settings import Settings

DIMENSIONS = 8
KEY = "sk-test-0123456789abcdef"
Open = Callable[..., Embedder]
# Voyage's words.
REFUSED = error(400, {"detail": "Argument 'encoding_format' is not supported by our API"})


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(dimensions=DIMENSIONS) as running:
        yield running


def settings(**values: Any) -> Settings:
    defaults: dict[str, Any] = {
        "embedding_provider": "openai",
        "openai_api_key": KEY,
        "openai_embedding_model": "m",
        "neo4j_vector_dimensions": DIMENSIONS,
    }
    return Settings(_env_file=None, **(defaults | values))


@pytest.fixture
def opened(server: ProviderServer) -> Iterator[Open]:
    made: list[Embedder] = []

    def build(**values: Any) -> Embedder:
        made.append(open_embedder(settings(**({"openai_base_url": server.url} | values))))
        return made[-1]

    yield build
    for embedder in made:
        embedder.close()


# --- what is sent


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ({}, "float"),
        ({"openai_base_url": "https://api.openai.com/v1"}, "base64"),
        ({"openai_base_url": "https://eu.api.openai.com/v1"}, "base64"),
        ({"openai_base_url": "https://api.openai.com.example.org/v1"}, "float"),
        ({"embedding_profile": "openai"}, "float"),
        ({"embedding_profile": "voyage"}, "none"),
        ({"openai_base_url": "https://api.voyageai.com/v1"}, "none"),
        ({"embedding_profile": "voyage", "embedding_encoding_format": "base64"}, "base64"),
        ({"openai_base_url": "https://api.openai.com/v1", "embedding_encoding_format": "float"}, "float"),
    ],
    ids=str,
)
def test_the_encoding_is_the_profiles_or_the_settings(values: dict[str, Any], encoding: str) -> None:
    values = {"openai_base_url": "http://127.0.0.1:9/v1"} | values
    assert profile_of(settings(**values)).dialect.encoding == encoding


def test_nothing_is_asked_for_where_the_server_has_its_own_way(server: ProviderServer, opened: Open) -> None:
    """The client's own method would ask for base64 here."""
    opened(embedding_encoding_format="none").embed(["text"])

    assert dict(server.journal[0].fields) == {"model": "m"}


def test_passages_and_queries_have_fields_and_prefixes_of_their_own(
    server: ProviderServer, opened: Open
) -> None:
    embedder = opened(
        embedding_extra_body='{"input_type": "passage", "truncate": "END"}',
        embedding_query_body='{"input_type": "query"}',
        embed_passage_prefix="passage: ",
        embed_query_prefix="query:\\n",
    )
    passage = embedder.embed(["a", "b"])
    query = embedder.embed(["a"], query=True)

    first, second = server.journal
    assert first.inputs == ("passage: a", "passage: b")
    assert second.inputs == ("query:\na",)
    plain = {"model": "m", "encoding_format": "float", "truncate": "END"}
    assert dict(first.fields) == plain | {"input_type": "passage"}
    assert dict(second.fields) == plain | {"input_type": "query"}
    assert passage.vectors == [vector_for(text, DIMENSIONS) for text in first.inputs]
    assert query.vectors == [vector_for("query:\na", DIMENSIONS)]


@pytest.mark.parametrize(
    ("profile", "fields"),
    [
        ("nvidia", ("passage", "query")),
        ("voyage", ("document", "query")),
        ("custom", (None, None)),
    ],
)
def test_a_profile_knows_the_fields_of_its_provider(
    server: ProviderServer, opened: Open, profile: str, fields: tuple[str | None, str | None]
) -> None:
    """Seen failing before: a server that needs `input_type` refused every request."""
    if profile == "nvidia":
        server.rules = Rules(needed_fields=frozenset({"input_type"}))
    embedder = opened(embedding_profile=profile)
    embedder.embed(["a"])
    embedder.embed(["a"], query=True)

    assert tuple(request.fields.get("input_type") for request in server.journal) == fields


def test_a_field_of_the_profile_is_taken_away_by_null(server: ProviderServer, opened: Open) -> None:
    opened(embedding_profile="nvidia", embedding_extra_body='{"input_type": null}').embed(["a"])

    assert "input_type" not in server.journal[0].fields


def test_the_width_is_asked_for_by_the_name_that_the_provider_has(
    server: ProviderServer, opened: Open
) -> None:
    opened(embedding_profile="voyage", openai_embedding_dimensions=DIMENSIONS).embed(["a"])

    assert (server.journal[0].fields["output_dimension"], server.journal[0].dimensions) == (DIMENSIONS, None)


def test_a_prefix_leaves_the_text_less_room() -> None:
    plain, prefixed = profile_of(settings()), profile_of(settings(embed_passage_prefix="passage: "))

    assert prefixed.max_input_tokens == plain.max_input_tokens - 5
    assert prefixed.max_request_tokens == plain.max_request_tokens - 5 * plain.max_inputs
    for profile in PROFILES:
        narrow = profile_of(settings(embedding_profile=profile, embed_query_prefix="q" * 500))
        assert 0 < narrow.max_input_tokens <= narrow.max_request_tokens


@pytest.mark.parametrize(
    ("name", "passage"),
    [
        ("intfloat/multilingual-e5-large", "passage: "),
        ("e5-base-v2", "passage: "),
        ("text-embedding-nomic-embed-text-v1.5", "search_document: "),
        ("intfloat/e5-mistral-7b-instruct", None),
        ("text-embedding-3-small", None),
        ("nvidia/nv-embedqa-e5-v5", None),
        ("made5-up", None),
    ],
)
def test_models_that_were_trained_with_prefixes_are_known(name: str, passage: str | None) -> None:
    found = prefixes_of(name)

    assert (found.passage if found else None) == passage


# --- the identity of the model


def model(**values: Any) -> str:
    return describe(settings(**values)).model


def test_what_changes_stored_vectors_is_part_of_the_models_identity() -> None:
    """Else vectors of texts with the prefix and without it would stand side by side, and count as fresh."""
    variants = [
        {},
        {"embed_passage_prefix": "passage: "},
        {"embed_passage_prefix": "search_document: "},
        {"embedding_extra_body": '{"input_type": "passage"}'},
        {"embedding_extra_body": '{"input_type": "document"}'},
        {"embedding_extra_body": '{"input_type": "passage"}', "embed_passage_prefix": "passage: "},
    ]
    assert len({model(**variant) for variant in variants}) == len(variants)
    assert model() == "m"
    assert model(embedding_extra_body='{"a": 1, "b": 2}') == model(embedding_extra_body='{"b": 2, "a": 1}')


@pytest.mark.parametrize(
    "values",
    [
        {"embed_query_prefix": "query: "},
        {"embedding_query_body": '{"input_type": "query"}'},
        {"embedding_extra_body": '{"user": "me", "tags": ["a"]}'},
        {"embedding_encoding_format": "none"},
        {"embedding_profile": "nvidia"},
    ],
    ids=str,
)
def test_what_changes_no_stored_vector_leaves_the_identity_alone(values: dict[str, Any]) -> None:
    assert model(**values) == "m"


# --- a refused field is left out


def test_a_refused_field_is_left_out_from_then_on(server: ProviderServer, opened: Open) -> None:
    """Seen failing before: nothing was ever embedded. Guard: `leave_out`; without it each request is sent twice."""
    server.rules = Rules(refused_fields=frozenset({"encoding_format"}))
    embedder = opened()
    with structlog.testing.capture_logs() as lines:
        answers = [embedder.embed([text]) for text in ("a", "b")]

    assert [answer.requests for answer in answers] == [2, 1]
    assert [answer.vectors for answer in answers] == [[vector_for(text, DIMENSIONS)] for text in ("a", "b")]
    assert ["encoding_format" in request.fields for request in server.journal] == [True, False, False]
    assert [(line["event"], line["field"]) for line in lines] == [
        ("provider_refuses_field", "encoding_format")
    ]


def test_several_refused_fields_are_left_out_one_by_one(server: ProviderServer, opened: Open) -> None:
    server.rules = Rules(refused_fields=frozenset({"encoding_format", "dimensions", "user"}))
    embedder = opened(openai_embedding_dimensions=DIMENSIONS, embedding_extra_body='{"user": "me"}')

    assert [embedder.embed(["a"]).requests for _ in range(2)] == [4, 1]


def test_a_width_that_is_refused_and_is_not_the_models_own_is_told(
    server: ProviderServer, opened: Open
) -> None:
    server.rules = Rules(refused_fields=frozenset({"dimensions"}))
    embedder = opened(openai_embedding_dimensions=4, neo4j_vector_dimensions=None)

    with pytest.raises(WrongWidth, match="unset it"):
        embedder.embed(["a"])


@pytest.mark.parametrize(
    "body",
    [
        {
            "detail": "Value 'float' supplied for argument 'encoding_format' is not valid -- accepted: 'base64'"
        },
        {
            "error": {
                "message": "gemini does not support parameters: {'encoding_format': 'float'}",
                "code": "400",
            }
        },
        {
            "detail": [
                {
                    "loc": ["body", "encoding_format"],
                    "msg": "Extra inputs are not permitted",
                    "input": "float",
                }
            ]
        },
        {"message": "unknown field `encoding_format`, expected `input` or `model` at line 1 column 40"},
    ],
    ids=["voyage", "litellm", "fastapi", "serde"],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_is_read_in_the_words_of_each_server(
    server: ProviderServer, opened: Open, body: Any, status: int
) -> None:
    server.reply_next(error(status, body))

    assert opened().embed(["a"]).requests == 2


def test_a_bad_text_behind_a_refused_field_is_still_told(server: ProviderServer, opened: Open) -> None:
    """The second refusal names the field no more: it was the server's dialect, and the text is a matter of its own."""
    server.reply_next(REFUSED, error(400, message="bad text"))
    embedder = opened()
    with pytest.raises(openai.BadRequestError, match="bad text"):
        embedder.embed(["bad"])

    assert embedder.embed(["good"]).requests == 1


def test_a_text_that_names_a_field_makes_no_server_lose_it(server: ProviderServer, opened: Open) -> None:
    """Guard: the redaction before `suspect`. Without it one request too many is sent."""
    text = "A note on the encoding_format of the third parameter"
    server.reply_to_text("A note", error(400, message=f"cannot embed: {text}"))
    embedder = opened()
    with pytest.raises(openai.BadRequestError):
        embedder.embed([text])

    assert len(server.journal) == 1
    assert "encoding_format" in server.journal[0].fields


def test_a_refusal_that_names_the_field_for_ever_costs_one_request(
    server: ProviderServer, opened: Open
) -> None:
    """The name came from a quotation that was not recognised: the field stays, and is never suspected again."""
    server.reply_always(error(400, message="something about encoding_format"))
    embedder = opened()
    for _ in range(3):
        with pytest.raises(openai.BadRequestError):
            embedder.embed(["a"])
    server.reply_always(None)
    embedder.embed(["a"])

    assert ["encoding_format" in request.fields for request in server.journal] == [
        True,
        False,
        True,
        True,
        True,
    ]


def test_an_outage_in_between_proves_nothing(server: ProviderServer, opened: Open) -> None:
    server.reply_next(REFUSED, error(503), REFUSED)
    embedder = opened()
    with pytest.raises(openai.InternalServerError):
        embedder.embed(["a"])

    assert embedder.embed(["a"]).requests == 2


@pytest.mark.parametrize("status", [401, 404, 413, 429, 500])
def test_no_other_status_makes_it_ask_twice(server: ProviderServer, opened: Open, status: int) -> None:
    server.reply_always(error(status, message="encoding_format"))
    with pytest.raises(openai.APIStatusError):
        opened().embed(["a"])

    assert len(server.journal) == 1


# --- the address


@pytest.mark.parametrize(
    ("address", "base", "query"),
    [
        ("http://h/v1", "http://h/v1", {}),
        ("http://h/v1/", "http://h/v1", {}),
        ("http://h/v1/embeddings", "http://h/v1", {}),
        ("http://h/v1/embeddings/", "http://h/v1", {}),
        (
            "http://h/openai/deployments/D?api-version=2024-02-01",
            "http://h/openai/deployments/D",
            {"api-version": "2024-02-01"},
        ),
        ("http://h/D/embeddings?api-version=1&x=", "http://h/D", {"api-version": "1", "x": ""}),
        ("http://h/v1#top", "http://h/v1", {}),
        ("http://h", "http://h", {}),
        ("http://h/my-embeddings", "http://h/my-embeddings", {}),
    ],
)
def test_an_address_is_taken_as_people_copy_it(address: str, base: str, query: dict[str, str]) -> None:
    assert endpoint(address) == (base, query)


@pytest.mark.parametrize("end", ["", "/", "/embeddings"])
def test_a_deployments_address_keeps_its_query(server: ProviderServer, opened: Open, end: str) -> None:
    """Seen failing before: `/deployments/D/?api-version=…embeddings` was asked for."""
    base = server.url.removesuffix("/v1")
    opened(openai_base_url=f"{base}/openai/deployments/D{end}?api-version=2024-02-01").embed(["a"])

    assert server.journal[0].path == "/openai/deployments/D/embeddings?api-version=2024-02-01"


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("https://me.openai.azure.com/openai/deployments/D?api-version=1", True),
        ("https://me.cognitiveservices.azure.com/openai/deployments/D", True),
        ("https://me.openai.azure.com/openai/v1", False),
        ("https://openai.azure.com.example.org/deployments/D", False),
        ("http://127.0.0.1/deployments/D", False),
    ],
)
def test_a_deployment_of_azure_gets_its_key_by_its_own_header(address: str, wanted: bool) -> None:
    assert wants_key_header(address) is wanted


def test_the_header_of_azure_takes_the_place_of_the_other(
    server: ProviderServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neo4j_queue.embedders.openai.wants_key_header", lambda _: True)
    server.rules = Rules(key=KEY)
    opened().embed(["a"])

    headers = server.journal[0].headers
    assert (headers["api-key"], headers.get("authorization")) == (KEY, None)


# --- the size of an answer


def endless(size: int) -> bytes:
    return b'{"data": [' + b"0.123456789," * (size // 12)


def test_an_answer_larger_than_any_vectors_is_not_read(server: ProviderServer, opened: Open) -> None:
    """Guard: `bound_answer`; without it the whole answer is held."""
    server.reply_always(Reply(body=endless(3_000_000)))
    with pytest.raises(InvalidAnswer, match=r"more than 1,179,648 bytes"):
        opened().embed(["a"])


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)], ids=["gzip", "deflate"]
)
def test_a_small_answer_that_grows_when_it_is_unpacked_is_not_read(
    server: ProviderServer, opened: Open, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(b" " * 50_000_000)
    server.reply_always(Reply(body=packed, headers={"Content-Encoding": encoding}))
    with pytest.raises(InvalidAnswer, match="which no vectors would need") as raised:
        opened().embed(["a"])

    assert classify(raised.value).kind is FaultKind.ANSWER


def test_a_compressed_answer_is_read(server: ProviderServer, opened: Open) -> None:
    vector = vector_for("a", DIMENSIONS)
    body = f'{{"data": [{{"index": 0, "embedding": {vector}}}]}}'.encode()
    server.reply_next(Reply(body=gzip.compress(body), headers={"Content-Encoding": "gzip"}))

    assert opened().embed(["a"]).vectors == [vector]


def test_vectors_of_the_widest_model_are_told_as_such(server: ProviderServer, opened: Open) -> None:
    server.dimensions = 4_096
    with pytest.raises(WrongWidth, match="4096"):
        opened().embed(["text"] * 20)


@pytest.mark.parametrize(("status", "kind"), [(500, FaultKind.OUTAGE), (401, FaultKind.CONFIGURATION)])
def test_a_refusal_without_an_end_keeps_its_meaning(
    server: ProviderServer, opened: Open, status: int, kind: FaultKind
) -> None:
    server.reply_next(Reply(status=status, body="why " * 1_000_000, content_type="text/plain"))
    with pytest.raises(openai.APIStatusError) as raised:
        opened().embed(["a"])

    fault = classify(raised.value)
    assert (fault.kind, fault.message[:12]) == (kind, f"HTTP {status}: wh")
    assert len(raised.value.response.content) == 1 << 20


def test_an_answer_nested_deeper_than_the_stack_is_no_verdict_for_good(
    server: ProviderServer, opened: Open
) -> None:
    """Seen failing before: RecursionError was UNKNOWN, and failed the whole batch for good."""
    for body in (b"[" * 500_000, b'{"data":' * 100_000, b'{"data":[{"index":0,"embedding":' + b"[" * 200_000):
        server.reply_next(Reply(body=body))
        with pytest.raises(InvalidAnswer) as raised:
            opened().embed(["a"])
        assert classify(raised.value).kind is FaultKind.ANSWER


# --- what the environment does to the client


@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:1080", "socks4://u:p@ss@h:1", "socks5://127.0.0.1:1"])
def test_a_proxy_that_the_client_cannot_use_is_the_configurations(
    server: ProviderServer, opened: Open, monkeypatch: pytest.MonkeyPatch, name: str, proxy: str
) -> None:
    """Seen failing before: a ValueError for each batch, which failed its jobs for good."""
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv(name, proxy)
    monkeypatch.setattr("neo4j_queue.embedders.surroundings.find_spec", lambda _: None)
    (line,) = environment_problems({name: proxy})
    assert line.startswith(f"{name}=socks")
    advice = (
        "needs the package socksio" if proxy.startswith("socks5") else "takes http, https and socks5 proxies"
    )
    assert advice in line
    assert "p@ss" not in line
    if not proxy.startswith("socks5"):
        with pytest.raises(SettingsError) as raised:
            opened().embed(["a"])
        assert raised.value.problems == [line]
        assert classify(raised.value).kind is FaultKind.CONFIGURATION
        assert not server.journal


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"ALL_PROXY": ""},
        {"HTTP_PROXY": "http://proxy:3128", "https_proxy": "https://u:p@proxy"},
        {"ALL_PROXY": "proxy:3128"},
        {"ALL_PROXY": "socks://proxy", "NO_PROXY": "localhost, *"},
        {"SSL_CERT_FILE": __file__},
    ],
    ids=str,
)
def test_an_environment_that_the_client_can_work_with_is_fine(environment: dict[str, str]) -> None:
    assert environment_problems(environment) == []


def test_certificates_that_are_not_there_are_named() -> None:
    (line,) = environment_problems({"SSL_CERT_FILE": "/no/such/file"})

    assert line.startswith("SSL_CERT_FILE=/no/such/file: there is no such file")


@pytest.mark.parametrize("fault", ["wrong-key", "expired-key", "no-model"])
def test_faults_of_the_key_and_the_model_are_the_configurations(
    server: ProviderServer, opened: Open, fault: str
) -> None:
    server.reply_next(FAULTS[fault])
    with closing(opened()) as embedder, pytest.raises(openai.APIStatusError) as raised:
        embedder.embed(["a"])

    assert classify(raised.value).kind is FaultKind.CONFIGURATION
