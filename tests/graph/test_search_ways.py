"""D8: a search answers by the half that can, and says which way it went and why."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import InvalidAnswer, SettingsError, TemporarilyUnavailable
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.answer import SearchAnswer
from neo4j_queue.graph.query_embedder import QueryEmbedder
from neo4j_queue.mock_provider import error, vector_for
from neo4j_queue.schema import migrate_graph
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings
from tests.graph.conftest import wait_until
from tests.provider import ProviderServer, hosted_by

INDEX, WORDS = "entity_embeddings", "entity_embeddings_text"
# The promise of a search whose surroundings fail.
WITHIN_S = 3.0


@pytest.fixture
def drop(graph_db: Database, settings: Settings) -> Iterator[Callable[[str], None]]:
    """Drops an index; afterwards all are there again."""
    dropped: list[str] = []

    def work(name: str) -> None:
        graph_db.autocommit(f"DROP INDEX {name}")
        dropped.append(name)

    yield work
    if dropped:
        migrate_graph(graph_db, settings)


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A provider that does what the test says."""
    with ProviderServer(dimensions=256) as server:
        yield server


@pytest.fixture
def hosted(graph_db: Database, make_settings: MakeSettings, provider: ProviderServer) -> EntityGraph:
    """A graph whose queries are embedded by the provider."""
    return EntityGraph.from_settings(hosted_settings(make_settings, provider), database=graph_db)


def hosted_settings(make_settings: MakeSettings, provider: ProviderServer, **overrides: Any) -> Settings:
    return make_settings(**{**hosted_by(provider), **overrides})


def first_axis(_: str) -> list[float]:
    return [1.0, *[0.0] * 255]


def uids(answer: SearchAnswer) -> list[str]:
    return [hit.uid for hit in answer.hits]


def loom(graph: EntityGraph, embed: Callable[..., Any] | None = None) -> None:
    """Three entities; with `embed` they have vectors, the first one that of the first axis."""
    graph.create_entities(
        [
            {"name": "Ada", "observations": ["wrote the first program"]},
            {"name": "Jacquard", "observations": ["invented a loom with punched cards"]},
            {"name": "Babbage", "observations": ["read about the loom"]},
        ]
    )
    if embed is not None:
        embed("Ada", "Jacquard", "Babbage")


def timed(work: Callable[[], SearchAnswer]) -> SearchAnswer:
    began = time.monotonic()
    answer = work()
    assert time.monotonic() - began < WITHIN_S
    return answer


# --- The three ways ---------------------------------------------------------------------------------------------


def test_by_default_both_halves_are_asked_and_each_hit_says_which_found_it(
    graph: EntityGraph, embed: Callable[..., Any]
) -> None:
    loom(graph, embed)
    answer = graph.search("loom", embed=first_axis)
    assert (answer.search_type, answer.fallback_reason) == ("hybrid", None)
    by_uid = {hit.uid: hit for hit in answer}
    assert by_uid["Ada"].found_by == ("semantic",)
    assert by_uid["Ada"].semantic == pytest.approx(1.0, abs=1e-3)
    assert by_uid["Jacquard"].found_by == by_uid["Babbage"].found_by == ("semantic", "keyword")
    assert all(0 < hit.score <= 1 and "embedding" not in hit.properties for hit in answer)
    assert [hit.score for hit in answer] == sorted((hit.score for hit in answer), reverse=True)
    coverage = answer.coverage
    assert (
        coverage.entities,
        coverage.pending,
        coverage.vector_index,
        coverage.text_index,
        coverage.cut,
    ) == (
        *(3, 0, INDEX, WORDS),
        False,
    )


def test_what_both_find_goes_before_what_one_finds(graph: EntityGraph, embed: Callable[..., Any]) -> None:
    loom(graph, embed)
    answer = graph.search("program first", embed=first_axis)
    assert (answer[0].uid, answer[0].score) == ("Ada", pytest.approx(1.0))


@pytest.mark.parametrize(
    ("mode", "found", "index", "words"),
    [("semantic", ["Ada"], INDEX, None), ("keyword", ["Jacquard"], None, WORDS)],
)
def test_one_half_may_be_asked_alone(
    graph: EntityGraph,
    embed: Callable[..., Any],
    mode: str,
    found: list[str],
    index: str | None,
    words: str | None,
) -> None:
    loom(graph, embed)
    answer = graph.search("punched", 1, mode=mode, embed=first_axis)
    assert (uids(answer), answer.search_type, answer.fallback_reason) == (found, mode, None)
    assert (answer.coverage.vector_index, answer.coverage.text_index) == (index, words)
    assert answer[0].score == pytest.approx(1.0, abs=1e-3)


def test_a_keyword_search_asks_no_provider(hosted: EntityGraph, provider: ProviderServer) -> None:
    loom(hosted)
    assert uids(hosted.search("punched", mode="keyword")) == ["Jacquard"]
    assert provider.inputs == []


