"""A search that cannot be meant is refused in one line, before anything is asked."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import neo4j.time
import pytest
from neo4j.spatial import WGS84Point

from neo4j_queue.graph.search_request import MAX_LIMIT, SearchMode, SearchRequest

NOTHING: dict[str, Any] = {
    "mode": None,
    "min_score": None,
    "labels": (),
    "where": None,
    "changed_since": None,
    "strict": False,
    "lucene": False,
}


def checked(query: Any = "x", limit: Any = 10, **given: Any) -> SearchRequest:
    return SearchRequest.checked(query, limit, **{**NOTHING, **given})


@pytest.mark.parametrize(
    ("query", "line"),
    [
        (None, "the query is a text, not None"),
        (7, "the query is a text, not 7"),
        (b"x", "the query is a text, not b'x'"),
        (["x"], "the query is a text, not ['x']"),
        ("", "the query is blank"),
        (" \n\t\u3000", "the query is blank"),
        ("\ud800", "the query '\\ud800' holds half of a character"),
    ],
)
def test_what_is_no_text_is_no_query(query: Any, line: str) -> None:
    """Seen failing: AttributeError for None, UnicodeEncodeError for half of a character."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole line is compared
        checked(query)
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": 0}, "limit=0: 1 or more"),
        ({"limit": -3}, "limit=-3: 1 or more"),
        ({"limit": 1.5}, "limit=1.5: a whole number"),
        ({"limit": "7"}, "limit='7': a whole number"),
        ({"limit": True}, "limit=True: a whole number"),
        ({"limit": None}, "limit=None: a whole number"),
        ({"mode": "fuzzy"}, "mode='fuzzy': one of semantic, keyword, hybrid"),
        ({"mode": 7}, "mode=7: one of"),
        ({"min_score": 1.1}, "min_score=1.1: a number from 0 to 1"),
        ({"min_score": float("nan")}, "min_score=nan: a number from 0 to 1"),
        ({"min_score": "0.5"}, "min_score='0.5': a number"),
        ({"labels": 7}, "labels=7: names of labels"),
        ({"labels": ["A", ""]}, "labels: '' is not the name of a label"),
        ({"labels": [None]}, "labels: None is not the name of a label"),
        ({"where": ["a=1"]}, "where=['a=1']: a map of properties and values"),
        ({"where": {7: 1}}, "where: 7 is not the name of a property"),
        (
            {"where": {"a": {"b": 1}}},
            "where: `a` holds a map, a set or a list in a list, which no property can",
        ),
        ({"where": {"a": {1}}}, "where: `a` holds a map, a set or a list in a list, which no property can"),
        ({"where": {"a": object()}}, "where: `a` is of type object, which no property can have"),
        ({"where": {"a": 2**63}}, "where: `a` holds a whole number of more than 64 bits"),
        ({"where": {"a": "\udfff"}}, "where: `a` holds half of a character"),
        ({"changed_since": "yesterday"}, "changed_since='yesterday': a datetime, or a text such as 2026-"),
        ({"changed_since": 1_700_000_000}, "changed_since=1700000000: a datetime, or a text"),
        ({"mode": "semantic", "lucene": True}, "mode=semantic: looks at no words"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the line is compared
        checked(**given)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_a_limit_above_the_most_is_the_most() -> None:
    assert checked(limit=10**9).limit == MAX_LIMIT


@pytest.mark.parametrize("mode", ["hybrid", SearchMode.HYBRID])
def test_a_mode_is_its_name(mode: str) -> None:
    assert checked(mode=mode).mode is SearchMode.HYBRID


def test_syntax_is_for_words_unless_another_mode_is_named() -> None:
    assert checked(lucene=True).mode is SearchMode.KEYWORD
    assert checked(lucene=True, mode="hybrid").mode is SearchMode.HYBRID


def test_one_label_may_be_given_alone() -> None:
    """Seen failing with `tuple(labels)`: the letters of its name."""
    assert checked(labels="Book").filters.labels == ("Book",)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 7, 7.5, "text", b"bytes", ["a", "b"], [1, 2.5], []),
        *(date(2026, 1, 1), datetime.now(UTC), timedelta(hours=1), neo4j.time.DateTime(2026, 1, 1)),
        WGS84Point((1.0, 2.0)),
    ],
)
def test_whatever_a_property_can_hold_can_be_compared_with(value: Any) -> None:
    assert checked(where={"p": value}).filters.parameters["where"] == {"p": value}


@pytest.mark.parametrize(
    ("since", "epoch_s"),
    [
        ("2026-07-01T12:00Z", 1_782_907_200),
        ("2026-07-01T14:00:00+02:00", 1_782_907_200),
        ("2026-07-01T12:00", 1_782_907_200),
        (" 2026-07-01 ", 1_782_864_000),
        (date(2026, 7, 1), 1_782_864_000),
        (datetime(2026, 7, 1, 12), 1_782_907_200),
        (datetime(2026, 7, 1, 14, tzinfo=timezone(timedelta(hours=2))), 1_782_907_200),
    ],
)
def test_a_time_is_in_utc_where_it_names_no_zone(since: Any, epoch_s: int) -> None:
    assert checked(changed_since=since).filters.since == epoch_s * 1000
