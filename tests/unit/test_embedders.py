"""Which embedder the settings mean, and what all of them promise."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple
from itertools import combinations
from operator import mul
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

import neo4j_queue.embedders as embedders
from neo4j_queue.embedders import (
    Answer,
    ModelSpec,
    describe,
    open_embedder,
    profile_of,
    validated,
)
from neo4j_queue.embedders.local import LOCAL_DIMENSIONS, RUN_BYTES, LocalEmbedder, _runs
from neo4j_queue.embedders.mock import MockEmbedder, vector_of
from neo4j_queue.embedders.openai import OpenAIEmbedder
from neo4j_queue.embedders.profiles import profile_for
from neo4j_queue.errors import DialectError, InvalidAnswer, SettingsError, WrongWidth
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.providers import BASE64, CUSTOM, LOCAL, MOCK, PROFILES, PROVIDERS, Dialect, Profile
from neo4j_queue.settings import Settings

KEY = {"openai_api_key": "sk-test-0123456789"}


def settings(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ({"mock_embeddings": True}, ("mock", "mock-256", 256)),
        ({"mock_embeddings": True, "neo4j_vector_dimensions": 1536}, ("mock", "mock-1536", 1536)),
        ({"mock_embeddings": True, "embedding_provider": "openai", **KEY}, ("mock", "mock-256", 256)),
        ({"embedding_provider": "mock"}, ("mock", "mock-256", 256)),
        ({"embedding_provider": "local", **KEY}, ("local", "wordllama-256", 256)),
        ({}, ("local", "wordllama-256", 256)),
        (KEY, ("openai", "text-embedding-3-small", 1536)),
        ({"embedding_provider": "openai"}, ("openai", "text-embedding-3-small", 1536)),
        (
            KEY | {"openai_embedding_model": "text-embedding-3-large"},
            ("openai", "text-embedding-3-large", 3072),
        ),
        (
            KEY | {"openai_embedding_dimensions": 512},
            ("openai", "text-embedding-3-small@512", 512),
        ),
        (
            KEY | {"openai_embedding_dimensions": 1536},
            ("openai", "text-embedding-3-small", 1536),
        ),
        (
            KEY | {"openai_embedding_model": "nomic-embed-text", "neo4j_vector_dimensions": 768},
            ("openai", "nomic-embed-text", 768),
        ),
        (
            KEY | {"openai_embedding_model": "qwen3", "openai_embedding_dimensions": 1024},
            ("openai", "qwen3@1024", 1024),
        ),
    ],
)
def test_the_model_that_the_settings_mean(values: dict[str, Any], spec: tuple[str, str, int]) -> None:
    assert describe(settings(**values)) == ModelSpec(*spec)


def test_an_unknown_model_without_a_width_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"OPENAI_EMBEDDING_MODEL=nomic.*NEO4J_VECTOR_DIMENSIONS"):
        describe(settings(**KEY, openai_embedding_model="nomic"))


def test_without_key_and_wordllama_it_is_the_mock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedders, "find_spec", lambda _: None)

    assert describe(settings()).provider == "mock"
    with pytest.raises(SettingsError, match="EMBEDDING_PROVIDER=local"):
        open_embedder(settings(embedding_provider="local"))


@pytest.mark.parametrize(
    ("values", "kind", "warned"),
    [
        ({}, LocalEmbedder, True),
        ({"embedding_provider": "local"}, LocalEmbedder, False),
        ({"mock_embeddings": True}, MockEmbedder, False),
        (KEY, OpenAIEmbedder, False),
    ],
)
def test_a_choice_that_nobody_made_is_warned_of(
    values: dict[str, Any], kind: type[object], warned: bool
) -> None:
    with structlog.testing.capture_logs() as lines:
        embedder = open_embedder(settings(**values))

    assert isinstance(embedder, kind)
    assert (embedder.model, embedder.dimensions) == (
        describe(settings(**values)).model,
        describe(settings(**values)).dimensions,
    )
    assert [line["log_level"] for line in lines] == (["warning"] if warned else [])


def test_the_provider_itself_needs_a_key_and_another_server_does_not() -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        open_embedder(settings(embedding_provider="openai"))

    open_embedder(settings(embedding_provider="openai", openai_base_url="http://127.0.0.1:11434/v1"))


@pytest.mark.parametrize(
    ("provider", "url", "name", "inputs"),
    [
        ("openai", "https://api.openai.com/v1", "openai", 2_048),
        ("openai", "https://EU.api.openai.com/v1", "openai", 2_048),
        ("openai", "https://api.openai.com.example.org/v1", "custom", 256),
        ("openai", "https://generativelanguage.googleapis.com/v1beta/openai/", "gemini", 100),
        ("openai", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope", 10),
        ("openai", "https://eu.aiplatform.googleapis.com/v1/projects/p/endpoints/openapi", "vertex", 250),
        ("openai", "https://w1.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1", "dashscope", 10),
        ("openai", "https://me.openai.azure.com/openai/v1", "azure", 2_048),
        ("openai", "https://me.services.ai.azure.com/openai/v1", "azure", 2_048),
        ("openai", "https://api.mistral.ai/v1", "mistral", 256),
        ("openai", "http://localhost:11434/v1", "ollama", 64),
        ("openai", "http://127.0.0.1:1234/v1", "lmstudio", 64),
        ("openai", "http://[::1]:8000/v1", "vllm", 256),
        ("openai", "http://10.1.2.3:4000", "litellm", 100),
        ("openai", "http://100.64.7.7:11434/v1", "ollama", 64),
        ("openai", "http://ollama:11434/v1", "ollama", 64),
        ("openai", "http://host.docker.internal:11434/v1", "ollama", 64),
        # The port of a server on the internet says nothing, nor does a host without a known port.
        ("openai", "https://llm.example.com:11434/v1", "custom", 256),
        ("openai", "http://8.8.8.8:8000/v1", "custom", 256),
        ("openai", "http://[2001:4860:4860::8888]:8000/v1", "custom", 256),
        ("openai", "http://ollama/v1", "custom", 256),
        ("openai", "http://localhost:11435/v1", "custom", 256),
        ("openai", "http://localhost.example.com:1234/v1", "custom", 256),
        ("mock", "", "mock", 256),
        ("local", "", "local", 256),
    ],
)
def test_limits_go_by_the_address(provider: str, url: str, name: str, inputs: int) -> None:
    profile = profile_for(provider, url)

    assert (profile.name, profile.max_inputs) == (name, inputs)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_that_is_named_goes_before_the_address(name: str) -> None:
    assert profile_for("openai", "https://api.openai.com/v1", name) == PROFILES[name]
    assert profile_of(settings(mock_embeddings=True, embedding_profile=name)).name == name


@pytest.mark.parametrize("name", ["auto", *PROFILES])
def test_the_settings_take_every_profile(name: str) -> None:
    assert settings(embedding_profile=name).embedding_profile == name


def test_the_documents_name_every_profile_with_its_figures() -> None:
    docs = Path(__file__).parents[2] / "docs"
    table = [
        [cell.strip(" *`").replace(",", "") for cell in line.strip("|").split("|")]
        for line in (docs / "how-to/providers.md").read_text().splitlines()
        if re.fullmatch(r"\| `\w+` \|(.*\|){4}", line)
    ]
    assert [(name, *map(int, figures)) for name, _, *figures in table] == [
        astuple(profile)[:4] for profile in PROFILES.values()
    ]
    for (_, known_by, *_), provider in zip(table, PROVIDERS, strict=True):
        assert all(host in known_by for host in provider.hosts)
        assert provider.port is None or f"port {provider.port} nearby" in known_by
    (row,) = re.findall(
        r"^\| `EMBEDDING_PROFILE`.*$", (docs / "reference/settings.md").read_text(), re.MULTILINE
    )
    assert re.findall(r"`(\w+)`", row.split(" or ")[1]) == list(PROFILES)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_a_text_of_full_length_fits_into_a_request(profile: Profile) -> None:
    assert 0 < profile.max_input_tokens <= profile.max_request_tokens


def test_limits_of_the_settings_win() -> None:
    limits = {"embed_batch_size": 7, "embed_batch_tokens": 99, "embed_input_tokens": 77}
    embedder = open_embedder(settings(**KEY, **limits))

    assert embedder.profile == Profile("openai", 7, 99, 77, Dialect(encoding=BASE64))
    assert CUSTOM.overridden(None, None) == CUSTOM


# --- the check of an answer (whole answers over HTTP: test_embedders_openai.py)


def test_vectors_are_paired_by_index() -> None:
    assert validated([(1, [0.0, 2.0]), (0, [1.0, 0.0])], 2, 2) == [[1.0, 0.0], [0.0, 2.0]]


def test_whole_numbers_become_floats() -> None:
    (vector,) = validated([(0, [1, 0])], 1, 2)

    assert [type(number) for number in vector] == [float, float]


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(0, [1.0, 0.0])],
        [(0, [1.0, 0.0]), (0, [1.0, 0.0])],
        [(0, [1.0, 0.0]), (2, [1.0, 0.0])],
        [(0, [1.0, 0.0]), (-1, [1.0, 0.0])],
        [(False, [1.0, 0.0]), (True, [1.0, 0.0])],
        [(None, [1.0, 0.0]), (None, [1.0, 0.0])],
        [(2, [1.0, 0.0]), (None, [1.0, 0.0])],
        [(0, [1.0, 0.0]), (1.5, [1.0, 0.0])],
        [(0, [1.0, 0.0]), ("１", [1.0, 0.0])],
        [(0, [1.0, 0.0]), ("-1", [1.0, 0.0])],
        [("1", [1.0, 0.0]), (1.0, [1.0, 0.0])],
        [(0, [1.0, 0.0]), (math.inf, [1.0, 0.0])],
        [(0, [1.0, 0.0]), (1, [1.0])],
        [(0, [1.0, 0.0]), (1, [1.0, 0.0, 0.0])],
        [(0, [1.0, 0.0]), (1, None)],
        [(0, [1.0, 0.0]), (1, (1.0, 0.0))],
        [(0, [1.0, 0.0]), (1, [None, 1.0])],
        [(0, [1.0, 0.0]), (1, ["1", 1.0])],
        [(0, [1.0, 0.0]), (1, [True, 1.0])],
        [(0, [1.0, 0.0]), (1, [0.0, 0.0])],
        [(0, [1.0, 0.0]), (1, [1e-30, 0.0])],
        [(0, [1.0, 0.0]), (1, [1e30, 0.0])],
        [(0, [1.0, 0.0]), (1, [1e300, 1e300])],
        [(0, [1.0, 0.0]), (1, [math.nan, 1.0])],
        [(0, [1.0, 0.0]), (1, [math.inf, 1.0])],
        [(0, [1.0, 0.0]), (1, [-math.inf, math.inf])],
    ],
    ids=str,
)
def test_an_answer_that_is_not_one_good_vector_per_text_is_refused(
    pairs: list[tuple[object, object]],
) -> None:
    """C8."""
    with pytest.raises(InvalidAnswer):
        validated(pairs, 2, 2)


@pytest.mark.parametrize("width", [1, 3])
def test_vectors_that_are_good_but_for_their_common_width_tell_it(width: int) -> None:
    """One text is enough: nothing else is known of the model."""
    for count in (1, 2):
        with pytest.raises(WrongWidth) as raised:
            validated([(n, [1.0] * width) for n in range(count)], count, 2)
        assert (raised.value.given, raised.value.configured) == (width, 2)


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, [1.0]), (1, [1.0, 0.0])],
        [(0, [1.0]), (1, [1.0, 0.0, 0.0])],
        [(0, []), (1, [])],
        [(0, [1.0]), (1, None)],
        [(0, [1.0]), (1, [0.0])],
        [(0, [1.0]), (1, [math.nan])],
        [(0, [1.0])],
    ],
    ids=str,
)
def test_an_answer_that_is_odd_in_any_other_way_says_nothing_of_the_model(
    pairs: list[tuple[object, object]],
) -> None:
    with pytest.raises(InvalidAnswer) as raised:
        validated(pairs, 2, 2)
    assert type(raised.value) is InvalidAnswer


@pytest.mark.parametrize("left_out", [0, 1, 2])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]], ids=str)
def test_one_index_that_is_missing_is_the_one_that_is_left(left_out: int, order: list[int]) -> None:
    """Seen failing before: a server that leaves out zeros had every answer refused."""
    pairs: list[tuple[object, object]] = [(n, [1.0, n]) for n in order]
    pairs[order.index(left_out)] = (None, [1.0, left_out])

    assert validated(pairs, 3, 2) == [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]


def test_a_single_vector_needs_no_index() -> None:
    assert validated([(None, [1.0, 0.0])], 1, 2) == [[1.0, 0.0]]


@pytest.mark.parametrize("write", [str, float], ids=["text", "1.0"])
def test_an_index_that_is_written_in_another_way_is_read(write: Callable[[int], object]) -> None:
    pairs: list[tuple[object, object]] = [(write(n), [1.0, n]) for n in (1, 0)]

    assert validated(pairs, 2, 2) == [[1.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("pairs", "advice"),
    [
        ([(None, [1.0, 0.0]), (None, [1.0, 0.0])], "EMBED_BATCH_SIZE=1"),
        ([(0, [1.0, 0.0]), (0, [1.0, 0.0])], "EMBED_BATCH_SIZE=1"),
        ([(0, {"values": [1.0, 0.0]}), (1, {"values": [1.0, 0.0]})], "OPENAI_BASE_URL"),
        ([(0, 1.0), (1, 0.0)], "OPENAI_BASE_URL"),
    ],
    ids=["no index", "one index for all", "objects", "numbers"],
)
def test_an_answer_of_another_shape_is_the_dialects(pairs: list[tuple[object, object]], advice: str) -> None:
    """The order of an answer proves nothing: vectors are never paired by it."""
    with pytest.raises(DialectError, match=advice):
        validated(pairs, 2, 2)


@pytest.mark.parametrize("pairs", [[(0, None), (1, None)], [(0, [1.0, 0.0]), (1, {})]], ids=str)
def test_a_vector_that_is_none_may_be_its_texts(pairs: list[tuple[object, object]]) -> None:
    with pytest.raises(InvalidAnswer) as raised:
        validated(pairs, 2, 2)
    assert type(raised.value) is InvalidAnswer


numbers = st.floats() | st.integers() | st.just(10**400) | st.none() | st.booleans()


@given(
    st.lists(st.tuples(st.integers(-1, 4) | st.none(), st.lists(numbers, max_size=3) | st.none()), max_size=4)
)
def test_what_passes_the_check_can_be_stored(pairs: list[tuple[object, object]]) -> None:
    try:
        vectors = validated(pairs, 2, 2)
    except InvalidAnswer:
        return
    assert len(vectors) == 2
    for vector in vectors:
        assert len(vector) == 2
        assert all(type(number) is float and math.isfinite(number) for number in vector)
        assert any(vector)


def test_rate_headers() -> None:
    assert RateHeaders.of({}) is None
    assert RateHeaders.of({"x-ratelimit-remaining-requests": "many"}) is None
    assert RateHeaders.of(
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "1m"}
    ) == RateHeaders(remaining_requests=0, reset_tokens_s=60.0)


# --- mock

TEXTS = [f"Name: thing {n}\nType: class\nObservations:\n- something common" for n in range(120)]


def cosine(a: list[float], b: list[float]) -> float:
    return float(sum(map(mul, a, b))) / (math.hypot(*a) * math.hypot(*b))


@pytest.mark.parametrize("dimensions", [1, 2, 3, 8, 100, 128, 256, 300, 1536, 3072, 4096])
def test_mock_vectors_have_unit_length_and_the_width(dimensions: int) -> None:
    """C16."""
    for text in TEXTS[:10]:
        vector = vector_of(text, dimensions)
        assert len(vector) == dimensions
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("dimensions", [100, 256, 1536])
def test_mock_vectors_of_unrelated_texts_are_unlike(dimensions: int) -> None:
    """C16. A mock of positive numbers would make any two texts 0.75 alike."""
    vectors = [vector_of(text, dimensions) for text in TEXTS]
    cosines = [cosine(a, b) for a, b in combinations(vectors, 2)]

    assert sum(map(abs, cosines)) / len(cosines) < 0.1
    assert abs(sum(cosines) / len(cosines)) < 0.01  # centred: as often below zero as above
    assert max(cosines) < 0.6


@pytest.mark.parametrize("dimensions", [4, 256])
def test_mock_vectors_are_the_same_on_every_machine(dimensions: int) -> None:
    """Their first numbers, written down: a change of the recipe would make every stored vector stale."""
    expected = {4: [0.70918, 0.62883], 256: [-0.01607, 0.08946]}

    assert vector_of("Ada", dimensions)[:2] == pytest.approx(expected[dimensions], abs=1e-4)
    assert vector_of("Ada", dimensions) == vector_of("Ada", dimensions)
    assert vector_of("Ada", dimensions) != vector_of("ada", dimensions)


def test_mock_vectors_pass_the_check_of_answers() -> None:
    answer = MockEmbedder(256, MOCK).embed([*TEXTS, "", "日本語 😀"])

    assert validated(enumerate(answer.vectors), len(TEXTS) + 2, 256) == answer.vectors
    assert answer.total_tokens is not None


def test_mock_latency_passes_once_per_request() -> None:
    slept: list[float] = []
    embedder = MockEmbedder(8, MOCK, latency_s=0.2, sleep=slept.append)
    embedder.embed(["a", "b"])
    embedder.embed(["c"])

    assert slept == [0.2, 0.2]


def test_mock_latency_is_a_setting() -> None:
    embedder = open_embedder(settings(mock_embeddings=True, mock_embedding_latency_ms=250))

    assert isinstance(embedder, MockEmbedder)
    assert embedder._latency_s == 0.25


# --- local


def test_local_vectors_tell_meanings_apart() -> None:
    """C16 on three texts (on the demo graph: the demo itself)."""
    texts = [
        "Name: zlib\nObservations:\n- compress and decompress data with gzip",
        "Name: argparse\nObservations:\n- parser for command line options and arguments",
        "Name: threading.Barrier\nObservations:\n- wait until a number of threads have reached a point",
    ]
    embedder = LocalEmbedder(LOCAL)
    entities = embedder.embed(texts).vectors
    questions = embedder.embed(
        ["compress a file", "parse command line options", "wait for several threads"]
    ).vectors

    best = [max(range(3), key=lambda n: cosine(question, entities[n])) for question in questions]
    assert best == [0, 1, 2]


def test_local_vectors_keep_the_order_of_texts_of_any_length() -> None:
    """Texts run sorted by length: without the way back the vectors would belong to other texts."""
    embedder = LocalEmbedder(LOCAL)
    texts = ["long " * 4_000, "a", "middle " * 50, "b c", "long " * 3_000]

    together = embedder.embed(texts)

    assert isinstance(together, Answer)
    for text, vector in zip(texts, together.vectors, strict=True):
        assert len(vector) == LOCAL_DIMENSIONS
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)
        assert cosine(vector, embedder.embed([text]).vectors[0]) == pytest.approx(1.0, abs=1e-4)


@given(st.lists(st.integers(0, 3 * RUN_BYTES), max_size=12))
def test_local_runs_hold_every_text_once_and_are_bounded(sizes: list[int]) -> None:
    """One text of 100,000 tokens among 255 short ones would be padded to 25 GB."""
    runs = list(_runs(["x" * size for size in sizes]))

    assert sorted(index for run in runs for index in run) == list(range(len(sizes)))
    for run in runs:
        assert len(run) == 1 or max(sizes[index] for index in run) * len(run) <= RUN_BYTES


def test_loading_the_local_model_leaves_logging_alone() -> None:
    """Importing wordllama configures the root logger; the worker's lines would no longer be JSON only.

    In a process of its own: where the root logger has a handler already, as under pytest, nothing would show.
    """
    script = (
        "import logging, sys; from neo4j_queue.embedders.local import LocalEmbedder;"
        "from neo4j_queue.providers import LOCAL;"
        "LocalEmbedder(LOCAL).warm_up(); root = logging.getLogger();"
        "sys.exit(1 if root.handlers or root.level != logging.WARNING else 0)"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
