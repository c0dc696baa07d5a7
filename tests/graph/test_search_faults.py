"""D8: whatever is down or frozen, a search answers within three seconds, or says why in one line."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from neo4j import Driver

from neo4j_queue.database import Address, Database
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.errors.explain import EXIT_TEMPORARY, exit_code_of, explain
from neo4j_queue.graph import EntityGraph
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings
from tests.faultkit.proxy import TcpProxy
from tests.freezing import frozen
from tests.graph.conftest import wait_until
from tests.provider import ProviderServer, hosted_by

WITHIN_S = 3.0
LIMITED = {"embedding_rate_limit_tokens": 100, "embedding_rate_limit_interval": 60_000}
READ_ONLY = {"server.databases.default_to_read_only": "true"}


def first_axis(_: str) -> list[float]:
    return [1.0, *[0.0] * 255]


def failed_in_time(work: Callable[[], Any]) -> Exception:
    began = time.monotonic()
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one it is, is what is looked at
        work()
    assert time.monotonic() - began < WITHIN_S
    assert "\n" not in explain(raised.value)
    return raised.value


def test_a_frozen_graph_is_said_in_time_and_costs_no_request(
    graph_db: Database, services: LocalServices, make_settings: MakeSettings
) -> None:
    """Seen failing: a minute of silence, after a paid request."""
    with ProviderServer(dimensions=256) as provider:
        settings = make_settings(**hosted_by(provider))
        graph = EntityGraph.from_settings(settings, database=graph_db)
        graph.search("warm")
        with frozen(services.graph.pid):
            for _ in range(2):
                error = failed_in_time(lambda: graph.search("loom"))
                assert str(error) == "the graph database gave no answer within 2.5 s"
                assert exit_code_of(error) == EXIT_TEMPORARY
        assert provider.inputs == ["warm"]
        wait_until(lambda: not graph._search._in_time._late)
        assert graph.search("loom").hits == ()


def test_a_graph_that_is_away_is_said_at_once(settings: Settings, graph: EntityGraph) -> None:
    """Seen failing: the driver repeated it for fifteen seconds."""
    away = Database(Address("bolt://127.0.0.1:9", "neo4j"))
    with EntityGraph.from_settings(settings, database=away) as nowhere:
        error = failed_in_time(lambda: nowhere.search("loom"))
    assert exit_code_of(error) == EXIT_TEMPORARY


def test_an_address_that_swallows_everything_is_said_in_time(settings: Settings) -> None:
    """A neighbour: no refusal, no answer. Seen failing without the deadline of the look."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = Database(Address(f"bolt://127.0.0.1:{silent.getsockname()[1]}", "neo4j"))
        with EntityGraph.from_settings(settings, database=away) as nowhere:
            error = failed_in_time(lambda: nowhere.search("loom"))
    assert exit_code_of(error) == EXIT_TEMPORARY


def test_a_connection_that_ends_in_the_middle_is_made_anew(
    graph: EntityGraph, services: LocalServices, settings: Settings, embed: Callable[..., Any]
) -> None:
    """Guard: the repetition in `Database.ask`. Without it the half whose answer was lost counts as missing."""
    graph.create_entities([{"name": "Jacquard", "observations": ["a loom"]}])
    embed("Jacquard")
    with TcpProxy(("127.0.0.1", services.graph.port)) as proxy:
        far = Database(replace(services.graph.address, uri=f"bolt://127.0.0.1:{proxy.port}"))
        with EntityGraph.from_settings(settings, database=far) as remote:
            for part in (
                b"SHOW INDEXES",
                b"COUNT {",
                b"vector.queryNodes",
                b"fulltext.queryNodes",
                b"UNWIND $nodes",
            ):
                proxy.lose_answer_to(part)
                answer = remote.search("loom", strict=True)
                assert ([hit.uid for hit in answer], answer.search_type) == (["Jacquard"], "hybrid")


def test_a_graph_that_takes_no_writes_is_searched(
    graph: EntityGraph, graph_db: Database, services: LocalServices, embed: Callable[..., Any]
) -> None:
    """D8."""
    graph.create_entities([{"name": "Jacquard", "observations": ["a loom"]}])
    embed("Jacquard")
    before = services.graph._config
    services.graph._config = replace(before, neo4j_settings={**before.neo4j_settings, **READ_ONLY})
    services.graph.restart()
    try:
        with Database(services.graph.address) as database:
            reader = EntityGraph(
                database, graph.recipe, graph.model, dimensions=graph.dimensions, embed=first_axis
            )
            answer = reader.search("loom", strict=True)
            assert ([hit.uid for hit in answer], answer.search_type) == (["Jacquard"], "hybrid")
    finally:
        services.graph._config = before
        services.graph.restart()


def test_with_a_frozen_jobs_database_the_search_is_the_same(
    graph_db: Database, jobs_db: Database, services: LocalServices, make_settings: MakeSettings
) -> None:
    """D8. The request is not booked in time, and goes on: see also test_booking."""
    with ProviderServer(dimensions=256) as provider:
        settings = make_settings(**hosted_by(provider), **LIMITED)
        queue = EmbedQueue(jobs_db, settings)
        graph = EntityGraph.from_settings(settings, database=graph_db, book_query=queue.book_query)
        graph.create_entities([{"name": "Jacquard", "observations": ["a loom"]}])
        graph.search("warm")
        with frozen(services.jobs.pid):
            for query in ("loom", "a loom", "the loom"):
                began = time.monotonic()
                answer = graph.search(query)
                assert time.monotonic() - began < WITHIN_S
                assert [hit.uid for hit in answer] == ["Jacquard"]
        assert provider.inputs == ["warm", "loom", "a loom", "the loom"]


def test_everything_away_but_the_graph_is_still_an_answer(
    graph: EntityGraph, make_settings: MakeSettings, graph_db: Database
) -> None:
    """The provider and the jobs database at once."""

    def no_booking(_: int) -> bool:
        raise ConnectionError("away")

    settings = make_settings(
        embedding_provider="openai",
        openai_base_url="http://127.0.0.1:9/v1",
        openai_api_key="test-key-of-no-worth",
        openai_embedding_model="test-model",
        neo4j_vector_dimensions=256,
    )
    graph.create_entities([{"name": "Jacquard", "observations": ["a loom"]}])
    alone = EntityGraph.from_settings(settings, database=graph_db, book_query=no_booking)
    began = time.monotonic()
    answer = alone.search("loom")
    assert time.monotonic() - began < WITHIN_S
    assert ([hit.uid for hit in answer], answer.search_type) == (["Jacquard"], "keyword")
    with pytest.raises(TemporarilyUnavailable):
        alone.search("loom", strict=True)


def test_a_database_can_be_closed_while_late_calls_use_it(services: LocalServices) -> None:
    """Seen failing in one of four rounds: BufferError, which was all that the command line said of a search."""
    for round_ in range(30):
        database = Database(services.graph.address)
        driver = database.driver()
        threads = [threading.Thread(target=read_until_closed, args=(driver,), daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.01 * (round_ % 3))
        database.close()
        for thread in threads:
            thread.join(0.1)


def read_until_closed(driver: Driver) -> None:
    with suppress(Exception):
        while True:
            with driver.session(database="neo4j") as session:
                session.run("RETURN $texts", texts=["a" * 50] * 200).consume()