def test_the_least_score_is_one_of_the_scores_that_are_shown(
    graph: EntityGraph, embed: Callable[..., Any]
) -> None:
    loom(graph, embed)
    for mode in ("semantic", "keyword", "hybrid"):
        everything = graph.search("loom program", mode=mode, embed=first_axis)
        least = everything[0].score
        some = graph.search("loom program", mode=mode, min_score=least, embed=first_axis)
        assert uids(some) == [hit.uid for hit in everything if hit.score >= least]
        assert len(some) < len(everything)


# --- Falling back -----------------------------------------------------------------------------------------------


def test_without_vectors_words_are_searched(hosted: EntityGraph, provider: ProviderServer) -> None:
    """D8."""
    loom(hosted)
    for mode in (None, "semantic", "hybrid"):
        answer = hosted.search("punched", mode=mode)
        assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
        assert answer.fallback_reason == "no current entity has a vector of test-model yet"
        assert (answer.coverage.entities, answer.coverage.pending) == (3, 3)
        with pytest.raises(TemporarilyUnavailable, match="no current entity has a vector"):
            hosted.search("punched", mode=mode, strict=True)


def test_vectors_of_another_model_are_no_vectors(
    graph: EntityGraph, graph_db: Database, embed: Callable[..., Any]
) -> None:
    loom(graph, embed)
    graph_db.write("MATCH (n:Entity) SET n.embedding_model = 'other'")
    answer = graph.search("punched", embed=first_axis)
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert answer[0].stale


def test_without_the_vector_index_words_are_searched_and_no_request_is_paid(
    hosted: EntityGraph, provider: ProviderServer, drop: Callable[[str], None]
) -> None:
    """D8. Seen failing with the query embedded first: one request for nothing each time."""
    loom(hosted)
    hosted.search("warm")
    drop(INDEX)
    answer = timed(lambda: hosted.search("punched"))
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert answer.fallback_reason == f"vector index {INDEX} is missing: run neo4j-queue init"
    again = hosted.search("punched cards")
    assert (uids(again), again.fallback_reason) == (["Jacquard"], answer.fallback_reason)
    # The first one believed in the index that it had seen.
    assert provider.inputs == ["warm", "punched"]
    with pytest.raises(SettingsError, match=f"vector index {INDEX} is missing"):
        hosted.search("punched", strict=True)


def test_an_index_that_comes_back_is_asked_again(
    graph: EntityGraph,
    embed: Callable[..., Any],
    drop: Callable[[str], None],
    graph_db: Database,
    settings: Settings,
) -> None:
    loom(graph, embed)
    drop(INDEX)
    assert graph.search("punched", embed=first_axis).search_type == "keyword"
    migrate_graph(graph_db, settings)
    assert graph.search("punched", embed=first_axis).search_type == "hybrid"


def test_without_the_full_text_index_meaning_is_searched(
    graph: EntityGraph, embed: Callable[..., Any], drop: Callable[[str], None]
) -> None:
    loom(graph, embed)
    drop(WORDS)
    answer = graph.search("punched", embed=first_axis)
    assert (answer.search_type, answer.fallback_reason) == ("semantic", None)
    for mode in ("hybrid", "keyword"):
        answer = graph.search("punched", mode=mode, embed=first_axis)
        assert (answer.search_type, answer[0].uid) == ("semantic", "Ada")
        assert answer.fallback_reason == f"full-text index {WORDS} is missing: run neo4j-queue init"
        with pytest.raises(SettingsError, match="full-text index"):
            graph.search("punched", mode=mode, strict=True, embed=first_axis)


def test_a_full_text_index_that_is_dropped_between_two_searches_is_a_reason_and_no_error(
    graph: EntityGraph, embed: Callable[..., Any], drop: Callable[[str], None]
) -> None:
    """Seen failing with the driver's error handed on: the indexes are looked at once."""
    loom(graph, embed)
    assert graph.search("punched", embed=first_axis).search_type == "hybrid"
    drop(WORDS)
    answer = graph.search("punched", embed=first_axis)
    assert (answer.search_type, answer.fallback_reason) == (
        "semantic",
        f"full-text index {WORDS} is missing: run neo4j-queue init",
    )


def test_before_init_one_line_says_what_to_do(graph_db: Database, make_settings: MakeSettings) -> None:
    """Seen failing: the driver's ClientError."""
    settings = make_settings(embed_entity_label="Unprepared", neo4j_vector_index="none_yet")
    with pytest.raises(SettingsError, match=r"^vector index none_yet is missing: run neo4j-queue init$"):
        EntityGraph.from_settings(settings, database=graph_db).search("x")


def test_an_index_of_another_width_is_a_reason_and_no_error(
    graph_db: Database, make_settings: MakeSettings, graph: EntityGraph
) -> None:
    loom(graph)
    narrow = EntityGraph.from_settings(make_settings(neo4j_vector_dimensions=8), database=graph_db)
    answer = narrow.search("punched")
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert answer.fallback_reason == f"vector index {INDEX} has 256 dimensions, the model gives 8"


