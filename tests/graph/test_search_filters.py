"""Filters of a search are data: labels, property values, and a time."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph

MODES = ("semantic", "keyword", "hybrid")


def first_axis(_: str) -> list[float]:
    return [1.0, *[0.0] * 255]


def found(graph: EntityGraph, mode: str, **filters: Any) -> list[str]:
    answer = graph.search("loom", mode=mode, strict=True, embed=first_axis, **filters)
    assert answer.search_type == mode
    return sorted(hit.uid for hit in answer)


@pytest.fixture
def looms(graph: EntityGraph, graph_db: Database, embed: Callable[..., Any]) -> EntityGraph:
    """Four entities with vectors and the word `loom`."""
    graph.create_entities(
        [
            {
                "name": "a",
                "observations": ["loom"],
                "year": 1804,
                "ok": True,
                "tags": ["x", "y"],
                "od d:n`a": "v",
            },
            {"name": "b", "observations": ["loom"], "year": 1804.0, "ok": False, "born": date(1752, 7, 7)},
            {"name": "c", "observations": ["loom"], "year": "1804"},
            {"name": "d", "observations": ["loom"]},
        ]
    )
    embed("a", "b", "c", "d")
    graph_db.write("MATCH (n:Entity {name: 'a'}) SET n:Machine:`Odd Label`")
    graph_db.write("MATCH (n:Entity {name: 'b'}) SET n:Machine")
    return graph


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "abcd"),
        ({"labels": ["Machine"]}, "ab"),
        ({"labels": ["Machine", "Odd Label"]}, "a"),
        ({"labels": "Machine"}, "ab"),
        ({"labels": ["NoSuchLabel"]}, ""),
        ({"labels": ["Machine`) RETURN 1 //"]}, ""),
        ({"where": {"year": 1804}}, "ab"),
        ({"where": {"year": "1804"}}, "c"),
        ({"where": {"year": None}}, "d"),
        ({"where": {"ok": True}}, "a"),
        ({"where": {"ok": 1}}, ""),
        ({"where": {"tags": ["x", "y"]}}, "a"),
        ({"where": {"tags": "x"}}, ""),
        ({"where": {"od d:n`a": "v"}}, "a"),
        ({"where": {"born": date(1752, 7, 7)}}, "b"),
        ({"where": {"no such property": 7}}, ""),
        ({"where": {"year": 1804, "ok": False}}, "b"),
        ({"where": {"x`]) DETACH DELETE n //": 1}}, ""),
        ({"where": {"name": "' OR 1=1 //"}}, ""),
        ({"where": {"year": float("nan")}}, ""),
        ({"labels": ["Machine"], "where": {"year": 1804, "tags": None}}, "b"),
    ],
    ids=str,
)
def test_a_filter_lets_those_through_that_it_says(
    looms: EntityGraph, mode: str, filters: dict[str, Any], expected: str
) -> None:
    assert found(looms, mode, **filters) == list(expected)


@pytest.mark.parametrize("mode", MODES)
def test_changed_since_is_the_time_of_the_vector_and_what_waits_for_one(
    looms: EntityGraph, graph_db: Database, mode: str
) -> None:
    """An entity whose change waits for its vector has changed since any time that is asked for."""
    graph_db.write(
        "MATCH (n:Entity) WHERE n.name IN ['a', 'b', 'd'] SET n.embedded_at = timestamp() - 3600000"
    )
    graph_db.write("MATCH (n:Entity {name: 'd'}) SET n.embedded_at = 'another program wrote this'")
    now = datetime.now(UTC)
    assert found(looms, mode, changed_since=now - timedelta(minutes=10)) == ["c"]
    assert found(looms, mode, changed_since=(now - timedelta(hours=2)).isoformat()) == ["a", "b", "c"]
    assert found(looms, mode, changed_since="2999-01-01") == []
    looms.add_observations("a", ["more"])
    assert found(looms, mode, changed_since=now - timedelta(minutes=10)) == ["a", "c"]


def test_what_passes_is_found_far_behind_the_first_ones(graph: EntityGraph, graph_db: Database) -> None:
    """Guard: more candidates while too few pass. Without them the page stays empty."""
    graph.create_entities([{"name": f"e{at:03}", "observations": ["loom"]} for at in range(700)])
    graph_db.write(
        "MATCH (n:Entity {name: 'e600'}) SET n:Rare, n.observations = ['loom and many other words']"
    )
    answer = graph.search("loom", 5, mode="keyword", labels=["Rare"])
    assert ([hit.uid for hit in answer], answer.coverage.cut) == (["e600"], False)


def test_where_no_more_candidates_are_looked_at_the_answer_says_so(
    graph: EntityGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neo4j_queue.graph.halves.MAX_CANDIDATES", 200)
    graph.create_entities([{"name": f"e{at:03}", "observations": ["loom"]} for at in range(300)])
    answer = graph.search("loom", 5, mode="keyword", labels=["Rare"])
    assert (answer.hits, answer.coverage.cut) == ((), True)
    assert graph.search("loom", 5, mode="keyword").coverage.cut is False
