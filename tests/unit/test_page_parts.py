"""The parts of the page that need no service: sessions, pictures, and how data looks."""

import pytest

from neo4j_queue.http.page.charts import HEIGHT, MOST_POINTS, WIDTH, chart
from neo4j_queue.http.page.rendering import data, number, query, sentence
from neo4j_queue.http.page.sessions import (
    LASTS_S,
    MOST_CLIENTS,
    MOST_SESSIONS,
    WRONG_ALLOWED,
    WRONG_WITHIN_S,
    Sessions,
)
from neo4j_queue.queue.history import GAP_MS, Sample, rates

TOKEN = "sixteen-letters-and-more"
HOUR_MS = 3_600_000
NOW = 1_700_000_000_000


class Clock:
    """Seconds that only the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def sample(at: int, completed: int) -> Sample:
    return Sample(at, 1, 2, 3, 0, completed)


def test_a_session_lasts_a_day_of_work_and_ends_with_the_sign_out() -> None:
    clock = Clock()
    sessions = Sessions(TOKEN, clock)
    shown = sessions.sign_in(TOKEN, "a")
    assert shown is not None
    session = sessions.of(shown)
    assert session is not None
    assert session.made(session.form_token)
    assert not session.made("")
    clock.now = LASTS_S
    assert sessions.of(shown) is None
    again = sessions.sign_in(TOKEN, "a")
    sessions.sign_out(again)
    assert sessions.of(again) is None


def test_sessions_are_bounded_and_the_oldest_ends() -> None:
    """Fails without `popitem`: each sign-in would be kept for good."""
    sessions = Sessions(TOKEN)
    shown = [sessions.sign_in(TOKEN, "a") for _ in range(MOST_SESSIONS + 1)]
    assert sessions.of(shown[0]) is None
    assert all(sessions.of(each) for each in shown[1:])
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(
    "wrong", ["", "sixteen-letters-and-mor", "sixteen-letters-and-more ", "é", "\ud800", None]
)
def test_a_wrong_token_or_cookie_is_none(wrong: str | None) -> None:
    sessions = Sessions(TOKEN)
    assert sessions.of(wrong) is None
    if wrong is not None:
        assert sessions.sign_in(wrong, "a") is None


def test_without_a_token_nobody_signs_in() -> None:
    """An empty token must not be the right one where none is set."""
    sessions = Sessions(None)
    assert not sessions.possible
    assert sessions.sign_in("", "a") is None
    assert sessions.sign_in("None", "a") is None


def test_wrong_tokens_wait_by_client_and_clients_are_bounded() -> None:
    clock = Clock()
    sessions = Sessions(TOKEN, clock)
    for n in range(WRONG_ALLOWED):
        clock.now = float(n)
        assert sessions.wait_s("a") == 0
        sessions.sign_in("wrong", "a")
    assert sessions.wait_s("a") == WRONG_WITHIN_S - (WRONG_ALLOWED - 1)
    assert sessions.wait_s("b") == 0, "another client is not kept out by this one"
    clock.now = WRONG_WITHIN_S
    assert sessions.wait_s("a") == 0
    for n in range(MOST_CLIENTS):
        sessions.sign_in("wrong", f"client {n}")
    assert sessions.wait_s("a") == 0
    assert len(sessions._wrong) == MOST_CLIENTS


def test_the_form_to_sign_in_belongs_to_a_browser() -> None:
    sessions = Sessions(TOKEN)
    made = sessions.form_token_of("visitor")
    assert sessions.made_for(made, "visitor")
    assert not sessions.made_for(made, "other")
    assert not sessions.made_for(made, None)
    assert not sessions.made_for(sessions.form_token_of(""), "")
    assert not Sessions(TOKEN).made_for(made, "visitor"), "each process has a key of its own"


def test_rates_are_known_between_samples_that_follow_one_another() -> None:
    """Fails without the comparison of the counts: after a count that began anew the rate is far below zero."""
    found = [
        sample(NOW, 10),
        sample(NOW + 60_000, 40),
        sample(NOW + 120_000, 0),
        sample(NOW + 120_000 + GAP_MS, 60),
    ]
    assert rates([*found, sample(found[-1].at + GAP_MS + 1, 900)]) == [
        (NOW + 60_000, 30.0),
        (NOW + 120_000 + GAP_MS, 60 * 60_000 / GAP_MS),
    ]
    assert rates([]) == []


def test_a_picture_is_broken_where_nothing_is_known() -> None:
    minutes = [NOW - 60_000 * n for n in (50, 49, 48, 20, 10, 9)]
    made = chart("Depth", "jobs", [(at, n) for n, at in enumerate(minutes)], NOW, 1)
    assert [len(line.split()) for line in made.lines] == [3, 2]
    assert len(made.dots) == 1
    assert (made.most, made.last) == (5, 5)
    assert made.said == "Depth of the last 1 hours: at most 5 jobs, 5 at the last sample"


def test_a_picture_of_a_day_is_no_larger_than_a_screen_and_keeps_its_peak() -> None:
    points = [(NOW - 60_000 * n, 5.0) for n in range(1_440, 0, -1)]
    points[700] = (points[700][0], 9_999.0)
    made = chart("Depth", "jobs", points, NOW, 24)
    (line,) = made.lines
    assert len(line.split()) <= MOST_POINTS + 1
    assert made.most == 9_999
    places = [tuple(map(float, place.split(","))) for place in line.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)


@pytest.mark.parametrize("points", [[], [(NOW, 0.0)], [(NOW + HOUR_MS, 3.0)], [(NOW - 25 * HOUR_MS, 3.0)]])
def test_pictures_of_nothing_zero_and_other_times(points: list[tuple[int, float]]) -> None:
    made = chart("Rate", "vectors a minute", points, NOW, 24)
    assert made.lines == ()
    assert made.most == 0


def test_data_is_one_line_of_what_can_be_seen() -> None:
    assert data("a\nb\x1b[31m\u202ec\u200bd\ufeff") == r"a\x0ab\x1b[31m\u202ec\u200bd\ufeff"
    assert data("x" * 500).endswith("x …")
    assert data(None) == ""
    assert data("\ud800") == r"\ud800"
    assert data("naïve 日本 שלום") == "naïve 日本 שלום"


def test_only_back_ticks_become_markup() -> None:
    assert str(sentence("start `celery -A tasks` <b>`<i>`")) == (
        "start <code>celery -A tasks</code> &lt;b&gt;<code>&lt;i&gt;</code>"
    )


def test_numbers_and_addresses() -> None:
    assert [number(value) for value in (None, 0, 1_234_567, 0.25, 39.6, 1e6)] == [
        "–", "0", "1,234,567", "0.2", "40", "1,000,000",
    ]  # fmt: skip
    assert query(name="a/b?c=d&e#f", type=None, reason="") == "name=a%2Fb%3Fc%3Dd%26e%23f"