@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (error(500), TemporarilyUnavailable),
        (error(429), TemporarilyUnavailable),
        (error(429, code="insufficient_quota"), TemporarilyUnavailable),
        (error(401), SettingsError),
        (error(404), SettingsError),
        (error(400), TemporarilyUnavailable),
    ],
    ids=["500", "429", "quota", "401", "404", "400"],
)
def test_a_provider_that_refuses_is_a_reason(
    hosted: EntityGraph, provider: ProviderServer, reply: Any, raised: type[Exception]
) -> None:
    """D8. Seen failing: the client's own error."""
    loom(hosted)
    provider.reply_always(reply)
    answer = timed(lambda: hosted.search("punched"))
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert (answer.fallback_reason or "").startswith("the embedding provider: ")
    assert "\n" not in (answer.fallback_reason or "")
    with pytest.raises(raised):
        hosted.search("punched", strict=True)


def test_a_provider_that_is_away_is_a_reason(
    graph_db: Database, make_settings: MakeSettings, provider: ProviderServer
) -> None:
    """D8."""
    away = hosted_settings(make_settings, provider, openai_base_url="http://127.0.0.1:9/v1")
    graph = EntityGraph.from_settings(away, database=graph_db)
    loom(graph)
    answer = timed(lambda: graph.search("punched"))
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert (answer.fallback_reason or "").startswith("the embedding provider: ")


def test_a_provider_that_hangs_costs_a_moment(hosted: EntityGraph, provider: ProviderServer) -> None:
    """D8. Seen failing with the deadline of a batch: half a minute."""
    loom(hosted)
    hosted.search("warm")
    with provider.held():
        answer = timed(lambda: hosted.search("punched"))
        assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
        began = time.monotonic()
        with pytest.raises(TemporarilyUnavailable):
            hosted.search("punched", strict=True)
        assert time.monotonic() - began < WITHIN_S


def test_an_answer_that_came_too_late_serves_the_next_search(
    make_settings: MakeSettings, provider: ProviderServer
) -> None:
    """Seen failing with the call given up together with its result: one more request."""
    embed = QueryEmbedder(hosted_settings(make_settings, provider, embed_search_timeout_ms=1_000))
    embed("warm")
    # Longer than the request and its grace may take together, so that the end of the request is not the first one.
    embed._patience_s = 0.1
    with provider.held(), pytest.raises(TemporarilyUnavailable, match="gave no answer within"):
        embed("punched")
    wait_until(lambda: not embed._in_time._late)
    assert embed("punched") == pytest.approx(vector_for("punched", 256), abs=1e-6)
    assert provider.inputs == ["warm", "punched"]


def test_an_answer_that_is_no_vector_is_a_reason(graph_db: Database, make_settings: MakeSettings) -> None:
    with ProviderServer(dimensions=128) as narrow:
        graph = EntityGraph.from_settings(hosted_settings(make_settings, narrow), database=graph_db)
        loom(graph)
        answer = graph.search("punched")
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert (answer.fallback_reason or "").startswith("test-model is configured with 256 dimensions")


@pytest.mark.parametrize("vector", [[1.0] * 7, [0.0] * 256, [float("nan")] * 256, []], ids=str)
def test_a_query_vector_that_the_index_cannot_hold_is_a_reason(
    graph: EntityGraph, vector: list[float]
) -> None:
    """Seen failing: the driver's ClientError out of the procedure."""
    loom(graph)
    answer = graph.search("punched", embed=lambda _: vector)
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert answer.fallback_reason == "the query has no usable vector of 256 numbers"
    with pytest.raises(InvalidAnswer):
        graph.search("punched", strict=True, embed=lambda _: vector)


def test_a_rate_limit_without_room_costs_a_moment(
    graph_db: Database, make_settings: MakeSettings, provider: ProviderServer
) -> None:
    """D8, C12. Seen failing with the deadline of a batch: half a minute."""
    settings = hosted_settings(make_settings, provider)
    graph = EntityGraph.from_settings(settings, database=graph_db, book_query=lambda _: False)
    loom(graph)
    answer = timed(lambda: graph.search("punched"))
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert answer.fallback_reason == (
        "the rate limit of the embedding provider left no room for a search in 2 s"
    )
    assert provider.inputs == []
    with pytest.raises(TemporarilyUnavailable, match="left no room"):
        graph.search("punched", strict=True)


def test_a_graph_without_an_embedder_is_searched_by_words(graph: EntityGraph, graph_db: Database) -> None:
    loom(graph)
    bare = EntityGraph(graph_db, graph.recipe, graph.model, dimensions=256)
    answer = bare.search("punched")
    assert (uids(answer), answer.search_type) == (["Jacquard"], "keyword")
    assert answer.fallback_reason == "nothing makes a vector of the query: give `embed`"


def test_where_neither_half_can_answer_the_first_reason_is_raised(
    hosted: EntityGraph, provider: ProviderServer, drop: Callable[[str], None]
) -> None:
    loom(hosted)
    drop(WORDS)
    provider.reply_always(error(500))
    with pytest.raises(TemporarilyUnavailable, match="the embedding provider: "):
        hosted.search("punched")


def test_an_empty_graph_without_words_is_empty_and_no_error(
    graph: EntityGraph, drop: Callable[[str], None]
) -> None:
    drop(WORDS)
    answer = graph.search("punched", embed=first_axis)
    assert (answer.hits, answer.search_type) == ((), "semantic")
