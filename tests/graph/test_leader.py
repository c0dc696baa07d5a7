"""Which reads go to the leader of a cluster: those that lead to a verdict.

A follower lags: there an entity of a moment ago is not there yet, and a text is still the one before the edit. What
decides is the access mode of the session, which a single server takes without a difference.
"""

from collections.abc import Callable
from typing import Any

import neo4j
import pytest

from neo4j_queue.graph import EntityGraph
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import EmbedQueue

VERDICTS: list[tuple[str, Callable[[EntityGraph, EmbedQueue], object]]] = [
    ("read_texts", lambda graph, _: graph.read_texts(["a"])),
    ("read_wanted", lambda graph, _: graph.read_wanted({"a": ["0" * 16]})),
    ("copies", lambda graph, _: graph.copies(["0" * 64])),
    ("get_text", lambda graph, _: graph.get_text("a")),
    ("states_of", lambda _, queue: queue.states_of([JobRequest("a", "m", "v")])),
]


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The access modes of the sessions that the driver opens."""
    seen: list[str] = []
    opened = neo4j.Driver.session

    def session(driver: neo4j.Driver, **config: Any) -> neo4j.Session:
        seen.append(config.get("default_access_mode", neo4j.WRITE_ACCESS))
        return opened(driver, **config)

    monkeypatch.setattr(neo4j.Driver, "session", session)
    return seen


@pytest.mark.parametrize(("name", "call"), VERDICTS)
def test_a_read_that_leads_to_a_verdict_is_the_leaders(
    graph: EntityGraph, queue: EmbedQueue, modes: list[str], name: str, call: Callable[..., object]
) -> None:
    """Seen failing with `execute_read` for every read."""
    graph.create_entities([{"name": "a"}])
    modes.clear()
    call(graph, queue)
    assert modes == [neo4j.WRITE_ACCESS], name


def test_pages_and_counts_may_be_read_from_followers(graph: EntityGraph, modes: list[str]) -> None:
    graph.entities_page()
    graph.coverage()
    assert set(modes) == {neo4j.READ_ACCESS}
